"""Reranker: what several models propose, in an order that was learned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.topk import TopK
from sylvan.errors import ParameterError
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.encoders.described import EncoderSource
from sylvan.models.encoders.encoded_labels import EncodedLabels
from sylvan.models.ensembles.members import (
    LabelIds,
    fit_members,
    held_out_answers,
    joint_counts,
    known_labels,
    renumbered,
    take,
)
from sylvan.models.ensembles.presets import PRESETS
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.reranker.candidate_columns import LabelFacts
from sylvan.models.reranker.candidates import label_values
from sylvan.models.reranker.learning import Objective, ordering_rows
from sylvan.models.reranker.order import RerankerOrder
from sylvan.models.reranker.plan import reranker_plan
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.text_estimator import Unknown
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import Choice, Instance, Range, Seed, Threads, attribute, check_value, parameterized
from sylvan.ranking.boosted_trees import BoostedTrees, Scorer, need_library
from sylvan.ranking.calibrate import Method
from sylvan.ranking.tail import Tail
from sylvan.runtime.checkpoint import identity_of, opened
from sylvan.runtime.plan import Plan

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

# A member: its model, and the parameters of the model and of its vectoriser that aren't at their defaults.
Member = tuple[str, Mapping[str, Any], Mapping[str, Any]]
_TREES: tuple[Member, ...] = tuple(("xr-linear", parameters, text) for parameters, text in PRESETS["accurate"])
_NEAREST: tuple[Member, ...] = (("neighbors", {}, {}), ("neighbors", {}, PRESETS["accurate"][2][1]))
RerankerPreset = Literal["accurate", "words"]
RERANKER_PRESETS: Mapping[RerankerPreset, tuple[Member, ...]] = MappingProxyType({
    "accurate": (*_TREES, *_NEAREST),
    "words": (*_TREES, *_NEAREST, ("lexical", {}, {})),
})  # fmt: skip
Columns = Callable[[Any, TopK], Any]


def reranker_members(name: RerankerPreset, n_jobs: int | None = None) -> list[Estimator]:
    """The members of a preset, not fitted."""
    made: list[Estimator] = []
    for model, parameters, text in RERANKER_PRESETS[name]:
        if model == "lexical":
            made.append(LexicalMatcher(**parameters, n_jobs=n_jobs))
            continue
        ranker: Any = XRLinear if model == "xr-linear" else NeighborRanker
        made.append(TextModel(usual_vectorizer(**text, n_jobs=n_jobs), ranker(**parameters, n_jobs=n_jobs)))
    return made


@parameterized
class Reranker(RerankerOrder):
    """Ranks what several models propose in an order learned from all that is known of each candidate.

    The members' best labels of a row are its candidates. What speaks for each (every member's probability and place,
    how often the label occurs, with which of the other candidates it occurs together, and, where a
    :class:`LexicalMatcher` is a member, how its own words stand in the text and what names and relations tie it to
    other candidates) is weighed by boosted trees. They learn from training rows that the members were asked for as if
    they had never seen them.

    Parameters
    ----------
    members : list of Estimator
        All over matrices, or all over texts, as of an :class:`Ensemble`.
    scorer : {"lightgbm", "trees"}, default "lightgbm"
        What grows the trees: LightGBM, which needs ``pip install "sylvan[rerank]"``, for training only; or Sylvan
        itself, which needs nothing and takes longer.
    objective : {"right", "rank"}, default "right"
        To tell right candidates from wrong ones, each by itself; or to put a row's right candidates before its wrong
        ones, which ``"trees"`` can't learn.
    n_trees : int, default 200
        Number of boosted trees.
    depth : int, default 6
        Layers of splits of a tree, at most.
    learning_rate : float, default 0.05
        What each tree's answer is multiplied with.
    candidates : int, default 60
        Number of labels of a row that are ordered: those of the highest mean probability of the members, each by its
        weight. Other labels aren't ranked.
    held_out : int, default 10000
        Number of training rows that teach the order, at most a quarter of all. With fewer than 200, candidates stay in
        the order of their mean probabilities.
    tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
        Makes rare labels count for more in ``rank``; see :class:`XRLinear`.
    columns : callable, optional
        ``columns(rows, candidates)`` gives further columns: of a CSR matrix of n rows or a list of n texts, and a TopK
        of shape (n, k), finite numbers of shape (n, k, c). It isn't stored: give it again to a loaded model, with
        ``set_params``.
    label_encoder : str, path or TextEncoder, optional
        Over texts, a sentence encoder: a folder, a name on the Hugging Face hub, or an encoder. How near a label's text
        is to the row by its vectors becomes two columns. It goes into the model's folder, and needs the extra
        ``neural``.
    calibration : {"isotonic", "platt"}, optional
        How scores become the probabilities of :meth:`predict_proba`: by curves fitted to a fifth of the rows that were
        held out. None leaves the scores, which are probabilities as the scorer sees them with ``objective="right"``; so
        do fewer than 5,000 such rows, by which curves would be further from the truth.
    n_jobs : int, optional
        Number of threads; members have their own. The result doesn't depend on it.
    seed : int, default 0
    unknown : {"none", "prior"}, default "none"
        Over texts, what one gets of which no member knows a word; see :class:`TextModel`.

    Attributes
    ----------
    scorer_ : BoostedTrees or None
        None where the order of the mean probabilities was clearly better, or there was too little to learn from.
    feature_names_ : tuple of str
        The columns.
    vocabulary_ : Vocabulary or None
    weights_ : ndarray of float64, shape (n_members,)
        Those of the mean probability: chosen on the rows that teach the order, and equal without any.
    n_features_, n_labels_, n_rows_ : int
    label_counts_ : ndarray of int64, shape (n_labels_,)

    Notes
    -----
    PECOS (Yu et al. 2022) leaves its ranker open: any model that scores what the matcher found. Learning to rank a
    short list by boosted trees is that of LambdaMART (Burges 2010). An order that puts fewer right labels first, among
    rows that didn't teach it, than the mean of the members does is dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import NeighborRanker, Reranker, XRLinear
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(1200) % 4
    >>> X = (np.eye(4)[y] + rng.normal(0, 0.4, (1200, 4))).astype(np.float32)
    >>> model = Reranker([XRLinear(), NeighborRanker()], scorer="trees", n_trees=5).fit(X, y)
    >>> model.rank(np.eye(4, dtype=np.float32), k=1).labels.ravel().tolist()
    [0, 1, 2, 3]
    """

    kind = "reranker"
    added = MappingProxyType({"unknown": "none"})
    not_saved = ("members", "columns")

    members: Annotated[Sequence[Estimator], Instance((list, tuple), "a list of estimators of Sylvan")]
    scorer: Scorer = "lightgbm"
    objective: Objective = "right"
    n_trees: Annotated[int, Range(1, 10_000)] = 200
    depth: Annotated[int, Range(1, 10)] = 6
    learning_rate: Annotated[float, Range(0, 1, open_low=True)] = 0.05
    candidates: Annotated[int, Range(1, MOST_ANSWERS)] = 60
    held_out: Annotated[int, Range(0, 2**31 - 1)] = 10_000
    tail: Annotated[str | None, Tail()] = None
    columns: Annotated[Columns | None, Instance((Callable,), "a function of rows and candidates")] = None
    label_encoder: Annotated[Any | None, EncoderSource()] = None
    calibration: Method | None = "isotonic"
    n_jobs: Threads = None
    seed: Seed = 0
    unknown: Unknown = "none"

    weights_: npt.NDArray[np.float64] = attribute()
    _ids: LabelIds = attribute()
    text_fields_: tuple[str, ...] = attribute(("text",))
    labels_field_: str = attribute("labels")
    scorer_: BoostedTrees | None = attribute()
    _facts: LabelFacts = attribute()
    _values: npt.NDArray[np.float32] = attribute()
    _n_own: int | None = attribute(None)
    _encoded: EncodedLabels | None = attribute(None)

    @classmethod
    def preset(cls, name: RerankerPreset, n_jobs: int | None = None, **parameters: Any) -> Reranker:
        """A reranker over texts whose members have proved good together.

        Parameters
        ----------
        name : {"accurate", "words"}
            The three members of :meth:`Ensemble.preset`'s "accurate" and two NeighborRankers, on words and on parts of
            words; or these and a :class:`LexicalMatcher`, for labels that are called by words, in ``Y`` or by the
            ``label_texts`` of :meth:`fit`.
        n_jobs : int, optional
            Number of threads of every part.
        **parameters
            Others of :class:`Reranker`, or of members, such as ``member0__model__n_trees=3``.

        Raises
        ------
        ParameterError
            When there is no such preset or parameter.

        Examples
        --------
        >>> from sylvan import Reranker
        >>> [type(member).__name__ for member in Reranker.preset("words").members][-2:]
        ['TextModel', 'LexicalMatcher']
        """
        check_value("name", name, Choice(tuple(RERANKER_PRESETS)), f"{cls.__name__}.preset")
        return cls(reranker_members(name, n_jobs), n_jobs=n_jobs).set_params(**parameters)

    def check_params(self, names: Any = None) -> None:
        """Check every parameter's range, and that the scorer can learn the objective."""
        super().check_params(names)
        if self.objective == "rank" and self.scorer == "trees":
            raise ParameterError(
                "The 'objective' parameter of Reranker must be 'right' with scorer='trees'. Got 'rank' instead."
            )

    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *, label_texts: Any = None, label_columns: Any = None,
        checkpoint: Any = None, **options: Any,
    ) -> Reranker:  # fmt: skip
        """Train copies of all members, and learn the order of what they propose.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or n texts
        Y : labels, as the members' ``fit`` takes them
        sample_weight : array of shape (n,), optional
        label_texts : as :meth:`LexicalMatcher.fit` takes them, optional
            What labels are called, for the LexicalMatchers among the members and for the encoder, which takes the
            first name of each; other members don't see it. By default, labels are called as in ``Y``.
        label_columns : array of shape (n_labels, c), or mapping of str to (float or list of float), optional
            Further columns that say something of each label by itself, such as its age or price; as a mapping from
            names, of 0 for those that it lacks.
        checkpoint : path or Checkpoint, optional
            A folder for what members have finished, as :meth:`XRLinear.fit` has it; each has its own part.
        **options
            Passed to every member's ``fit``.

        Raises
        ------
        DataError
            When an array is malformed, or the members don't fit each other.
        ParameterError
            When a parameter is out of its range.
        ImportError
            With ``scorer="lightgbm"`` when LightGBM isn't installed.
        """
        given = self._given(X, Y, sample_weight)
        need_library(self.scorer)
        encoder = self._opened_encoder()
        X, Y, weight = given.rows, given.labels, given.weight
        if weight is not None:
            options["sample_weight"] = weight
        rows = ordering_rows(given.n_rows, self.held_out, weight)
        with opened(checkpoint, self._identity) as parts:
            own = self._member_options(label_texts)
            fitted, tops = fit_members(self.members, X, Y, options, parts, "member", rows, own)
            if rows is not None:
                for at, (member, made) in enumerate(zip(self.members, fitted, strict=True)):
                    if tops[at] is None:
                        part = {**options, **own[at]}
                        tops[at] = held_out_answers(member, made, X, Y, rows, part, parts, f"held_out{at}")
            made = copy.copy(self)  # so that this one stays as it is when something fails
            made._adopt(fitted, np.full(len(fitted), 1 / len(fitted)))
            truth = known_labels(Y, given.n_rows, made.vocabulary_, made.n_labels_)
            made._values = label_values(label_columns, made.n_labels_, made.vocabulary_)
            made._facts, made._n_own = LabelFacts.of(truth), None
            made._encoded = made._encoded_labels(encoder, label_texts)
            made.scorer_ = made.calibrator_ = None
            if rows is not None:
                rest = np.setdiff1d(np.arange(given.n_rows, dtype=np.int32), rows)
                moved = [renumbered(top, ids) for top, ids in zip(tops, made._ids, strict=True) if top is not None]
                known, facts = take_rows(truth, rows), LabelFacts.of(take_rows(truth, rest))
                made._learn(moved, take(X, rows), known, None if weight is None else weight[rows], facts)
            made._keep_names(given.named, made.vocabulary_, given.single_label)
        vars(self).update(vars(made))
        return self

    def _member_options(self, label_texts: Any) -> list[dict[str, Any]]:
        """What each member's ``fit`` is given besides what all are given."""
        of_words = [isinstance(member, LexicalMatcher) for member in self.members]
        if label_texts is not None and not any(of_words) and self.label_encoder is None:
            raise ParameterError(
                "The 'label_texts' parameter of fit is for a LexicalMatcher, or a label_encoder. No member is one, and "
                "there is no encoder."
            )
        return [{"label_texts": label_texts} if lexical else {} for lexical in of_words]

    def _opened_encoder(self) -> TextEncoder | None:
        """An encoder of the model's own, whatever becomes of the one that was given."""
        if self.label_encoder is None:
            return None
        if not self.takes_texts:
            raise ParameterError("The 'label_encoder' parameter of Reranker must be None for members over matrices.")
        from sylvan.neural import open_encoder

        encoder = open_encoder(self.label_encoder)
        return encoder.copy() if encoder is self.label_encoder else encoder

    def _encoded_labels(self, encoder: TextEncoder | None, label_texts: Any) -> EncodedLabels | None:
        if encoder is None or self.vocabulary_ is None:
            return None
        return EncodedLabels.of(encoder, label_texts, self.vocabulary_, self.n_jobs)

    def _identity(self) -> dict[str, Any]:
        """What tells this training from others, for its checkpoint; each member's own part knows its data as well."""
        kinds = ", ".join(type(member).__name__ for member in self.members)
        return identity_of(type(self).__name__, {"members": kinds, "held_out": self.held_out})

    @classmethod
    def of_fitted(cls, members: Sequence[Estimator], *, label_texts: Any = None, **params: Any) -> Reranker:
        """Join models that are already fitted; :meth:`fit_order` then learns the order of what they propose.

        Parameters
        ----------
        members : list of Estimator
            Fitted, on the same features and labels; models over texts may know different labels.
        label_texts : as :meth:`fit` takes them, optional
            For a ``label_encoder``.
        **params
            Others of :class:`Reranker`.

        Raises
        ------
        DataError
            When the members don't fit each other.
        NotFittedError
            When one isn't fitted.
        ParameterError
            For a parameter out of its range.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import NeighborRanker, Reranker, XRLinear
        >>> X, Y = np.eye(4, dtype=np.float32).repeat(5, axis=0), np.arange(4).repeat(5)
        >>> both = Reranker.of_fitted([XRLinear().fit(X, Y), NeighborRanker().fit(X, Y)])
        >>> both.rank(X[[0, 7]], k=1).labels.ravel().tolist()
        [0, 1]
        """
        made = cls(list(members), **params)
        made.check_params()
        made._join_fitted(np.full(len(made.members), 1 / max(1, len(made.members))))
        counts, n_rows = joint_counts(made.members, made._ids, made.n_labels_)
        made._facts = replace(LabelFacts.none(made.n_labels_), n_rows=n_rows, counts=counts)
        made._values = np.zeros((made.n_labels_, 0), np.float32)
        made.scorer_ = made._n_own = None
        made._encoded = made._encoded_labels(made._opened_encoder(), label_texts)
        return made

    def plan(self, X: Any, Y: Any, sample_weight: Any = None, **options: Any) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        The members' own plans, one after another, and the learning of the order; a member without a plan is trained on
        2,000 of the rows, by which all are estimated. Parameters and errors as in :meth:`fit`.
        """
        given = self._given(X, Y, sample_weight)
        label_texts = options.pop("label_texts", None)
        own = self._member_options(label_texts)
        for name in ("label_columns", "checkpoint"):
            options.pop(name, None)
        return reranker_plan(self, given, [{**options, **each} for each in own], label_texts)


store.register(Reranker.kind, Reranker.from_state)
