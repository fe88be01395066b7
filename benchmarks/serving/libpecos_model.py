"""Trains libpecos's model of texts as its text2text tools do: its TF-IDF, its tree, XLinearModel; a worker of sets.py.

Settings are those of ``linear/contenders.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import process

PREDICTED = {"beam_size": 10, "only_topk": 10, "post_processor": "l3-hinge"}


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Trains and saves: the vectoriser, the ranker and the labels' names."""
    from importlib import metadata

    import numpy as np
    import scipy.sparse as sp
    from pecos.utils.featurization.text.preprocess import Preprocessor
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    folder, target = Path(job["texts"]), Path(job["model"])
    known = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    ids = {label: at for at, label in enumerate(known)}
    with open(folder / "train.jsonl", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    labels = [sorted({ids[label] for label in row["labels"]}) for row in rows]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in labels])])
    columns = np.array([label for row in labels for label in row], dtype=np.int32)
    shape = (len(rows), len(known))
    Y = sp.csr_matrix((np.ones(len(columns), dtype=np.float32), columns, ends), shape=shape).tocsc()
    corpus = [row["text"] for row in rows]
    config = {"min_df_cnt": 2, "sublinear_tf": True, "threads": 2}
    tool = Preprocessor.train(corpus, {"type": "tfidf", "kwargs": config}, dtype=np.float32)
    X = tool.predict(corpus, threads=2)
    embedding = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=2)
    chain = Indexer.gen(
        embedding, indexer_type="hierarchicalkmeans", nr_splits=16, max_leaf_size=100, seed=0, threads=2
    )
    model = XLinearModel.train(X, Y, C=chain, negative_sampling_scheme="tfn", threads=2, pred_kwargs=PREDICTED)
    tool.save(str(target / "vectorizer"))
    model.save(str(target / "ranker"))
    (target / "labels.json").write_text(json.dumps(known), encoding="utf-8")
    return {"version": metadata.version("libpecos"), "labels": len(known)}


if __name__ == "__main__":
    process.serve(work)
