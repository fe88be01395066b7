"""Reranker: what several models propose, in an order that was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.frames import labels_of
from sylvan.arrays.topk import TopK, resized
from sylvan.arrays.types import Array, Float32, Float64, Int32
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ParameterError, warn_data
from sylvan.explain.explanation import Explanation
from sylvan.labels.targets import encode_labels
from sylvan.labels.vocabulary import find_label
from sylvan.metrics.tallies import hits
from sylvan.models import encoders
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.encoders import EncodedLabels
from sylvan.models.ensembles import members as joining
from sylvan.models.ensembles.ensemble import JointModel
from sylvan.models.ensembles.members import TrainingRows
from sylvan.models.ensembles.plan import members_plan
from sylvan.models.label_changes import rows_of
from sylvan.models.label_texts import name_rows
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.reranker import learning
from sylvan.models.reranker.candidate_columns import ColumnMaker, LabelFacts, Order, column_names, label_values
from sylvan.models.text_estimator import Unknown
from sylvan.models.text_plan import with_encoding
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Instance, Range, Seed, Threads, attribute, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import BoostedTrees, Growing, Scorer, need_library
from sylvan.ranking.calibrate import Calibrator, Method
from sylvan.ranking.ensemble import combine_rankings, fit_weights
from sylvan.ranking.tail import Tail, tail_of
from sylvan.runtime.checkpoint import opened
from sylvan.runtime.plan import Phase, Plan

if TYPE_CHECKING:
    from sylvan.models.encoders import AnyEncoder

Columns = Callable[[Any, TopK], Any]
_WEIGHED = 20  # of a member's answers, by which it is weighed
_LEAST_SHARE = 0.25  # of an equal weight


@parameterized
class Reranker(JointModel):
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
    label_encoder : str, path, TextEncoder or StaticEncoder, optional
        Over texts, a sentence encoder: a folder, a name on the Hugging Face hub, or an encoder. How near a label's text
        is to the row by its vectors becomes two columns. It goes into the model's folder, and needs the extra
        ``transformers``, or ``static`` for static vectors.
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
    not_saved = ("members", "columns")

    members: Annotated[Sequence[Estimator], Instance((list, tuple), "a list of estimators of Sylvan")]
    scorer: Scorer = "lightgbm"
    objective: learning.Objective = "right"
    n_trees: Annotated[int, Range(1, 10_000)] = 200
    depth: Annotated[int, Range(1, 10)] = 6
    learning_rate: Annotated[float, Range(0, 1, open_low=True)] = 0.05
    candidates: Annotated[int, Range(1, MOST_ANSWERS)] = 60
    held_out: Annotated[int, Range(0, 2**31 - 1)] = 10_000
    tail: Annotated[str | None, Tail()] = None
    columns: Annotated[Columns | None, Instance((Callable,), "a function of rows and candidates")] = None
    label_encoder: Annotated[Any | None, encoders.ENCODER_SOURCE] = None
    calibration: Method | None = "isotonic"
    n_jobs: Threads = None
    seed: Seed = 0
    unknown: Unknown = "none"

    weights_: Float64 = attribute()
    _joined: joining.Joined = attribute()
    _order: Order = attribute()
    text_fields_: tuple[str, ...] = attribute(("text",))
    labels_field_: str = attribute("labels")

    def check_params(self, names: Any = None) -> None:
        """Check every parameter's range, and that the scorer can learn the objective."""
        super().check_params(names)
        if self.objective == "rank" and self.scorer == "trees":
            raise ParameterError(
                "The 'objective' parameter of Reranker must be 'right' with scorer='trees'. Got 'rank' instead."
            )

    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *, label_texts: Any = "auto", label_columns: Any = None,
        checkpoint: Any = None, **options: Any,
    ) -> Reranker:  # fmt: skip
        """Train copies of all members, and learn the order of what they propose.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or n texts
        Y : labels, as the members' ``fit`` takes them
        sample_weight : array of shape (n,), optional
        label_texts : as :meth:`Ensemble.fit` takes them, default "auto"
            What labels are called, for the same members and for the encoder, which takes the first name of each. With
            "auto" labels are called as in ``Y``; where most of these names are codes, LexicalMatchers are left out of
            the members, with a warning.
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
        training = self._training_rows(X, Y, sample_weight)
        need_library(self.scorer)
        encoder, members = self._encoder(), self._worded(label_texts, Y)
        X, Y, weight = training.rows, training.labels, training.weight
        options |= {} if weight is None else {"sample_weight": weight}
        rows = learning.ordering_rows(training.n_rows, self.held_out, weight)
        with opened(checkpoint, partial(self._identity, held_out=self.held_out)) as parts:
            extras = joining.named_options(members, label_texts, Y, self.label_encoder is not None)
            fitted, tops = joining.fit_members(members, X, Y, options, parts, "member", rows, extras)
            for number, (member, model) in enumerate(zip(members, fitted, strict=True)):
                if rows is not None and tops[number] is None:
                    part, name = {**options, **extras[number]}, f"held_out{number}"
                    tops[number] = joining.held_out_answers(member, model, X, Y, rows, part, parts, name)
            joined = joining.Joined.of(fitted, type(self).__name__)
            truth = joining.known_labels(Y, training.n_rows, joined.vocabulary, joined.n_labels)
            values = label_values(label_columns, joined.n_labels, joined.vocabulary)
            order = Order(LabelFacts.of(truth), values, self._encoded(encoder, label_texts, joined))
            weights, calibrator = joining.shares(None, len(fitted)), None
            if rows is not None:
                train_rows = np.setdiff1d(np.arange(training.n_rows, dtype=np.int32), rows)
                pairs = zip(tops, joined.ids, strict=True)
                moved = [joining.renumbered(top, ids) for top, ids in pairs if top is not None]
                order, weights, calibrator = self._learned(
                    joined, order, moved, joining.take(X, rows), take_rows(truth, rows),
                    None if weight is None else weight[rows], LabelFacts.of(take_rows(truth, train_rows)),
                )  # fmt: skip
        self._order, self.weights_, self.calibrator_ = order, weights, calibrator
        self._take(joined)
        self._keep_names(training.named, joined.vocabulary, training.single_label)
        return self

    def _learned(
        self, joined: joining.Joined, order: Order, tops: Sequence[TopK], rows: Any, truth: Csr,
        weight: Float32 | None, unseen: LabelFacts | None = None,
    ) -> tuple[Order, Float64, Calibrator | None]:  # fmt: skip
        """The order, the members' weights and the curves, from answers to rows as by members that haven't seen them.
        Where members have seen the rows by now, ``unseen`` is what all others say of the labels."""
        jobs = resolve_jobs(self.n_jobs)
        first = [resized(top, _WEIGHED) for top in tops]
        # as an ensemble's, but enough for a member's own candidates to be seen
        weights = np.maximum(fit_weights(first, truth, sample_weight=weight, n_jobs=jobs), _LEAST_SHARE / len(tops))
        weights = weights / weights.sum()
        candidates = self._candidates(tops, weights, joined.n_labels)
        n_own = None if self.columns is not None else order.n_own  # another function may give as many as it likes
        maker = ColumnMaker(joined, replace(order, facts=unseen or order.facts, n_own=n_own), self.columns)
        if unseen is not None:
            maker = maker.without_rows(rows, truth, weight)
        columns = maker.columns(candidates, tops, rows, self.n_jobs)
        each = np.ones(len(columns), np.float32) if weight is None else weight
        growing = Growing(self.objective, self.n_trees, self.depth, self.learning_rate, self.seed, jobs)
        unordered = learning.Candidates(candidates, columns, hits(candidates, truth), each)
        scorer, calibrator = learning.learned(unordered, self.scorer, growing, self.calibration)
        n_own = columns.shape[2] - len(replace(order, n_own=None).column_names(joined.members)) or None
        return replace(order, n_own=n_own, scorer=scorer), weights, calibrator

    def _worded(self, label_texts: Any, Y: Any) -> Sequence[Estimator]:
        """The members, without those that find labels by their words where these are codes."""
        others = [member for member in self.members if not isinstance(member, LexicalMatcher)]
        if not name_rows.is_auto(label_texts) or len(others) in (0, len(self.members)):
            return self.members
        names = encode_labels(Y)[0]
        if name_rows.readable(names):
            return self.members
        warn_data(
            f"The labels are codes, such as {names[0]!r}, and nothing says what they are called: no LexicalMatcher is "
            "trained, which finds labels by their words. Give their names by label_texts (--vocabulary FILE).", 3,
        )  # fmt: skip
        return others

    def _encoder(self) -> AnyEncoder | None:
        """An encoder of labels, opened before any work is done; None where there is none."""
        if self.label_encoder is not None and not self.takes_texts:
            raise ParameterError("The 'label_encoder' parameter of Reranker must be None for members over matrices.")
        return encoders.own_encoder(self.label_encoder)

    def _encoded(self, encoder: AnyEncoder | None, label_texts: Any, joined: joining.Joined) -> EncodedLabels | None:
        """The labels' texts by the encoder, where there is one, and labels have names."""
        if encoder is None or joined.vocabulary is None:
            return None
        return EncodedLabels.of(encoder, _given(label_texts), joined.vocabulary, self.n_jobs)

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
        model = cls(list(members), **params)
        model.check_params()
        model._take_fitted()
        joined, (counts, n_rows) = model._joined, model._joined.counts()
        facts = replace(LabelFacts.none(joined.n_labels), n_rows=n_rows, counts=counts)
        encoded = model._encoded(model._encoder(), label_texts, joined)
        model._order = Order(facts, np.zeros((joined.n_labels, 0), np.float32), encoded)
        model.weights_ = joining.shares(None, len(members))
        return model

    def fit_order(self, X: Any, Y: Any, sample_weight: Any = None) -> Reranker:
        """Learn the order again, on rows that no member was trained on; the members stay.

        To bring a model up to date with new rows, call this with them before :meth:`update`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        Y : their labels, as in ``fit``
            Labels that no member knows are ignored.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        NotFittedError
            Before ``fit`` or ``of_fitted``.
        DataError
            When the arrays are malformed, or there are too few rows to learn from.
        ImportError
            With ``scorer="lightgbm"`` when LightGBM isn't installed.
        """
        self._need_fit("fit_order")
        self.check_params()
        need_library(self.scorer)
        X, n_rows = self._checked(X)
        truth = joining.known_labels(Y, n_rows, self.vocabulary_, self.n_labels_)
        weight = validate.sample_weight(sample_weight, n_rows)
        if n_rows < learning.LEAST_ROWS or not len(truth.indices):
            raise DataError(
                f"fit_order needs {learning.LEAST_ROWS} rows at least, and labels that a member knows. Got "
                f"{counted(n_rows, 'row')} with {counted(len(truth.indices), 'such label')}."
            )
        tops = [self._member_top(number, X, {}) for number in self._used_members]
        learned = self._learned(self._joined, self._order, tops, X, truth, weight)
        self._order, self.weights_, self.calibrator_ = learned
        return self

    @all_at_once
    def update(self, X: Any = None, Y: Any = None, sample_weight: Any = None, **options: Any) -> Reranker:
        """Bring every member up to date, and what is known of the labels; the order and the probabilities' curves stay.

        :meth:`fit_order` with new rows, called before, learns the order from them.

        Parameters
        ----------
        X, Y, sample_weight, **options
            As the members' ``update`` takes them: ``forget``, ``merge``, ``n_features``, ``precise``, or ``rows``
            where no XRLinear keeps its own.

        Raises
        ------
        UnsupportedError
            When a member can't be brought up to date; none is changed then.
        NotFittedError, DataError
        """
        joined = self._updated(X, Y, sample_weight, options)
        truth = None
        if Y is not None:
            n_rows = len(X) if self.takes_texts else validate.features(X).shape[0]
            truth = joining.known_labels(labels_of(Y), n_rows, joined.vocabulary, joined.n_labels)
        self._order = self._order.updated(self.vocabulary_, joined, truth, self.n_jobs)
        self._take(joined)
        return self

    def plan(self, X: Any, Y: Any, sample_weight: Any = None, **options: Any) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        The members' own plans, one after another, and the learning of the order; a member without a plan is trained on
        2,000 of the rows, by which all are estimated. Parameters and errors as in :meth:`fit`.
        """
        training, label_texts = self._training_rows(X, Y, sample_weight), options.pop("label_texts", "auto")
        for name in ("label_columns", "checkpoint"):
            options.pop(name, None)
        members = self._worded(label_texts, Y)
        extras = joining.named_options(members, label_texts, Y, self.label_encoder is not None)
        plan = members_plan(members, training, [{**options, **each} for each in extras])
        return with_order(plan, self, members, training, label_texts)

    # ---------------------------------------- answering

    @property
    def scorer_(self) -> BoostedTrees | None:
        """The trees that order candidates; None where they stay in the order of their mean probabilities."""
        self._need_fit("scorer_")
        return self._order.scorer

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """What the columns of :meth:`candidate_columns` are called, in their order."""
        self._need_fit("feature_names_")
        return self._order.column_names(self.members)

    @of_one_state
    def rank(
        self, X: Any, k: int = 10, *, allowed: Any = None, denied: Any = None, tail: str | None = None, **options: Any
    ) -> TopK:
        """The ``k`` best labels of each row, of its candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        k : int
            Number of labels per row; a row with fewer candidates ends in label -1.
        allowed, denied : label ids, names (over texts), or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row. Candidates are
            then chosen, and ordered, among the labels that are open.
        tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
            Makes rare labels count for more; by default the parameter.
        **options
            Passed to the members whose ``rank`` accepts them, such as ``beam=20``.

        Returns
        -------
        TopK, or NamedTopK for texts
            Labels and scores in [0, 1] of shape (n, k), best first; among equal scores the lower label comes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        if (weighing := tail_of(self.tail, tail)) is not None:
            self._need_fit("rank")
            return self._rank_for_tail(X, k, weighing, allowed=allowed, denied=denied, **options)
        return super().rank(X, k, allowed=allowed, denied=denied, **options)

    @property
    def _used_members(self) -> list[int]:
        return list(range(len(self.members)))

    def _candidates(self, tops: Sequence[TopK], weights: Float64, n_labels: int) -> TopK:
        """The labels of the highest mean probability, each member by its weight."""
        top = combine_rankings(tops, weights, min(self.candidates, n_labels), n_jobs=resolve_jobs(self.n_jobs))
        return TopK(top.labels, np.where(top.labels >= 0, top.scores, np.float32(-np.inf)))

    def _column_maker(self) -> ColumnMaker:
        # A function that the order hasn't learned from isn't called.
        return ColumnMaker(self._joined, self._order, None if self._order.n_own is None else self.columns)

    def _combined(self, tops: Mapping[int, TopK], k: int, X: Any) -> TopK:
        answers, scorer = list(tops.values()), self._order.scorer
        candidates = self._candidates(answers, self.weights_, self.n_labels_)
        if scorer is None:
            return resized(candidates, k)
        parts = self._column_maker().blocks(partial(learning.order_by, scorer), candidates, answers, X, self.n_jobs)
        return resized(rows_of(parts, candidates.k), k)

    def candidate_columns(self, X: Any) -> tuple[TopK, Float32]:
        """The candidates of each row, by their mean probability, and the columns by which they are ordered.

        Parameters
        ----------
        X : as in :meth:`rank`

        Returns
        -------
        TopK of shape (n, candidates), ndarray of float32 of shape (n, candidates, n_columns)
            Columns are named by ``feature_names_``; zeros where there is no candidate.

        Raises
        ------
        NotFittedError, DataError
        """
        self._need_fit("candidate_columns")
        return self._candidate_columns(X, {})

    def _candidate_columns(self, X: Any, options: Mapping[str, Any]) -> tuple[TopK, Float32]:
        """The same as ``rank`` has them with these options."""
        X, _ = self._checked(X)
        options = {"unknown": self.unknown, **options}
        options.pop("tail", None)
        tops = [self._member_top(number, X, options) for number in self._used_members]
        candidates = self._candidates(tops, self.weights_, self.n_labels_)
        return candidates, self._column_maker().columns(candidates, tops, X, self.n_jobs)

    @of_one_state
    def explain(self, x: Any, label: int | str, top: int = 10, **options: Any) -> Explanation:
        """Why a label stands where it does: what each column adds to its score, and what the members say of it.

        Parameters
        ----------
        x : one row or text
        label : int or str
        top : int
            Most columns that are named, and as :meth:`XRLinear.explain` has it.
        **options
            Of the members' ``explain`` and ``rank``.

        Returns
        -------
        Explanation
            Its ``notes`` name the columns that raise and lower the label most: Shapley values, in log odds.

        Raises
        ------
        NotFittedError, DataError
        """
        result = super().explain(x, label, top, **options)
        rows = [x] if isinstance(x, str) else x
        candidates, columns = self._candidate_columns(rows, options)
        number = find_label(label, self.n_labels_, options.get("label_names") or self.vocabulary_)
        notes = learning.candidate_notes(candidates, columns, number, self.scorer_, self.feature_names_, top)
        return replace(result, notes=(*notes, *result.notes))

    def _drop_labels(self, ids: Int32) -> None:
        super()._drop_labels(ids)
        self._order = self._order.without(ids)

    # ---------------------------------------- storing

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        order = self._order
        meta = {
            "n_members": len(self.members), "order": "mean" if order.scorer is None else "trees",
            "n_own": order.n_own or 0, "n_columns": len(self.feature_names_),
        }  # fmt: skip
        return meta, {"weights": self.weights_, **order.to_arrays()}, self._member_parts()

    def _plain_params(self) -> dict[str, Any]:
        return {**super()._plain_params(), "label_encoder": encoders.described_encoder(self.label_encoder)}

    def to_state(self) -> store.State:
        """All parts of the model, and the files of its encoder, for :func:`sylvan.store.save`."""
        state = super().to_state()
        if self._order.encoded is not None:
            state.files.update(self._order.encoded.encoder.files())
        return state

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        return {**params, "columns": None, "label_encoder": encoders.made_encoder(state, params["label_encoder"])}

    def _restore(self, state: store.State) -> None:
        self._restore_members(state)
        self._order = Order.from_state(state, self.members, self.n_labels_)


store.register(Reranker.kind, Reranker.from_state)


# Seconds for each column of a candidate: to make it, and for each tree to learn from it, with LightGBM on one thread,
# as benchmarks/linear/rerankers.py has them; Sylvan's own trees take longer.
_MAKING, _LEARNING = 2e-8, 2e-9
_TEACHING = 0.8  # of the rows
_COLUMN_BYTES = 4 * 3  # of a candidate: as made, as listed, and as bins and copies of the library's


def with_order(
    plan: Plan, model: Any, members: Sequence[Estimator], training: TrainingRows, label_texts: Any
) -> Plan:
    """The members' plan with the learning of the order, and the encoding of labels where an encoder does that."""
    rows = learning.ordering_rows(training.n_rows, model.held_out, training.weight)
    trees = model.n_trees * 2 ** (model.depth + 2) * 4
    phases, seconds, peak = list(plan.phases), plan.seconds, plan.peak_bytes
    if rows is not None:
        n = float(len(rows)) * model.candidates * len(column_names(members, model.label_encoder is not None, 0, 0))
        order = Phase("order", n * (_MAKING + _TEACHING * model.n_trees * _LEARNING), int(n * _COLUMN_BYTES))
        before = max((phase.peak_bytes for phase in phases), default=0)
        phases, seconds = [*phases, order], seconds + order.seconds
        peak = max(peak, peak - before + plan.model_bytes + order.peak_bytes)
    plan = Plan(seconds, int(peak), int(plan.model_bytes + trees), plan.available_bytes, tuple(phases))
    if model.label_encoder is None:
        return plan
    labels = encoders.first_terms(_given(label_texts), encode_labels(training.labels)[0])
    texts = [] if rows is None else joining.take(training.rows, rows)
    return with_encoding(plan, model.label_encoder, labels, texts, model.n_jobs)


def _given(label_texts: Any) -> Any:
    """What was said of labels; None where they are called as in the rows."""
    return None if name_rows.is_auto(label_texts) else label_texts
