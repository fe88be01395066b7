"""Records in MARCXML and workbooks, as bytes."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

SLIM = "http://www.loc.gov/MARC21/slim"
MarcField = tuple[str, str]  # ("245 10", "aMoby Dick /|bor, The whale"), or ("001", "b1")


def marcxml(*records: Sequence[MarcField], namespace: str = SLIM, head: str = '<?xml version="1.0"?>') -> bytes:
    """A collection of records."""
    return f"{head}<collection xmlns={quoteattr(namespace)}>{''.join(map(_record, records))}</collection>".encode()


def _record(fields: Sequence[MarcField]) -> str:
    parts = []
    for name, value in fields:
        tag, indicators = name[:3], f"{name[4:]:2}"
        if not indicators.strip() and tag < "010":
            parts.append(f'<controlfield tag="{tag}">{escape(value)}</controlfield>')
            continue
        subfields = (f'<subfield code="{each[0]}">{escape(each[1:])}</subfield>' for each in value.split("|"))
        indicated = f'ind1="{indicators[0]}" ind2="{indicators[1]}"'
        parts.append(f'<datafield tag="{tag}" {indicated}>{"".join(subfields)}</datafield>')
    return f"<record><leader>00000nam a2200000 a 4500</leader>{''.join(parts)}</record>"


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TO = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml."


def cell(reference: str, text: str) -> str:
    """A cell of text in a sheet's XML."""
    return f'<c r="{reference}" t="inlineStr"><is><t>{escape(text)}</t></is></c>'


def workbook(sheets: Mapping[str, str], head: str = "", extra: Mapping[str, bytes] | None = None) -> bytes:
    """A workbook of sheets, each the XML of its rows, and of what follows them after "|"."""
    names = list(enumerate(sheets, 1))
    parts: dict[str, bytes | str] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}sheet.main+xml"/></Types>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_TO}"><sheets>'
        + "".join(f'<sheet name={quoteattr(name)} sheetId="{n}" r:id="r{n}"/>' for n, name in names)
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="r{n}" Type="{_TO}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n, _ in names
        )
        + "</Relationships>",
    }
    for n, name in names:
        rows, _, after = sheets[name].partition("|")
        content = f'{head}<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData>{after}</worksheet>'
        parts[f"xl/worksheets/sheet{n}.xml"] = content
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in {**parts, **(extra or {})}.items():
            archive.writestr(part, content)
    return stream.getvalue()
