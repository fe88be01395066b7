"""What benchmarks.transformers plans, prepares, and makes of finished rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.common import measure
from benchmarks.transformers import plan, sets, tables


def row(contender: str, p5: float, spent: float, **more: Any) -> dict[str, Any]:
    shared = {"set": "eurlex57k", "rows": 100, "tests": 50, "contender": contender, "seed": 0}
    figures = {f"{name}@{k}": p5 for name in ("P", "R", "PSP") for k in (1, 3, 5, 10)}
    return {
        **shared, **figures, "build": {"cpu_s": spent, "wall_s": spent + 1}, "ms_per_row": 1.0, "p50_ms": 2.0,
        "model_mb": 3.0, **more,
    }  # fmt: skip


def tuned(contender: str, p5: float, spent: float, **more: Any) -> dict[str, Any]:
    return row(contender, p5, spent, **{"tokens": 8, "batch": 4, "steps": 60, "precision": "bf16", **more})


GROUP = ("eurlex57k", 100, 50)
FROZEN = {"tokens": 8}


def test_goals_compare_what_is_alike() -> None:
    paper = {"negatives": "paper", "combine": "paper", "threshold": 0.05}
    runs = [
        row("xr-linear", 50.0, 1.0), row("xr-linear", 50.7, 1.0, settings=paper),
        row("frozen", 51.5, 1.0, **FROZEN, ranker=paper), tuned("xr-transformer", 52.0, 20.0),
        tuned("libpecos-xr-transformer", 51.0, 40.0), tuned("x-transformer", 51.8, 20.0),
        tuned("x-transformer", 52.5, 120.0, steps=360),
    ]  # fmt: skip
    said = "\n".join(tables.goals(runs, GROUP))
    assert "+1.50 points of P@5 against TF-IDF alone at its defaults (wanted +1.00)" in said
    assert "+0.80 points of P@5 against TF-IDF alone with the same rankers (wanted +1.00: missed)" in said
    assert "Fine-tuned against frozen: +0.50 points of P@5 (wanted more)." in said
    assert "+1.00 points of P@5 (wanted more) in 0.50 of its training time (wanted at most 1)" in said
    assert "X-Transformer is as good in 6.00 of the time (" in said and "wanted 5 times its time)." in said
    said = "\n".join(tables.goals(runs[:-1], GROUP))
    assert "60 steps, against XR-Transformer: -0.20 points of P@5 and -0.20 of P@1 in 1.00 of its time." in said
    assert "isn't as good in 1.0 times the time" in said and "not shown without a longer training)." in said
    near = [*runs[:-2], tuned("x-transformer", 51.95, 18.0)]
    assert (
        "as good in 0.90 of the time" in (said := "\n".join(tables.goals(near, GROUP)))
        and "5 times its time: missed" in said
    )
    longer = [*runs[:-2], tuned("x-transformer", 51.0, 120.0)]
    said = "\n".join(tables.goals(longer, GROUP))
    assert "isn't as good in 6.0 times the time" in said and "wanted 5 times its time)." in said
    slower = [*runs[:4], tuned("libpecos-xr-transformer", 53.0, 10.0)]
    said = "\n".join(tables.goals(slower, GROUP))
    assert "-1.00 points of P@5 (wanted more: missed) in 2.00 of its training time (wanted at most 1: missed)" in said


def test_what_was_not_timed_is_said_so() -> None:
    run = row("frozen", 50.0, 2.0, **FROZEN, settings={"dense_scale": 2.0})
    del run["ms_per_row"], run["p50_ms"]
    (line,) = [line for line in tables.section([run]) if line.startswith("| XR-Linear on [TF-IDF")]
    assert line.endswith("| – | – | – | 3 |") and "dense_scale=2.0" in line
    assert "ms" not in tables.main_figure(run)


def test_rows_are_found_again_and_quick_ones_are_apart() -> None:
    rows, small = (plan.planned(["eurlex57k", "gutenberg"], quick=quick) for quick in (False, True))
    for found in (rows, small):
        assert all(sum(plan.same(one, other) for other in found) == 1 for one in found)
    assert not any(plan.same(one, other) for one in rows for other in small)
    for one in rows:  # an ensemble's members are rows
        assert all(any(plan.same(member, other) for other in rows) for member in plan.members(one))
    assert {one["contender"] for one in rows} == set(plan.TITLES)


def test_linear_rows_have_the_rankers_of_the_preset() -> None:
    from sylvan.models.transformer.presets import PRESETS

    assert dict(PRESETS["base"]["ranker"]) == plan.RANKER


def test_part_of_a_set(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    whole = tmp_path / "whole"
    whole.mkdir()
    n, words = 30, [f"word{at} shared common{at % 3} common{at % 3}" for at in range(30)]
    Y = sp.csr_matrix(np.eye(10, dtype=np.float32)[np.arange(n) % 10])
    for name in ("train", "test"):
        (whole / f"{name}.txt").write_text("".join(text + "\n" for text in words), encoding="utf-8")
        sp.save_npz(whole / f"Y.{name[:2]}{'n' if name == 'train' else 't'}.npz", Y)
    sp.save_npz(whole / "Y.trn.npz", Y)
    sp.save_npz(whole / "Y.tst.npz", Y)
    part = sets.subset(whole, 6, 5, tmp_path / "cache")
    texts, labels = sets.lines(part / "train.txt"), sets.label_lists(part)
    found, tests_of = sets.matrix(part, "Y.trn"), sets.matrix(part, "Y.tst")
    assert len(texts) == len(labels) == found.shape[0] == sets.matrix(part, "X.trn").shape[0] == 6
    assert set(np.diff(tests_of.indptr)) == {1} and tests_of.shape == (5, found.shape[1])
    assert np.bincount(found.indices, minlength=found.shape[1]).min() == 1
    by_text = {words[at]: at % 10 for at in range(n)}
    known = sorted({by_text[text] for text in texts})
    assert [known[int(one)] for (one,) in labels] == [by_text[text] for text in texts]
    tests = sets.lines(part / "test.txt")
    assert [known[at] for at in tests_of.indices] == [by_text[text] for text in tests]
    assert sets.subset(whole, 6, 5, tmp_path / "cache") == part and sets.subset(whole, None, None, tmp_path) == whole


def test_recall_is_of_a_rows_own_labels() -> None:
    Y = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=np.float32))
    top = np.array([[0, 3, 1], [3, -1, -1], [0, 1, 2]])
    assert measure.recall(top, Y, at=(1, 3)) == {"R@1": 25.0, "R@3": 50.0}


def test_the_figure_shows_every_contender(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert set(tables.LOOKS) == set(plan.TITLES)
    runs = [row("xr-linear", 50.0, 1.0), tuned("xr-transformer", 52.0, 20.0)]
    written = tables.draw(runs, tmp_path / "transformers")
    assert [path.suffix for path in written] == [".svg"]
    text = written[0].read_text("utf-8")
    assert "XR-Transformer" in text and "X-Transformer," not in text
    assert tables.draw(runs[:1], tmp_path / "one") == []
