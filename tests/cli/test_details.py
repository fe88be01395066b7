"""``sylvan evaluate`` for each label, row and group, of files of answers, and two models side by side."""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import data

K = 2


@pytest.fixture(scope="module")
def records(files: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The test rows with fields, one of them without a label."""
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    test = data.read_jsonl(files("test.jsonl"))
    rows = [
        {"id": f"r{n}", "text": text, "labels": labels if n != 3 else [], "language": ["de", "en"][n % 2], "shelf":
         [None, "a", ["a", "b"]][n % 3]} for n, (text, labels) in enumerate(zip(test.texts, test.labels, strict=True))
    ]  # fmt: skip
    data.write_records(path, rows)
    return str(path)


@pytest.fixture
def answered(files: Any, records: str) -> list[tuple[int, list[str], list[str]]]:
    """Number, labels and first answers of each row with labels."""
    rows, model = list(data.read_records(records)), sylvan.load(files.text_model)
    names = model.rank([row["text"] for row in rows], k=K).names
    return [(n, row["labels"], names[n]) for n, row in enumerate(rows) if row["labels"]]


@pytest.fixture
def place(files: Any, records: str) -> Callable[[str], str]:
    return lambda name: records if name == "records" else files(name)


def evaluated(call: Any, words: str) -> dict[str, Any]:
    result: dict[str, Any] = call(f"evaluate {words} --json - -q").json
    return result


def test_each_label(call: Any, files: Any, answered: Any) -> None:
    evaluated(call, f"{{text-model}} {{records}} -k 1,{K} --per-label labels.csv")
    table = Path("labels.csv")
    found = {row["label"]: row for row in csv.DictReader(table.open(encoding="utf-8"))}
    true, named = (Counter(label for each in answered for label in each[part]) for part in (1, 2))
    right = Counter(label for _, labels, names in answered for label in names if label in labels)
    train = Counter(label for row in data.read_jsonl(files("train.jsonl")).labels for label in row)
    assert set(found) == set(true) | set(named)
    for label, row in found.items():
        counts = [int(row[name]) for name in ("rows", "suggested", "right", "training_rows")]
        assert counts == [true[label], named[label], right[label], train[label]]
        assert float(row["precision"]) == pytest.approx(right[label] / named[label])
        f1 = 2 * right[label] / (true[label] + named[label])
        assert float(row["F1"]) == pytest.approx(f1)
        rows = np.array([[2 * (label in labels and label in names), (label in labels) + (label in names)]
                         for _, labels, names in answered])  # fmt: skip
        draws = np.random.default_rng(0).integers(0, len(rows), (4000, len(rows)))
        sums = rows[draws].sum(axis=1)
        low, high = np.quantile(sums[:, 0] / np.maximum(sums[:, 1], 1), [0.025, 0.975])
        assert float(row["F1_high"]) == pytest.approx(high, abs=0.03)
        assert f1 == 1 or float(row["F1_low"]) == pytest.approx(low, abs=0.03)


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_each_row(ending: str, call: Any, answered: Any) -> None:
    path = Path(f"rows.{ending}")
    result = evaluated(call, f"{{text-model}} {{records}} -k {K} --per-row {path}")
    if ending == "jsonl":
        found = list(data.read_records(path))
    else:
        found = list(csv.DictReader(path.open(encoding="utf-8"), delimiter="\t"))
        for row in found:
            row.update({name: list(filter(None, row[name].split("; "))) for name in ("found", "wrong", "missed")})
    assert [int(row["row"]) for row in found] == [n for n, _, _ in answered] and 3 not in [n for n, _, _ in answered]
    for row, (n, labels, names) in zip(found, answered, strict=True):
        assert row["id"] == f"r{n}" and int(row["labels"]) == len(labels)
        assert row["found"] == [name for name in names if name in labels]
        assert row["wrong"] == [name for name in names if name not in labels]
        assert sorted(row["missed"]) == sorted(set(labels) - set(names))
    for name in ("P", "R", "nDCG", "F1"):
        assert np.mean([float(row[name]) for row in found]) == pytest.approx(result["measures"][name][str(K)])


def test_rows_with_other_fields_each_keep_their_columns(call: Any) -> None:
    rows = [{"text": "whales at sea", "labels": ["Whaling"], "shelf": "a"}, {"text": "bread", "labels": ["Baking"]},
            {"text": "a cake", "labels": ["Baking"], "years": [1999, 2001]}]  # fmt: skip
    data.write_records("rows.jsonl", rows)
    call("evaluate {text-model} rows.jsonl --per-row rows.csv -q")
    found = list(csv.DictReader(Path("rows.csv").read_text("utf-8").splitlines()))
    assert [row["shelf"] for row in found] == ["a", "", ""] and [row["labels"] for row in found] == ["1"] * 3
    assert [row["years"] for row in found] == ["", "", "1999; 2001"]


def test_a_row_is_once_in_a_group_and_never_in_none(call: Any) -> None:
    values = [["a", "a"], ["a", "b"], [], None, "b"]
    rows = [{"text": "whales", "labels": ["Whaling"], "shelf": value} for value in values]
    data.write_records("rows.jsonl", rows)
    found = evaluated(call, "{text-model} rows.jsonl --groups shelf")["groups"]["shelf"]
    assert {name: each["size"] for name, each in found.items()} == {"a": 2, "b": 2, "(none)": 2}


def test_models_that_know_other_labels_share_no_row(call: Any, refused: Any) -> None:
    for name in ("Ash", "Elm"):
        sylvan.TextModel().fit(["a tree", "a leaf"], [[name], [name]]).save(name)
    data.write_jsonl("trees.jsonl", ["a tree", "a leaf"], [["Ash"], ["Elm"]])
    refused("other labels each", "evaluate Ash trees.jsonl --known-labels --compare Elm")
    sylvan.TextModel().fit(["a tree", "a leaf"], [["Ash", "Elm"], ["Elm"]]).save("both")
    data.write_jsonl("trees.jsonl", ["a tree", "a leaf"], [["Ash"], ["Elm", "Ash"]])
    refused("other labels each", "evaluate both trees.jsonl --known-labels --compare Ash")
    call("evaluate both trees.jsonl --compare Ash -q")


def test_groups_of_rows(call: Any, answered: Any) -> None:
    result = evaluated(call, f"{{text-model}} {{records}} -k {K} --groups language --groups shelf")
    assert {name: each["size"] for name, each in result["groups"]["language"].items()} == {"de": 30, "en": 29}
    assert {name: each["size"] for name, each in result["groups"]["shelf"].items()} == {"(none)": 19, "a": 40, "b": 20}
    right = [len(set(names) & set(labels)) / K for n, labels, names in answered if n % 2 == 0]
    value, low, high = result["groups"]["language"]["de"]["P"]
    assert value == pytest.approx(np.mean(right))
    draws = np.random.default_rng(0).integers(0, len(right), (4000, len(right)))
    assert (low, high) == pytest.approx(np.quantile(np.array(right)[draws].mean(axis=1), [0.025, 0.975]), abs=0.02)


def test_groups_of_labels(call: Any, answered: Any) -> None:
    Path("subjects.csv").write_text(
        "uri,label,broader\nu:sea,Sea,\nu:home,Home,\nu:1,Whaling,u:sea\nu:2,Baking,u:home\nu:3,Chess,u:home\n"
    )
    words = f"-k {K} --groups branch --groups frequency --vocabulary subjects.csv"
    result = evaluated(call, f"{{text-model}} {{records}} {words}")["groups"]
    assert set(result["branch"]) == {"Sea", "Home", "(not in the vocabulary)"}
    members = {"Baking", "Chess"}
    true, named = (sum(label in members for each in answered for label in each[part]) for part in (1, 2))
    right = sum(label in members & set(labels) for _, labels, names in answered for label in names)
    home = result["branch"]["Home"]
    assert (home["size"], home["P"][0], home["R"][0]) == pytest.approx((true, right / named, right / true))
    assert home["F1"][1] < home["F1"][0] < home["F1"][2]
    assert sum(each["size"] for each in result["frequency"].values()) == sum(len(labels) for _, labels, _ in answered)
    assert result["frequency"]["none"]["P"][0] is None  # no label without training rows is ever suggested


def test_a_file_of_answers_has_its_models_figures(call: Any) -> None:
    call("predict {text-model} {records} -k 3 -o answers.jsonl -q")
    of_model, of_file = (
        evaluated(call, f"{each} {{records}} -k 1,3 --groups language") for each in ("{text-model}", "answers.jsonl")
    )
    assert of_file["groups"] == of_model["groups"]
    for name in ("P", "R", "nDCG", "F1"):
        assert of_file["measures"][name] == pytest.approx(of_model["measures"][name])
    assert (of_file["rows"], of_file["rows_measured"]) == (60, 59)
    deeper = call("evaluate answers.jsonl {records} -k 1,5").err
    assert "answers.jsonl has at most 3 answers to a record: figures at 5 can't be compared" in deeper


def test_two_models_side_by_side(call: Any, files: Any) -> None:
    """The differences are those of the two evaluations; a model beside itself has none."""
    rows = data.read_jsonl(files("train.jsonl"))
    texts, labels = rows.texts[:130], rows.labels[50:180]  # of other rows
    sylvan.TextModel(model=sylvan.XRLinear()).fit(texts, labels).save("worse")
    result = evaluated(call, "{text-model} {records} -k 1,2 --compare worse")
    second = evaluated(call, "worse {records} -k 1,2")
    for name, each in result["comparison"].items():
        measure, k = name.split("@")
        assert each["first"] == pytest.approx(result["measures"][measure][k])
        assert each["second"] == pytest.approx(second["measures"][measure][k])
        assert each["difference"] == pytest.approx(each["second"] - each["first"])
        assert each["interval"][0] <= each["difference"] <= each["interval"][1] and each["rows"] == 59
    assert result["comparison"]["P@1"]["p"] < 0.01
    data.write_jsonl("learned.jsonl", texts, labels)
    call("train learned.jsonl --model knows -q")
    said = call("evaluate {text-model} learned.jsonl --compare knows").out
    assert "knows (second) has learned from these rows (learned.jsonl)" in said
    assert "The model has learned" not in said
    same = evaluated(call, "{text-model} {records} --compare {text-model}")["comparison"]
    assert {(each["difference"], each["p"]) for each in same.values()} == {(0.0, 1.0)}
    printed = call("evaluate {text-model} {records} -q --compare worse --groups language").out
    assert "by language" in printed and "over the same 59 rows" in printed and "<0.001" in printed


def test_matrices(call: Any) -> None:
    found = evaluated(call, "{matrix-model} {test.xmc} --groups frequency --per-row rows.jsonl")
    assert found["groups"]["frequency"]["none"]["size"] == 0 and len(list(data.read_records("rows.jsonl"))) == 60


WRONG = [
    ("{text-model} {records} --groups colour", "language"),
    ("{matrix-model} {test.xmc} --groups language", "fields"),
    ("{text-model} {records} --groups branch", "--vocabulary"),
    ("few.jsonl {records}", "1 records"),
    ("many.jsonl {records}", "more than 60"),
    ("{records} {records} --groups frequency", "--groups frequency"),
    ("other.jsonl {records}", "A model is a folder"),
    ("{records} {records} --figure a.png", "--figure"),
    ("{records} {records} --known-labels", "--known-labels is for models"),
    ("{records} {records} --filter-labels few.jsonl", "--filter-labels is for models"),
    ("{text-model} none.jsonl --per-label a.xlsx", ".csv"),  # before anything is read
    ("{text-model} - --compare {text-model}", "stdin"),
    ("{text-model} - --groups language", "stdin"),
    ("{text-model} {records} --compare none", "none"),
]


def test_wrong_input_is_refused(refused: Any, records: str) -> None:
    for name, rows in (("few", [{"labels": []}]), ("many", [{"labels": []}] * 61), ("other", [{"name": "a"}] * 60)):
        data.write_records(f"{name}.jsonl", rows)
    for words, said in WRONG:
        refused(said, f"evaluate {words}", stdin=Path(records).read_bytes())
