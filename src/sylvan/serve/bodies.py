"""The bodies of requests as msgspec types: they parse what comes in, and the OpenAPI document is made of them."""
# Without postponed annotations: msgspec reads those of the classes that are made inside a function.

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from sylvan.serve.asked import Asked
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Limits
from sylvan.serve.versions import Version

MOST_FEATURES = 1_000_000  # of a row
MOST_SHOWN = 1_000  # features of an explanation, and examples


Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # squares of which are numbers in float32 still


class FeatureRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of features: the places that aren't zero, and their values."""

    indices: Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 2)]], Meta(max_length=MOST_FEATURES)]
    values: Annotated[list[Number], Meta(max_length=MOST_FEATURES)]
    id: Any = msgspec.UNSET


class Bodies(NamedTuple):
    """The types of a server's requests, with its limits in them."""

    rank: type[Any]
    options: type[Any]
    line: type[Any]
    explain: type[Any]
    beam: type[Any]
    search: type[Any]
    update: type[Any]


def make_bodies(limits: Limits) -> Bodies:
    """The types whose ranges are those of ``limits``."""
    Text = Annotated[str, Meta(max_length=limits.text_length)]
    Record = dict[str, Any]
    K = Annotated[int, Meta(ge=1, le=limits.k)]
    Share = Annotated[float, Meta(ge=0, le=1)]
    Label = Annotated[int, Meta(ge=0, le=2**31 - 1)] | Annotated[str, Meta(max_length=10_000)]
    Labels = Annotated[list[Label], Meta(max_length=limits.labels)]
    Beam = Annotated[int, Meta(ge=1, le=100_000)]
    Word = Annotated[str, Meta(max_length=100)]

    class RankOptions(msgspec.Struct, forbid_unknown_fields=True):
        """How texts or rows are ranked."""

        k: K | None = None
        probabilities: bool = False
        threshold: Share | None = None
        expected: Word | None = None
        precision: Share | None = None
        allowed: Labels | None = None
        denied: Labels | None = None
        branch: Word | None = None
        beam: Beam | None = None
        tail: Word | None = None
        explain: bool = False

        def asked(self) -> Asked:
            """The same, for the engine."""
            ruled = (self.threshold, self.expected, self.precision) != (None, None, None)
            return Asked(
                10 if self.k is None and not ruled else self.k, self.threshold, self.expected, self.precision,
                self.probabilities, None if self.allowed is None else tuple(self.allowed),
                None if self.denied is None else tuple(self.denied), self.branch, self.beam, self.tail,
            )  # fmt: skip

    class RankRequest(RankOptions, forbid_unknown_fields=True):
        """Texts, or rows of features, to be ranked: exactly one of ``text``, ``texts`` and ``features``. A text may be
        a record, with the fields that the model was trained on; an ``id`` comes back with the answer."""

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

    return Bodies(RankRequest, RankOptions, RankLine, ExplainRequest, BeamRequest, SearchRequest, UpdateRequest)


_with_fields: dict[tuple[Any, ...], Any] = {}  # what with_fields has made


def with_fields(kind: Any, fields: tuple[str, ...]) -> Any:
    """The type of a body that may have a model's fields at its top, besides its own."""
    own = {one.encode_name for one in msgspec.structs.fields(kind)}
    names = {f"field_{at}": name for at, name in enumerate(fields) if name not in own}
    if not names:
        return kind
    if (kind, fields) not in _with_fields:
        _with_fields[kind, fields] = msgspec.defstruct(
            kind.__name__, [(attribute, Any, msgspec.UNSET) for attribute in names], bases=(kind,), rename=names,
            forbid_unknown_fields=True, namespace={"__doc__": kind.__doc__},
        )  # fmt: skip
    return _with_fields[kind, fields]


def text_of(version: Version, text: str | Mapping[str, Any], limits: Limits, place: str = "") -> str:
    """A text, or a record's fields joined as training joined them; ``place`` says which it is, in errors."""
    if isinstance(text, str):
        return text
    fields, parts = version.text_fields, []
    for name in fields:
        if name not in text:
            there = ", ".join(f"{one!r:.60}" for one in list(text)[:10]) or "none"
            raise Problem(422, f"{place}The record lacks the field {name!r}: the model was trained on "
                               f"{_words(fields)}. Got {there} instead.")  # fmt: skip
        value = text[name]
        if value is not None and not isinstance(value, str):
            raise Problem(422, f"{place}The field {name!r} must be a string. Got {value!r:.60} instead.")
        parts.append(value)
    joined = " ".join(filter(None, parts))
    if len(joined) > limits.text_length:
        raise Problem(422, f"{place}The text must have at most {limits.text_length:,} characters. Got {len(joined):,}.")
    return joined


def record_at_the_top(version: Version, body: Any) -> Any:
    """The text of a body, or the record of the model's fields at its top."""
    names = {one.name: one.encode_name for one in msgspec.structs.fields(body) if one.name.startswith("field_")}
    record = {name: getattr(body, attribute) for attribute, name in names.items()}
    record = {name: value for name, value in record.items() if value is not msgspec.UNSET}
    if not record or body.text is None:
        return record or body.text
    if "text" not in version.text_fields:
        raise Problem(422, f"The body must have 'text' or {_words(version.text_fields)}. Got both.")
    return {**record, "text": body.text}


def _words(fields: Sequence[str]) -> str:
    return " and ".join(map(repr, fields))


def rows_of(
    version: Version, limits: Limits, text: Any, texts: list[Any] | None, features: list[FeatureRow] | None
) -> list[Any]:
    """The rows of a request, as the engine takes them: texts, or pairs of indices and values."""
    takes = version.takes
    given = [name for name, value in (("text", text), ("texts", texts), ("features", features)) if value is not None]
    wanted = "'text' or 'texts'" if takes == "texts" else f"{takes!r}"
    if len(given) != 1:
        received = " and ".join(map(repr, given)) or "none of them"
        raise Problem(422, f"The body must have exactly one of 'text', 'texts' and 'features'. Got {received} instead.")
    if (takes == "texts") != (given[0] != "features") or takes == "vectors":
        raise Problem(422, f"The model takes {takes}: the body must have {wanted}. Got {given[0]!r} instead.")
    if features is not None:
        return [_pair(row) for row in features]
    if text is not None:
        return [text_of(version, text, limits)]
    return [text_of(version, one, limits, f"In 'texts[{at}]': ") for at, one in enumerate(texts or [])]


def ids_of(body: Any, n_rows: int) -> list[Any]:
    """What answers carry back of each row: the record's ``id``, where it has one."""
    rows: Sequence[Any] = body.texts or body.features or [body.text]
    ids = [id_of(row) for row in rows]
    if body.id is not msgspec.UNSET:
        if n_rows != 1:
            raise Problem(422, f"The 'id' field goes with one text or row. Got {n_rows}: give each record its own.")
        ids = [body.id]
    return ids


def id_of(row: Any) -> Any:
    """The ``id`` of a record or a row of features; UNSET where it has none."""
    return row.get("id", msgspec.UNSET) if isinstance(row, dict) else getattr(row, "id", msgspec.UNSET)


def _pair(row: FeatureRow) -> tuple[list[int], list[float]]:
    if len(row.indices) != len(row.values):
        raise Problem(
            422,
            f"A row of 'features' must have as many values as indices. Got {len(row.values)} and {len(row.indices)}.",
        )
    return row.indices, row.values
