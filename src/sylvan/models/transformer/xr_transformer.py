"""XRTransformer: a text encoder fine-tuned down the label tree, and linear rankers over its vectors and TF-IDF."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sylvan import store
from sylvan.indexing import LabelTree
from sylvan.models.transformer.estimator import TransformerEstimator
from sylvan.models.transformer.kept_parts import KeptParts
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.validate import Csr

if TYPE_CHECKING:
    from sylvan.models.transformer.matcher import DeepMatcher

__all__ = ["XRTransformer"]

KIND = "xr-transformer"


class XRTransformer(TransformerEstimator):
    """A text encoder, fine-tuned from coarse to fine over the label tree, with linear rankers (XR-Transformer).

    Labels are clustered into a tree by the TF-IDF of their texts. The encoder learns one layer of it after the other:
    which of the children of the nodes that are in question have a label of the text below them. Then
    :class:`~sylvan.XRLinear` is trained on the same tree over both, TF-IDF and the encoder's vectors side by side.
    Needs PyTorch, and transformers for any encoder but "bag" (``pip install "sylvan[transformers]"``).

    Parameters
    ----------
    encoder : str, path or TextEncoder, optional
        A folder that Hugging Face's ``AutoModel`` or sentence-transformers reads, a name on the hub, ``"bag"`` (a bag
        of hashed words, which learns without any weights beforehand), or an encoder of :mod:`sylvan.neural`, which is
        left as it is. None for the preset's.
    preset : {"base", "tiny", "paper"}, default "base"
        What stands for None: ``"base"`` a small sentence encoder, one pass a layer; ``"tiny"`` a bag of words, for
        tests and for processors alone; ``"paper"`` BERT and four passes, as in the paper. What belongs to a kind of
        encoder goes with the encoder, whatever the preset: a bag has learning rates of its own, and the paper's CLS
        pooling is for networks that sentence-transformers hasn't trained.
    vectorizer : TfidfVectorizer, optional
        Of which a copy is fitted; None for the preset's.
    ranker : XRLinear, optional
        Its parameters are the rankers', of one tree; what is set below goes before, ``n_jobs`` and ``seed`` always.
        None for the preset's.
    frozen : bool, default False
        Leave the encoder as it is: rankers over [TF-IDF, vectors] without any fine-tuning.
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
        Layers with more nodes aren't fine-tuned on, only ranked.
    learning_rate, row_learning_rate, label_learning_rate : float, optional
        Of the encoder; of its tables with sparse gradients (a bag's); of the vectors of tree nodes.
    batch_size : int, optional
        Texts a step.
    epochs : float or list of float, optional
        Passes over the texts in each layer, or one number a layer.
    max_steps : int or list of int, optional
        Most steps of a layer.
    warmup : float, optional
        Share of a layer's steps in which rates rise; they fall afterwards.
    deep_beam : int, optional
        Nodes of the layer above whose children are candidates, beside those with a positive below.
    relevance : {"l1", "l2", "max", "none"}, optional
        How costs follow from recursive label counts.
    negative_cost : float, optional
        Factor of negatives' losses.
    bootstrap : bool, default True
        Let a layer's vectors begin as the linear ranker's on the embeddings of the time.
    refresh : int, optional
        Steps within a layer after which candidates are found anew.
    held_out : int, optional
        Texts that are kept apart to choose the best state of a layer by; a tenth of all at most.
    patience : int, optional
        A layer ends after so many measurements without a better one.
    dense_scale : float, optional
        Length of the encoder's vectors beside TF-IDF's, whose is 1.
    n_trees : int, optional
        Trees of rankers over the same vectors, whose mean a label's score is; the encoder reads a text once for all.
    branching, max_leaf, embedding, beam, negatives, combine, threshold, tail, calibration : optional
        The index's and the rankers', as :class:`~sylvan.XRLinear` has them. Rows that are held out for ``calibration``
        have been seen by the encoder unless it is frozen: probabilities are then somewhat too high.
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
    tree_ : LabelTree
    history_ : list of dict
        What each layer's training went like.
    vocabulary_ : Vocabulary
        The label names.
    n_features_, n_labels_, n_rows_, n_dense_ : int
        The vectors' dimensions, ``n_dense_``, are the last of the features.
    dense_scale_ : float
        The vectors' length among the features, as the rankers have learned it.

    Notes
    -----
    Zhang, Chang, Yu & Dhillon (2021), "Fast multi-resolution transformer fine-tuning for extreme multi-label text
    classification"; Yu et al. (2022), Section 4. The paper's results are of ensembles of three encoders, which
    ``XRTransformer.ensemble([one, two, three])`` makes.

    Examples
    --------
    >>> from sylvan import XRTransformer
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> model = XRTransformer("bag", preset="tiny", n_jobs=1)
    >>> model = model.fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> model.rank(["how to bake bread"], k=1).names, model.embed(texts).shape
    ([['Baking']], (4, 64))
    """

    kind: ClassVar[str] = KIND
    _own_trees: ClassVar[bool] = True

    def _trained_layers(self, tree: LabelTree) -> list[int]:
        return self._few_enough(tree.layer_sizes)

    def _few_enough(self, sizes: tuple[int, ...]) -> list[int]:
        """The layers of at most ``max_nodes`` nodes; the first in any case."""
        return [t for t, size in enumerate(sizes) if t == 0 or size <= self.max_nodes]

    def _planned_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sizes[t] for t in self._few_enough(sizes))

    def _ranked(
        self, training: TransformerTraining, tree: LabelTree | None, features: Csr, matcher: DeepMatcher | None,
        scale: float, kept: KeptParts, force: bool,
    ) -> XRLinear:  # fmt: skip
        labels, weight = training.labels.to_scipy(), training.weight
        return training.ranker().fit(features, labels, weight, checkpoint=kept.inner("ranker"), force=force)


store.register(KIND, XRTransformer.from_state)
