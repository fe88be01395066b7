"""What training an XRTransformer or XTransformer takes: its memory, its time by a few texts, and the model's size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sylvan.arrays import validate
from sylvan.arrays.canonical import beside, take_rows
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.matching.negatives import csr_bytes
from sylvan.models.transformer.memory import memory_offers, on_gpu, sizes_of
from sylvan.models.transformer.presets import encoder_of
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.transformer.transformer_matcher import TransformerMatcher
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed

_TIMED_TEXTS = 64  # that go through the encoder to see how long it takes
_PLANNED_ROWS = 20_000  # among which the rankers are solved in part
_BACKWARD = 3.0  # a step of training, in passes forward


def plan_of(training: TransformerTraining) -> Plan:
    """What a training will take; see :meth:`TransformerEstimator.plan`."""
    model, n_rows = training.model, len(training.texts)
    now, available = resident_bytes(), available_bytes()
    with timed() as opening:
        encoder = encoder_of(model)
    # What PyTorch itself takes once it is loaded is there all the time; the weights are counted among the parts.
    weights = sum(weight.numel() for weight in encoder.parameters())
    base = max(now, resident_bytes() - 4 * weights)
    with timed(training.jobs) as making:
        terms = training.terms()
    with timed(training.jobs) as clustering:
        tree = training.encoder_tree(training.index(terms))
    training.check_layers(tree)
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _TIMED_TEXTS)).astype(np.int64))
    training.embedding_job(encoder, [training.texts[int(row)] for row in sample[:8]])()  # what happens once
    with timed() as embedding:
        training.embedding_job(encoder, [training.texts[int(row)] for row in sample])()
    matcher, gpu = training.suited_matcher(encoder), on_gpu(model.device)
    # The clock counted all threads of a processor, as a process's time sums over them.
    each = embedding.seconds / len(sample) / (1 if gpu else max(1, training.jobs))
    layers = () if matcher is None else tuple(tree.layer_sizes[t] for t in training.tuned_layers(tree))
    sizes = sizes_of(encoder, training.texts, matcher, layers, len(terms.indices))
    rankers, share = _rankers(training, tree, terms, encoder.dim_out)
    n_trees, index = _trees_made(training, terms, encoder.dim_out)
    parts = sizes.bytes()
    learned, embedded = _texts_seen(matcher, n_rows, len(layers))
    where = " (on the GPU)" if gpu else ""
    phases: tuple[Phase, ...] = (
        Phase("features", making.seconds, terms.nbytes),
        Phase("tree" if n_trees == 1 else "trees", clustering.seconds * n_trees, index),
        Phase(f"encoder{where}", opening.seconds, parts["encoder"]),
        Phase(f"its training{where}", learned * each * _BACKWARD, parts["its training"]),
        Phase(f"node vectors{where}", 0.0, parts["node vectors"]),
        Phase("embeddings", embedded * each, parts["embeddings"]),
        *(replace(p, seconds=p.seconds / share, peak_bytes=round(p.peak_bytes / share)) for p in rankers.phases),
    )
    phases = tuple(phase for phase in phases if phase.seconds or phase.peak_bytes)
    tuning = sizes.training - (sizes.gpu if gpu else 0)
    vectors = n_rows * encoder.dim_out
    ranking = sizes.ranking - parts["rankers"] - (parts["encoder"] if gpu else 0)
    solved = round(max(phase.peak_bytes for phase in rankers.phases) / share)
    ranking += csr_bytes(n_rows, sizes.n_terms + vectors) + max(index, solved)
    model_bytes = parts["encoder"] + state_bytes(training.vectorizer.to_state()) + round(rankers.model_bytes / share)
    model_bytes += state_bytes(training.vocabulary.to_state())
    plan = Plan(
        sum(phase.seconds for phase in phases), base + max(tuning, ranking), model_bytes,
        None if available is None else now + available, phases,
    )  # fmt: skip
    if plan.fits:
        return plan
    return replace(plan, offers=(*memory_offers(encoder, sizes, matcher), *(f"ranker: {o}" for o in rankers.offers)))


def _trees_made(training: TransformerTraining, terms: Any, n_dense: int) -> tuple[int, int]:
    """How many trees are clustered, and the bytes of the labels' vectors where that is by both kinds of features."""
    ranker, labels = training.ranker(), training.labels
    if not training.own_trees or ranker.tree is not None or labels.shape[1] <= ranker.max_leaf:
        return 1, 0
    lengths = np.repeat(np.diff(terms.indptr) + n_dense, np.diff(labels.indptr))
    index = embedding_bytes(labels.shape[1], int(lengths.sum()), len(labels.indices))
    return ranker.n_trees + (training.matcher is not None), index


def _texts_seen(matcher: TransformerMatcher | None, n_rows: int, n_layers: int) -> tuple[int, int]:
    """How often a text goes through the encoder to be learned from, and how often for its vector alone."""
    if matcher is None or not n_layers:
        return 0, n_rows
    steps = [matcher.steps(n_rows, at, matcher.accumulate) for at in range(n_layers)]
    # All of them before each layer, whenever its candidates are found anew (there is nothing above the first), and for
    # the rankers; the holdout whenever a layer is measured.
    times = 1 + n_layers + (0 if matcher.refresh is None else sum((n - 1) // matcher.refresh for n in steps[1:]))
    between = [max(1, -(-n // matcher.evaluations)) for n in steps]
    measured = sum(1 - (-n // each) for n, each in zip(steps, between, strict=True))
    seen = times * n_rows + min(matcher.holdout, n_rows // 10) * measured
    return sum(steps) * matcher.batch_size * matcher.accumulate, seen


def _rankers(training: TransformerTraining, tree: Any, terms: Any, n_dense: int) -> tuple[Plan, float]:
    """The plan of the rankers on a part of the rows, and which share that is; what they see of the encoder is noise.
    Trees of their own are taken to be like the one that the words make."""
    n_rows = terms.shape[0]
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _PLANNED_ROWS)).astype(np.int64))
    labels = take_rows(training.labels, rows)
    noise = np.random.default_rng(0).standard_normal((len(rows), n_dense), np.float32) / np.float32(np.sqrt(n_dense))
    features = beside(take_rows(terms, rows), noise)
    ranker = training.ranker(None if training.own_trees else tree)
    weight = None if training.weight is None else validate.sample_weight(training.weight[rows], len(rows))
    plan = ranker.plan(features, labels, weight, trees=[tree] * ranker.n_trees)
    return plan, len(rows) / max(n_rows, 1)
