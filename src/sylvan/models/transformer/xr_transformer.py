"""XRTransformer: a text encoder fine-tuned down the label tree, and linear rankers over its vectors and TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from sylvan import store
from sylvan.arrays.validate import Csr
from sylvan.indexing import LabelTree
from sylvan.models.transformer.estimator import TransformerEstimator
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import parameterized
from sylvan.runtime import Runner

if TYPE_CHECKING:
    from sylvan.models.transformer.fine_tuning import FineTuned


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
