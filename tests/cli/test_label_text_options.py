"""``--label-texts`` of ``train`` and ``update``: labels without rows are found; wrong uses are sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the sample without one heading, and texts of headings."""
    folder = tmp_path_factory.mktemp("files")
    train, _ = data.load_sample()
    rows = [(text, [name for name in labels if name != "Whaling"]) for text, labels in zip(*train[:2], strict=True)]
    rows = [row for row in rows if row[1]][:800]
    data.write_jsonl(folder / "train.jsonl", [text for text, _ in rows], [labels for _, labels in rows])
    (folder / "whaling.tsv").write_text("Whaling\twhale hunting\twhales and whalers\n")
    return folder


def found(folder: Path, name: str) -> bool:
    model = sylvan.load(str(folder))
    return name in model.rank(["The whales and the whalers of the north, a book of whale hunting"], k=5).names[0]


def test_labels_without_rows_come_by_train_and_update(call: Any, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    settings = ("--set", "keep_rows=true", "--set", "unlearned=answer", "-q")
    arguments = ("--model", str(folder), "--label-texts", "names", *settings)
    assert call("train", "xr-linear", str(files / "train.jsonl"), *arguments).code == 0
    assert not found(folder, "Whaling")
    planned = call("update", str(folder), "--label-texts", str(files / "whaling.tsv"), "--plan")
    assert planned.code == 0 and planned.out.startswith(f"Would update {folder}: 1 label described.")
    outcome = call("update", str(folder), "--label-texts", str(files / "whaling.tsv"))
    assert (outcome.code, outcome.err) == (0, f"Updated {folder}: 1 label added, 1 described.\n")
    assert found(folder, "Whaling")
    facts = json.loads(call("inspect", str(folder), "--json", "-").out)["facts"]
    assert facts["labels known by their texts alone"] == 1
    asked = ("--text", "A book of hunting", "--label", "Whaling", "--json", "-")
    (explained,) = json.loads(call("explain", str(folder), *asked).out)
    words = "No training row has this label yet: it is ranked by its own text, which shares 'hunting' with this one."
    assert explained["notes"] == [words] and explained["score"] == explained["probability"]


def test_an_encoder_of_labels_goes_into_the_model(call: Any, files: Path, tmp_path: Path) -> None:
    neural = pytest.importorskip("sylvan.neural")
    neural.BagTextEncoder(dim=8, n_buckets=500).save_pretrained(tmp_path / "encoder")
    settings = ("--set", "unlearned=answer", "--quiet")
    arguments = ("--label-texts", "names", "--label-encoder", str(tmp_path / "encoder"), *settings)
    outcome = call("train", "xr-linear", str(files / "train.jsonl"), "--model", str(tmp_path / "m"), *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    known = sylvan.load(str(tmp_path / "m")).label_texts_
    assert known.label_vectors.shape[1] == 8 and known.curve.shape == (6,)
    (tmp_path / "encoder" / "config.json").unlink()
    assert call("update", str(tmp_path / "m"), "--label-texts", str(files / "whaling.tsv")).code == 0
    asked = ("--text", "A book of hunting", "--label", "Whaling", "--json", "-")
    (explained,) = json.loads(call("explain", str(tmp_path / "m"), *asked).out)
    assert "The cosine of their vectors is" in explained["notes"][0]


def test_a_model_over_matrices_takes_no_texts(call: Any, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    sylvan.XRLinear().fit([[1.0, 0], [0, 1]], [0, 1]).save(str(folder))
    outcome = call("update", str(folder), "--label-texts", str(files / "whaling.tsv"))
    assert outcome.code != 0 and "is for a TextModel or a LexicalMatcher. Got a XRLinear instead." in outcome.err


def test_a_vocabulary_says_what_codes_are_called(call: Any, files: Path, tmp_path: Path) -> None:
    rows = data.read_jsonl(files / "train.jsonl")
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
