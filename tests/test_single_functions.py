"""Right values of functions that other tests reach only through what calls them."""

from __future__ import annotations

import typing
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sylvan import LabelTree, XRLinear
from sylvan.arrays import frames, validate
from sylvan.arrays.topk import ranking_order
from sylvan.cli.options import parse_settings
from sylvan.errors import MemoryLimitError
from sylvan.hub.card import distinct_titles
from sylvan.indexing.tree import node_title
from sylvan.labels.targets import Targets, one_class_a_row, rows_of_names, true_labels
from sylvan.labels.vocabulary import Vocabulary, bare_label, composed, ids_of_names, similar_names
from sylvan.matching.class_beam import log_sums_of
from sylvan.models.irli.buckets import least_loaded_at_random
from sylvan.neural.loop.engine import memory_sentences, out_of_memory
from sylvan.remote.client import Source, source_of
from sylvan.remote.readme import card_checksum, mark
from sylvan.serve.problems import problem_of_body
from sylvan.text.characters import without_unseen

TREE = LabelTree((np.array([0, 2]), np.array([0, 2, 3])), np.array([2, 0, 1]), 3)
TITLES = {"u:1": "Bank", "u:2": "Bank", "u:3": "Sea"}
PULLED = {"pulled": {"repository": "someone/books", "revision": "5f3a"}}

VALUES: list[tuple[Callable[[], object], object]] = [
    (lambda: parse_settings(XRLinear, ["beam=20"]), {"beam": 20}),
    (lambda: frames.numpy_of([1, 2], "X"), [1, 2]),
    (lambda: card_checksum(mark("crc32:00c0ffee") + "\n# Books"), "crc32:00c0ffee"),
    (lambda: card_checksum("# Books"), ""),
    (lambda: source_of("runs/m", PULLED), Source(repository="someone/books", revision="5f3a")),
    (lambda: np.bincount(least_loaded_at_random(np.tile([0, 1, 2], (9, 1)), 3, [0])).tolist(), [3, 3, 3]),
    (lambda: node_title(TREE, 0, 0, "abc".__getitem__, np.array([1, 5, 9])), "c, a (2 labels)"),
    (lambda: ids_of_names(["sea", 0], Vocabulary(["whaling", "sea"]), "allowed"), [1, 0]),
    (lambda: similar_names("wahling", ["Whaling", "Sea"]), ["Whaling"]),
    (
        lambda: true_labels([[20], [30, 10]], Targets.read([[10], [20]]).names).to_scipy().toarray().tolist(),
        [[0, 1, 0], [1, 0, 1]],
    ),
    (lambda: rows_of_names([[], ["sea"]]), [[], ["sea"]]),
    (lambda: rows_of_names([[], [0]]), None),
    (lambda: rows_of_names(sp.csr_matrix((1, 2))), None),
    (lambda: rows_of_names("sea"), None),
    (lambda: [one_class_a_row(np.array(Y)) for Y in ([], [3], [3, 1], [[3, 1]])], [False, True, True, False]),
    (lambda: ranking_order(np.array([[-1, 3, 2]]), np.zeros((1, 3), np.float32)).tolist(), [[2, 1, 0]]),
    (lambda: bare_label("<http://example.org/whaling>"), "http://example.org/whaling"),
    (lambda: bare_label("<urn:x:1>"), "urn:x:1"),
    (lambda: bare_label("<b>"), "<b>"),
    (lambda: log_sums_of(np.zeros((1, 8), np.float32), np.zeros(1, np.float32)).tolist(), [np.float32(np.log(8))]),
    (lambda: distinct_titles(["u:1", "u:2", "u:3", "u:4"], TITLES.get), ["Bank (u:1)", "Bank (u:2)", "Sea", "u:4"]),
    (lambda: out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes")), True),
    (lambda: out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied")), False),
    (lambda: type(frames.sparse_as_set(sp.csr_matrix((2, 2)))), sp.csr_matrix),
    (lambda: without_unseen("co\u00adoperation"), "cooperation"),
    (lambda: composed("Mu\u0308ller"), "M\xfcller"),
    (lambda: validate.row_numbers([[3, -1]], 4, name="neighbors", least=-1).tolist(), [[3, -1]]),
]


@pytest.mark.parametrize(("call", "right"), VALUES)
def test_value(call: Callable[[], object], right: object) -> None:
    assert call() == right


def test_memory_that_runs_out_is_one_sentence() -> None:
    with pytest.raises(MemoryLimitError) as caught, memory_sentences("Encoding texts", "cpu", "Lower batch_tokens."):
        raise torch.OutOfMemoryError("CUDA out of memory.")
    words = str(caught.value)
    assert words == "Encoding texts ran out of memory on cpu (CUDA out of memory). Lower batch_tokens."


def test_a_body_out_of_range_is_named_with_its_range() -> None:
    body = msgspec.defstruct("Body", [("k", typing.Annotated[int, msgspec.Meta(ge=1, le=9)])])
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"k": 12}', type=body)
    problem = problem_of_body(caught.value, b'{"k": 12}', body)
    assert problem.detail == "The 'k' field must be an int in [1, 9]. Got 12 instead."
