"""XTransformer and XRTransformer: a text encoder fine-tuned on a label tree, and linear rankers over its vectors."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import ParameterError, UnsupportedError
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import MEANING, gathered
from sylvan.indexing import LabelTree
from sylvan.labels.targets import grown_labels, need_as_many, one_class_a_row
from sylvan.models import encoders as encoding
from sylvan.models.base import Estimator, has_new_rows
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.text_estimator import TextEstimator, Unknown, check_texts
from sylvan.models.transformer import training as fitting
from sylvan.models.transformer.presets import PARTS, Preset, TransformerMatcher, ensemble_of, preset_part
from sylvan.models.xr.params import Scale
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Range, Seed, Tested, Threads, attribute, check_value, construct, parameterized
from sylvan.runtime import Runner
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.plan import Plan, UpdatePlan
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.models.transformer.fine_tuning import FineTuned
    from sylvan.neural.text.text_encoder import TextEncoder

_DEVICES = re.compile(r"auto|cpu|(cuda|mps|xpu)(:[0-9]{1,3})?")
_DEVICE = Tested(
    lambda value: isinstance(value, str) and _DEVICES.fullmatch(value) is not None,
    "'auto', 'cpu', 'cuda', 'mps' or 'xpu', with a number where there are several, as in 'cuda:1'",
)
# Where the machine that fitted a model computes and stores vectors is no part of the model, and no manifest says where
# another one does.
_OF_THE_MACHINE: Mapping[str, Any] = MappingProxyType({"cache": None, "device": "auto"})
_Self = TypeVar("_Self", bound="XRTransformer")


@parameterized
class XRTransformer(TextEstimator):
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

    encoder: Annotated[Any | None, encoding.ENCODER_SOURCE] = None
    preset: Preset = "base"
    vectorizer: TfidfVectorizer | None = None
    matcher: TransformerMatcher | None = None
    ranker: XRLinear | None = None
    frozen: bool = False
    max_length: Annotated[int | None, Range(1)] = None
    pooling: Literal["mean", "cls", "pooler", "last"] | None = None
    dense_scale: Annotated[float | None, Range(1e-30, 1e15)] = None  # what float32 and the rankers can bear
    device: Annotated[str, _DEVICE] = "auto"
    cache: Annotated[str | os.PathLike[str] | None, Tested(encoding.is_path, "the path of a folder")] = None
    n_jobs: Threads = None
    seed: Seed = 0
    unknown: Unknown = "none"

    fitted_: fitting.FittedTransformer = attribute()
    vectorizer_ = property(lambda self: self.fitted_.vectorizer, doc="What makes features of words.")
    ranker_ = property(lambda self: self.fitted_.ranker, doc="The linear rankers.")
    history_ = property(lambda self: self.fitted_.history, doc="What the training of each layer went like.")
    n_dense_ = property(lambda self: self.fitted_.n_dense, doc="Dimensions of the encoder's vectors.")
    dense_scale_ = property(
        lambda self: self.fitted_.lengths.dense, doc="The length of the encoder's vectors in a row."
    )
    term_scale_ = property(lambda self: self.fitted_.lengths.terms, doc="The length of TF-IDF's part of a row.")
    unit_vectors_ = property(lambda self: self.fitted_.unit_vectors, doc="Whether rankers see vectors at length 1.")

    layout = 2
    training: ClassVar[type[fitting.TransformerTraining]] = fitting.TransformerTraining
    at_ranking: ClassVar[tuple[str, ...]] = ("beam", "combine", "tail")  # of the ranker's, what counts when it's set

    # ---------------------------------------- parts

    def part(self, name: str) -> Any:
        """The vectorizer, matcher or ranker: the one that was given, or else a new one as the preset has it."""
        part = getattr(self, name)
        is_part = name in PARTS and self.constraints["preset"].accepts(self.preset)
        return preset_part(self.preset, self.kind, name) if part is None and is_part else part

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name; those of a part as ``ranker__beam``, which makes the preset's part this model's own.

        The ranker's ``beam``, ``combine`` and ``tail`` count in a fitted model too, all others when it is fitted again.

        Raises
        ------
        ParameterError
            For an unknown name.
        """
        super().set_params(**values)
        if self._is_fitted():
            for name in self.at_ranking:
                if f"ranker__{name}" in values:
                    setattr(self.ranker_, name, values[f"ranker__{name}"])
        return self

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every parameter's range, those of the parts too."""
        super().check_params(names)
        ranker = self.ranker
        if ranker is not None and ranker.tree is not None and ranker.n_trees != 1:
            raise ParameterError(
                f"The 'ranker' parameter of {type(self).__name__} must have n_trees=1 beside a tree that is given. Got "
                f"n_trees={ranker.n_trees} instead."
            )
        if ranker is not None and ranker.tree is None and ranker.embedding == "pifa_lf":
            raise ParameterError(
                f"The 'ranker' parameter of {type(self).__name__} must have embedding='pifa', 'pii' or 'spectral': "
                "'pifa_lf' needs features of labels, and there are texts alone."
            )

    # ---------------------------------------- training

    def fit(  # texts and label lists are what X and Y are here
        self: _Self,
        texts: Iterable[str],
        label_lists: Any,
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        force: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> _Self:
        """Learn from texts and their labels: the index, the encoder layer by layer, and the rankers.

        Parameters
        ----------
        texts : iterable of str, length n
        label_lists : sequence of length n
            Each text's labels: a list of strings, or of pairs (name, relevance above 0). One string a text is
            allowed too. A matrix of shape (n, L) or lists of ints are label ids, named by their numbers.
        sample_weight : array-like of shape (n,), optional
            The weight of each text, to the encoder and to the rankers.
        checkpoint : path or Checkpoint, optional
            A folder for the layers that are done, from which the same call goes on after an interruption, to the same
            bits. A path is removed when ``fit`` is done.
        force : bool, default False
            Train even where the machine hasn't got the memory.
        report : callable, optional
            Called with one line on the memory that the encoder will take, before anything is learned: ``print``, say.

        Raises
        ------
        ImportError
            When PyTorch, or what the encoder needs, isn't installed.
        DataError
            For texts or labels of another type, not as many of the one as of the other, or nothing to learn from.
        ParameterError
            When a parameter is out of its range, or a learning rate so high that the training diverges.
        ModelError
            When the encoder can't be opened, or ``checkpoint`` is another training's or can't be written.
        MemoryLimitError
            When the machine clearly has too little memory, or there was too little on the way; with what to lower.
        """
        training = self.training(self, texts, label_lists, sample_weight)
        self._take(training.run(checkpoint, force, report), training.vocabulary)
        self.single_label_ = one_class_a_row(label_lists)
        return self

    def _take(self, fitted: fitting.FittedTransformer, vocabulary: Vocabulary) -> None:
        """What the fitted ranker knows of the data, which the model has too."""
        self.fitted_, self.vocabulary_, ranker = fitted, vocabulary, fitted.ranker
        self.n_rows_, self.label_counts_, self.calibrator_ = ranker.n_rows_, ranker.label_counts_, ranker.calibrator_
        self.n_features_, self.n_labels_ = ranker.n_features_, ranker.n_labels_

    def plan(self, texts: Iterable[str], label_lists: Any, sample_weight: Any = None) -> Plan:
        """What ``fit`` with the same arguments would take: time, memory and the size of the model.

        Features and tree are made as ``fit`` makes them; a few texts go through the encoder, from which the time of
        its training is estimated. Nothing of this object changes. Parameters and errors as in :meth:`fit`.

        Returns
        -------
        Plan
            Its phases name the encoder, its training (with the vectors of the largest layer's nodes and their
            state in the optimiser), the embeddings and the rankers. What a GPU holds counts as the machine's memory
            where there is none.
        """
        return fitting.plan_of(self.training(self, texts, label_lists, sample_weight))

    # ---------------------------------------- asking

    @property
    def encoder_(self) -> TextEncoder:
        """The encoder, fine-tuned unless it was frozen; of a loaded model, read when it is first asked for.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        ModelError
            When its files were altered, or its vectors aren't those that the rankers have learned from.
        """
        self._need_fit("encoder_")
        return cast("TextEncoder", self.fitted_.encoder.open())  # no training takes static vectors

    @property
    def tree_(self) -> LabelTree:
        """The tree over the labels; of several, the first."""
        self._need_fit("tree_")
        return self.fitted_.ranker.tree_

    def embed(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """The encoder's vectors of texts, of length 1.

        Parameters
        ----------
        texts : iterable of str, length n

        Returns
        -------
        ndarray of float32, shape (n, n_dense_)

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``texts`` is anything but strings.
        """
        self._need_fit("embed")
        return self._dense(check_texts(texts, type(self).__name__), unit=True)

    def _dense(self, texts: list[str], unit: bool) -> npt.NDArray[np.float32]:
        return encoding.dense_features(
            self.encoder_, texts, device=self.device, n_jobs=self.n_jobs, cache=self.cache, normalize=unit
        )

    def inner(self) -> Estimator:
        """The linear rankers."""
        resolve_jobs(self.n_jobs)
        ranker = self.fitted_.ranker
        ranker.n_jobs = self.n_jobs
        ranker.check_params(self.at_ranking)
        return ranker

    def _text_features(self, texts: list[str]) -> Csr:
        fitted = self.fitted_
        fitted.vectorizer.n_jobs = self.n_jobs
        terms = fitting.unit_terms(fitted.vectorizer, fitted.vectorizer.transform_rows(texts))
        return fitting.joined(terms, self._dense(texts, fitted.unit_vectors), fitted.lengths)

    def _feature_name(self, column: int) -> str:
        vectorizer = self.fitted_.vectorizer
        return vectorizer.term(column) if column < vectorizer.n_terms_ else MEANING

    @of_one_state
    def explain(self, x: str | list[str], label: str | int, top: int = 10, **options: Any) -> Explanation:
        """Why the model gives ``label`` to a text: words by name, and all of the encoder's dimensions as one entry.

        Parameters, result and errors as in :meth:`TextModel.explain`.
        """
        self._need_fit("explain")
        return gathered(super().explain(x, label, 10_000, **options), top, self.vectorizer_.n_terms_)

    # ---------------------------------------- bringing up to date

    @all_at_once
    def update(
        self: _Self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        **options: Any,
    ) -> _Self:  # fmt: skip
        """Learn new texts, with labels old and new; forget texts; make several labels one. The encoder stays.

        The rankers are updated, as :meth:`XRLinear.update` says, with the vectors that the encoder gives to the new
        texts. The encoder learns nothing, and the words of the vectoriser stay those of ``fit``: their columns come
        before the vectors'. With the same encoder, words and trees, it comes to what training the rankers with all
        texts gives. Train again when texts change much.

        Parameters
        ----------
        X : iterable of str, optional
            New texts.
        Y : their labels, as in :meth:`fit`, optional
            Names that aren't known are new labels, and get the next ids in alphabetical order.
        sample_weight : array-like, optional
        merge : mapping of str to list of str, optional
            The texts of some labels become those of another.
        **options
            Of :meth:`XRLinear.update`: ``forget``, ``precise``, or ``rows``, a pair (texts, labels).

        Returns
        -------
        XRTransformer or XTransformer
            This model, changed; where an error is raised, it is as it was.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        UnsupportedError
            When the rankers keep no rows (``ranker=XRLinear(keep_rows=True)``) and aren't given them, unless each new
            text has a new label. An XTransformer whose encoder was fine-tuned can learn new labels alone.
        DataError
            When something is malformed or not known.

        Examples
        --------
        >>> from sylvan import XRLinear, XRTransformer
        >>> model = XRTransformer("bag", preset="tiny", ranker=XRLinear(keep_rows=True), n_jobs=1)
        >>> model = model.fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> model.update(["cakes at sea"], [["Voyages"]]).rank(["sea cakes"], k=1).names
        [['Voyages']]
        """
        self._need_fit("update")
        vocabulary, rows, options = self._asked(X, Y, merge, options)
        before = self.inner()
        ranker = copy.copy(before).update(*rows, sample_weight, **options)
        assert isinstance(ranker, XRLinear)
        self._take(replace(self.fitted_, ranker=ranker), vocabulary)
        self._free_names(np.setdiff1d(ranker.removed_labels_, before.removed_labels_).astype(np.int32))
        return self

    def plan_update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        **options: Any,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes. Errors as there."""
        self._need_fit("plan_update")
        _, rows, options = self._asked(X, Y, merge, options)
        plan: UpdatePlan = self.inner().plan_update(*rows, sample_weight, **options)
        return plan

    def _asked(
        self, X: Iterable[str] | None, Y: Any, merge: Any, options: Mapping[str, Any]
    ) -> tuple[Vocabulary, tuple[Any, Any], dict[str, Any]]:
        """The names of labels then; features, labels and options of the rankers' update."""
        options, vocabulary, features, matrix = dict(options), self.vocabulary_, None, None
        beyond = any(value is not None for value in (options.get("rows"), options.get("forget"), merge))
        if has_new_rows(X, Y, rows="texts"):
            texts = check_texts(X, type(self).__name__)  # type: ignore[arg-type]
            named, matrix = grown_labels(self.vocabulary_, self.n_labels_, Y)
            vocabulary = self.vocabulary_ if named is None else named
            need_as_many(len(texts), matrix.shape[0])
            beyond = beyond or not (matrix.to_scipy()[:, self.n_labels_ :].getnnz(axis=1) > 0).all()
        if beyond and not self.training.own_trees and self.history_ and self.tree_.depth > 1:
            raise UnsupportedError(
                f"The encoder of this {type(self).__name__} has learned the clusters, which can't be brought up to "
                "date with rows: it can learn new labels alone, from texts with one each. For more, train it again."
            )
        if matrix is not None:
            features = self._text_features(texts)
        if options.get("rows") is not None:
            options["rows"] = self._all_rows(options["rows"])
        if merge is not None:
            options["merge"] = self._merged(merge)
        return vocabulary, (features, matrix), options

    # ---------------------------------------- several

    @classmethod
    def ensemble(
        cls, encoders: Sequence[Any] | None = None, seeds: Sequence[int] | None = None, **params: Any
    ) -> Ensemble:
        """An ensemble of one model for each encoder and each seed, to be fitted.

        Parameters
        ----------
        encoders : sequence of str, path or TextEncoder, optional
            None with ``preset="paper"`` for its three: BERT, RoBERTa and XLNet.
        seeds : sequence of int, optional
            Each also makes another tree. None for (0,), and with ``preset="paper"`` for the paper's: (0, 1, 2) in an
            XTransformer, and each encoder with a seed of its own in an XRTransformer.
        **params
            Others of the class, the same for all; those of parts as ``ranker__max_leaf``.

        Returns
        -------
        Ensemble
            Of ``len(encoders) * len(seeds)`` members, whose probabilities are averaged: with ``preset="paper"`` nine of
            XTransformer and three of XRTransformer (PECOS, Section 6.1).

        Raises
        ------
        ParameterError
            When ``encoders`` is one encoder, or None with another preset.

        Examples
        --------
        >>> from sylvan import XTransformer
        >>> nine = XTransformer.ensemble(preset="paper")
        >>> [(member.encoder, member.seed) for member in nine.members[2:4]]
        [('bert-large-cased-whole-word-masking', 2), ('roberta-large', 0)]
        """
        if isinstance(encoders, (str, os.PathLike)) or hasattr(encoders, "tokenize"):
            raise ParameterError(
                "The 'encoders' parameter of ensemble must be a list of encoders. Got "
                f"{encoders!r} instead: put it into a list."
            )
        preset = params.get("preset", "base")
        check_value("preset", preset, cls.constraints["preset"], cls.__name__)
        pairs = ensemble_of(preset, cls.kind, encoders, seeds)
        members = [construct(cls, dict(encoder=encoder, seed=seed, **params)) for encoder, seed in pairs]
        return Ensemble(members, n_jobs=params.get("n_jobs"))

    # ---------------------------------------- copies and files

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        fitted = self.fitted_
        self._take(replace(fitted, ranker=fitted.ranker.without_label_ids(ids)), self.vocabulary_)

    def to_state(self) -> store.State:
        """The parts of the model and the files of its encoder, for :func:`sylvan.store.save`."""
        state = super().to_state()
        state.files.update(self.fitted_.encoder.files())
        return state

    def _plain_params(self) -> dict[str, Any]:
        params = {**super()._plain_params(), **_OF_THE_MACHINE, "encoder": encoding.described_encoder(self.encoder)}
        return params | {name: encoding.described_part(getattr(self, name)) for name in PARTS}

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = {**super()._params_from(state), **_OF_THE_MACHINE}
        params.update({name: encoding.made_part(state, name, kind, params[name]) for name, kind in PARTS.items()})
        return {**params, "encoder": encoding.made_encoder(state, params["encoder"])}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        (meta, arrays, parts), (learned, learned_parts) = super()._fitted_state(), self.fitted_.to_state()
        return {**meta, **learned}, arrays, {**learned_parts, **parts}

    def _restore(self, state: store.State) -> None:
        resolve_jobs(self.n_jobs)
        super()._restore(state)
        self._take(fitting.FittedTransformer.from_state(state, len(self.vocabulary_)), self.vocabulary_)


store.register(XRTransformer.kind, XRTransformer.from_state)


class XTransformerTraining(fitting.TransformerTraining):
    """The encoder learns one layer of clusters, which is the first of the rankers' tree."""

    own_trees: ClassVar[bool] = False

    def encoder_tree(self, tree: LabelTree) -> LabelTree:
        return cluster_tree(tree, self.max_nodes)

    @property
    def unit_vectors(self) -> bool:
        """As the encoder has learned the clusters, whose scores are of the same vectors."""
        return self.matcher is None or self.matcher.normalize

    def tuned_layers(self, sizes: Sequence[int]) -> list[int]:
        return [0]

    def tuned_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return (sizes[_last_small_enough(sizes[:-1], self.max_nodes)],)

    def check_layers(self, tree: LabelTree | None) -> None:
        super().check_layers(tree)
        if self.matcher is not None and tree is not None and tree.depth > 1 and self.ranker().keep_rows:
            raise ParameterError(
                "The 'ranker' parameter of XTransformer must have keep_rows=False where the encoder is fine-tuned: its "
                "clusters can't be brought up to date with rows. Set frozen=True, or take XRTransformer."
            )

    def rank(
        self, tree: LabelTree | None, features: Csr, tuned: FineTuned | None, length: float, runner: Runner, force: bool
    ) -> XRLinear:
        assert tree is not None
        ranker = self.ranker(tree)
        learned: dict[int, Any] = {}
        if tuned is not None and tree.depth > 1:
            from sylvan.models.transformer.layer_job import table_weights

            layer = tuned.layers[0]
            first = self.vectorizer.n_terms_
            gained = np.full(layer.table.shape[1], length, np.float32)
            factors = Scale.of(ranker, features).factors
            if factors is not None:
                gained *= factors[first:]
            learned[0] = table_weights(  # what vectors gained, the clusters' lose
                layer.table / gained, layer.bias, tree.child_offsets[0], n_features=features.shape[1], first=first
            )
        labels = self.labels.to_scipy()
        return ranker.fit(features, labels, self.weight, layers=learned, runner=runner, force=force)


@parameterized
class XTransformer(XRTransformer):
    """A text encoder, fine-tuned to find clusters of labels, with linear rankers within them (X-Transformer).

    Labels are clustered by the TF-IDF of their texts. The encoder learns, among all clusters at once, which hold a
    label of the text: it is the matcher. Linear rankers over TF-IDF and the encoder's vectors side by side then rank
    the labels of the best clusters. Needs PyTorch, and transformers for any encoder but "bag"
    (``pip install "sylvan[transformers]"``). :class:`~sylvan.XRTransformer` learns the same several times faster.

    Parameters
    ----------
    preset : {"base", "tiny", "paper"}, default "base"
        What stands for None; see :class:`~sylvan.XRTransformer`.
    matcher : TransformerMatcher, optional
        How the encoder is fine-tuned, on one layer of clusters: ``beam``, ``negatives_from`` and ``refresh`` have no
        use, as every cluster is a candidate of every text. None for the preset's.
    ranker : XRLinear, optional
        The linear rankers within clusters, of one tree; its ``max_leaf`` says how many labels a cluster has at most,
        and so how many clusters there are. None for the preset's.
    frozen : bool, default False
        Leave the encoder as it is: a linear matcher over [TF-IDF, vectors] then finds the clusters.

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
    training: ClassVar[type[fitting.TransformerTraining]] = XTransformerTraining

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every parameter's range, and those of the parts that one layer of clusters has no use for."""
        super().check_params(names)
        if self.ranker is not None and self.ranker.n_trees != 1:
            raise ParameterError(
                "The 'ranker' parameter of XTransformer must have n_trees=1: its tree is that of the encoder's "
                f"clusters; several are XTransformer.ensemble. Got n_trees={self.ranker.n_trees} instead."
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
    last = _last_small_enough(sizes, max_clusters)
    offsets = tree.child_offsets[last + 1]
    for below in tree.child_offsets[last + 2 :]:
        offsets = below[offsets]
    # No label stands twice in a cluster, as those of overlapping trees do when they are joined.
    cluster = np.repeat(np.arange(sizes[last], dtype=np.int64), np.diff(offsets))
    first = np.sort(np.unique(cluster * tree.n_labels + tree.leaf_labels, return_index=True)[1])
    ends = np.cumsum(np.bincount(cluster[first], minlength=sizes[last]))
    clusters, offsets = np.array([0, sizes[last]], np.int64), np.concatenate([[0], ends]).astype(np.int64)
    return LabelTree((clusters, offsets), tree.leaf_labels[first], tree.n_labels)


def _last_small_enough(sizes: Sequence[int], max_clusters: int) -> int:
    """The last layer of at most ``max_clusters`` nodes."""
    return max((t for t, size in enumerate(sizes) if size <= max_clusters), default=0)


store.register(XTransformer.kind, XTransformer.from_state)
