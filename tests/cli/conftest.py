"""A small corpus in every format, two models trained on it from the command line, and ways to call it."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from kit.commands import call, in_folder, refused  # noqa: F401
from kit.topics import WORDS, corpus

from sylvan import data
from sylvan.cli import main
from sylvan.text import TfidfVectorizer


@dataclass(frozen=True)
class Files:
    """Where the corpus and the models lie."""

    folder: Path
    text_model: str
    matrix_model: str

    def __call__(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("corpus")
    vectorizer, names = TfidfVectorizer(), data.Vocabulary(sorted(WORDS))
    for part, n, seed in (("train", 240, 1), ("test", 60, 2)):
        texts, labels = corpus(n, seed)
        X = vectorizer.fit_transform(texts) if part == "train" else vectorizer.transform(texts)
        Y = names.encode(labels)
        for suffix in ("jsonl", "jsonl.gz", "jsonl.xz"):
            data.write_jsonl(folder / f"{part}.{suffix}", texts, labels)
        (folder / f"{part}.lines").write_text("\n".join(texts) + "\n", "utf-8")
        for suffix in ("xmc", "txt", "xmc.gz"):
            data.save_xmc(folder / f"{part}.{suffix}", X, Y)
        data.save_xmc(folder / f"{part}-headless.txt", X, Y, header=False)
        data.save_svmlight(folder / f"{part}.svm", X, Y)
        data.save_svmlight(folder / f"{part}-from-1.svm", X, Y, zero_based=False)
        data.save_npz(folder / f"X.{part}.npz", X)
        data.save_npz(folder / f"Y.{part}.npz", Y)
        data.save_npy(folder / f"X.{part}.npy", X.toarray())
    text_model, matrix_model = str(folder / "text-model"), str(folder / "matrix-model")
    words = ["--ngrams", "1,1", "-q"]  # as in the matrices
    assert main(["train", "xr-linear", str(folder / "train.jsonl"), "--model", text_model, *words]) == 0
    assert main(["train", "xr-linear", str(folder / "train.xmc"), "--model", matrix_model, "-q"]) == 0
    return Files(folder, text_model, matrix_model)


@pytest.fixture
def place(files: Files) -> Files:
    return files
