"""``sylvan train FILE --preset NAME``: the model of each preset without its name, a vocabulary, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import Ensemble, Reranker, TextModel, data

QUICK = ("--threads", "1", "--set", "scorer=trees", "--set", "n_trees=3")
THINGS = ["whales", "bread", "verse", "engines", "stars", "rivers"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Texts, each about one of six things whose labels are codes, and the names of these."""
    texts = [f"note {number % 97} of {THINGS[number % 6]} and part {number % 13}" for number in range(900)]
    data.write_jsonl(tmp_path / "rows.jsonl", texts, [[f"L{number % 6}"] for number in range(900)])
    lines = [f"L{number}\t{thing}" for number, thing in enumerate(THINGS)]
    (tmp_path / "names.tsv").write_text("\n".join(["uri\tlabel_en", *lines]) + "\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize(("words", "kind"), [
    ((), TextModel), (("--preset", "fast"), TextModel), (("--preset=accurate",), Ensemble),
])  # fmt: skip
def test_no_model_need_be_named(words: tuple[str, ...], kind: type, call: Any, rows: Path) -> None:
    file, folder = str(rows / "rows.jsonl"), str(rows / "m")
    outcome = call("train", file, "--model", folder, *words, "--threads", "1", "--test", file)
    assert outcome.code == 0 and "P  " in outcome.out, outcome.err
    model = sylvan.load(folder)
    assert type(model) is kind
    if kind is TextModel:
        assert (model.model.calibration is None) == (words != ())
    first = call("train", *words, "--model", folder, "--threads", "1", file)
    assert first.code == 0, first.err


def test_the_best_with_a_vocabulary(call: Any, rows: Path) -> None:
    file, folder, names = (str(rows / name) for name in ("rows.jsonl", "m", "names.tsv"))
    outcome = call("train", file, "--model", folder, "--preset", "best", "--vocabulary", names, *QUICK)
    assert outcome.code == 0 and "Trained 6 models with 6 labels" in outcome.out, outcome.err
    assert "codes" not in outcome.err and "never answered" not in outcome.err
    model = sylvan.load(folder)
    assert type(model) is Reranker and model.members[0].label_texts_ is not None
    assert model.members[5].rank(["of whales"], k=1).names == [["L0"]]


def test_codes_without_a_vocabulary(call: Any, rows: Path) -> None:
    outcome = call("train", str(rows / "rows.jsonl"), "--model", str(rows / "m"), "--preset", "best", *QUICK)
    assert outcome.code == 0 and "Trained 5 models" in outcome.out, outcome.err
    assert outcome.err.count("The labels are codes, such as 'L0'") == 1
    assert "Give their names by --vocabulary FILE." in outcome.err


def test_plans(call: Any, rows: Path) -> None:
    file = str(rows / "rows.jsonl")
    for name in ("fast", "balanced", "accurate", "best"):
        plan = call("plan", file, "--preset", name, "--threads", "1")
        assert plan.code == 0 and "peak memory" in plan.out, plan.err
        assert ("order" in plan.out) == (name == "best")
    assert call("train", file, "--plan", "--preset", "best", "--threads", "1").code == 0
    assert sorted(path.name for path in rows.iterdir()) == ["names.tsv", "rows.jsonl"]


@pytest.mark.parametrize(("words", "sentence"), [
    (("{rows}", "--model", "{out}", "--preset", "bset"), "The presets of texts are fast, balanced, accurate, best"),
    (("{rows}", "--preset", "bset", "--model", "{out}"), "Did you mean 'best'?"),
    (("xrlinear", "{rows}", "--model", "{out}"), "No such command 'xrlinear'. Did you mean 'xr-linear'?"),
    (("missing.jsonl", "--model", "{out}"), "missing.jsonl"),
    (("--model", "{out}"), "Missing argument 'TRAIN'"),
    (("{rows}", "--preset", "best"), "Missing option '--model'"),
    (("{rows}", "--model", "{out}", "--wrong"), "No such option '--wrong'"),
])  # fmt: skip
def test_what_is_refused(words: tuple[str, ...], sentence: str, call: Any, rows: Path) -> None:
    places = {"rows": str(rows / "rows.jsonl"), "out": str(rows / "m")}
    outcome = call("train", *(word.format(**places) for word in words))
    assert outcome.code == 2 and sentence in outcome.err, outcome.err
    assert not (rows / "m").exists()


def test_presets_of_texts_are_not_for_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    outcome = call("train", files("train.xmc"), "--model", str(tmp_path / "m"), "--preset", "accurate")
    assert outcome.code == 2 and "sylvan train xr-linear --preset accurate is for one" in outcome.err
    assert call("train", files("train.xmc"), "--model", str(tmp_path / "m"), "--preset", "fast").code == 0
