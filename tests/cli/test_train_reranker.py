"""``sylvan train reranker``: the same bits as in Python, what labels are called, a plan, resuming, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import Reranker, data

MEMBERS = ("--set", "member0__model=xr-linear", "--set", "member1__model=neighbors", "--threads", "1")
TREES = ("--set", "scorer=trees", "--set", "n_trees=3")
QUICK = (*MEMBERS, *TREES, "--set", "member2__model=lexical")


ROWS = 1200


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Texts, each about one of six things."""
    things = ["whales", "bread", "verse", "engines", "stars", "rivers"]
    texts = [f"note {at % 97} of {things[at % 6]} and part {at % 13}" for at in range(ROWS)]
    labels = [[f"L{at % 6}", f"P{at % 13}"] if at % 3 else [f"L{at % 6}"] for at in range(ROWS)]
    data.write_jsonl(tmp_path / "rows.jsonl", texts, labels)
    lines = [f"L{at}\t{thing}" for at, thing in enumerate(things)] + [f"P{at}\tpart {at}" for at in range(13)]
    (tmp_path / "names.tsv").write_text("\n".join([*lines, "N1\tsteam trains"]) + "\n", "utf-8")
    return tmp_path


def test_it_is_the_reranker_of_python(call: Any, rows: Path) -> None:
    folder, file, names = str(rows / "m"), str(rows / "rows.jsonl"), str(rows / "names.tsv")
    outcome = call("train", "reranker", file, "--model", folder, "--label-texts", names, "--test", file, *QUICK)
    assert outcome.code == 0 and "Trained 3 models with 20 labels" in outcome.out, outcome.err
    got = sylvan.load(folder)
    assert type(got) is Reranker and got.scorer_ is not None and not (rows / "m.training").exists()
    read = data.read_jsonl(file)
    texts = {label: [name] for label, name in (line.split("\t") for line in Path(names).read_text().splitlines())}
    expected = Reranker(got.members, scorer="trees", n_trees=3, n_jobs=1)
    expected.fit(read.texts, read.labels, label_texts=texts)
    top, same = got.rank(read.texts[:50], k=5), expected.rank(read.texts[:50], k=5)
    assert (top.labels == same.labels).all() and (top.scores == same.scores).all()
    asked = call("predict", folder, "-k", "3", "-", stdin=b'{"text": "steam trains"}\n')
    assert asked.code == 0 and "N1" in asked.out, asked.err
    explained = call("explain", folder, "--text", "whales", "--label", "L0")
    assert "By its mean probability" in explained.out.replace("\n", " ")
    inspected = call("inspect", folder)
    assert inspected.code == 0 and "scorer = 'trees'" in inspected.out


def test_a_plan_trains_and_writes_nothing(call: Any, rows: Path) -> None:
    outcome = call("train", "reranker", str(rows / "rows.jsonl"), "--plan", *QUICK)
    assert outcome.code == 0 and "order" in outcome.out and "peak memory" in outcome.out
    assert sorted(path.name for path in rows.iterdir()) == ["names.tsv", "rows.jsonl"]


def test_without_a_folder_or_members_it_says_so(call: Any, rows: Path) -> None:
    file = str(rows / "rows.jsonl")
    assert "'--model'" in call("train", "reranker", file, *QUICK).err
    none = call("train", "reranker", file, "--model", str(rows / "m"))
    assert none.code == 2 and "A reranker takes --preset, or members numbered from 0" in none.err
    wrong = call("train", "reranker", file, "--model", str(rows / "m"), *MEMBERS, "--set", "scorer=forest")
    assert wrong.code == 2 and "must be one of 'lightgbm'" in wrong.err
    order = call("train", "reranker", file, "--model", str(rows / "m"), *QUICK, "--set", "objective=rank")
    assert order.code == 2 and "must be 'right' with --set scorer=trees" in order.err
    texts = call("train", "reranker", file, "--model", str(rows / "m"), "--label-texts", str(rows / "names.tsv"),
                 "--set", "member0__model=neighbors", *TREES)  # fmt: skip
    assert texts.code == 2 and "is for a LexicalMatcher" in texts.err
    assert not (rows / "m").exists()


def test_an_interrupted_training_goes_on(call: Any, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = str(rows / "rows.jsonl"), str(rows / "m")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("sylvan.models.reranker.reranker.LabelFacts.of", stop)
        assert call("train", "reranker", file, "--model", folder, *QUICK).code == 1
    assert not (rows / "m").exists()
    again = call("train", "reranker", file, "--model", folder, *QUICK, "--no-resume")
    assert again.code == 0, again.err
    whole = call("train", "reranker", file, "--model", str(rows / "whole"), *QUICK)
    assert whole.code == 0
    texts = data.read_jsonl(file).texts[:20]
    assert (sylvan.load(folder).rank(texts).scores == sylvan.load(str(rows / "whole")).rank(texts).scores).all()
