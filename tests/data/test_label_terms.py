"""Terms of labels from the forms in which a caller may give them."""

from __future__ import annotations

from typing import Any

import pytest
from kit.errors import raises

from sylvan.data import LabelTerms, SubjectVocabulary
from sylvan.data.label_terms import label_terms
from sylvan.errors import DataError

SUBJECTS = SubjectVocabulary({"u:1": {"en": "whaling"}, "u:2": {"en": "ships"}}, {"u:1": ["u:2"]})


def test_names_are_their_own_terms() -> None:
    assert label_terms(None, ["a", "b"]) == label_terms("names", ["a", "b"]) == {n: LabelTerms((n,)) for n in "ab"}


def test_of_a_list_the_first_is_preferred() -> None:
    terms = LabelTerms(("c",), hidden=("d",))
    found = label_terms({"1": "a", 2: ["a", "b"], "3": terms, "4": []}, ["9"])
    assert found == {"1": LabelTerms(("a",)), "2": LabelTerms(("a",), ("b",)), "3": terms, "4": LabelTerms()}


def test_a_vocabulary_s_labels_are_called_as_the_rows_call_them() -> None:
    assert label_terms(SUBJECTS, ["u:2", "other"])["u:1"].broader == ("u:2",)
    assert label_terms(SUBJECTS, [])["u:1"].preferred == ("whaling",)
    assert label_terms(SUBJECTS, ["ships", "other"])["whaling"].broader == ("ships",)
    assert list(label_terms(SUBJECTS, ["other"])) == ["u:1", "u:2"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("other", ("SubjectVocabulary", "names")),
        ([("a", "b")], ("label_texts", "list")),
        ({True: "a"}, ("True", "label_texts")),
        ({"a": 3}, (3, "'a'")),
        ({"a": ["b", 3]}, ("LabelTerms", "label_texts")),
    ],
)
def test_anything_else_is_refused(given: Any, why: object) -> None:
    with raises(DataError, why):
        label_terms(given, [])
