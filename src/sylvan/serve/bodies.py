"""The bodies of requests as msgspec types: they parse what comes in, and the OpenAPI document is made of them."""
# Without postponed annotations: msgspec reads those of the classes that are made inside a function.

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sylvan.serve.problems import Problem
from sylvan.serve.settings import Limits
from sylvan.serve.versions import Version

MOST_FEATURES = 1_000_000  # of a row
MOST_SHOWN = 1_000  # features of an explanation, and examples


Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # squares of which are numbers in float32 still


class Asked(msgspec.Struct, frozen=True):
    """What a ranking is to be like; requests that ask for the same are ranked together."""

    k: int | None = 10
    probabilities: bool = False
    threshold: float | None = None
    expected: str | None = None
    precision: float | None = None
    allowed: tuple[str | int, ...] | None = None
    denied: tuple[str | int, ...] | None = None
    branch: str | None = None
    beam: int | None = None
    tail: str | None = None

    @property
    def rule(self) -> dict[str, Any]:
        """The stopping rule that decides how many labels there are; empty where there is none."""
        rule = {"threshold": self.threshold, "expected": self.expected, "precision": self.precision}
        return rule if any(value is not None for value in rule.values()) else {}


class FeatureRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of features: the places that aren't zero, and their values."""

    indices: Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 2)]], Meta(max_length=MOST_FEATURES)]
    values: Annotated[list[Number], Meta(max_length=MOST_FEATURES)]
    id: Any = msgspec.UNSET


def make_bodies(limits: Limits) -> dict[str, Any]:
    """The types of a server's requests, whose ranges are those of ``limits``."""
    Text = Annotated[str, Meta(max_length=limits.text_length)]
    Record = dict[str, Any]
    K = Annotated[int, Meta(ge=1, le=limits.k)]
    Share = Annotated[float, Meta(ge=0, le=1)]
    Label = Annotated[int, Meta(ge=0, le=2**31 - 1)] | Annotated[str, Meta(max_length=10_000)]
    Labels = Annotated[tuple[Label, ...], Meta(max_length=limits.labels)]
    Beam = Annotated[int, Meta(ge=1, le=100_000)]
    Word = Annotated[str, Meta(max_length=100)]

    class RankOptions(msgspec.Struct, forbid_unknown_fields=True):
        """How texts or rows are ranked."""

        k: K | None = None
        probabilities: bool = False
        threshold: Share | None = None
        expected: Word | None = None
        precision: Annotated[float, Meta(gt=0, le=1)] | None = None
        allowed: Labels | None = None
        denied: Labels | None = None
        branch: Word | None = None
        beam: Beam | None = None
        tail: Word | None = None
        explain: bool = False

        def asked(self) -> Asked:
            """The same, for the engine."""
            request = Asked(*(getattr(self, name) for name in Asked.__struct_fields__))
            return request if request.k is not None or request.rule else msgspec.structs.replace(request, k=10)

    class RankRequest(RankOptions, forbid_unknown_fields=True):
        """Texts, or rows of features, to be ranked: exactly one of ``text``, ``texts`` and ``features``. A text may be
        a record, with the fields that the model was trained on; an ``id`` comes back with the answer. ``explain``
        explains the first ten labels."""

        text: Text | Record | None = None
        texts: Annotated[list[Text | Record], Meta(max_length=limits.texts)] | None = None
        features: Annotated[list[FeatureRow], Meta(max_length=limits.texts)] | None = None
        id: Any = msgspec.UNSET

    class RankLine(msgspec.Struct):
        """A line of NDJSON: a text in the fields that the model was trained on, or a row of features. An ``id`` comes
        back with the answer; other fields are passed over."""

        text: Text | None = None
        features: FeatureRow | None = None
        id: Any = msgspec.UNSET

    class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
        """Why a label is, or isn't, among a text's or row's answers."""

        label: Label
        text: Text | Record | None = None
        row: FeatureRow | None = None
        features: Annotated[int, Meta(ge=1, le=MOST_SHOWN)] = 10
        examples: Annotated[int, Meta(ge=0, le=MOST_SHOWN)] = 3
        beam: Beam | None = None

    class BeamRequest(msgspec.Struct, forbid_unknown_fields=True):
        """Which nodes of a tree the search looks at for a text."""

        text: Text | Record | None = None
        beam: Beam | None = None
        tree: Annotated[int, Meta(ge=0, le=10_000)] = 0

    class SearchRequest(msgspec.Struct, forbid_unknown_fields=True):
        """Vectors whose nearest neighbours are searched for; what isn't given is as the index was tuned."""

        vectors: Annotated[list[Annotated[list[Number], Meta(max_length=1_000_000)]], Meta(max_length=limits.texts)]
        k: K = 10
        probes: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
        candidates: Annotated[int, Meta(ge=1, le=2**31 - 1)] | Word | None = None
        min_votes: Annotated[int, Meta(ge=1, le=100_000)] | None = None
        order: Word | None = None

    class UpdateRequest(msgspec.Struct, forbid_unknown_fields=True):
        """New texts and their labels, rows to forget by id, and labels that become others."""

        texts: list[Text | Record] = []
        labels: list[list[Annotated[str, Meta(min_length=1, max_length=10_000)]]] = []
        forget: list[Annotated[int, Meta(ge=0, le=2**31 - 1)]] = []
        merge: dict[str, list[str]] = {}

    return {
        "rank": RankRequest, "options": RankOptions, "line": RankLine, "explain": ExplainRequest, "beam": BeamRequest,
        "search": SearchRequest, "update": UpdateRequest,
    }  # fmt: skip


@functools.cache
def with_fields(kind: Any, fields: tuple[str, ...]) -> Any:
    """The type of a body that may have a model's fields at its top, besides its own."""
    taken = {field.encode_name for field in msgspec.structs.fields(kind)}
    names = {f"field_{number}": name for number, name in enumerate(fields) if name not in taken}
    if not names:
        return kind
    return msgspec.defstruct(
        kind.__name__, [(attribute, Any, msgspec.UNSET) for attribute in names], bases=(kind,), rename=names,
        forbid_unknown_fields=True, namespace={"__doc__": kind.__doc__},
    )  # fmt: skip


def text_of(version: Version, text: str | Mapping[str, Any], limits: Limits, place: str = "") -> str:
    """A text, or a record's fields joined as training joined them; ``place`` says which it is, in errors."""
    if isinstance(text, str):
        return text
    for name in version.text_fields:
        if name not in text:
            fields = ", ".join(f"{field!r:.60}" for field in list(text)[:10]) or "none"
            raise Problem(422, f"{place}The record lacks the field {name!r}: the model was trained on "
                               f"{_words(version.text_fields)}. Got {fields} instead.")  # fmt: skip
        if text[name] is not None and not isinstance(text[name], str):
            raise Problem(422, f"{place}The field {name!r} must be a string. Got {text[name]!r:.60} instead.")
    joined = " ".join(text[name] for name in version.text_fields if text[name])
    if len(joined) > limits.text_length:
        raise Problem(422, f"{place}The text must have at most {limits.text_length:,} characters. Got {len(joined):,}.")
    return joined


def record_at_the_top(version: Version, body: Any) -> Any:
    """The text of a body, or the record of the model's fields at its top."""
    names = zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True)
    record = {name: getattr(body, attribute) for attribute, name in names if attribute.startswith("field_")}
    record = {name: value for name, value in record.items() if value is not msgspec.UNSET}
    fields = {*version.text_fields}
    if record and body.text is not None and "text" not in fields:
        raise Problem(422, f"The body must have 'text' or {_words(version.text_fields)}. Got both.")
    both = fields & {*body.__struct_fields__} - {"text"} if record or "text" in fields else ()
    for field in msgspec.structs.fields(body) if both and (record or isinstance(body.text, str)) else ():
        if field.name in both and getattr(body, field.name) != field.default:
            raise Problem(422, f"Field {field.name!r} is the model's and the body's: put the record under 'text'.")
    return {**record, "text": body.text} if record and body.text is not None else record or body.text


def _words(fields: Sequence[str]) -> str:
    return " and ".join(map(repr, fields))


def rows_of(version: Version, limits: Limits, fields: dict[str, Any]) -> list[Any]:
    """The rows of a request, as the engine takes them: texts, or pairs of indices and values. ``fields`` has those of
    which the body has one; the others are None."""
    takes, names = version.takes, [name for name, value in fields.items() if value is not None]
    if len(names) != 1:
        one, every = "exactly one of " if len(fields) > 1 else "", ", ".join(map(repr, fields)).rsplit(", ", 1)
        raise Problem(422, f"The body must have {one}{' and '.join(every)}. Got {_words(names) or 'none'} instead.")
    (name,) = names
    taken = [repr(each) for each in fields if takes == ("texts" if each.startswith("text") else "features")]
    if repr(name) not in taken:
        wanted = " or ".join(taken) or "'vectors', at /search"
        raise Problem(422, f"The model takes {takes}: the body must have {wanted}. Got {name!r} instead.")
    if takes == "texts":
        return texts_of(version, fields[name], limits) if name == "texts" else [text_of(version, fields[name], limits)]
    for row in fields[name]:
        if (n_values := len(row.values)) != (n := len(row.indices)):
            raise Problem(422, f"A row of {name!r} must have as many values as indices. Got {n_values} and {n}.")
    return [(row.indices, row.values) for row in fields[name]]


def texts_of(version: Version, texts: Sequence[Any] | None, limits: Limits) -> list[str]:
    """As :func:`text_of`, of each of the field ``texts``."""
    return [text_of(version, text, limits, f"In 'texts[{row}]': ") for row, text in enumerate(texts or ())]


def ids_of(body: Any, n_rows: int) -> list[Any]:
    """What answers carry back of each row: the record's ``id``, where it has one."""
    if body.id is msgspec.UNSET:
        return [id_of(row) for row in body.texts or body.features or [body.text]]
    if n_rows != 1:
        raise Problem(422, f"The 'id' field goes with one text or row. Got {n_rows}: give each record its own.")
    return [body.id]


def id_of(row: Any) -> Any:
    """The ``id`` of a record or a row of features; UNSET where it has none."""
    return row.get("id", msgspec.UNSET) if isinstance(row, dict) else getattr(row, "id", msgspec.UNSET)
