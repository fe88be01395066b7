"""A label's name has one form."""

import pytest

from sylvan.labels.vocabulary import label_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sea", "sea"), (" sea\t", "sea"), ("\u00a0sea\u3000", "sea"), ("the sea", "the sea"), ("", ""), (" \n", ""),
        ("Ba\u0308ume", "Bäume"), ("Bäume", "Bäume"), ("Vie\u0323\u0302t", "Việt"), ("\u1112\u1161\u11ab", "한"),
        ("\ufb01sh", "\ufb01sh"), ("Sea", "Sea"),
        (" <http://example.org/a>", "http://example.org/a"), ("<urn:x:1>", "urn:x:1"),
        ("<std::vector>", "<std::vector>"), ("<http://example.org/a", "<http://example.org/a"),
    ],
)  # fmt: skip
def test_a_name_is_composed_and_without_blanks(text: str, name: str) -> None:
    assert label_name(text) == name
