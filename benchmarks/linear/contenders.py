"""Each library behind the same few methods, at the same branching, leaf size, beam and negatives.

Only the contender that a process measures is imported in it. Settings are the fastest that each library documents;
what a library cannot do is ``None`` in its figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure

BRANCHING, MAX_LEAF, BEAM, TOP = 16, 100, 10, 10


class Contender:
    """One library: what the worker asks of it, in this order."""

    package = ""
    matrices = True  # whether it trains from matrices
    text = False  # whether it goes from raw text to a model
    only_named = False  # whether peers.py measures it only where --contenders names it
    seed = 0  # of the tree, where the library takes one

    def version(self) -> str:
        """The installed version."""
        return metadata.version(self.package)

    def load_imports(self) -> None:
        """Imports the library, so that neither its time nor its memory count as training."""
        raise NotImplementedError

    def prepare(self, folder: Path, scratch: Path) -> None:
        """Reads the training set into the form that the library trains from; not timed."""
        raise NotImplementedError

    def train(self, threads: int) -> None:
        """Builds the tree and trains; timed."""
        raise NotImplementedError

    def train_measured(self, threads: int) -> measure.Training:
        """``train``, and what it took."""
        with measure.Training() as training:
            self.train(threads)
        return training

    def save(self, folder: Path) -> None:
        """Writes the model."""
        raise NotImplementedError

    def open(self, folder: Path, threads: int) -> None:
        """Loads the model for ranking; timed."""
        raise NotImplementedError

    def queries(self, X: sp.csr_matrix) -> Any:
        """The test set in the form that ``rank_all`` takes; not timed."""
        return X

    def rank_all(self, queries: Any) -> Any:
        """Ranks all rows by the library's batch call; timed."""
        raise NotImplementedError

    def top(self, answer: Any) -> np.ndarray:
        """Label ids (n, 10) of ``rank_all``'s answer; not timed."""
        raise NotImplementedError

    def rows(self, X: sp.csr_matrix) -> list[Any]:
        """Single queries in the form that ``rank_one`` takes; not timed."""
        return [X[at] for at in range(X.shape[0])]

    def rank_one(self, row: Any) -> Any:
        """Ranks one query; timed."""
        raise NotImplementedError

    def prepare_text(self, folder: Path, scratch: Path) -> None:
        """Lays the raw text down as the library wants it; not timed."""
        raise NotImplementedError

    def train_text(self, folder: Path, scratch: Path, threads: int) -> None:
        """Raw text to trained model, reading the file included; timed."""
        raise NotImplementedError

    def rank_text(self, texts: list[str]) -> np.ndarray:
        """Label ids (n, 10) for raw texts from what ``train_text`` made; not timed."""
        raise NotImplementedError


def read(folder: Path, name: str) -> sp.csr_matrix:
    """One matrix of a prepared set."""
    return sp.csr_matrix(sp.load_npz(folder / f"{name}.npz"))


def labelled_texts(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each training text of a prepared set, without its line's end, and its label ids."""
    with (
        open(folder / "train.txt", encoding="utf-8") as texts,
        open(folder / "labels.txt", encoding="ascii") as labels,
    ):
        for text, row in zip(texts, labels, strict=True):
            yield text.rstrip("\n"), row.strip().split(",")


class Sylvan(Contender):
    """Sylvan itself: XRLinear at its defaults, but not calibrated, as no other is; or another model at its own."""

    package = "sylvan"
    text = True

    def __init__(self, model: str = "XRLinear", **settings: Any) -> None:
        shared = {"branching": BRANCHING, "max_leaf": MAX_LEAF, "beam": BEAM, "calibration": None}
        self._name, self._settings = model, {**shared, **settings} if model == "XRLinear" else settings

    def version(self) -> str:
        import sylvan  # which needn't be installed

        return str(sylvan.__version__)

    def load_imports(self) -> None:
        import sylvan

        self._class = getattr(sylvan, self._name)

    def prepare(self, folder: Path, scratch: Path) -> None:
        self._X, self._Y = read(folder, "X.trn"), read(folder, "Y.trn")

    def train(self, threads: int) -> None:
        self._model = self._made(threads).fit(self._X, self._Y)

    def _made(self, threads: int) -> Any:
        seed = {"seed": self.seed} if "seed" in self._class.constraints else {}
        return self._class(**self._settings, **seed, n_jobs=threads)

    def save(self, folder: Path) -> None:
        self._model.save(folder)

    def open(self, folder: Path, threads: int) -> None:
        import sylvan

        self._model = sylvan.load(folder)
        self._model.n_jobs = threads

    def rank_all(self, X: sp.csr_matrix) -> Any:
        return self._model.rank(X, TOP)

    def top(self, answer: Any) -> np.ndarray:
        return np.asarray(answer.labels, dtype=np.int64)

    def rank_one(self, row: Any) -> Any:
        return self._model.rank(row, TOP)

    def prepare_text(self, folder: Path, scratch: Path) -> None:
        with open(scratch / "train.jsonl", "w", encoding="utf-8") as lines:
            for text, labels in labelled_texts(folder):
                lines.write(json.dumps({"text": text, "labels": labels}, ensure_ascii=False) + "\n")

    def train_text(self, folder: Path, scratch: Path, threads: int) -> None:
        import sylvan

        read = sylvan.data.read_jsonl(scratch / "train.jsonl")
        model = sylvan.TextModel(model=self._made(threads)).set_params(vectorizer__n_jobs=threads)
        self._model = model.fit(read.texts, read.labels)

    def rank_text(self, texts: list[str]) -> np.ndarray:
        names = self._model.rank(texts, TOP).names
        best = np.full((len(texts), TOP), -1, dtype=np.int64)
        for at, row in enumerate(names):
            best[at, : len(row)] = [int(name) for name in row]
        return best


class SylvanFast(Sylvan):
    """Sylvan with teacher forcing alone, as the other libraries train."""

    def __init__(self) -> None:
        super().__init__(negatives="tfn")


class SylvanAccurate(Sylvan):
    """Sylvan with three trees."""

    text = False

    def __init__(self) -> None:
        super().__init__(n_trees=3)


class Libpecos(Contender):
    """libpecos's XLinearModel with its hierarchical k-means tree; ranks predict-only from chunked hash tables."""

    package = "libpecos"
    text = True

    def __init__(self, negatives: str = "tfn", weight_matrix_type: str = "HASH_CHUNKED") -> None:
        self._negatives, self._layout = negatives, weight_matrix_type

    def load_imports(self) -> None:
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        self._Indexer, self._Embedding, self._XLinear = Indexer, LabelEmbeddingFactory, XLinearModel

    def prepare(self, folder: Path, scratch: Path) -> None:
        self._X, self._Y = read(folder, "X.trn"), read(folder, "Y.trn").tocsc()

    def train(self, threads: int) -> None:
        embedding = self._Embedding.create(self._Y, self._X, method="pifa", threads=threads)
        chain = self._Indexer.gen(
            embedding,
            indexer_type="hierarchicalkmeans",
            nr_splits=BRANCHING,
            max_leaf_size=MAX_LEAF,
            seed=self.seed,
            threads=threads,
        )
        del embedding
        self._model = self._XLinear.train(
            self._X,
            self._Y,
            C=chain,
            negative_sampling_scheme=self._negatives,
            threads=threads,
            pred_kwargs={"beam_size": BEAM, "only_topk": TOP, "post_processor": "l3-hinge"},
        )

    def save(self, folder: Path) -> None:
        self._model.save(str(folder))

    def open(self, folder: Path, threads: int) -> None:
        self._model = self._XLinear.load(str(folder), is_predict_only=True, weight_matrix_type=self._layout)
        self._threads = threads

    def rank_all(self, X: sp.csr_matrix) -> Any:
        return self._model.predict(X, threads=self._threads)

    def top(self, answer: Any) -> np.ndarray:
        return measure.top_labels(answer, TOP)

    def rank_one(self, row: Any) -> Any:
        return self._model.predict(row, threads=1)

    def prepare_text(self, folder: Path, scratch: Path) -> None:
        n_labels = read(folder, "Y.trn").shape[1]
        (scratch / "items.txt").write_text("".join(f"{at}\n" for at in range(n_labels)))
        with open(scratch / "train.tsv", "w", encoding="utf-8") as lines:
            lines.writelines(f"{','.join(labels)}\t{text}\n" for text, labels in labelled_texts(folder))

    def train_text(self, folder: Path, scratch: Path, threads: int) -> None:
        from pecos.utils.featurization.text.preprocess import Preprocessor

        parsed = Preprocessor.load_data_from_file(str(scratch / "train.tsv"), str(scratch / "items.txt"))
        config = {"min_df_cnt": 2, "sublinear_tf": True, "threads": threads}
        tool = Preprocessor.train(parsed["corpus"], {"type": "tfidf", "kwargs": config}, dtype=np.float32)
        self._X, self._Y = tool.predict(parsed["corpus"], threads=threads), parsed["label_matrix"].tocsc()
        self.train(threads)
        self._tool = tool

    def rank_text(self, texts: list[str]) -> np.ndarray:
        return self.top(self._model.predict(self._tool.predict(texts)))


class LibpecosMatched(Libpecos):
    """libpecos with matcher-aware negatives beside teacher forcing."""

    text = False

    def __init__(self) -> None:
        super().__init__("tfn+man")
