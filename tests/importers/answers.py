"""What other libraries answered with the models in ``fixtures``, and how ours are compared with it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import TopK, XRLinear, data
from sylvan.errors import SylvanError

FIXTURES = Path(__file__).parent / "fixtures"


def rows() -> sp.csr_matrix:
    """The rows that all models were asked about."""
    return data.load_npz(FIXTURES / "rows.npz")


def expected(library: str) -> dict[str, dict[str, Any]]:
    """Labels and scores of each row, best first, for each model of a library."""
    return json.loads((FIXTURES / f"{library}.json").read_text())


def need_same(top: TopK, answer: dict[str, Any], tolerance: float = 2e-6) -> None:
    """Scores agree place by place, and labels too wherever two neighbouring scores differ by more than rounding."""
    for row, (labels, scores) in enumerate(zip(answer["labels"], answer["scores"], strict=True)):
        n = len(labels)
        np.testing.assert_allclose(top.scores[row, :n], scores, atol=tolerance, rtol=1e-5)
        edges = np.flatnonzero(np.abs(np.diff(scores)) > 2 * tolerance) + 1
        for mine, theirs in zip(np.split(top.labels[row, :n], edges), np.split(np.array(labels), edges), strict=True):
            if theirs[-1] != labels[-1]:  # the last group may go on beyond the list
                assert set(mine.tolist()) == set(theirs.tolist()), f"row {row}"


def copy_of(name: str, folder: Path) -> Path:
    """A fixture that a test may spoil."""
    return Path(shutil.copytree(FIXTURES / name, folder / name))


def spoiled(folder: Path, random: np.random.Generator) -> Iterator[str]:
    """One file after another cut short, with a byte changed, or with a number made huge; what was done."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        whole = path.read_bytes()
        for how in ("cut", "empty", *["byte"] * 12, *["huge"] * 3, "missing"):
            at = int(random.integers(0, len(whole)))
            if how == "missing":
                path.unlink()
            elif how == "byte":
                path.write_bytes(whole[:at] + bytes([int(random.integers(0, 256))]) + whole[at + 1 :])
            elif how == "huge":
                path.write_bytes(whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :])
            else:
                path.write_bytes(b"" if how == "empty" else whole[:at])
            yield f"{path.name}, {how} at {at}"
            path.write_bytes(whole)


def need_no_crash(read: Callable[[Path], XRLinear], folder: Path, seed: int) -> int:
    """Whatever a spoiled folder is taken for, it is a model that ranks or one sentence; the number of sentences."""
    refused = 0
    for what in spoiled(folder, np.random.default_rng(seed)):
        try:
            model = read(folder)
            X = sp.csr_matrix((2, model.n_features_), dtype=np.float32)
            model.rank(X, 3)
        except SylvanError as error:
            refused += 1
            assert str(error).endswith("."), what
    return refused
