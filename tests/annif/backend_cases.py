"""The cases of Annif's tests of its own omikuji backend, for Sylvan's; run by the Python that has Annif.

``python backend_cases.py FOLDER`` writes a line of JSON: each case and what went wrong in it, or null.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import annif.analyzer
import annif.backend
import numpy as np

SUBJECTS = {"whaling": "http://example.org/1", "baking": "http://example.org/2", "railways": "http://example.org/3"}
TEXTS = {
    "whaling": ["The white whale sank the ship", "whalers and their harpoons", "A whale's oil lights the lamps"],
    "baking": ["bread rises in the oven", "cakes of flour and butter", "the baker's oven-fresh bread"],
    "railways": ["the engine pulls the train", "rails of iron for steam trains", "a station for every train"],
}


class World:
    """A vocabulary, a corpus, and backends in folders of their own."""

    def __init__(self, folder: Path) -> None:
        from annif.corpus import Document, DocumentList
        from annif.vocab.subject_index import SubjectIndexFile
        from annif.vocab.types import Subject

        import sylvan.annif  # registers

        assert sylvan.annif.Config.DATADIR
        self.folder = folder
        self.index = SubjectIndexFile()
        for name, uri in SUBJECTS.items():
            self.index.append(Subject(uri=uri, labels={"en": name}, notation=None))
        self.index.append(Subject(uri="http://example.org/4", labels={"en": "never used"}, notation=None))
        self.analyzer = annif.analyzer.get_analyzer("snowball(english)")
        self.document, self.corpus_of = Document, DocumentList

    def subject_set(self, *names: str) -> Any:
        from annif.corpus import SubjectSet

        return SubjectSet([self.index.by_uri(SUBJECTS[name]) for name in names])

    def corpus(self, *names: str) -> Any:
        """The documents of these subjects, or of the first two."""
        return self.corpus_of(
            [
                self.document(text=text, subject_set=self.subject_set(name))
                for name in names or ("whaling", "baking") for text in TEXTS[name]
            ]
        )  # fmt: skip

    def backend(self, place: str, name: str = "sylvan", **params: Any) -> Any:
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        project = SimpleNamespace(datadir=str(folder), subjects=self.index, analyzer=self.analyzer, vocab_lang="en")
        return annif.backend.get_backend(name)(backend_id=name, config_params=params, project=project)

    def answers(self, backend: Any, *texts: str, **params: Any) -> list[list[tuple[str, float]]]:
        batch = backend.suggest([self.document(text=text) for text in texts], params)
        return [[(self.index[one.subject_id].labels["en"], one.score) for one in found] for found in batch]


def raised(kind: str, act: Any) -> str:
    """The sentence of Annif's exception of this kind that the action raises."""
    import annif.exception

    try:
        act()
    except getattr(annif.exception, kind) as error:
        return str(error.format_message())
    raise AssertionError(f"{kind} was not raised")


def default_params(world: World) -> None:
    params = world.backend("default").params
    assert params["limit"] == 100 and params["min_df"] == 1 and params["model"] == "linear"


def params_of_the_project_go_first(world: World) -> None:
    assert world.backend("default", limit="8", n_trees="3").params["n_trees"] == "3"


def suggest_untrained(world: World) -> None:
    backend = world.backend("untrained")
    assert not backend.is_trained and backend.modification_time is None
    assert "not found" in raised("NotInitializedException", lambda: world.answers(backend, "example text"))


def train_and_suggest(world: World) -> None:
    backend = world.backend("trained", limit=2)
    (world.folder / "trained" / "sylvan-model").mkdir()  # empty, as another training may have left it
    assert not backend.is_trained
    backend.train(world.corpus())
    assert backend.is_trained and backend.modification_time is not None
    for model in (backend, world.backend("trained", limit="2")):  # the same one, and one that opens the folder
        [found] = world.answers(model, "Whales and whalers")
        assert found[0][0] == "whaling" and len(found) <= 2
        assert all(0 < score <= 1 for _, score in found)
    [one] = world.answers(backend, "Whales and whalers", limit=1)
    assert len(one) == 1
    batch = backend.suggest([world.document(text="bread")] * 3)
    assert type(batch.array).__name__ == "csr_array" and batch.array.shape == (3, 4)
    assert batch.array.dtype == np.float32 and batch.array.has_sorted_indices
    assert len(backend.suggest([])) == 0


def nothing_is_pickled(world: World) -> None:
    names = {path.suffix for path in (world.folder / "trained").rglob("*") if path.is_file()}
    assert names <= {".npy", ".json", ".tsv"}, names


def suggest_no_input(world: World) -> None:
    backend = world.backend("trained")
    assert world.answers(backend, "", "j", "zyzzyva") == [[], [], []]


def train_on_nothing(world: World) -> None:
    backend = world.backend("nothing")
    assert "no documents" in raised("NotSupportedException", lambda: backend.train(world.corpus_of([])))
    wordless = world.corpus_of([
        world.document(text="a 1 ?", subject_set=world.subject_set("baking")), world.document(text="bread rises"),
    ])  # fmt: skip
    assert "no document has both" in raised("NotSupportedException", lambda: backend.train(wordless))
    assert not backend.is_trained and not list((world.folder / "nothing").iterdir())


def train_cached(world: World) -> None:
    backend = world.backend("cached")
    assert "no cached" in raised("NotSupportedException", lambda: backend.train("cached"))
    backend.train(world.corpus())
    first = world.answers(backend, "Whales and whalers", "fresh bread")
    backend.train("cached")
    assert world.answers(backend, "Whales and whalers", "fresh bread") == first
    backend.train("cached", {"ngram": 2})
    assert backend._opened[0].vectorizer.ngrams_ == (1, 2)


def the_analyzer_gives_the_words(world: World) -> None:
    backend = world.backend("words", ngram=1)
    backend.train(world.corpus())
    terms = backend._opened[0].vectorizer.get_feature_names_out().tolist()
    wanted = {word.replace("'", "_").replace("-", "_") for name in ("whaling", "baking") for text in TEXTS[name]
              for word in world.analyzer.tokenize_words(text)}  # fmt: skip
    assert set(terms) == wanted and "oven_fresh" in terms, terms


def processes_change_nothing(world: World) -> None:
    """The documents stay in order, whoever analyses them; a corpus that fails leaves no file."""
    many = world.corpus(*["railways", "whaling", "baking"] * 30)  # 270 documents: several parts
    found = []
    for jobs in (1, 3):
        backend = world.backend(f"jobs-{jobs}")
        backend.train(many, jobs=jobs)
        lines = (world.folder / f"jobs-{jobs}" / backend.TRAIN_FILE).read_text("utf-8")
        found.append((lines, world.answers(backend, "whales and trains")))
    assert found[0] == found[1] and found[0][0].count("\n") == 270

    def broken() -> Any:
        yield from many.documents
        raise OSError("the disk is gone")

    corpus = SimpleNamespace(is_empty=lambda: False, documents=broken())
    for jobs in (1, 3):
        backend = world.backend(f"broken-{jobs}")
        try:
            backend.train(corpus, jobs=jobs)
        except OSError as error:
            assert str(error) == "the disk is gone"
        else:
            raise AssertionError("the corpus fails")
        assert not (world.folder / f"broken-{jobs}" / backend.TRAIN_FILE).exists()
        corpus.documents = broken()


def train_with_params(world: World) -> None:
    backend = world.backend("params")
    given = {"model": "linear+neighbors", "n_trees": "2", "weights": "2,1", "n_neighbors": "4", "keep_rows": "yes"}
    backend.train(world.corpus(), given)
    trees, neighbors = backend._opened[0].model.members
    assert (trees.n_trees, trees.keep_rows, neighbors.n_neighbors) == (2, True, 4)
    assert np.allclose(backend._opened[0].model.weights_, [2 / 3, 1 / 3])
    assert world.answers(backend, "Whales and whalers")[0][0][0] == "whaling"
    alone = world.backend("alone", model="neighbors")
    alone.train(world.corpus())
    assert world.answers(alone, "Whales and whalers")[0][0][0] == "whaling"


def presets(world: World) -> None:
    many = world.corpus(*["railways", "whaling", "baking"] * 40)
    kinds = {"fast": "TextModel", "balanced": "TextModel", "accurate": "Ensemble", "best": "Reranker"}
    for name, kind in kinds.items():
        backend = world.backend(f"preset-{name}", preset=name, scorer="trees", beam="7")
        backend.train(many)
        model = backend._opened[0]
        assert type(model).__name__ == kind
        trees = model.model if kind == "TextModel" else model.members[0].model
        assert trees.beam == 7 and (trees.calibration is None) == (name == "fast")
        fresh = world.backend(f"preset-{name}")
        for one in (backend, fresh):
            [found, nothing] = world.answers(one, "Whales and whalers", "zyzzyva")
            assert found[0][0] == "whaling" and nothing == [], (name, found, nothing)
            assert all(0 < score <= 1 for _, score in found)
    vectorizer = model.members[0].vectorizer
    assert (vectorizer.min_token_length, vectorizer.cjk) == (1, "word")
    [found] = world.answers(backend, "books that were never used")  # by its name alone: no document has it
    assert "never used" in dict(found[:2]), found
    matcher = model.members[-1]
    [(_, text), *_] = matcher.terms_.of_label(matcher.vocabulary_.id(SUBJECTS["whaling"]))
    assert text == " ".join(world.analyzer.tokenize_words("whaling"))
    refused = raised("ConfigurationException", lambda: world.backend("preset-no", preset="bset").train(many))
    assert "'preset' parameter" in refused and "'best'" in refused, refused
    own = {"ngram": "2", "model": "linear", "seed": "0", "min_df": "1", "sublinear_tf": "false", "weights": "none"}
    for word, value in own.items():  # whether it is what holds without a preset or not
        wrong = world.backend("preset-no", preset="best", **{word: value})
        assert repr(word) in raised("ConfigurationException", lambda wrong=wrong: wrong.train(many))
    optimizer = backend.get_hp_optimizer(many, metric="NDCG")
    assert "fast and balanced" in raised("NotSupportedException", lambda: optimizer.optimize(1, 1, None))
    sentence = raised("NotSupportedException", lambda: fresh.learn(many))
    assert "keep_rows=true" in sentence, sentence


def what_is_set_goes_before_the_preset(world: World) -> None:
    """Though it be what holds without a preset; from the project as from the command."""
    given = {"negatives": "paper", "calibration": "isotonic"}
    for place, project, command in (("set-there", given, {}), ("set-here", {}, given)):
        backend = world.backend(place, preset="fast", **project)
        backend.train(world.corpus(), command)
        trees = backend._opened[0].model
        assert (trees.negatives, trees.calibration) == ("paper", "isotonic"), trees
    params = {**world.backend("set-all").default_params(), "preset": "best", "scorer": "trees"}
    for word in ("limit", "model", "weights", "seed", "ngram", "min_df", "max_df", "max_features", "sublinear_tf"):
        del params[word]
    model = world.backend("set-all").model_of({**params, "n_trees": "1"}, 1)
    reranker, *others = model, *model.members
    assert reranker.n_trees > 1 and others[-1].n_trees > 1  # which are other trees
    assert [each.model.n_trees for each in others[:3]] == [1, 1, 1]


def wrong_params(world: World) -> None:
    backend = world.backend("wrong")
    sentence = raised("ConfigurationException", lambda: backend.train(world.corpus(), {"beam": "0"}))
    assert "'beam' parameter" in sentence and "Got 0" in sentence, sentence
    for name, value in (
        ("model", "forest"), ("weights", "a,b"), ("seed", "x"), ("ngram", "x"), ("keep_rows", "3"),
        ("n_neighbors", "-3"), ("power", "x"), ("scorer", "foo"),  # of models that it hasn't
    ):  # fmt: skip
        params = {"model": "linear+linear", name: value}
        sentence = raised("ConfigurationException", lambda params=params: backend.train(world.corpus(), params))
        assert name in sentence and repr(value)[1:-1] in sentence, sentence
    for model, unused in (("neighbors", {"beam": "0"}), ("neighbors", {"cost": "x"}), ("linear", {"power": "-1"})):
        params = {"model": model, **unused}
        sentence = raised("ConfigurationException", lambda params=params: backend.train(world.corpus(), params))
        assert f"{next(iter(unused))!r} parameter" in sentence, sentence
    for name, unused in (("accurate", {"n_neighbors": "0"}), ("accurate", {"scorer": "foo"}), ("fast", {"power": "x"})):
        params = {"preset": name, **unused}
        sentence = raised("ConfigurationException", lambda params=params: backend.train(world.corpus(), params))
        assert f"{next(iter(unused))!r} parameter" in sentence, sentence
    sentence = raised(
        "ConfigurationException", lambda: backend.train(world.corpus(), {"model": "linear+linear", "weights": "1,2,3"})
    )
    assert "names 3 weights for 2 members" in sentence, sentence
    for model, weights in (("linear", "2,1"), ("linear", "1"), ("neighbors", "fit")):
        params = {"model": model, "weights": weights}
        sentence = raised("ConfigurationException", lambda params=params: backend.train(world.corpus(), params))
        assert "'weights' parameter is for several models" in sentence and repr(model) in sentence, sentence
    assert not list((world.folder / "wrong").iterdir())  # no document was analysed


def unknown_params(world: World) -> None:
    of_annif = {"language": "en", "vocab": "books", "analyzer": "x", "transform": "pass", "limit": "5"}
    backend = world.backend("unknown", **of_annif, access="public", allow_learn="true", backend="sylvan")
    misspelt = {"n_tree": "n_trees", "n-trees": "n_trees", "calibraton": "calibration", "limits": "limit"}
    for name, near in misspelt.items():
        for act in (
            lambda name=name: backend.train(world.corpus(), {name: "3"}),
            lambda name=name: backend.suggest([world.document(text="whale")], {name: "3"}),
            lambda name=name: world.backend("unknown", **{name: "3"}).learn(world.corpus()),
            lambda name=name: world.backend("unknown", "sylvan_transformer", **{name: "3"}).train(world.corpus()),
        ):
            sentence = raised("ConfigurationException", act)
            assert f"no parameter {name!r}" in sentence and f"mean {near!r}?" in sentence, sentence
    assert not list((world.folder / "unknown").iterdir())
    backend.train(world.corpus())


def limits(world: World) -> None:
    backend = world.backend("limits")
    for name in ("sylvan", "sylvan_transformer"):
        for value, words in {"abc": "'abc'", "1.5": "1.5", "1e3": "1000.0", "": "None", "0": "0", "-3": "-3"}.items():
            wrong = world.backend("limits", name, limit=value)
            for act in (
                lambda wrong=wrong: wrong.train(world.corpus()),
                lambda wrong=wrong: wrong.suggest([world.document(text="whale")]),
                lambda value=value: backend.suggest([world.document(text="whale")], {"limit": value}),
            ):
                sentence = raised("ConfigurationException", act)
                assert "'limit' parameter of the project must be an int in [1, inf)" in sentence, sentence
                assert f"Got {words} instead" in sentence, sentence
    assert not list((world.folder / "limits").iterdir())
    backend.train(world.corpus())
    assert len(world.answers(backend, "whale", limit="1000000")[0]) == 2  # as many as there are


def nothing_is_left_of_a_failed_training(world: World) -> None:
    folder = world.folder / "failed"
    backend = world.backend("failed", min_df="1000")
    for kind in ("an error", "no words", "an interrupt"):
        corpus, analyzer = world.corpus(), backend.project.analyzer
        if kind == "no words":
            corpus = world.corpus_of([world.document(text="", subject_set=world.subject_set("whaling"))])
        elif kind == "an interrupt":
            backend.project.analyzer = SimpleNamespace(tokenize_words=interrupt)
        try:
            backend.train(corpus, jobs=1)
        except BaseException:
            assert not list(folder.glob("tmp-*")), kind
            assert not (folder / backend.CHECKPOINT_FOLDER).exists() and not backend.is_trained
        else:
            raise AssertionError(kind)
        backend.project.analyzer = analyzer
    (folder / "tmp-sylvan-trainabc.tsv").write_text("of a training that was killed")
    world.backend("failed").train(world.corpus())
    assert not list(folder.glob("tmp-*"))


def interrupt(text: str) -> list[str]:
    raise KeyboardInterrupt


def a_checkpoint_is_no_model(world: World) -> None:
    from sylvan import store
    from sylvan.runtime.checkpoint import Checkpoint

    backend = world.backend("interrupted")
    left = world.folder / "interrupted" / backend.CHECKPOINT_FOLDER
    other = Checkpoint(left)
    other.open({"estimator": "another"})
    other.write("part", store.State("example", 1, arrays={"numbers": np.arange(3)}))
    other.close()
    (world.folder / "interrupted" / backend.TRAIN_FILE).write_text("http://example.org/1\twhale\n")
    assert left.is_dir() and not backend.is_trained and backend.modification_time is None
    backend.train(world.corpus())  # of another training: it begins anew
    assert backend.is_trained and not left.exists()


def deprecated_subjects_are_not_suggested(world: World) -> None:
    from annif.vocab import SubjectIndexFilter

    backend = world.backend("trained")
    backend.project.subjects = SubjectIndexFilter(world.index, exclude={SUBJECTS["whaling"]})
    batch = backend.suggest([world.document(text="Whales and whalers")])
    assert world.index.by_uri(SUBJECTS["whaling"]) not in batch.array.indices and batch.array.nnz == 1
    assert backend.suggest([world.document(text="Whales and whalers")], {"limit": 1}).array.nnz == 1  # of the others


def learn(world: World) -> None:
    for model in ("linear", "neighbors", "linear+neighbors"):
        backend = world.backend(f"learning-{model}", keep_rows="true", model=model)
        backend.train(world.corpus())
        fresh = world.backend(f"learning-{model}", model=model)  # that opens the folder
        fresh.learn(world.corpus("railways"))
        for one in (fresh, world.backend(f"learning-{model}")):
            [old, new] = world.answers(one, "Whales and whalers", "the train at the station")
            assert old[0][0] == "whaling" and new[0][0] == "railways", (model, old, new)
        again = world.backend(f"learning-{model}", model=model)
        again.train("cached")  # what was learned is part of it
        assert world.answers(again, "the train at the station")[0][0][0] == "railways"


def learn_without_rows(world: World) -> None:
    backend = world.backend("rowless")
    backend.train(world.corpus())
    before = world.answers(backend, "Whales and whalers")
    sentence = raised("NotSupportedException", lambda: backend.learn(world.corpus("railways")))
    assert "keep_rows=true" in sentence, sentence
    assert world.answers(backend, "Whales and whalers") == before
    assert "Cannot learn" in raised("NotSupportedException", lambda: backend.learn(world.corpus_of([])))


def hyperopt(world: World) -> None:
    backend = world.backend("tried", model="linear+neighbors")
    optimizer = backend.get_hp_optimizer(world.corpus(), metric="NDCG")
    assert "train it first" in raised("NotSupportedException", lambda: optimizer.optimize(1, 1, None))
    backend.train(world.corpus(*("whaling", "baking") * 6))  # words often enough for any min_df that is tried
    for n_jobs in (1, 2):
        found = optimizer.optimize(n_trials=2, n_jobs=n_jobs, results_file=None)
        assert found.score > 0.5
        chosen = dict(line.split("=") for line in found.lines)
        assert set(chosen) == {
            "ngram", "min_df", "sublinear_tf", "cost", "max_leaf", "n_trees", "n_neighbors", "power"
        }  # fmt: skip
    for metric in ("foo", "ndcg", "Documents evaluated"):
        wrong = backend.get_hp_optimizer(world.corpus(), metric=metric)
        sentence = raised("NotSupportedException", lambda wrong=wrong: wrong.optimize(1, 1, None))
        assert repr(metric) in sentence and "NDCG" in sentence and "'F1@5'" in sentence, sentence
    assert backend.get_hp_optimizer(world.corpus(), metric="Precision@1").optimize(1, 1, None).score > 0.5
    empty = backend.get_hp_optimizer(world.corpus_of([]), metric="NDCG")
    assert "no documents" in raised("NotSupportedException", lambda: empty.optimize(1, 1, None))
    wrong = world.backend("tried", beam="0").get_hp_optimizer(world.corpus(), metric="NDCG")
    assert "'beam' parameter" in raised("ConfigurationException", lambda: wrong.optimize(1, 1, None))
    (world.folder / "tried" / backend.TRAIN_FILE).write_text("http://example.org/1\t\n")
    assert "No trial" in raised("OperationFailedException", lambda: optimizer.optimize(1, 1, None))
    world.backend("chosen", model="linear+neighbors", **{**chosen, "min_df": "1"}).train(world.corpus())


def damaged_model(world: World) -> None:
    backend = world.backend("damaged")
    backend.train(world.corpus())
    (world.folder / "damaged" / "sylvan-model" / "manifest.json").write_text("{}")
    fresh = world.backend("damaged")
    assert raised("OperationFailedException", lambda: world.answers(fresh, "whales"))
    (world.folder / "damaged" / backend.TRAIN_FILE).write_text("no tab\n")
    assert "Line 1" in raised("OperationFailedException", lambda: fresh.train("cached"))


def transformer(world: World) -> None:
    given = {"encoder": "bag", "preset": "tiny", "keep_rows": "true", "n_trees": "2", "limit": "2"}
    backend = world.backend("transformer", "sylvan_transformer", **given)
    if importlib.util.find_spec("torch") is None:
        assert "needs PyTorch" in raised("OperationFailedException", lambda: backend.train(world.corpus()))
        return
    sentence = raised("ConfigurationException", lambda: backend.train(world.corpus(), {"preset": "huge"}))
    assert "'preset' parameter" in sentence, sentence
    sentence = raised("ConfigurationException", lambda: backend.train(world.corpus(), {"n_trees": "0"}))
    assert "'n_trees' parameter" in sentence, sentence
    backend.train(world.corpus())
    assert backend._opened[0].ranker_.n_trees == 2
    fresh = world.backend("transformer", "sylvan_transformer", **given)
    for one in (backend, fresh):
        [found, nothing] = world.answers(one, "the white whale", " ")
        assert found[0][0] == "whaling" and len(found) <= 2 and nothing == []
        assert all(0 < score <= 1 for _, score in found)
    other = world.backend("transformer")
    sentence = raised("OperationFailedException", lambda: world.answers(other, "a whale"))
    assert "must hold TextModel or Ensemble or Reranker" in sentence, sentence
    fresh.learn(world.corpus("railways"))
    assert world.answers(fresh, "the train at the station")[0][0][0] == "railways"
    fresh.train("cached", {"frozen": "yes"})
    assert world.answers(fresh, "the train at the station")[0][0][0] == "railways"
    rowless = world.backend("transformer-rowless", "sylvan_transformer", encoder="bag", preset="tiny", frozen="yes")
    rowless.train(world.corpus())
    assert "keep_rows=true" in raised("NotSupportedException", lambda: rowless.learn(world.corpus("railways")))


def values_and_words(world: World) -> None:
    from sylvan.annif.backend import append_rows, read_blocks
    from sylvan.annif.parameters import WORD_PARAMETERS, joined_words, need_known, plain_value, word_vectorizer

    need_known(["name", "n_trees"], ["n_trees"])
    values = [("8", 10), ("0.5", 1.0), ("none", 3), ("yes", False)]
    assert [plain_value(text, default) for text, default in values] == [8, 0.5, None, True]
    path = str(world.folder / "rows.txt")
    assert append_rows(path, [(["http://example.org/1"], "whale sea"), ([], "bread")]) == 1
    assert list(read_blocks(path)) == [(["whale sea"], [["http://example.org/1"]])]
    vectorizer = word_vectorizer({**WORD_PARAMETERS, "ngram": 1}, 1)
    words = vectorizer.fit([joined_words(str.split, "a 19th-century whaler")]).get_feature_names_out()
    assert words.tolist() == ["19th_century", "a", "whaler"]


CASES = {name: case for name, case in globals().items() if getattr(case, "__annotations__", {}).get("world") == "World"}


def main() -> None:
    world = World(Path(sys.argv[1]))
    outcome: dict[str, str | None] = {}
    for name, case in CASES.items():
        try:
            case(world)
            outcome[name] = None
        except Exception:
            outcome[name] = traceback.format_exc()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
