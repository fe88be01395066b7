"""Sylvan's backends for Annif, and the configuration that brings them along: training, learning, suggesting, and one
folder with the model."""

from __future__ import annotations

import abc
import copy
import functools
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from itertools import islice, starmap
from pathlib import Path
from typing import Any, ClassVar, NoReturn

try:
    import annif.backend  # which has the backends that there are
except ImportError as error:
    raise ImportError('sylvan.annif needs Annif. Install it with: pip install "sylvan[annif]"') from error

import annif.default_config
import annif.eval
import annif.exception
import annif.parallel
import annif.util
import numpy as np
import numpy.typing as npt
import optuna
import scipy.sparse as sp
from annif.backend.backend import AnnifLearningBackend
from annif.backend.hyperopt import AnnifHyperoptBackend, HPObjective, HPRecommendation, HyperparameterOptimizer
from annif.suggestion import SuggestionBatch

from sylvan.annif.parameters import (
    DEFAULTS,
    joined_words,
    learns_names,
    need_known,
    need_rows,
    plain_value,
    project_model,
    resumes,
)
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError, SylvanError, UnsupportedError
from sylvan.models import Ensemble, Reranker, TextModel, XRLinear, XRTransformer
from sylvan.models.blocks import set_threads
from sylvan.params.fields import Number, check_value
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.store.registry import load

Row = tuple[list[str], str]  # URIs and a text, or URIs and words
_AT_ONCE = 64  # documents that a process is given at a time
_BLOCK = 2000  # documents that are in memory at a time
_LIMIT = 10  # suggestions a document, as `annif eval` measures them
_Suggest = Callable[[Any], Any]
# Errors of Sylvan as those of Annif, whose command line and server show sentences; ImportError: without PyTorch, say.
_ERRORS: tuple[tuple[Any, Any], ...] = (
    (ParameterError, annif.exception.ConfigurationException),
    (NotFittedError, annif.exception.NotInitializedException),
    (UnsupportedError, annif.exception.NotSupportedException),
    ((ImportError, SylvanError), annif.exception.OperationFailedException),
)
# Parameters of a transformer and of its ranker.
_OWN = ("encoder", "frozen", "max_length", "pooling", "device", "seed")
_RANKER = ("n_trees", "branching", "max_leaf", "beam", "calibration", "keep_rows")
_PRESET = "preset"  # stands for what the preset has
# What is tried, by the models that it concerns.
_WORDS: Mapping[str, _Suggest] = {
    "ngram": lambda trial: trial.suggest_int("ngram", 1, 2),
    "min_df": lambda trial: trial.suggest_int("min_df", 1, 5),
    "sublinear_tf": lambda trial: trial.suggest_categorical("sublinear_tf", [False, True]),
}
_SPACES: Mapping[str, Mapping[str, _Suggest]] = {
    "linear": {
        "cost": lambda trial: trial.suggest_float("cost", 0.25, 4.0, log=True),
        "max_leaf": lambda trial: trial.suggest_categorical("max_leaf", [50, 100, 200]),
        "n_trees": lambda trial: trial.suggest_int("n_trees", 1, 3),
    },
    "neighbors": {
        "n_neighbors": lambda trial: trial.suggest_int("n_neighbors", 5, 100, log=True),
        "power": lambda trial: trial.suggest_float("power", 1.0, 10.0),
    },
}


def subjects_of(model: Any, index: Any) -> npt.NDArray[np.int32]:
    """The number that each label has in Annif's vocabulary; -1 for those that aren't there, or are deprecated."""
    numbers = [index.by_uri(uri, warnings=False) for uri in model.vocabulary_]
    return np.array([-1 if number is None else number for number in numbers], np.int32)


def suggested(
    model: Any, texts: list[str], limit: int, subjects: npt.NDArray[np.int32], n_subjects: int
) -> sp.csr_array[Any, tuple[int, int]]:
    """The probabilities of each text's best subjects; a text without a known word has none."""
    # Shape: subjects (n_labels,); returns (n, n_subjects)
    limit = min(limit, model.n_labels_)
    gone = np.flatnonzero(subjects < 0).tolist()
    denied = {"denied": gone} if gone else {}
    worded = np.array([bool(text) for text in texts], bool)
    if not texts:
        top = TopK(np.empty((len(texts), 0), np.int32), np.empty((len(texts), 0), np.float32))
    elif isinstance(model, TextModel):
        features, ranker = model.vectorizer.transform_rows(texts), model.inner()
        top = ranker.probabilities(ranker.rank(features, limit, **denied))
        worded = np.diff(features.indptr) > 0
    else:
        top = model.probabilities(model.rank(texts, limit, **denied))
    ids = np.where(top.labels >= 0, subjects[top.labels], -1)  # (n, limit)
    stays = (ids >= 0) & (top.scores > 0) & worded[:, None]
    indptr = np.concatenate([[0], np.cumsum(stays.sum(axis=1))])
    scores = np.minimum(top.scores[stays], 1).astype(np.float32)
    array: Any = sp.csr_array((scores, ids[stays], indptr), shape=(len(ids), n_subjects))
    array.sort_indices()
    return array  # type: ignore[no-any-return]


def append_rows(path: str | os.PathLike[str], rows: Iterable[Row]) -> int:
    """Write documents below those that are there, without those that lack subjects or words; how many were written."""
    n_rows = 0
    with open(path, "a", encoding="utf-8", newline="\n") as lines:
        for uris, words in rows:
            if uris and words:
                lines.write(f"{' '.join(uris)}\t{words}\n")
                n_rows += 1
    return n_rows


def read_blocks(path: str | os.PathLike[str], size: int = _BLOCK) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The documents' words and their subjects, a block at a time, as ``TextModel.fit_blocks`` takes them."""

    def row(number: int, line: str) -> Row:
        uris, tab, words = line.rstrip("\n").partition("\t")
        if not uris or not tab or not line.endswith("\n"):
            where = f"Line {number} of {os.fspath(path)!r}"
            raise DataError(f"{where} must be URIs, a tab and words. Train with the corpus again, not with --cached.")
        return uris.split(" "), words

    with open(path, encoding="utf-8", newline="\n") as lines:
        rows = starmap(row, enumerate(lines, 1))
        while block := list(islice(rows, size)):
            yield [words for _, words in block], [uris for uris, _ in block]


def read_all(path: str | os.PathLike[str]) -> tuple[list[str], list[list[str]]]:
    """All documents' words, and their subjects."""
    blocks = list(read_blocks(path))
    return [words for block, _ in blocks for words in block], [uris for _, block in blocks for uris in block]


class ModelBackend(AnnifLearningBackend):
    """Base of the backends; a concrete one says which model a project has and what it takes of a text. The model is a
    folder of Sylvan's in the project's data, whose labels are URIs; nothing in it is pickled."""

    MODEL_FOLDER = "sylvan-model"
    TRAIN_FILE = "sylvan-train.tsv"
    CHECKPOINT_FOLDER = "sylvan-train-checkpoint"  # neither it nor the file is uploaded by Annif, for their names

    model_types: ClassVar[tuple[type[Any], ...]]

    # The model, and the number of each of its labels in the project's vocabulary; replaced together.
    _opened: tuple[Any, npt.NDArray[np.int32]] | None = None

    # ---------------------------------------- what there is

    def _path(self, name: str) -> Path:
        return Path(self.datadir) / name

    @property
    def is_trained(self) -> bool:
        """Whether there is a whole model; what an interrupted training leaves is none."""
        return (self._path(self.MODEL_FOLDER) / "manifest.json").is_file()

    @property
    def modification_time(self) -> datetime | None:
        """When the model was saved."""
        if not self.is_trained:
            return None
        saved = os.path.getmtime(self._path(self.MODEL_FOLDER) / "manifest.json")
        return datetime.fromtimestamp(saved, tz=timezone.utc)

    def initialize(self, parallel: bool = False) -> None:
        """Map the model's files into memory, which processes share."""
        self._model()

    def _model(self) -> tuple[Any, npt.NDArray[np.int32]]:
        return self._take(self._load()) if self._opened is None else self._opened

    def _load(self) -> Any:
        folder = self._path(self.MODEL_FOLDER)
        if not self.is_trained:
            self._refuse(f"model {str(folder)!r} not found", annif.exception.NotInitializedException)
        self.debug(f"loading model from {folder}")
        with self._annif_errors():
            return load(folder, expected=self.model_types)

    def _take(self, model: Any) -> tuple[Any, npt.NDArray[np.int32]]:
        """Answer with this model from now on, in one thread: Annif divides documents among processes of its own."""
        set_threads(model, 1)
        self._opened = model, subjects_of(model, self.project.subjects)
        return self._opened

    def _get_backend_params(self, params: dict[str, Any] | None) -> dict[str, Any]:
        """What the project and the command set, and the limit, for training, learning and suggesting alike. Defaults
        aren't among them: a preset's parameters go before these. Settings that nobody knows are refused."""
        result: dict[str, Any] = {**self.config_params, **(params or {})}
        with self._annif_errors():
            need_known(result, usual := self.default_params())
            result["limit"] = plain_value(result.get("limit", usual["limit"]), usual["limit"])
            check_value("limit", result["limit"], Number(int, 1), "the project")
        return result

    # ---------------------------------------- training

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        path = self._path(self.TRAIN_FILE)
        with self._annif_errors():  # before the documents are analysed, which may take hours
            model = self.model_of(params, jobs or None)
        if corpus != "cached":
            if corpus.is_empty():
                self._refuse(f"Cannot train {self.name} project with no documents")
            stem, suffix = os.path.splitext(self.TRAIN_FILE)
            for left in glob.glob(f"tmp-{stem}*{suffix}", root_dir=self.datadir):  # by trainings that were killed
                with suppress(OSError):
                    os.unlink(self._path(left))
            write = functools.partial(self._write_train_file, jobs=jobs)
            annif.util.atomic_save(corpus, self.datadir, self.TRAIN_FILE, method=write)
        elif not path.is_file():
            self._refuse(f"There is no cached training data at {str(path)!r}: train with a corpus first")
        else:
            self.info("Reusing cached training data from previous run.")
        with self._annif_errors():
            self._fit(model, path)

    def _write_train_file(self, corpus: Any, filename: str, jobs: int) -> None:
        self.info("creating train file")
        try:
            if not append_rows(filename, self._rows(corpus, jobs)):
                self._refuse(f"Cannot train {self.name} project: no document has both known subjects and words")
        except BaseException:  # an interrupt too: Annif leaves the file
            os.unlink(filename)
            raise

    def _rows(self, corpus: Any, jobs: int = 1) -> Iterator[Row]:
        """The URIs and words of each document, in order."""
        subjects = self.project.subjects
        documents = ((sorted(subjects[number].uri for number in doc.subject_set), doc.text) for doc in corpus.documents)
        return self.rows_of(documents, jobs)

    @abc.abstractmethod
    def words(self, text: str) -> str:
        """What the model takes of a text: one line."""

    def rows_of(self, documents: Iterator[Row], jobs: int) -> Iterator[Row]:
        """URIs and words of URIs and texts, in order; by so many processes where it is worth it, 0 for one a core."""
        return ((uris, self.words(text)) for uris, text in documents)

    @abc.abstractmethod
    def model_of(self, params: Mapping[str, Any], n_jobs: int | None) -> Any:
        """The model that the parameters describe, not fitted; ParameterError for a value out of its range."""

    @abc.abstractmethod
    def fit(self, model: Any, path: Path, checkpoint: Checkpoint) -> None:
        """Train the model with the documents of a file."""

    def _fit(self, model: Any, path: Path) -> None:
        """Train, going on from what an interrupted training of the same kind left, and save."""
        checkpoint = Checkpoint(self._path(self.CHECKPOINT_FOLDER))
        self.info(f"training {model}")
        left = checkpoint.exists()
        try:
            try:
                self.fit(model, path, checkpoint)
            except ModelError:
                if not left:
                    raise
                self.info("an interrupted training had other parameters or data: starting over")
                checkpoint.remove()
                self.fit(model, path, checkpoint := Checkpoint(self._path(self.CHECKPOINT_FOLDER)))
        except (DataError, ParameterError):  # which would come again
            checkpoint.remove()
            raise
        model.save(self._path(self.MODEL_FOLDER))
        checkpoint.remove()
        self._take(model)

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        """Bring the model up to date, and write the documents below those that it was trained on."""
        model: Any = copy.copy(self._model()[0])  # whoever asks meanwhile is answered by the old one
        rows = [(uris, words) for uris, words in self._rows(corpus) if uris and words]
        if not rows:
            self._refuse("Cannot learn: no document has both known subjects and words")
        with self._annif_errors():
            need_rows(model)
            model.update([words for _, words in rows], [uris for uris, _ in rows])
            model.save(self._path(self.MODEL_FOLDER))
        path = self._path(self.TRAIN_FILE)
        if path.is_file():
            append_rows(path, rows)
        self._take(model)

    # ---------------------------------------- suggesting

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> SuggestionBatch:
        model, subjects = self._model()
        texts = [self.words(doc.text) for doc in documents]
        with self._annif_errors():
            array = suggested(model, texts, params["limit"], subjects, len(self.project.subjects))
        return SuggestionBatch(array)

    @contextmanager
    def _annif_errors(self) -> Iterator[None]:
        """Sylvan's errors as Annif's."""
        try:
            yield
        except (ImportError, SylvanError) as error:
            kind = next(theirs for ours, theirs in _ERRORS if isinstance(error, ours))
            raise kind(str(error), backend_id=self.backend_id) from error

    def _refuse(self, sentence: str, kind: Any = annif.exception.NotSupportedException) -> NoReturn:
        raise kind(sentence, backend_id=self.backend_id)


class SylvanObjective(HPObjective):
    """Trains with the parameters of a trial, and measures on the validation corpus."""

    @classmethod
    def objective(cls, trial: Any, args: Mapping[str, Any]) -> float:
        """The metric of one trial."""
        space = dict(_WORDS)  # what is tried for the project's model
        for word in dict.fromkeys(str(args["params"].get("model", "linear")).replace(" ", "").split("+")):
            space |= _SPACES.get(word, {})
        tried = {name: suggest(trial) for name, suggest in space.items()}
        model: Any = project_model({**args["params"], **tried}, args["n_jobs"])
        try:
            model.fit_blocks(read_blocks(args["path"]))
        except DataError as error:  # no word is in so many documents, say
            raise optuna.TrialPruned(str(error)) from error
        index = args["subject_index"]
        scores = suggested(model, args["texts"], _LIMIT, subjects_of(model, index), len(index))
        return float(_measured(index, scores, args["gold_subjects"], [args["metric"]])[args["metric"]])


def _measured(index: Any, scores: Any, truth: Any, metrics: Iterable[str] = ()) -> dict[str, Any]:
    """What Annif measures of documents' scores, by its names; everything where no metric is named."""
    batch = annif.eval.EvaluationBatch(index)
    batch.evaluate_many(SuggestionBatch(scores), truth)
    return batch.results(metrics=metrics)  # type: ignore[no-any-return]


class SylvanOptimizer(HyperparameterOptimizer):
    """The search of the backend ``sylvan``: trains on what the project was trained on last."""

    def __init__(self, backend: Any, corpus: Any, metric: str) -> None:
        super().__init__(backend, corpus, metric, SylvanObjective)

    def _prepare(self, n_jobs: int = 1) -> dict[str, Any]:
        backend = self._backend
        path = Path(backend.datadir) / backend.TRAIN_FILE
        if not path.is_file():
            backend._refuse("Hyperparameters are tried on the project's training data: train it first")
        params = backend._get_backend_params(None)
        if backend.params["preset"] in ("accurate", "best"):
            backend._refuse("Hyperparameters are tried for the presets fast and balanced: others have several models")
        with backend._annif_errors():
            backend.model_of(params, None)
        index, documents = backend.project.subjects, list(self._corpus.documents)
        if not documents:
            backend._refuse("Hyperparameters are measured on validation documents: there are no documents")
        nothing = sp.csr_array((1, len(index)), dtype=np.float32)
        known = [name for name in _measured(index, nothing, [documents[0].subject_set]) if " evaluated" not in name]
        if self._metric not in known:
            backend._refuse(f"The metric must be one of {', '.join(map(repr, known))}. Got {self._metric!r} instead")
        return {
            "path": str(path), "params": params, "texts": [backend.words(doc.text) for doc in documents],
            "gold_subjects": [doc.subject_set for doc in documents], "subject_index": index,
            "metric": self._metric, "n_jobs": None if n_jobs == 1 else 1,
        }  # fmt: skip

    def _postprocess(self, study: Any) -> HPRecommendation:
        if not any(trial.value is not None for trial in study.trials):
            sentence = "No trial could be trained on the project's training data"
            self._backend._refuse(sentence, annif.exception.OperationFailedException)
        lines = [f"{name}={_text(value)}" for name, value in study.best_params.items()]
        return HPRecommendation(lines=lines, score=study.best_value)

    def _normalize(self, hps: dict[str, Any]) -> dict[str, Any]:
        return {name: _text(value) for name, value in hps.items()}


def _text(value: Any) -> str:
    """A value as a configuration file has it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower()


class AnalysisWorker(annif.parallel.BaseWorker):
    """What a process knows, in the way of Annif's own workers."""

    @classmethod
    def words(cls, row: Row) -> Row:
        """The words of one document."""
        uris, text = row
        return uris, joined_words(cls.args["analyzer"].tokenize_words, text)


class SylvanBackend(ModelBackend, AnnifHyperoptBackend):
    """Trees of linear models, nearest documents, or both together, over the words of the project's analyser."""

    name = "sylvan"
    model_types = (TextModel, Ensemble, Reranker)

    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = dict(DEFAULTS)

    def words(self, text: str) -> str:
        """The words of a text, as the model takes them."""
        return joined_words(self.project.analyzer.tokenize_words, text)

    def rows_of(self, documents: Iterator[Row], jobs: int) -> Iterator[Row]:
        """URIs and words of URIs and texts; analysing takes longer than training, so it is divided among processes."""
        if jobs == 1:
            yield from super().rows_of(documents, jobs)
            return
        number, pool_class = annif.parallel.get_pool(jobs)
        analyzer = {"analyzer": self.project.analyzer}
        with pool_class(number, initializer=AnalysisWorker.init, initargs=(analyzer,)) as pool:
            yield from pool.imap(AnalysisWorker.words, documents, _AT_ONCE)

    def model_of(self, params: Mapping[str, Any], n_jobs: int | None) -> Any:
        """The model that the parameters describe."""
        return project_model(params, n_jobs)

    def fit(self, model: Any, path: Path, checkpoint: Checkpoint) -> None:
        """Train it; one that learns nothing from what subjects are called, a block of documents at a time."""
        options: dict[str, Any] = {"checkpoint": checkpoint} if resumes(model) else {}
        if learns_names(model):
            model.fit(*read_all(path), label_texts=self._names(), **options)
        else:
            model.fit_blocks(read_blocks(path), **options)

    def _names(self) -> dict[str, str]:
        """The words of what each subject is called in the language of the project's vocabulary, by its URI."""
        language = self.project.vocab_lang
        named = {subject.uri: (subject.labels or {}).get(language) for _, subject in self.project.subjects.active}
        words = {uri: self.words(name) for uri, name in named.items() if name}
        return {uri: each for uri, each in words.items() if each}

    def get_hp_optimizer(self, corpus: Any, metric: str) -> SylvanOptimizer:
        """What tries parameters on a validation corpus."""
        return SylvanOptimizer(self, corpus, metric)


class SylvanTransformerBackend(ModelBackend):
    """An XRTransformer: needs PyTorch, and transformers for any encoder but "bag"; the project needs no analyser."""

    name = "sylvan_transformer"
    model_types = (XRTransformer,)

    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = {
        "preset": XRTransformer().preset,
        **{name: getattr(XRTransformer(), name) for name in _OWN},
        **dict.fromkeys(_RANKER, _PRESET),
    }

    def words(self, text: str) -> str:
        """The whole text, on one line."""
        return " ".join(text.split())

    def model_of(self, params: Mapping[str, Any], n_jobs: int | None) -> XRTransformer:
        """The model that the parameters describe."""
        params = {**self.DEFAULT_PARAMETERS, **params}
        values = {name: plain_value(params[name], self.DEFAULT_PARAMETERS[name]) for name in ("preset", *_OWN)}
        usual = XRLinear()
        ranker = {
            f"ranker__{name}": plain_value(params[name], getattr(usual, name))
            for name in _RANKER if params[name] != _PRESET
        }  # fmt: skip
        model = XRTransformer(**values, n_jobs=n_jobs)
        model.check_params()  # before parts are made of the preset
        model.set_params(**ranker)
        model.check_params()
        return model

    def fit(self, model: XRTransformer, path: Path, checkpoint: Checkpoint) -> None:
        """Train it with all documents in memory, as the encoder reads them several times."""
        model.fit(*read_all(path), checkpoint=checkpoint)


class Config(annif.default_config.Config):
    """Annif's default configuration; whoever imports it has Sylvan's backends. As without a configuration, its server
    loads all projects at the start, and its commands only those that they need."""

    INITIALIZE_PROJECTS = os.environ.get("FLASK_RUN_FROM_CLI") != "true"


def register() -> None:
    """Add the backends to those that Annif knows."""
    annif.backend._backend_fns.update({
        SylvanBackend.name: lambda: SylvanBackend,
        SylvanTransformerBackend.name: lambda: SylvanTransformerBackend,
    })  # fmt: skip


register()
