"""Models of napkinXC rank as there, whatever the length of the rows, and damaged ones are refused with a sentence."""

import struct
from pathlib import Path

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan.errors import ModelError, ParameterError
from sylvan.importers import from_napkinxc

from .answers import FIXTURES, copy_of, expected, need_no_crash, need_same, rows

PAIR = struct.Struct("<if").pack
NAMES = ["napkinxc", "napkinxc-huffman", "napkinxc-two", "napkinxc-flat"]


def args(
    kind: bytes = b"br", members: int = 0, bias: float = 1.0, norm: int = 1, hashed: int = 0, threshold: float = 0.0
) -> bytes:
    head = struct.pack("<q5sfBifi", 5, b"0.7.2", bias, norm, hashed, threshold, 1)
    return head + struct.pack(f"<q{len(kind)}si", len(kind), kind, members)


def base(values: list[float] | None, first: int = 1, loss: int = 0, sparse: bool = False, gradients: int = 0) -> bytes:
    """One classifier, of one class without values."""
    if values is None:
        return struct.pack("<iii", 1, first, loss)
    stored = [(at, value) for at, value in enumerate(values) if value]
    sizes = struct.pack("<iiiQQQQB", 2, first, loss, len(values), len(stored), len(values), len(stored), sparse)
    body = struct.pack(f"<{len(values)}f", *values)
    if sparse:
        body = b"".join(struct.pack("<if", *pair) for pair in stored)
    return sizes + body + bytes([gradients])


def folder_of(folder: Path, bases: list[bytes], head: bytes | None = None, tree: bytes | None = None) -> Path:
    (folder / "args.bin").write_bytes(args() if head is None else head)
    (folder / "weights.bin").write_bytes(struct.pack("<i", len(bases)) + b"".join(bases))
    if tree is not None:
        (folder / "tree.bin").write_bytes(tree)
    return folder


def tree_of(nodes: list[tuple[int, int]], parents: list[int], root: int = 0) -> bytes:
    flat = [number for node in nodes for number in node]
    return struct.pack(f"<{3 + len(flat) + len(parents)}i", 1, len(nodes), *flat, root, *parents)


@pytest.mark.parametrize("name", NAMES)
def test_ranks_as_napkinxc(name: str) -> None:
    model = from_napkinxc(FIXTURES / name)
    assert model.beam == 50 and model.normalize == (name != "napkinxc-flat")
    for scale in (1, 3, 0.01) if model.normalize else (1,):
        need_same(model.rank(rows() * scale, 6), expected("napkinxc")[name])


def test_saves_loads_and_ranks_the_same(tmp_path: Path) -> None:
    model = from_napkinxc(FIXTURES / "napkinxc-two", weight_dtype="float16", beam=5)
    model.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    assert loaded.beam == 5 and len(loaded.rankers_) == 2 and loaded.normalize
    np.testing.assert_array_equal(loaded.rank(rows(), 6).scores, model.rank(rows(), 6).scores)


def test_weights_dense_or_sparse_and_either_class_first(tmp_path: Path) -> None:
    values = [0.0, 0.5, 1.0, 0.0, -2.0]  # an unused one, the constant feature, and three features
    turned = [-value for value in values]
    X = np.array([[2.0, 1.0, 0.5]])
    expected_score = 1 / (1 + np.exp(-(0.5 * 0.25 + 2.0 - 1.0)))
    for one in (base(values), base(values, sparse=True), base(turned, first=0), base(turned, first=0, sparse=True)):
        model = from_napkinxc(folder_of(tmp_path, [one, base(None, 0)], args(norm=0, bias=0.25)))
        top = model.rank(X, 2)
        assert top.labels.tolist() == [[0, 1]]
        np.testing.assert_allclose(top.scores[0], [expected_score, 1 / (1 + np.exp(10))], rtol=1e-5)


def test_a_label_on_an_inner_node(tmp_path: Path) -> None:
    values = [0.0, 0.0, 1.0]
    tree = tree_of([(0, -1), (1, 0), (2, 1), (3, 2)], [-1, 0, 0, 1])
    bases = [base(None), base(values), base(values), base(values)]
    model = from_napkinxc(folder_of(tmp_path, bases, args(b"plt", 1, norm=0), tree))
    s = lambda h: 1 / (1 + np.exp(-h))  # noqa: E731
    top = model.rank(np.array([[2.0]]), 3)
    scores = dict(zip(top.labels[0].tolist(), top.scores[0].tolist(), strict=True))
    assert scores == pytest.approx({0: s(10) * s(2), 1: s(10) * s(2), 2: s(10) * s(2) ** 2})


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (args(b"mach"), "mach"), (args(hashed=99), "hashes"), (args(threshold=0.5), ("0.5", "drops")),
        (args(norm=7), ("[0, 1]", 7)), (args(bias=float("nan")), ("nan", 0)), (args(members=2), ("members", 2)),
        (args()[:9], ("byte 8", 5, 1)), (struct.pack("<q", -1), ("[1, 40]", -1)),
    ],
)  # fmt: skip
def test_arguments(head: bytes, sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_napkinxc(folder_of(tmp_path, [base(None)], head))


@pytest.mark.parametrize(
    ("bases", "sentence"),
    [
        ([base([0, 1, 2.0], loss=2)], ("loss", 0, 2, 1)),
        ([base([0, 1, 2.0], first=5)], ("first", 5)),
        ([base([0, 1, 2.0]), base([0, 1, 2.0], loss=1)], ("classifiers", "losses")),
        ([base([0, 1, 2.0], gradients=1)], "gradients"),
        ([base([0, 1, float("inf")])], "weight"),
        ([base([0, 1, 2.0])[:-3]], (3, "byte 49")),
        ([base([0, 1, 2.0], sparse=True).replace(PAIR(2, 2.0), PAIR(1, 2.0))], ("classifier", "columns")),
        ([base([0, 1, 2.0], sparse=True).replace(PAIR(1, 1), PAIR(-1, 1))], "[0, 2147483647]"),
        ([], ("[1, 1]", 0)),
    ],
)
def test_classifiers(bases: list[bytes], sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_napkinxc(folder_of(tmp_path, bases))


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        (tree_of([(0, -1), (1, 0)], [-1, 0]), ("tree.bin", 2, "weights.bin", 3)),
        (tree_of([(0, -1), (1, 0), (1, 1)], [-1, 0, 0]), ("numbered", 0, 2)),
        (tree_of([(0, -1), (1, 0), (2, -5)], [-1, 0, 0]), ("numbered", 0, 2)),
        (tree_of([(0, -1), (1, 0), (2, 1)], [-1, 2, 1]), ("root", 2, 3, "reached")),
        (tree_of([(0, -1), (1, 0), (2, 1)], [-1, 0, 3]), (3, "[-1, 2]")),
        (tree_of([(0, -1), (1, 0), (2, -1)], [-1, 0, 0]), "node 2"),
        (tree_of([(0, -1), (1, 0), (2, 1)], [-1, 0, 0])[:-4], (3, "byte 36")),
    ],
)
def test_trees(tree: bytes, sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_napkinxc(folder_of(tmp_path, [base(None)] * 3, args(b"plt", 1), tree))


def test_members_of_different_losses(tmp_path: Path) -> None:
    (tmp_path / "args.bin").write_bytes(args(b"plt", 2))
    for member in range(2):
        (tmp_path / f"member_{member}").mkdir()
        folder_of(tmp_path / f"member_{member}", [base(None), base([0, 1, 1.0], loss=member)], b"",
                  tree_of([(0, -1), (1, 0)], [-1, 0]))  # fmt: skip
    with raises(ModelError, "losses"):
        from_napkinxc(tmp_path)


def test_parameters(tmp_path: Path) -> None:
    with raises(ParameterError, "weight_dtype"):
        from_napkinxc(FIXTURES / "napkinxc", weight_dtype="int4")
    with raises(ParameterError, "beam"):
        from_napkinxc(FIXTURES / "napkinxc", beam=0)
    with raises(ModelError, "args.bin", "missing"):
        from_napkinxc(tmp_path)


def test_spoiled_folders(tmp_path: Path) -> None:
    for name in NAMES[1:]:
        assert need_no_crash(from_napkinxc, copy_of(name, tmp_path), 2) > 10
