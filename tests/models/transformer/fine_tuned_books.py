"""What tests of fine-tuning learn from: books of the sample, a bag of hashed words, parameters that take seconds."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kit.books import load_sample

from sylvan import LabelTree, TfidfVectorizer
from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.indexing import pifa
from sylvan.models.transformer.fine_tuning import FineTuned, FineTuning
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural import BagTextEncoder
from sylvan.runtime import Checkpoint, opened_runner

QUICK = TransformerMatcher(learning_rate=1e-4, label_learning_rate=0.15, clip_norm=None, beam=3, batch_size=16)


class Set:
    """Some books of the bundled sample: those with a heading that several of them have."""

    def __init__(self, n: int, n_test: int) -> None:
        sample = load_sample()
        counts: dict[str, int] = {}
        for names in sample.train.labels[:n]:
            for name in names:
                counts[name] = counts.get(name, 0) + 1
        ids = {name: i for i, name in enumerate(sorted(name for name in counts if counts[name] > 2))}
        self.texts, self.Y = self._part(sample.train.texts[:n], sample.train.labels[:n], ids)
        self.test_texts, test = self._part(sample.test.texts, sample.test.labels, ids)
        self.test_texts, self.test_Y = self.test_texts[:n_test], test.to_scipy()[:n_test]
        X = TfidfVectorizer().fit_transform(self.texts)
        self.tree = LabelTree.build(pifa(X, self.Y.to_scipy()), branching=8, max_leaf=8)

    def _part(self, texts: Sequence[str], labels: Sequence[Any], ids: dict[str, int]) -> tuple[list[str], Csr]:
        lists = [[ids[name] for name in names if name in ids] for names in labels]
        labelled = [i for i, found in enumerate(lists) if found]
        return [texts[i] for i in labelled], validate.labels([lists[i] for i in labelled], n_labels=len(ids))


@cache
def books(n: int = 900, n_test: int = 200) -> Set:
    found = Set(n, n_test)
    assert found.tree.depth == 3, found.tree
    return found


def bag(seed: int = 0, **params: Any) -> BagTextEncoder:
    return BagTextEncoder(dim=32, n_buckets=2**13, seed=seed, **params)


def tuned(
    encoder: BagTextEncoder,
    layers: Sequence[int],
    given: Set | None = None,
    matcher: TransformerMatcher = QUICK,
    checkpoint: Path | None = None,
    n_jobs: int = 1,
    **options: Any,
) -> FineTuned:
    """What a ``FineTuning`` gives; the checkpoint stays."""
    given = books() if given is None else given
    rows = encoder.tokenize(given.texts)
    with opened_runner(n_jobs, checkpoint=None if checkpoint is None else Checkpoint(checkpoint)) as runner:
        return FineTuning(encoder, rows, given.Y, given.tree, layers, matcher, runner=runner, **options).run()
