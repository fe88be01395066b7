"""``sylvan import``: folders of other libraries become models that predict and evaluate take."""

from collections.abc import Callable
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


@pytest.fixture
def place() -> Callable[[str], str]:
    return lambda name: str(FIXTURES / name)


@pytest.mark.parametrize("name", LIBRARIES)
def test_import_and_predict(name: str, call: Any) -> None:
    outcome = call(f"import {{{name}}} --model m")
    title = {"napkinxc": "napkinXC"}.get(name, name)
    assert f"a model of {title}: 40 features" in outcome.out and "Saved it in m" in outcome.out
    assert outcome.err == "" and "LabelTree(24 labels" in outcome.out
    assert ("rows scaled to unit length" in outcome.out) == (name != "libpecos")
    assert ("beyond the first 100 of a tree" in outcome.out) == (name == "omikuji"), "the fixture of several trees"
    top = importers.import_model(FIXTURES / name).rank(data.load_npz(FIXTURES / "rows.npz"), 3)
    assert call("predict m {rows.npz} -k 3").labels == top.labels.tolist()


def test_evaluate_has_no_propensities(call: Any) -> None:
    importers.from_omikuji(FIXTURES / "omikuji").save("m")
    data.save_npz("Y.npz", np.eye(24, dtype=np.float32)[:20])
    outcome = call("evaluate m {rows.npz} --labels Y.npz -k 1,3")
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


def test_options(call: Any) -> None:
    assert call("import {napkinxc} --model m --from napkinxc --weight-dtype uint8 --beam 7 --quiet").out == ""
    model = sylvan.load("m")
    assert model.beam == 7 and model.weight_dtype == "uint8" and model.layers_[0].values.dtype == np.uint8


def test_a_model_over_text(call: Any) -> None:
    sylvan.TfidfVectorizer().fit([f"word{number:02}" for number in range(40)]).save("v")
    names = [f"name {label}" for label in range(24)]
    Path("names.txt").write_text("\r\n".join(names))
    call("import {omikuji} --model m --labels names.txt --vectorizer v")
    best = importers.from_omikuji(FIXTURES / "omikuji").rank(np.eye(40)[[5]], 2).labels[0].tolist()
    assert sylvan.load("m").rank(["Word05"], 2).names == [[names[label] for label in best]]


def test_errors(refused: Any) -> None:
    importers.from_libpecos(FIXTURES / "libpecos").save("v")
    sylvan.TfidfVectorizer().fit(["one two three"]).save("w")
    Path("latin.txt").write_bytes(b"a\n\xff\n")
    Path("names.txt").write_text("a\nb\n")
    for words, said in (
        ("{libpecos} --model m --labels x", "--labels and --vectorizer go together"),
        ("{none} --model m", "none' is missing."),
        ("{rows.npz} --model m", "is a file; the models of libpecos, omikuji and napkinXC"),
        ("{.} --model m", "holds no model of libpecos, omikuji or napkinXC."),
        ("{libpecos} --model m --from omikuji", "settings.json' is missing."),
        ("{libpecos}", "Missing option '--model'"),
        ("{libpecos} --model m --labels x --vectorizer y", "no file 'x'."),
        ("{libpecos} --model m --labels latin.txt --vectorizer v", "latin.txt' is not UTF-8 text"),
        ("{libpecos} --model m --labels names.txt --vectorizer v", "must hold TfidfVectorizer. Got XRLinear instead"),
        ("{libpecos} --model m --labels names.txt --vectorizer w",
         "The vectorizer gives 3 features, but the model has 40"),
    ):  # fmt: skip
        refused(said, f"import {words}")
        assert not Path("m").exists(), words


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
