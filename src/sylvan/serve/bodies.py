"""The bodies of requests as msgspec types: they parse what comes in, and the OpenAPI document is made of them."""
# Without postponed annotations: msgspec reads those of the classes that are made inside a function.

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from sylvan.serve.asked import Asked
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Limits

__all__ = ["Bodies", "FeatureRow", "make_bodies", "rows_of"]

MOST_FEATURES = 1_000_000  # of a row
MOST_SHOWN = 1_000  # features of an explanation, and examples


Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # squares of which are numbers in float32 still


class FeatureRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of features: the places that aren't zero, and their values."""

    indices: Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 2)]], Meta(max_length=MOST_FEATURES)]
    values: Annotated[list[Number], Meta(max_length=MOST_FEATURES)]


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
        """Texts, or rows of features, to be ranked: exactly one of ``text``, ``texts`` and ``features``."""

        text: Text | None = None
        texts: Annotated[list[Text], Meta(max_length=limits.texts)] | None = None
        features: Annotated[list[FeatureRow], Meta(max_length=limits.texts)] | None = None

    class RankLine(msgspec.Struct):
        """A line of NDJSON: a text, or a row of features; other fields are passed over."""

        text: Text | None = None
        features: FeatureRow | None = None

    class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
        """Why a label is, or isn't, among a text's or row's answers."""

        label: Label
        text: Text | None = None
        row: FeatureRow | None = None
        features: Annotated[int, Meta(ge=1, le=MOST_SHOWN)] = 10
        examples: Annotated[int, Meta(ge=0, le=MOST_SHOWN)] = 3
        beam: Beam | None = None

    class BeamRequest(msgspec.Struct, forbid_unknown_fields=True):
        """Which nodes of a tree the search looks at for a text."""

        text: Text
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

        texts: list[Text] = []
        labels: list[list[Annotated[str, Meta(min_length=1, max_length=10_000)]]] = []
        forget: list[Annotated[int, Meta(ge=0, le=2**31 - 1)]] = []
        merge: dict[str, list[str]] = {}

    return Bodies(RankRequest, RankOptions, RankLine, ExplainRequest, BeamRequest, SearchRequest, UpdateRequest)


def rows_of(takes: str, text: str | None, texts: list[str] | None, features: list[FeatureRow] | None) -> list[Any]:
    """The rows of a request, as the engine takes them: texts, or pairs of indices and values.

    Raises
    ------
    Problem
        When it isn't exactly one kind, or not the one that the model takes.
    """
    given = [name for name, value in (("text", text), ("texts", texts), ("features", features)) if value is not None]
    wanted = "'text' or 'texts'" if takes == "texts" else f"{takes!r}"
    if len(given) != 1:
        received = " and ".join(map(repr, given)) or "none of them"
        raise Problem(422, f"The body must have exactly one of 'text', 'texts' and 'features'. Got {received} instead.")
    if (takes == "texts") != (given[0] != "features") or takes == "vectors":
        raise Problem(422, f"The model takes {takes}: the body must have {wanted}. Got {given[0]!r} instead.")
    if features is not None:
        return [_pair(row) for row in features]
    return [text] if text is not None else list(texts or [])


def _pair(row: FeatureRow) -> tuple[list[int], list[float]]:
    if len(row.indices) != len(row.values):
        raise Problem(
            422,
            f"A row of 'features' must have as many values as indices. Got {len(row.values)} and {len(row.indices)}.",
        )
    return row.indices, row.values
