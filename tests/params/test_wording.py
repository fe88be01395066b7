"""Numbers with their nouns, and what may have been meant."""

import pytest

from sylvan.params.wording import are, counted, did_you_mean, noun


@pytest.mark.parametrize(
    ("n", "one", "said"),
    [
        (0, "row", "0 rows"), (1, "row", "1 row"), (2, "row", "2 rows"), (17_332, "text", "17,332 texts"),
        (1, "class", "1 class"), (2, "class", "2 classes"), (2, "query", "2 queries"), (2, "day", "2 days"),
        (2, "index", "2 indices"), (2, "child", "2 children"), (2, "box", "2 boxes"), (2, "batch", "2 batches"),
        (2, "training row", "2 training rows"),
    ],
)  # fmt: skip
def test_counts(n: int, one: str, said: str) -> None:
    assert counted(n, one) == said
    assert noun(n, one) == said.partition(" ")[2]


def test_the_verb() -> None:
    assert [are(n) for n in (0, 1, 2)] == ["are", "is", "are"]


def test_what_was_meant() -> None:
    assert did_you_mean("bean", ["k", "beam", "allowed"]) == "Did you mean 'beam'?"
    assert did_you_mean("colour", ["k", "beam"]) == "Known names: k, beam."
    assert did_you_mean("colour", []) == "Known names: none."
