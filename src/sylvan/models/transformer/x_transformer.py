"""XTransformer: a text encoder fine-tuned to find the clusters of a text's labels, and linear rankers within them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.indexing import LabelTree
from sylvan.models.transformer.estimator import TransformerEstimator
from sylvan.models.transformer.kept_parts import KeptParts
from sylvan.models.transformer.presets import CONSTRAINTS, Unused
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params import Constraint
from sylvan.validate import Csr

if TYPE_CHECKING:
    from sylvan.models.transformer.matcher import DeepMatcher

__all__ = ["XTransformer"]

KIND = "x-transformer"
_Ints = npt.NDArray[np.int64]


class XTransformer(TransformerEstimator):
    """A text encoder, fine-tuned to find clusters of labels, with linear rankers within them (X-Transformer).

    Labels are clustered by the TF-IDF of their texts. The encoder learns, among all clusters at once, which hold a
    label of the text: it is the matcher. Linear rankers over TF-IDF and the encoder's vectors side by side then rank
    the labels of the best clusters. Needs PyTorch, and transformers for any encoder but "bag"
    (``pip install "sylvan[transformers]"``). :class:`~sylvan.XRTransformer` learns the same several times faster.

    Parameters
    ----------
    encoder : str, path or TextEncoder, optional
        A folder that Hugging Face's ``AutoModel`` or sentence-transformers reads, a name on the hub, ``"bag"`` (a bag
        of hashed words, which learns without any weights beforehand), or an encoder of :mod:`sylvan.neural`, which is
        left as it is. None for the preset's.
    preset : {"base", "tiny", "paper"}, default "base"
        What stands for None; see :class:`~sylvan.XRTransformer`.
    vectorizer : TfidfVectorizer, optional
        Of which a copy is fitted; None for the preset's.
    ranker : XRLinear, optional
        Its parameters are the rankers', of one tree; what is set below goes before, ``n_jobs`` and ``seed`` always.
        None for the preset's.
    frozen : bool, default False
        Leave the encoder as it is: a linear matcher over [TF-IDF, vectors] then finds the clusters.
    max_length : int, optional
        The most tokens of a text that the encoder sees; None for 128, for 256 words of a new bag, and for what a
        bag's folder says. This and the next three are set in the encoder itself where an object is given; a
        bag takes only this one.
    pooling : {"mean", "cls", "pooler"}, optional
        How the vectors of tokens become the text's; None for what the encoder's folder says, or "mean".
    lora_rank : int, optional
        Train low-rank additions to the encoder in place of all its weights (needs peft).
    gradient_checkpointing : bool, default False
        Compute activations again in place of keeping them: less memory, about a third more time.
    max_nodes : int, default 32768
        The most clusters: where ``max_leaf`` would make more of them, those of the layer above are taken.
    learning_rate, row_learning_rate, label_learning_rate : float, optional
        Of the encoder; of its tables with sparse gradients (a bag's); of the clusters' vectors.
    batch_size : int, optional
        Texts a step.
    epochs : float, optional
        Passes over the texts.
    max_steps : int, optional
        Most steps.
    warmup : float, optional
        Share of the steps in which rates rise; they fall afterwards.
    deep_beam : None
        Nothing else: every cluster is a candidate of every text, and none is searched for.
    relevance : {"l1", "l2", "max", "none"}, optional
        How costs follow from counts of labels.
    negative_cost : float, optional
        Factor of negatives' losses.
    bootstrap : bool, default True
        Let the clusters' vectors begin as a linear ranker's on the embeddings of the time.
    refresh : None
        Nothing else, as for ``deep_beam``.
    held_out : int, optional
        Texts that are kept apart to choose the best state by; a tenth of all at most.
    patience : int, optional
        Training ends after so many measurements without a better one.
    dense_scale : float, optional
        Length of the encoder's vectors beside TF-IDF's, whose is 1.
    n_trees : None
        Has no use here: the rankers' tree is that of the encoder's clusters.
    branching, max_leaf, embedding, beam, negatives, combine, threshold, tail, calibration : optional
        The index's and the rankers', as :class:`~sylvan.XRLinear` has them; ``max_leaf`` says how many labels a cluster
        has at most, and so how many clusters there are.
    device : str, default "auto"
        "cpu", "cuda" or "cuda:1", and for a frozen encoder and in ranking "mps" or "xpu"; "auto" is CUDA where there
        is some. A saved model doesn't keep it.
    precision : {"auto", "no", "bf16", "fp16"}, default "auto"
        Of the encoder's training; "auto" is bf16 on a GPU that has it.
    accumulate : int, default 1
        Batches whose gradients make one step.
    cache : path, optional
        A folder in which vectors are kept by the content of their texts. A saved model doesn't keep it.
    n_jobs : int, optional
        Threads; None or -1 for every core.
    seed : int, default 0

    Attributes
    ----------
    encoder_ : TextEncoder
        Fine-tuned; ``encoder_.save_pretrained(folder)`` writes it for transformers and sentence-transformers.
    vectorizer_ : TfidfVectorizer
    ranker_ : XRLinear
        Its first layer is the encoder's.
    tree_ : LabelTree
        Of two layers: clusters and labels.
    history_ : list of dict
        What the training went like.
    vocabulary_ : Vocabulary
        The label names.
    n_features_, n_labels_, n_rows_, n_dense_ : int
        The vectors' dimensions, ``n_dense_``, are the last of the features.
    dense_scale_ : float
        The vectors' length among the features, as the rankers have learned it.

    Notes
    -----
    Chang, Yu, Zhong, Yang & Dhillon (2020), "Taming pretrained transformers for extreme multi-label text
    classification"; Yu et al. (2022), Section 4, Eq. 15. The paper's results are of ensembles of three encoders and
    three trees, which ``XTransformer.ensemble([one, two, three], seeds=(0, 1, 2))`` makes.

    Examples
    --------
    >>> from sylvan import XTransformer
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> model = XTransformer("bag", preset="tiny", max_leaf=2, n_jobs=1)
    >>> model = model.fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> model.rank(["how to bake bread"], k=1).names, model.tree_.depth
    ([['Baking']], 2)
    """

    kind: ClassVar[str] = KIND
    constraints: ClassVar[Mapping[str, Constraint]] = {
        **CONSTRAINTS,
        **dict.fromkeys(("deep_beam", "refresh"), Unused("every cluster is a candidate of every text")),
        "n_trees": Unused("its tree is that of the encoder's clusters"),
    }

    def _shaped(self, tree: LabelTree) -> LabelTree:
        """Two layers: the last clusters that aren't too many, and below each all its labels."""
        sizes = tree.layer_sizes[:-1]
        if not sizes:
            return tree  # fewer labels than a cluster holds
        at = self._last_few(sizes)
        offsets = tree.child_offsets[at + 1]
        for below in tree.child_offsets[at + 2 :]:
            offsets = below[offsets]
        clusters = np.array([0, sizes[at]], np.int64)
        offsets, labels = _once_each(np.asarray(offsets, np.int64), tree.leaf_labels, tree.n_labels)
        return LabelTree((clusters, offsets), labels, tree.n_labels)

    def _last_few(self, sizes: tuple[int, ...]) -> int:
        """The last layer of at most ``max_nodes`` nodes."""
        return max((t for t, size in enumerate(sizes) if size <= self.max_nodes), default=0)

    def _trained_layers(self, tree: LabelTree) -> list[int]:
        return [0]

    def _planned_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (sizes[self._last_few(sizes[:-1])],)

    def _ranked(
        self, training: TransformerTraining, tree: LabelTree | None, features: Csr, matcher: DeepMatcher | None,
        scale: float, kept: KeptParts, force: bool,
    ) -> XRLinear:  # fmt: skip
        assert tree is not None
        known: dict[int, Any] = {}
        if matcher is not None and tree.depth > 1:
            layer = matcher.layers[0]
            length = scale / math.hypot(1, scale) if training.plain.normalize else scale  # beside TF-IDF's 1
            layer = replace(layer, table=layer.table / np.float32(length))  # what vectors gained, the clusters' lose
            first = training.vectorizer.n_terms_
            known[0] = layer.weights(tree.child_offsets[0], n_features=features.shape[1], first=first)
        labels, weight = training.labels.to_scipy(), training.weight
        ranker = training.ranker(tree)
        return ranker.fit(features, labels, weight, layers=known, checkpoint=kept.inner("ranker"), force=force)


def _once_each(offsets: _Ints, labels: npt.NDArray[np.int32], n_labels: int) -> tuple[_Ints, npt.NDArray[np.int32]]:
    """Clusters in which no label stands twice, as those of overlapping trees do when they are joined."""
    cluster = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    kept = np.sort(np.unique(cluster * n_labels + labels, return_index=True)[1])
    sizes = np.bincount(cluster[kept], minlength=len(offsets) - 1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), labels[kept]


store.register(KIND, XTransformer.from_state)
