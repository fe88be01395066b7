"""``--vocabulary`` names labels that are codes, and ``--label-texts`` of train and update finds labels without rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from kit.books import load_sample

import sylvan
from sylvan import Ensemble, NeighborRanker, TextModel, data

NAMES = {
    "Whaling": "Walfang", "Baking": "Backen", "Astronomy": "Himmelskunde", "Gardening": "Gartenbau",
    "Chess": "Brettspiel", "Türkçe": "Brettspiel",
}  # fmt: skip


@pytest.fixture
def subjects(tmp_path: Path) -> str:
    path = tmp_path / "subjects.csv"
    rows = "".join(f"{code},{code} in English,{name}\n" for code, name in NAMES.items())
    path.write_text(f"uri,label_en,label_de\n{rows}", "utf-8")
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_predict_writes_names_and_codes(kind: str, call: Any, files: Any, subjects: str, tmp_path: Path) -> None:
    path, language = Path(subjects), ("--language", "de")
    if kind == "tsv":
        path, language = tmp_path / "subjects.tsv", ()
        path.write_text("".join(f"{code}\t{name}\n" for code, name in NAMES.items()), "utf-8")
    elif kind == "jsonl":
        path, language = tmp_path / "subjects.jsonl", ()
        data.write_records(path, [{"label": code, "text": [name, "more"]} for code, name in NAMES.items()])
    words = ["predict", files.text_model, files("test.jsonl"), "-k", "2"]
    plain = [json.loads(line) for line in call(*words).out.splitlines()]
    named = [json.loads(line) for line in call(*words, "--vocabulary", str(path), *language).out.splitlines()]
    assert [row["uris"] for row in named] == [row["labels"] for row in plain]
    assert [row["labels"] for row in named] == [[NAMES[code] for code in row["labels"]] for row in plain]


@pytest.mark.parametrize("kind", ["text", "ensemble", "matrix"])
def test_explanations_read_names_in_titles_and_paths(
    kind: str, call: Any, files: Any, subjects: str, tmp_path: Path
) -> None:
    train = data.read_jsonl(files("train.jsonl"))
    folder, words = str(tmp_path / "m"), ["--text", "bread and flour"]
    model: Any = TextModel(model=sylvan.XRLinear(branching=2, max_leaf=2)).fit(train.texts, train.labels)
    if kind == "ensemble":
        model = Ensemble.of_fitted([model, TextModel().fit(train.texts, train.labels)])
    elif kind == "matrix":
        model, names = model.model, tmp_path / "names.txt"
        names.write_text("\n".join(sorted(NAMES)), "utf-8")
        data.save_npz(tmp_path / "X.npz", TextModel().fit(train.texts, train.labels).vectorizer.transform(train.texts))
        words = [str(tmp_path / "X.npz"), "--label-names", str(names)]
    model.save(folder)
    words += ["--vocabulary", subjects, "--language", "de"]
    outcome = call("explain", folder, *words, "--label", "Baking")
    assert outcome.code == 0 and outcome.out.startswith("Backen (Baking): "), outcome.err + outcome.out
    alone = {code for code, name in NAMES.items() if name != "Brettspiel"}  # two labels have that name
    assert not any(code in outcome.out.partition("\n")[2] for code in alone), outcome.out
    by_title = call("explain", folder, *words, "--label", "Backen", "--json", "-")
    (found,) = json.loads(by_title.out)
    assert (found["name"], found["code"]) == ("Backen", "Baking")
    titles = [step["title"] for path in found["trees"][0]["paths"] for step in path["steps"]]
    assert titles[-1] == "Backen" and any(name in titles[0] for name in NAMES.values())
    (found,) = json.loads(call("explain", folder, *words, "--label", "Chess", "--json", "-").out)
    assert (found["name"], found["code"]) == ("Brettspiel", "Chess")
    assert found["trees"][0]["paths"][0]["steps"][-1]["title"] == "Brettspiel (Chess)"
    best = json.loads(call("explain", folder, *words, "-k", "2", "--json", "-").out)
    assert len(best) == 2 and best[0]["code"] in NAMES


def test_examples_are_found_by_codes(call: Any, files: Any, subjects: str, tmp_path: Path) -> None:
    words = ["explain", files.text_model, "--text", "bread and flour", "--label", "Baking", "--json", "-"]
    plain = json.loads(call(*words, "--examples", files("train.jsonl")).out)[0]["examples"]
    train = data.read_jsonl(files("train.jsonl"))
    rows = TextModel(sylvan.load(files.text_model).vectorizer, NeighborRanker()).fit(train.texts, train.labels)
    rows.save(tmp_path / "rows")
    for examples in (files("train.jsonl"), str(tmp_path / "rows")):
        outcome = call(*words, "--examples", examples, "--vocabulary", subjects, "--language", "de")
        found = json.loads(outcome.out)[0]["examples"]
        assert [one["row"] for one in found] == [one["row"] for one in plain] and len(found) == 3, outcome.err


def test_cards_name_clusters_and_labels(call: Any, files: Any, subjects: str, tmp_path: Path) -> None:
    words = ("--vocabulary", subjects, "--language", "de", "--labels", "6", "--json", "-")
    found = json.loads(call("inspect", files.text_model, *words).out)
    assert {row["name"] for row in found["labels"]} == {f"{name} ({code})" for code, name in NAMES.items()}
    below = [child["title"] for child in found["trees"][0]["top"]["children"]]
    assert sorted(below) == sorted(NAMES.values())
    names = tmp_path / "names.txt"
    names.write_text("\n".join(sorted(NAMES)), "utf-8")
    again = json.loads(call("inspect", files.matrix_model, "--label-names", str(names), *words).out)
    assert again["labels"] == found["labels"]
    sylvan.load(files.text_model).vectorizer.save(tmp_path / "vectorizer")
    outcome = call("inspect", str(tmp_path / "vectorizer"), "--vocabulary", subjects)
    assert outcome.code == 2 and "names labels, of which there are none here" in outcome.err


def test_labels_that_are_numbers_are_named_by_them(call: Any, files: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "numbers.tsv", tmp_path / "top.csv"
    path.write_text("0\tzero\n3\tthree\n")
    words = ("--vocabulary", str(path), "-k", "6", "-o", str(out))
    assert call("predict", files.matrix_model, files("test.xmc"), *words).code == 0
    with open(out, newline="", encoding="utf-8") as stream:
        named = {(row["label"], row["name"]) for row in csv.DictReader(stream)}
    assert {("0", "zero"), ("3", "three"), ("1", "")} <= named


@pytest.mark.parametrize("verb", ["predict", "explain", "inspect"])
def test_what_cannot_be_named_is_said(verb: str, call: Any, files: Any, subjects: str, tmp_path: Path) -> None:
    inputs = {"predict": [files("test.jsonl")], "explain": ["--text", "bread"], "inspect": []}[verb]
    words = [verb, files.text_model, *inputs]
    other = tmp_path / "other.tsv"
    other.write_text("<u:1>\tsomething\n")
    for given, sentence in (
        (["--language", "en"], "--language is for the labels of a --vocabulary"),
        (["--vocabulary", str(other)], "names none of the model's labels: it has 'u:1', for instance, and the model"),
        (["--vocabulary", subjects, "--language", "fr"], "has no labels in the language 'fr': its languages are de"),
        (["--vocabulary", "missing.tsv"], "There is no file 'missing.tsv'."),
    ):
        outcome = call(*words, *given)
        assert outcome.code == 2 and sentence in outcome.err and outcome.out == "", outcome.err


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the sample without one heading, and texts of headings."""
    folder = tmp_path_factory.mktemp("files")
    train, _ = load_sample()
    rows = [(text, [name for name in labels if name != "Whaling"]) for text, labels in zip(*train[:2], strict=True)]
    rows = [row for row in rows if row[1]][:800]
    data.write_jsonl(folder / "train.jsonl", [text for text, _ in rows], [labels for _, labels in rows])
    (folder / "whaling.tsv").write_text("Whaling\twhale hunting\twhales and whalers\n")
    return folder


def found(folder: Path, name: str) -> bool:
    model = sylvan.load(str(folder))
    return name in model.rank(["The whales and the whalers of the north, a book of whale hunting"], k=5).names[0]


def test_labels_without_rows_come_by_train_and_update(call: Any, described: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    settings = ("--set", "keep_rows=true", "--set", "unlearned=answer", "-q")
    arguments = ("--model", str(folder), "--label-texts", "names", *settings)
    assert call("train", "xr-linear", str(described / "train.jsonl"), *arguments).code == 0
    assert not found(folder, "Whaling")
    planned = call("update", str(folder), "--label-texts", str(described / "whaling.tsv"), "--plan")
    assert planned.code == 0 and planned.out.startswith(f"Would update {folder}: 1 label described.")
    outcome = call("update", str(folder), "--label-texts", str(described / "whaling.tsv"))
    assert (outcome.code, outcome.err) == (0, f"Updated {folder}: 1 label added, 1 described.\n")
    assert found(folder, "Whaling")
    facts = json.loads(call("inspect", str(folder), "--json", "-").out)["facts"]
    assert facts["labels known by their texts alone"] == 1
    n_rows = len(data.read_jsonl(described / "train.jsonl").texts)
    n_texts = facts["further rows that are texts of labels"]
    assert facts["training rows"] == n_rows and n_rows + n_texts == len(sylvan.load(folder).model.row_ids_)
    counted = f"Keeps its {n_rows + n_texts:,} rows, those that are texts of labels among them, for updates"
    assert counted in call("inspect", str(folder)).out
    asked = ("--text", "A book of hunting", "--label", "Whaling", "--json", "-")
    (explained,) = json.loads(call("explain", str(folder), *asked).out)
    words = "No training row has this label yet: it is ranked by its own text, which shares 'hunting' with this one."
    assert explained["notes"] == [words] and explained["score"] == explained["probability"]
    assert call("train", "ensemble", str(described / "train.jsonl"), "--set", "member0__model=xr-linear", "--set",
                "member1__model=neighbors", *arguments[:4], "-q").code == 0  # fmt: skip
    facts = json.loads(call("inspect", str(folder), "--json", "-").out)["facts"]
    assert facts["training rows"] == n_rows and facts["further rows that are texts of labels"] > 700


def test_an_encoder_of_labels_goes_into_the_model(call: Any, described: Path, tmp_path: Path) -> None:
    neural = pytest.importorskip("sylvan.neural")
    neural.BagTextEncoder(dim=8, n_buckets=500).save_pretrained(tmp_path / "encoder")
    settings = ("--set", "unlearned=answer", "--quiet")
    arguments = ("--label-texts", "names", "--label-encoder", str(tmp_path / "encoder"), *settings)
    outcome = call("train", "xr-linear", str(described / "train.jsonl"), "--model", str(tmp_path / "m"), *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    known = sylvan.load(str(tmp_path / "m")).label_texts_
    assert known.label_vectors.shape[1] == 8 and known.curve.shape == (6,)
    (tmp_path / "encoder" / "config.json").unlink()
    assert call("update", str(tmp_path / "m"), "--label-texts", str(described / "whaling.tsv")).code == 0
    asked = ("--text", "A book of hunting", "--label", "Whaling", "--json", "-")
    (explained,) = json.loads(call("explain", str(tmp_path / "m"), *asked).out)
    assert "The cosine of their vectors is" in explained["notes"][0]


def test_a_model_over_matrices_takes_no_texts(call: Any, described: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    sylvan.XRLinear().fit([[1.0, 0], [0, 1]], [0, 1]).save(str(folder))
    outcome = call("update", str(folder), "--label-texts", str(described / "whaling.tsv"))
    assert outcome.code != 0 and "is for a TextModel or a LexicalMatcher. Got a XRLinear instead." in outcome.err


def test_a_vocabulary_says_what_codes_are_called(call: Any, described: Path, tmp_path: Path) -> None:
    rows = data.read_jsonl(described / "train.jsonl")
    code = {name: f"http://example.org/{n}" for n, name in enumerate(sorted({it for row in rows.labels for it in row}))}
    data.write_jsonl(tmp_path / "codes.jsonl", rows.texts, [[code[name] for name in row] for row in rows.labels])
    lines = [f"<{uri}>\t{name}\n" for name, uri in code.items()] + ["<http://example.org/none>\tno row has it\n"]
    (tmp_path / "names.tsv").write_text("".join(lines))
    cases = {
        "named": (), "plain": ("--label-texts", "none"), "limited": ("--memory-limit", "4GB"),
        "kept": ("--set", "keep_rows=true"),
    }  # fmt: skip
    for folder, more in cases.items():
        arguments = ("--model", str(tmp_path / folder), "--vocabulary", str(tmp_path / "names.tsv"), *more)
        outcome = call("train", "xr-linear", str(tmp_path / "codes.jsonl"), *arguments)
        assert outcome.code == 0 and "Warning" not in outcome.err
        assert ("The texts of labels are used as training rows" in outcome.err + outcome.out) == (folder == "named")
        model = sylvan.load(str(tmp_path / folder))
        assert (model.label_texts_ is not None) == (folder == "named") and model.n_labels_ == len(code)
        is_said = "Names of the vocabulary are no training rows" in outcome.out + outcome.err
        assert is_said == (folder in ("limited", "kept"))
