"""``allowed`` and ``denied``: every form means the same, every fault has its sentence."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan.arrays.label_filter import LabelFilter
from sylvan.errors import DataError

MASK = np.array([[True, False, True, False], [False, False, False, False], [True, True, True, True]])


def masks(allowed: Any, denied: Any = None, n_rows: int = 3) -> list[list[bool]]:
    found = LabelFilter.of(allowed, denied, n_rows=n_rows, n_labels=4)
    assert found is not None
    return [found.mask(row).tolist() for row in range(n_rows)]


@pytest.mark.parametrize(
    "form",
    [
        [2, 0], (0, 2, 2), {0, 2}, range(0, 4, 2), np.array([2, 0]), np.array([0, 2], np.uint64), MASK[0],
        MASK[0].tolist(), (i for i in (0, 2)), [np.int32(0), 2],
    ],
)  # fmt: skip
def test_labels_for_every_row(form: Any) -> None:
    assert masks(form) == [MASK[0].tolist()] * 3


@pytest.mark.parametrize("convert", [np.array, np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.lil_matrix])
def test_a_mask_for_each_row(convert: Any) -> None:
    assert masks(convert(MASK)) == MASK.tolist()
    assert masks(None, convert(MASK)) == (~MASK).tolist()
    assert masks(convert(MASK[:1]), n_rows=1) == MASK[:1].tolist()


def test_lists_for_each_row() -> None:
    assert masks([[0, 2], [], [3, 1, 2, 0]]) == MASK.tolist()
    assert masks([np.array([0, 2]), [], range(4)]) == MASK.tolist()


def test_stored_zeros_are_no_labels() -> None:
    stored = sp.csr_matrix(np.ones((3, 4)))
    stored.data[:] = MASK.ravel()
    assert masks(stored) == MASK.tolist()


@pytest.mark.parametrize("yes", [[0, 1, 2], MASK, None])
@pytest.mark.parametrize("no", [[1], sp.csr_matrix(MASK[::-1]), []])
def test_denied_wins(yes: Any, no: Any) -> None:
    allowed = np.ones((3, 4), bool) if yes is None else np.array(masks(yes))
    denied = np.zeros((3, 4), bool) if isinstance(no, list) and not no else np.array(masks(no))
    assert masks(yes, no) == (allowed & ~denied).tolist()


@pytest.mark.parametrize(("yes", "no"), [([0, 2], None), (None, [0, 2]), (MASK, None), (None, MASK), (MASK, [2])])
@pytest.mark.parametrize("rows", [(0, 3), (1, 3)])
def test_labels_that_may_be_answered_are_those_of_the_mask(yes: Any, no: Any, rows: tuple[int, int]) -> None:
    """Asked for some rows, which are counted from the first of them."""
    labels = np.array([3, 0, -1, 2, 1, 0, 2, 3], np.int32)
    of_row = np.arange(len(labels)) % (rows[1] - rows[0])
    label_filter = LabelFilter.of(yes, no, n_rows=3, n_labels=4)
    assert label_filter is not None
    expected = [label >= 0 and masks(yes, no)[rows[0] + row][label] for row, label in zip(of_row, labels, strict=True)]
    assert label_filter.opens(labels, of_row, rows).tolist() == expected


def test_nothing_given_is_no_filter_and_nothing_allowed_is_one() -> None:
    assert LabelFilter.of(None, None, n_rows=3, n_labels=4) is None
    assert masks([]) == [[False] * 4] * 3
    assert masks(None, []) == [[True] * 4] * 3


FAULTS: list[tuple[Any, object]] = [
    ([4], ("label 4", "[0, 3]")), ([1, -1], ("label -1", "[0, 3]")),
    (np.array([2**63], np.uint64), ("label 9223372036854775808", "[0, 3]")), ([1.0], ("[0, 3]", "[1.0]")),
    ([None], ("[0, 3]", "[None]")), (["Baking"], ("Baking", "ids", 3)), (3, ("(3, 4)", 3)),
    ("Baking", ("(3, 4)", "Baking")), ({1: 2}, ("(3, 4)", {1: 2})), (np.zeros((1, 1, 1), int), "(1, 1, 1)"),
    (np.ones(3, bool), ("mask", 3, 4)), (MASK[:2], ("(2, 4)", "(3, 4)")),
    (sp.csr_matrix(MASK[:, :3]), ("(3, 3)", "(3, 4)")), ([[1], [2]], ("(2, 4)", "(3, 4)")),
    ([[1], [2], [4]], ("label 4", "row 2")), ([[1], 2, [3]], ("Row 1", 2)),
    (np.array([1, 0, 1, 1]), ("4", "mask.astype(bool)")), (MASK.astype(int), ("int64", "(3, 4)", "mask")),
    (MASK.tolist(), ("True and False", "np.asarray")), (sp.csr_matrix(np.full((3, 4), np.nan)), "NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "values"), FAULTS)
def test_faults_are_sentences(value: Any, values: object) -> None:
    with raises(DataError, "allowed", values):
        LabelFilter.of(value, None, n_rows=3, n_labels=4)
    with raises(DataError, "denied", values):
        LabelFilter.of([0], value, n_rows=3, n_labels=4)
