"""The part of the contract about models that learn a label that comes later."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.known import Known

import sylvan
from contract.label_changes import answer
from sylvan.errors import DataError, NotFittedError, UnsupportedError


@pytest.mark.filterwarnings("ignore:This XRLinear keeps no rows")
class UpdateContract:
    """A model learns a label that it didn't know; mixed into everything that ranks."""

    def later(self, data: Known) -> Known:
        """Rows of a thirteenth label, the last word of which is theirs alone."""
        X = data.X[:6].copy()
        X[:, -6:] = 0
        X[:, -1] = 2
        return Known(X, [[12]] * 6, 13)

    def beside(self, data: Known) -> dict[str, Any]:
        """What else ``update`` is given."""
        return {}

    def test_a_label_that_comes_later_is_learned(self, fitted: Any, data: Known, tmp_path: Path) -> None:
        X, new = self.inputs(data.X), self.later(data)  # type: ignore[attr-defined]
        given = self.inputs(new.X), self.targets(new)  # type: ignore[attr-defined]
        fitted = copy.deepcopy(fitted)  # a copy shares its parts, whose threads are set too
        before = answer(fitted, X)
        made = []
        for n_jobs in (1, 3):
            model = copy.copy(fitted)
            model.set_params(**self.jobs(n_jobs)).update(*given, **self.beside(data))  # type: ignore[attr-defined]
            made.append(answer(model, X))
        assert made[0] == made[1] and answer(fitted, X) == before, "a copy is updated, whatever the threads"
        assert model.n_labels_ == 13 and model.predict(X).shape[-1] in (13, len(data.X))
        top = model.rank(given[0], k=3)
        assert np.mean([12 in row for row in self.answers(model, top)]) > 0.5  # type: ignore[attr-defined]
        model.save(tmp_path / "model")
        assert answer(sylvan.load(tmp_path / "model"), X) == made[1]

    def test_updates_by_several_threads_are_as_one_after_the_other(self, fitted: Any, data: Known) -> None:
        X, new = self.inputs(data.X), self.later(data)  # type: ignore[attr-defined]
        given, options = (self.inputs(new.X), self.targets(new)), self.beside(data)  # type: ignore[attr-defined]

        def update(model: Any) -> bool:
            try:
                model.update(*given, **options)
            except UnsupportedError:  # a model without rows learns a label once
                return False
            return True

        alone, shared = copy.copy(fitted), copy.copy(fitted)
        expected = [update(alone) for _ in range(3)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(3) as pool:
                done = list(pool.map(update, [shared] * 3))
        finally:
            sys.setswitchinterval(interval)
        assert sorted(done) == sorted(expected)
        assert answer(shared, X) == answer(alone, X)

    def test_an_update_is_seen_whole(self, fitted: Any, data: Known, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who ranks meanwhile meets the model as it was or as it will be: all fields are set in one step."""
        new, model, names = self.later(data), copy.copy(fitted), []
        setting = type(model).__setattr__

        def note(target: Any, name: str, value: Any) -> None:
            names.extend([name] if target is model else [])
            setting(target, name, value)

        monkeypatch.setattr(type(model), "__setattr__", note)
        given = self.inputs(new.X), self.targets(new)  # type: ignore[attr-defined]
        model.update(*given, **self.beside(data))
        assert names == ["__dict__"]

    def test_an_answer_is_of_one_state(self, fitted: Any, data: Known, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever has begun to rank goes on with the fields of then, though an update gives the model others."""
        model, X = copy.copy(fitted), self.inputs(data.X)  # type: ignore[attr-defined]
        expected, check = fitted.rank(X, k=3), type(model)._need_fit

        def replaced(asked: Any, method: str) -> None:
            model.__dict__ = {}
            check(asked, method)

        monkeypatch.setattr(type(model), "_need_fit", replaced)
        answered = model.rank(X, k=3)
        assert not vars(model)
        np.testing.assert_array_equal(answered.labels, expected.labels)
        np.testing.assert_array_equal(answered.scores, expected.scores)

    def test_a_failed_update_changes_nothing(self, fitted: Any, data: Known) -> None:
        X, new = self.inputs(data.X), self.later(data)  # type: ignore[attr-defined]
        before = answer(fitted, X)
        with pytest.raises((DataError, UnsupportedError)):
            fitted.update(self.inputs(new.X[:4]), self.targets(new))  # type: ignore[attr-defined]
        with pytest.raises(NotFittedError):
            self.make().update(self.inputs(new.X), self.targets(new))  # type: ignore[attr-defined]
        assert answer(fitted, X) == before
