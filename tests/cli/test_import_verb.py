"""``sylvan import``: folders of other libraries become models that predict and evaluate take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import data, importers
from sylvan.cli.import_model import _LIBRARIES
from sylvan.errors import ModelError, ParameterError
from sylvan.importers import LIBRARIES

FIXTURES = Path(__file__).parents[1] / "importers" / "fixtures"


def test_the_verb_knows_every_importer() -> None:
    assert tuple(_LIBRARIES) == LIBRARIES


@pytest.mark.parametrize("name", LIBRARIES)
def test_import_and_predict(name: str, call: Any, tmp_path: Path) -> None:
    folder, rows = str(tmp_path / "m"), str(FIXTURES / "rows.npz")
    outcome = call("import", str(FIXTURES / name), "--model", folder)
    assert outcome.code == 0 and outcome.err == "", outcome.err
    title = {"napkinxc": "napkinXC"}.get(name, name)
    assert f"a model of {title}: 40 features" in outcome.out and f"Saved it in {folder}" in outcome.out
    assert "LabelTree(24 labels" in outcome.out
    assert ("rows scaled to unit length" in outcome.out) == (name != "libpecos")
    found = [json.loads(line)["labels"] for line in call("predict", folder, rows, "-k", "3").out.splitlines()]
    assert found == importers.import_model(FIXTURES / name).rank(data.load_npz(rows), 3).labels.tolist()


def test_evaluate_has_no_propensities(call: Any, tmp_path: Path) -> None:
    folder, truth = str(tmp_path / "m"), tmp_path / "Y.npz"
    importers.from_omikuji(FIXTURES / "omikuji").save(folder)
    data.save_npz(truth, np.eye(24, dtype=np.float32)[:20])
    outcome = call("evaluate", folder, str(FIXTURES / "rows.npz"), "--labels", str(truth), "-k", "1,3")
    assert outcome.code == 0, outcome.err
    assert "PSP and slices are missing: the model does not hold how often" in outcome.out + outcome.err


def test_constraints_and_explanations() -> None:
    model, X = importers.from_napkinxc(FIXTURES / "napkinxc-huffman"), data.load_npz(FIXTURES / "rows.npz")
    everything = model.rank(X, 24, beam=100)
    for row, allowed in enumerate(model.rank(X, 5, allowed=[3, 5, 7], beam=100).labels.tolist()):
        assert allowed == [label for label in everything.labels[row].tolist() if label in (3, 5, 7)] + [-1, -1]
    best = int(everything.labels[0, 0])
    path = model.explain(X[:1], best).trees[0].paths[0]
    assert len(path.steps) == model.tree_.depth
    assert path.steps[-1].so_far == pytest.approx(float(everything.scores[0, 0]))


def test_options(call: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    words = ("--from", "napkinxc", "--weight-dtype", "uint8", "--beam", "7", "--quiet")
    outcome = call("import", str(FIXTURES / "napkinxc"), "--model", folder, *words)
    assert outcome.code == 0 and outcome.out == ""
    model = sylvan.load(folder)
    assert model.beam == 7 and model.weight_dtype == "uint8" and model.layers_[0].values.dtype == np.uint8


def test_a_model_over_text(call: Any, tmp_path: Path) -> None:
    words = [f"word{number:02}" for number in range(40)]
    sylvan.TfidfVectorizer().fit(words).save(tmp_path / "v")
    names = [f"name {label}" for label in range(24)]
    (tmp_path / "names.txt").write_text("\r\n".join(names))
    given = ("--labels", str(tmp_path / "names.txt"), "--vectorizer", str(tmp_path / "v"))
    outcome = call("import", str(FIXTURES / "omikuji"), "--model", str(tmp_path / "m"), *given)
    assert outcome.code == 0, outcome.err
    tagger, model = sylvan.load(tmp_path / "m"), importers.from_omikuji(FIXTURES / "omikuji")
    best = model.rank(np.eye(40)[[5]], 2).labels[0].tolist()
    assert tagger.rank(["Word05"], 2).names == [[names[label] for label in best]]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((str(FIXTURES / "libpecos"), "--model", "m", "--labels", "x"), 2, "--labels and --vectorizer go together"),
        ((str(FIXTURES / "none"), "--model", "m"), 2, "none' is missing."),
        ((str(FIXTURES / "rows.npz"), "--model", "m"), 2, "is a file; the models of libpecos, omikuji and napkinXC"),
        ((str(FIXTURES), "--model", "m"), 2, "holds no model of libpecos, omikuji or napkinXC."),
        ((str(FIXTURES / "libpecos"), "--model", "m", "--from", "omikuji"), 2, "settings.json' is missing."),
        ((str(FIXTURES / "libpecos"),), 2, "Missing option '--model'"),
        ((str(FIXTURES / "libpecos"), "--model", "m", "--labels", "x", "--vectorizer", "y"), 2, "no file 'x'."),
    ],
)
def test_errors(words: tuple[str, ...], code: int, sentence: str, call: Any, tmp_path: Path,
                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    outcome = call("import", *words)
    assert outcome.code == code and sentence in outcome.err, outcome.err
    assert not (tmp_path / "m").exists()


def test_files_of_names(call: Any, tmp_path: Path) -> None:
    importers.from_libpecos(FIXTURES / "libpecos").save(tmp_path / "v")
    (tmp_path / "names.txt").write_bytes(b"a\n\xff\n")
    words = ("import", str(FIXTURES / "libpecos"), "--model", str(tmp_path / "m"), "--labels",
             str(tmp_path / "names.txt"), "--vectorizer")  # fmt: skip
    assert "names.txt' is not UTF-8 text" in call(*words, str(tmp_path / "v")).err
    (tmp_path / "names.txt").write_text("a\nb\n")
    assert "must hold TfidfVectorizer. Got XRLinear instead" in call(*words, str(tmp_path / "v")).err
    sylvan.TfidfVectorizer().fit(["one two three"]).save(tmp_path / "w")
    assert "The vectorizer gives 3 features, but the model has 40" in call(*words, str(tmp_path / "w")).err


def test_detect(tmp_path: Path) -> None:
    for path in sorted(FIXTURES.iterdir()):
        if path.is_dir():
            assert importers.detect(path) == path.name.partition("-")[0]
    for name, sentence in (("m.bin", ("fastText", "imported")), ("m.pkl", "models")):
        (tmp_path / name).touch()
        with raises(ModelError, sentence):
            importers.detect(tmp_path / name)
    importers.from_libpecos(FIXTURES / "libpecos").save(tmp_path / "m")
    with raises(ModelError, "already"):
        importers.detect(tmp_path / "m")
    (tmp_path / "x" / "text_encoder").mkdir(parents=True)
    with raises(ModelError, "transformer"):
        importers.detect(tmp_path / "x")
    with raises(ParameterError, "library", "libpecos", "omikuji", "napkinxc"):
        importers.import_model(FIXTURES / "libpecos", "fasttext")
