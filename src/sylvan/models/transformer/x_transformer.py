"""XTransformer and XRTransformer: a text encoder fine-tuned on a label tree, and linear rankers over its vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.validate import Csr
from sylvan.errors import ParameterError, UnsupportedError
from sylvan.indexing import LabelTree
from sylvan.models.transformer.estimator import TransformerEstimator
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.xr.params import Scale
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import parameterized
from sylvan.runtime import Runner

if TYPE_CHECKING:
    from sylvan.models.transformer.fine_tuning import FineTuned

_Ints = npt.NDArray[np.int64]


class XTransformerTraining(TransformerTraining):
    """The encoder learns one layer of clusters, which is the first of the rankers' tree."""

    def encoder_tree(self, tree: LabelTree) -> LabelTree:
        return cluster_tree(tree, self.max_nodes)

    @property
    def unit_vectors(self) -> bool:
        """As the encoder has learned the clusters, whose scores are of the same vectors."""
        return self.matcher is None or self.matcher.normalize

    def tuned_layers(self, tree: LabelTree) -> list[int]:
        return [0]

    def tuned_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return (sizes[_last_small_enough(sizes[:-1], self.max_nodes)],)

    def rank(
        self, tree: LabelTree | None, features: Csr, tuned: FineTuned | None, length: float, runner: Runner, force: bool
    ) -> XRLinear:
        assert tree is not None
        ranker = self.ranker(tree)
        known: dict[int, Any] = {}
        if tuned is not None and tree.depth > 1:
            layer = tuned.layers[0]
            first = self.vectorizer.n_terms_
            gained = np.full(layer.table.shape[1], length, np.float32)
            factors = None if ranker.scaling == "none" else Scale.of(features, ranker.normalize).factors
            if factors is not None:
                gained *= factors[first:]
            layer = replace(layer, table=layer.table / gained)  # what vectors gained, the clusters' lose
            known[0] = layer.weights(tree.child_offsets[0], n_features=features.shape[1], first=first)
        labels = self.labels.to_scipy()
        return ranker.fit(features, labels, self.weight, layers=known, runner=runner, force=force)


@parameterized
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
        Makes the features of words; a copy of it is fitted. None for the preset's.
    matcher : TransformerMatcher, optional
        How the encoder is fine-tuned, on one layer of clusters: ``beam``, ``negatives_from`` and ``refresh`` have no
        use, as every cluster is a candidate of every text. None for the preset's.
    ranker : XRLinear, optional
        The linear rankers within clusters, of one tree; its ``max_leaf`` says how many labels a cluster has at most,
        and so how many clusters there are. None for the preset's.
    frozen : bool, default False
        Leave the encoder as it is: a linear matcher over [TF-IDF, vectors] then finds the clusters.
    max_length : int, optional
        The most tokens of a text that the encoder sees; None for 128, for 256 words of a new bag, and for what a
        bag's folder says. This and ``pooling`` are set in the encoder itself where an object is given.
    pooling : {"mean", "cls", "pooler", "last"}, optional
        How the vectors of tokens become the text's; None for what the encoder's folder says, or the preset, or "mean".
        Not for a bag.
    dense_scale : float, optional
        Length of the encoder's vectors beside TF-IDF's, whose is 1; None for what suits the encoder.
    device : str, default "auto"
        "cpu", "cuda" or "cuda:1", and for a frozen encoder and in ranking "mps" or "xpu"; "auto" is CUDA where there
        is some. It isn't saved.
    cache : path, optional
        A folder in which vectors are stored by the content of their texts. It isn't saved.
    n_jobs : int, optional
        Threads, of the parts too; None or -1 for every core.
    seed : int, default 0
        Of the parts too.
    unknown : {"none", "prior"}, default "none"
        As in :class:`~sylvan.TextModel`.

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
    dense_scale_, term_scale_ : float
        The vectors' length among the features, and TF-IDF's, as the rankers have learned them: of a row with both. With
        the ranker's ``normalize=True`` both together have the length 1, and a row without a known word is shorter.

    Notes
    -----
    Chang, Yu, Zhong, Yang & Dhillon (2020), "Taming pretrained transformers for extreme multi-label text
    classification"; Yu et al. (2022), Section 4, Eq. 15, which ``preset="paper"`` minimises as it stands: no costs, and
    vectors as the encoder gives them. The paper's results are of nine models, three encoders with three trees each:
    ``XTransformer.ensemble(preset="paper")``, or ``XTransformer.ensemble([one, two, three], preset="paper")`` with
    folders of your own.

    Examples
    --------
    >>> from sylvan import XRLinear, XTransformer
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> model = XTransformer("bag", preset="tiny", ranker=XRLinear(max_leaf=2), n_jobs=1)
    >>> model = model.fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> model.rank(["how to bake bread"], k=1).names, model.tree_.depth
    ([['Baking']], 2)
    """

    kind = "x-transformer"
    training: ClassVar[type[TransformerTraining]] = XTransformerTraining

    def _need_own_layers(self) -> None:
        if self.history_ and self.tree_.depth > 1:
            raise UnsupportedError(
                "The encoder of this XTransformer has learned the clusters, which can't be brought up to date with "
                "rows: it can learn new labels alone, from texts that have one each. For more, train it anew."
            )

    def part(self, name: str) -> Any:
        """As :meth:`TransformerEstimator.part`; the preset's ranker has one tree."""
        part = super().part(name)
        return part.set_params(n_trees=1) if name == "ranker" and self.ranker is None and part is not None else part

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every parameter's range, and those of the parts that one layer of clusters has no use for."""
        super().check_params(names)
        if self.ranker is not None and self.ranker.n_trees != 1:
            raise ParameterError(
                "The 'ranker' parameter of XTransformer must have n_trees=1: its tree is that of the encoder's "
                f"clusters, and several are an ensemble (XTransformer.ensemble). Got n_trees={self.ranker.n_trees} "
                "instead."
            )
        default = TransformerMatcher()
        for name in ("beam", "negatives_from", "refresh"):
            value, usual = (getattr(matcher, name) for matcher in (self.part("matcher"), default))
            if value != usual:
                raise ParameterError(
                    f"The {name!r} parameter of TransformerMatcher must be {usual} in an XTransformer, as every "
                    f"cluster is a candidate of every text. Got {value!r} instead."
                )


def cluster_tree(tree: LabelTree, max_clusters: int) -> LabelTree:
    """A tree of two layers: the last clusters of ``tree`` that aren't too many, and below each all its labels."""
    sizes = tree.layer_sizes[:-1]
    if not sizes:
        return tree  # fewer labels than a cluster holds
    at = _last_small_enough(sizes, max_clusters)
    offsets = tree.child_offsets[at + 1]
    for below in tree.child_offsets[at + 2 :]:
        offsets = below[offsets]
    clusters = np.array([0, sizes[at]], np.int64)
    offsets, labels = _once_each(np.asarray(offsets, np.int64), tree.leaf_labels, tree.n_labels)
    return LabelTree((clusters, offsets), labels, tree.n_labels)


def _last_small_enough(sizes: Sequence[int], max_clusters: int) -> int:
    """The last layer of at most ``max_clusters`` nodes."""
    return max((t for t, size in enumerate(sizes) if size <= max_clusters), default=0)


def _once_each(offsets: _Ints, labels: npt.NDArray[np.int32], n_labels: int) -> tuple[_Ints, npt.NDArray[np.int32]]:
    """Clusters in which no label stands twice, as those of overlapping trees do when they are joined."""
    cluster = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    first = np.sort(np.unique(cluster * n_labels + labels, return_index=True)[1])
    sizes = np.bincount(cluster[first], minlength=len(offsets) - 1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), labels[first]


store.register(XTransformer.kind, XTransformer.from_state)


class XRTransformerTraining(TransformerTraining):
    """The encoder learns the layers of the words' tree; then rankers learn trees of their own, over both features."""

    own_trees: ClassVar[bool] = True

    def tuned_layers(self, tree: LabelTree) -> list[int]:
        return self._small_enough(tree.layer_sizes)

    def tuned_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return tuple(sizes[t] for t in self._small_enough(sizes))

    def _small_enough(self, sizes: Sequence[int]) -> list[int]:
        """The layers of at most ``max_nodes`` nodes; the first in any case."""
        return [t for t, size in enumerate(sizes) if t == 0 or size <= self.max_nodes]

    def rank(
        self, tree: LabelTree | None, features: Csr, tuned: FineTuned | None, length: float, runner: Runner, force: bool
    ) -> XRLinear:
        labels = self.labels.to_scipy()
        return self.ranker().fit(features, labels, self.weight, runner=runner, force=force)


@parameterized
class XRTransformer(TransformerEstimator):
    """A text encoder, fine-tuned from coarse to fine over the label tree, with linear rankers (XR-Transformer).

    Labels are clustered into a tree by the TF-IDF of their texts. The encoder learns one layer of it after the other:
    which of the children of the nodes that are in question have a label of the text below them. Then
    :class:`~sylvan.XRLinear` is trained over both, TF-IDF and the encoder's vectors side by side, on trees of its own,
    which cluster the labels by both.
    Needs PyTorch, and transformers for any encoder but "bag" (``pip install "sylvan[transformers]"``).

    Parameters
    ----------
    encoder : str, path or TextEncoder, optional
        A folder that Hugging Face's ``AutoModel`` or sentence-transformers reads, a name on the hub, ``"bag"`` (a bag
        of hashed words, which learns without any weights beforehand), or an encoder of :mod:`sylvan.neural`, which is
        left as it is. None for the preset's.
    preset : {"base", "tiny", "paper"}, default "base"
        What stands for None: ``"base"`` a small sentence encoder, one pass a layer, and what has proved good since;
        ``"tiny"`` a bag of words, for tests and for processors alone; ``"paper"`` the papers' settings for Eurlex-4K,
        each with its source in ``sylvan/models/transformer/presets.py``. What belongs to a kind of encoder goes
        with the encoder, whatever the preset: a bag has learning rates of its own, and the paper's pooling is for
        networks that sentence-transformers hasn't trained.
    vectorizer : TfidfVectorizer, optional
        Makes the features of words; a copy of it is fitted. None for the preset's.
    matcher : TransformerMatcher, optional
        How the encoder is fine-tuned. None for the preset's.
    ranker : XRLinear, optional
        The linear rankers, and with ``branching``, ``max_leaf`` and ``embedding`` the trees: several with ``n_trees``,
        over the same vectors. Rows that it holds out for ``calibration`` have been seen by the encoder unless
        that is frozen: probabilities are then somewhat too high. None for the preset's.
    frozen : bool, default False
        Leave the encoder as it is: rankers over [TF-IDF, vectors] without any fine-tuning.
    max_length : int, optional
        The most tokens of a text that the encoder sees; None for 128, for 256 words of a new bag, and for what a
        bag's folder says. This and ``pooling`` are set in the encoder itself where an object is given.
    pooling : {"mean", "cls", "pooler", "last"}, optional
        How the vectors of tokens become the text's; None for what the encoder's folder says, or the preset, or "mean".
        Not for a bag.
    dense_scale : float, optional
        Length of the encoder's vectors beside TF-IDF's, whose is 1; None for what suits the encoder.
    device : str, default "auto"
        "cpu", "cuda" or "cuda:1", and for a frozen encoder and in ranking "mps" or "xpu"; "auto" is CUDA where there
        is some. It isn't saved.
    cache : path, optional
        A folder in which vectors are stored by the content of their texts. It isn't saved.
    n_jobs : int, optional
        Threads, of the parts too; None or -1 for every core.
    seed : int, default 0
        Of the parts too.
    unknown : {"none", "prior"}, default "none"
        As in :class:`~sylvan.TextModel`.

    Attributes
    ----------
    encoder_ : TextEncoder
        Fine-tuned; ``encoder_.save_pretrained(folder)`` writes it for transformers and sentence-transformers.
    vectorizer_ : TfidfVectorizer
    ranker_ : XRLinear
    tree_ : LabelTree
    history_ : list of dict
        What each layer's training went like.
    vocabulary_ : Vocabulary
        The label names.
    n_features_, n_labels_, n_rows_, n_dense_ : int
        The vectors' dimensions, ``n_dense_``, are the last of the features.
    dense_scale_, term_scale_ : float
        The vectors' length among the features, and TF-IDF's, as the rankers have learned them: of a row with both. With
        the ranker's ``normalize=True`` both together have the length 1, and a row without a known word is shorter.

    Notes
    -----
    Zhang, Chang, Yu & Dhillon (2021), "Fast multi-resolution transformer fine-tuning for extreme multi-label text
    classification"; Yu et al. (2022), Section 4. The paper's results are of ensembles of three models, one for each of
    BERT, RoBERTa and XLNet: ``XRTransformer.ensemble(preset="paper")``, or ``XRTransformer.ensemble([one, two, three],
    preset="paper")`` with folders of your own.

    Examples
    --------
    >>> from sylvan import XRTransformer
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> model = XRTransformer("bag", preset="tiny", n_jobs=1)
    >>> model = model.fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> model.rank(["how to bake bread"], k=1).names, model.embed(texts).shape
    ([['Baking']], (4, 64))
    """

    kind = "xr-transformer"
    training: ClassVar[type[TransformerTraining]] = XRTransformerTraining


store.register(XRTransformer.kind, XRTransformer.from_state)
