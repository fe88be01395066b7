"""Models with an encoder brought up to date: the encoder and the words stay as they are, the rankers learn."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.labels.targets import need_as_many
from sylvan.models.text_estimator import TextEstimator, check_texts
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import one_at_a_time
from sylvan.runtime.plan import UpdatePlan

_Self = TypeVar("_Self", bound="TransformerUpdates")


class TransformerUpdates(TextEstimator):
    """Base of the models with a text encoder, for what comes after their training."""

    ranker_: XRLinear

    @one_at_a_time
    def update(
        self: _Self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        **options: Any,
    ) -> _Self:  # fmt: skip
        """Learn new texts, with labels old and new; forget texts; make several labels one. The encoder stays.

        The rankers are updated, as :meth:`XRLinear.update` says, with the vectors that the encoder gives to the new
        texts. The encoder learns nothing, and the words of the vectoriser stay those of ``fit``: their columns come
        before the vectors'. With the same encoder, words and trees, it comes to what training the rankers with all
        texts gives. Train anew when texts change much.

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
        vocabulary, given, options = self._asked(X, Y, merge, options)
        before = self.ranker_.removed_labels_
        ranker = copy.copy(self.inner()).update(*given, sample_weight, **options)
        assert isinstance(ranker, XRLinear)
        self.ranker_ = ranker
        self._take_sizes(vocabulary)
        self._free_names(np.setdiff1d(ranker.removed_labels_, before).astype(np.int32))
        return self

    def plan_update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        **options: Any,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes. Errors as there."""
        self._need_fit("plan_update")
        _, given, options = self._asked(X, Y, merge, options)
        plan: UpdatePlan = self.inner().plan_update(*given, sample_weight, **options)
        return plan

    def _asked(
        self, X: Iterable[str] | None, Y: Any, merge: Any, options: Mapping[str, Any]
    ) -> tuple[Vocabulary, tuple[Any, Any], dict[str, Any]]:
        """The names of labels then; features, labels and options of the rankers' update."""
        owner, options = type(self).__name__, dict(options)
        if (X is None) != (Y is None):
            raise DataError("update takes X and Y together: the new texts, and their labels.")
        vocabulary, features, matrix = self.vocabulary_, None, None
        if X is not None:
            texts = check_texts(X, owner)
            named, matrix = self._with_new_names(Y)
            vocabulary = self.vocabulary_ if named is None else named
            need_as_many(len(texts), matrix.shape[0])
            features = self._text_features(texts)
        if options.get("rows") is not None:
            self._need_own_layers()
            options["rows"] = self._all_rows(options["rows"])
        if merge is not None:
            options["merge"] = self._merges(merge)
        return vocabulary, (features, matrix), options

    def _need_own_layers(self) -> None:
        """Refuse to solve layers with rows where the encoder has learned them."""

    def _take_sizes(self, vocabulary: Vocabulary) -> None:
        """What the fitted ranker knows of the data, which the model has too."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no ranker.")
