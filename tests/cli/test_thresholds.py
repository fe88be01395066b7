"""``sylvan thresholds``: the same figures as predictions have, what it says to set, branches, figures and refusals."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import data, metrics, store
from sylvan.arrays.topk import TopK
from sylvan.cli.groups import branches, by_frequency
from sylvan.cli.thresholds import _wanted
from sylvan.hub.card import read_card
from sylvan.metrics.pairs import Pairs


def numbers(call: Any, words: str) -> dict[str, Any]:
    result: dict[str, Any] = call(f"thresholds {words} --json - -q").json
    return result


def test_figures_are_those_of_predictions(call: Any, files: Any) -> None:
    found = numbers(call, "{text-model} {test.jsonl} --precision 0.9")
    test, model = data.read_jsonl(files("test.jsonl")), sylvan.load(files.text_model)
    truth = model.vocabulary_.encode(test.labels).toarray() > 0
    lines = {line["name"]: line for line in [*found["lines"], found["best_f1"], found["wanted"]["set"]]}
    for line in lines.values():
        rule = {"k": int(line["name"].split()[-1])} if line["threshold"] is None else {"threshold": line["threshold"]}
        chosen = model.predict(test.texts, **rule).toarray() > 0
        right, named = (truth & chosen).sum(), chosen.sum()
        assert line["precision"] == pytest.approx(right / named), line
        assert line["recall"] == pytest.approx(right / truth.sum())
        assert line["labels"] == pytest.approx(named / len(truth))
        assert line["none"] == pytest.approx((chosen.sum(axis=1) == 0).mean())
        assert line["all_right"] == pytest.approx((chosen.any(axis=1) & ~(chosen & ~truth).any(axis=1)).mean())
        low, high = line["precision_interval"]
        assert low <= line["precision"] <= high
    assert found["records"] == 60 and "from 0.50" in lines and "the first 5" in lines


def test_what_to_set_has_the_wanted_precision_and_is_the_lowest(call: Any, files: Any) -> None:
    found = numbers(call, "{text-model} {test.jsonl} --precision 0.8")["wanted"]
    assert found["set"]["precision"] >= 0.8 and found["sure"]["precision_interval"][0] >= 0.8
    assert found["set"]["threshold"] <= found["sure"]["threshold"]
    test, model = data.read_jsonl(files("test.jsonl")), sylvan.load(files.text_model)
    truth = model.vocabulary_.encode(test.labels)
    lower = model.predict(test.texts, threshold=found["set"]["threshold"] - 0.01)
    assert metrics.set_f1(truth, lower)["labels"] > found["set"]["labels"]
    assert truth.multiply(lower).nnz / lower.nnz < 0.8


def test_what_is_printed(call: Any) -> None:
    lines = call("thresholds {text-model} {test.jsonl} --precision 0.9 -q").out.splitlines()
    assert lines[0].startswith("Measured over 60 rows") and lines[1].split()[:2] == ["precision", "recall"]
    assert any(line.startswith("For a precision of 90%, threshold 0.") for line in lines)
    assert any(line.startswith("As the mean over subjects (macro") for line in lines)


def curve(*steps: tuple[float, int, int]) -> Pairs:
    """An answer for each of many rows: probabilities, each of so many answers, of which so many are right."""
    scores = np.repeat([score for score, _, _ in steps], [n for _, n, _ in steps]).astype(np.float32)
    right = np.concatenate([np.arange(n) < n_right for _, n, n_right in steps])
    truth, labels = [[0] if each else [1] for each in right], np.zeros((len(right), 1), np.int32)
    return Pairs.of(truth, TopK(labels, scores[:, None]))


def test_the_step_below_shows_why_the_precision_is_far_above() -> None:
    """Few records have few steps of probability, and a precision between two of them isn't to be had."""
    sentences, data = _wanted(curve((0.47, 36, 34), (0.3, 64, 10)), 0.7, {})
    assert sentences[0].startswith("For a precision of 70%, threshold 0.31: 94.4%")
    assert sentences[1] == "Below it, 0.3 gives 44.0%, with 64 suggestions more."
    assert sentences[2] == "To be sure of 70%, take 0.31 too: its whole interval has it."
    assert data["below"]["threshold"] == 0.3 and data["sure"] == data["set"]


def test_no_step_is_below_the_lowest() -> None:
    sentences, data = _wanted(curve((0.47, 36, 34)), 0.7, {})
    assert sentences[0].startswith("For a precision of 70%, threshold 0.01") and data["below"] is None
    assert sentences[1].startswith("To be sure of 70%")


def test_the_best_threshold_is_noted_in_the_model(call: Any, refused: Any, files: Any) -> None:
    shutil.copytree(files.text_model, "m")
    best = numbers(call, "m {test.jsonl}")["best_f1"]["threshold"]
    assert read_card("m").threshold is None  # only when asked to
    assert f"Noted threshold {best:g} in m." in call("thresholds m {test.jsonl} --save").err
    assert read_card("m").threshold == {"f1": best, "on": "test.jsonl", "rows": 60}
    assert f"Threshold of the highest F1: {best:g}, on test.jsonl (60 rows)" in call("inspect m").out
    gone = " Its saved threshold is gone: sylvan thresholds small FILE --save finds it again.\n"
    assert call("compress m -o small").err.endswith(gone)
    for said in (" Its saved threshold is gone: sylvan thresholds m FILE --save finds it again.", ""):
        outcome = call(f"update m --rename {sylvan.load('m').vocabulary_[0]}=another{len(said)}")
        assert outcome.err == f"Updated m: 1 label renamed.{said}\n"
    for wrong in ({"f1": 2, "on": "a", "rows": 1}, {"f1": 0.5}, [], {"f1": "0.5", "on": "a", "rows": 1}):
        store.annotate("m", {"threshold": wrong})
        refused("'threshold' isn't what thresholds writes", "inspect m")


def test_a_precision_that_no_threshold_has(call: Any, refused: Any, files: Any) -> None:
    test = data.read_jsonl(files("test.jsonl"))
    wrong = [["Chess"] if "Chess" not in row else ["Baking"] for row in test.labels]
    data.write_jsonl("wrong.jsonl", test.texts, wrong)
    said = call("thresholds {text-model} wrong.jsonl --precision 0.99 -q").out
    assert "No threshold has a precision of 99%" in said
    data.write_jsonl("unknown.jsonl", ["zzzz"], [["Chess"]])  # of which no suggestion is made
    refused("None of the suggestions for unknown.jsonl is right", "thresholds {text-model} unknown.jsonl")


def test_branches_have_thresholds_of_their_own(call: Any, refused: Any, files: Any) -> None:
    """The model's labels are names here, and records stay as they are."""
    Path("subjects.csv").write_text(
        "uri,label,broader\nu:all,All,\nu:sea,Sea,u:all\nu:home,Home,u:all\nu:1,Whaling,u:sea\nu:2,Baking,u:home\n"
        "u:3,Gardening,u:home\nu:4,Chess,u:home|u:sea\n"
    )
    words = "{text-model} {test.jsonl} --precision 0.8 --vocabulary"
    found = numbers(call, f"{words} subjects.csv")["wanted"]["branches"]
    labels = [label for row in data.read_jsonl(files("test.jsonl")).labels for label in row]
    assert set(found) == {"Sea", "Home", "(not in the vocabulary)"}
    assert found["Sea"]["subjects"] == labels.count("Whaling") + labels.count("Chess")
    assert found["Home"]["set"]["precision"] >= 0.8
    table = call(f"thresholds {words} subjects.csv -q").out.split("macro")[1]
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["Home", "(not", "Sea"]
    Path("flat.tsv").write_text("urn:1\tWhaling\n")
    refused("broader", f"thresholds {words} flat.tsv")


def test_branches_of_a_vocabulary() -> None:
    names = {uri: {"": uri} for uri in "abcdefgh"}
    subjects = data.SubjectVocabulary(names, broader={"c": ["a"], "d": ["c"], "e": ["b", "d"], "f": ["g"], "g": ["f"]})
    assert branches(subjects) == {
        "a": ["a"], "b": ["b"], "c": ["a"], "d": ["a"], "e": ["a", "b"], "f": ["f"], "g": ["g"], "h": ["h"],
    }  # fmt: skip
    below_one = data.SubjectVocabulary(names, broader={"b": ["a"], "c": ["a"], "d": ["b"], "e": ["c"]})
    assert branches(below_one)["d"] == ["b"] and branches(below_one)["e"] == ["c"]


def test_bands_of_frequency() -> None:
    masks = by_frequency(np.array([0, 1, 2, 3, 9, 10, 99, 100, 10_000]))
    assert [int(mask.sum()) for mask in masks.values()] == [1, 2, 2, 2, 2]


def test_figures(call: Any) -> None:
    pytest.importorskip("matplotlib")
    call("thresholds {matrix-model} {test.xmc} -q --figure a.svg")
    assert "all suggestions right" in Path("a.svg").read_text("utf-8")
