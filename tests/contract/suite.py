"""The contract: what holds for every estimator. Inherit a class, say how to make the estimator, and run.

:class:`RankingContract` asks only that a model fits and ranks; what it is fed is made by ``inputs`` and
``targets``, so a model of texts joins by overriding those. ``matrices.MatrixContract`` adds everything about
arrays.
"""

import copy
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.errors import raises
from kit.known import Known, known, questions
from waiting import PATIENCE

import sylvan
from contract.filters import FilterContract
from contract.label_changes import LabelChangesContract
from contract.updates import UpdateContract
from sylvan.errors import DataError, NotFittedError, ParameterError


def rank_into(connection: Any, model: Any, X: Any, k: int) -> None:
    """What a child process does: rank and send the bytes home."""
    top = model.rank(X, k=k)
    connection.send(bits(top))
    connection.close()


def load_into(connection: Any, folder: str) -> None:
    """What a child process does: load a model, which nothing has named before, and send the name of its class home."""
    connection.send(type(sylvan.load(folder)).__name__)
    connection.close()


# How children are started that have nothing of their parent: by a server that has imported Sylvan and PyTorch and
# forks, because importing takes longer than all else that they do. A class or two start an interpreter ("spawn").
ANEW = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
if ANEW == "forkserver":
    multiprocessing.get_context(ANEW).set_forkserver_preload(["sylvan", "scipy.sparse", "pytest", "torch._dynamo"])


def answer_of_child(method: str, target: Callable[..., None], *args: Any) -> Any:
    """What a child process sends, which is called with a connection and ``args``."""
    context: Any = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=target, args=(there, *args))
    child.start()
    there.close()
    try:
        assert here.poll(PATIENCE), "the child hangs"
        answer = here.recv()
        child.join(PATIENCE)
        assert child.exitcode == 0
    finally:
        child.kill()
    return answer


_trained: dict[type, tuple[Any, bytes, bytes]] = {}


class RankingContract(FilterContract, LabelChangesContract, UpdateContract):
    """What holds for every model that ranks."""

    has_beam = True
    has_seed = True
    anew = ANEW
    machine: ClassVar[dict[str, Any]] = {}  # parameters of the machine that fits, which a saved model doesn't keep

    def make(self, **params: Any) -> Any:
        """A fresh, small, quick estimator; ``params`` override its own."""
        raise NotImplementedError

    def inputs(self, X: np.ndarray) -> Any:
        """What ``fit`` and ``rank`` take for the dense features ``X``."""
        return sp.csr_matrix(X)

    def targets(self, data: Known) -> Any:
        """What ``fit`` takes for the labels of ``data``."""
        return sp.csr_matrix(data.Y)

    def answers(self, model: Any, top: Any) -> list[list[int]]:
        """The label numbers of :func:`known` that a ranking names, best first."""
        return [[label for label in row if label >= 0] for row in top.labels.tolist()]

    # ---------------------------------------- helpers

    @pytest.fixture
    def data(self) -> Known:
        return known()

    @pytest.fixture
    def fitted(self, data: Known) -> Any:
        """One model for all tests of a class that only ask it."""
        return self.trained(data)[0]

    def trained(self, data: Known) -> tuple[Any, bytes, bytes]:
        """That model, and what it was fitted to, pickled before and after it has fitted and ranked."""
        if type(self) not in _trained:
            X, Y = self.inputs(data.X), self.targets(data)
            before = pickle.dumps((X, Y))
            model = self.make(n_jobs=1).fit(X, Y)
            model.rank(X, k=2)
            _trained[type(self)] = model, before, pickle.dumps((X, Y))
        return _trained[type(self)]

    def fit(self, data: Known, **params: Any) -> Any:
        return self.make(**params).fit(self.inputs(data.X), self.targets(data))

    # ---------------------------------------- right answers

    def test_known_answers(self, fitted: Any, data: Known) -> None:
        X, expected = questions(data)
        top = fitted.rank(self.inputs(X), k=3)
        assert [row[0] for row in self.answers(fitted, top)] == expected.tolist()
        assert top.labels.dtype == np.int32
        assert top.scores.dtype == np.float32
        assert top.labels.shape == top.scores.shape == (data.n_labels, 3)

    def test_explanations_give_ranks_place_and_score(self, fitted: Any, data: Known) -> None:
        X = self.inputs(questions(data)[0][:1])
        top = fitted.rank(X, k=3)
        for place, label in enumerate(top.labels[0].tolist()[:2]):
            name = getattr(top, "vocabulary", range(data.n_labels))[label]
            found = fitted.explain(X, name, top=2)
            assert (found.label, found.place) == (label, place + 1)
            assert found.score == pytest.approx(float(top.scores[0, place]), rel=1e-5)
            assert found.text() and found.html() and found.to_dict()["label"] == label

    def test_training_rows_are_mostly_recalled(self, fitted: Any, data: Known) -> None:
        answers = self.answers(fitted, fitted.rank(self.inputs(data.X), k=1))
        hits = [bool(row) and row[0] in ids for row, ids in zip(answers, data.labels, strict=True)]
        assert np.mean(hits) > 0.9

    def test_scores_fall_and_labels_are_distinct(self, fitted: Any, data: Known) -> None:
        top = fitted.rank(self.inputs(data.X), k=data.n_labels)
        filled = np.where(top.labels >= 0, top.scores, -np.inf)
        assert (filled[:, :-1] >= filled[:, 1:]).all()
        for row in top.labels.tolist():
            present = [label for label in row if label >= 0]
            assert len(present) == len(set(present))
            assert row == present + [-1] * (len(row) - len(present)), "the empty places come last"
        assert np.isneginf(top.scores[top.labels < 0]).all()
        assert np.isfinite(top.scores[top.labels >= 0]).all()

    def test_a_shorter_ranking_is_the_head_of_a_longer(self, fitted: Any, data: Known) -> None:
        long = fitted.rank(self.inputs(data.X), k=8)
        short = fitted.rank(self.inputs(data.X), k=3)
        np.testing.assert_array_equal(short.labels, long.labels[:, :3])
        np.testing.assert_array_equal(short.scores, long.scores[:, :3])

    def test_more_k_than_labels(self, fitted: Any, data: Known) -> None:
        top = fitted.rank(self.inputs(data.X[:4]), k=data.n_labels + 30)
        assert top.labels.shape == (4, data.n_labels + 30)
        assert (top.labels[:, data.n_labels :] == -1).all()
        assert np.isneginf(top.scores[:, data.n_labels :]).all()

    def test_batch_equals_row_by_row(self, fitted: Any, data: Known) -> None:
        together = fitted.rank(self.inputs(data.X), k=5)
        for row in range(0, len(data.X), len(data.X) // 24):
            alone = fitted.rank(self.inputs(data.X[row : row + 1]), k=5)
            assert bits(alone) == bits(together.of_rows(slice(row, row + 1))), row

    def test_no_rows_at_all(self, fitted: Any, data: Known) -> None:
        assert fitted.rank(self.inputs(data.X[:0]), k=4).labels.shape == (0, 4)

    def test_empty_rows_are_ranked(self, fitted: Any, data: Known) -> None:
        top = fitted.rank(self.inputs(np.zeros((3, data.X.shape[1]), np.float32)), k=4)
        assert top.labels.shape == (3, 4)
        assert not np.isnan(top.scores).any()
        assert (top.labels == top.labels[0]).all(), "equal rows have equal answers"

    # ---------------------------------------- odd training

    def test_one_label_or_one_instance(self, data: Known) -> None:
        for few in (known(n_labels=1), Known(data.X[:1], data.labels[:1], data.n_labels)):
            model = self.fit(few)
            answers = self.answers(model, model.rank(self.inputs(few.X), k=len(few.labels[0])))
            assert [sorted(row) for row in answers] == few.labels

    @pytest.mark.filterwarnings("ignore:2 of .* texts with labels are empty")
    def test_rows_without_labels_or_features(self, data: Known) -> None:
        X, labels = data.X.copy(), [list(ids) for ids in data.labels]
        X[[0, 7, 20]] = 0
        labels[3] = labels[7] = labels[-1] = []
        model = self.fit(Known(X, labels, data.n_labels))
        Q, expected = questions(data)
        answers = self.answers(model, model.rank(self.inputs(Q), k=1))
        assert [row[0] for row in answers] == expected.tolist()

    # ---------------------------------------- seeds and threads

    # That the same seed gives the same bits is seen where a loaded model is fitted anew, and here.

    def test_threads_do_not_change_a_bit(self, fitted: Any, data: Known) -> None:
        """The fitted one had one."""
        model = self.fit(data, n_jobs=5)
        same_bits(fitted, model)
        assert bits(fitted.rank(self.inputs(data.X), k=5)) == bits(model.rank(self.inputs(data.X), k=5))

    def test_the_largest_seed_will_do(self, data: Known) -> None:
        if not self.has_seed:
            pytest.skip("this model draws nothing")
        X, expected = questions(data)
        model = self.fit(data, seed=2**31 - 1)
        assert [row[0] for row in self.answers(model, model.rank(self.inputs(X), k=1))] == expected.tolist()

    def test_sixteen_threads_rank_on_one_model(self, fitted: Any, data: Known) -> None:
        parts = [self.inputs(data.X[start : start + 5]) for start in range(0, 40, 5)]
        expected = [bits(fitted.rank(part, k=6)) for part in parts]
        start = threading.Barrier(16)

        def work(number: int) -> bool:
            start.wait()
            order = np.random.default_rng(number).permutation(len(parts))
            return all(bits(fitted.rank(parts[i], k=6)) == expected[i] for i in order)

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(16)))

    def test_fit_leaves_its_input_alone(self, data: Known) -> None:
        _, before, after = self.trained(data)
        assert before == after

    # ---------------------------------------- other processes

    @pytest.mark.parametrize("method", ["fork", "anew"])
    def test_ranking_in_a_child(self, fitted: Any, data: Known, method: str) -> None:
        method = ANEW if method == "anew" else method
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"this system cannot {method}")
        X = self.inputs(data.X)
        fitted.set_params(**self.jobs(2))  # threads have run in the parent before it forks
        expected = bits(fitted.rank(X, k=5))
        try:
            assert answer_of_child(method, rank_into, fitted, X, 5) == expected
        finally:
            fitted.set_params(**self.jobs(1))

    def jobs(self, n_jobs: int | None) -> dict[str, Any]:
        """The parameters that set the number of threads."""
        return {"n_jobs": n_jobs}

    @pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
    def test_pickle(self, fitted: Any, data: Known, protocol: int) -> None:
        again = pickle.loads(pickle.dumps(fitted, protocol))
        same_bits(fitted, again)
        X = self.inputs(data.X)
        assert bits(again.rank(X, k=5)) == bits(fitted.rank(X, k=5))

    def test_an_unfitted_estimator_pickles_and_copies(self) -> None:
        model = self.make()
        assert repr(pickle.loads(pickle.dumps(model))) == repr(model) == repr(copy.deepcopy(model))

    # ---------------------------------------- saving and loading

    @pytest.mark.parametrize("mmap", [True, False])
    def test_save_and_load(self, fitted: Any, data: Known, tmp_path: Path, mmap: bool) -> None:
        fitted.save(tmp_path / "model")
        again = sylvan.load(tmp_path / "model", mmap=mmap)
        assert type(again) is type(fitted)
        assert repr(again.set_params(**self.machine)) == repr(fitted)
        same_bits(fitted, again)
        for X in (self.inputs(data.X), self.inputs(data.X[:1])):
            assert bits(again.rank(X, k=5)) == bits(fitted.rank(X, k=5))
            assert bits(again.predict_proba(X)) == bits(fitted.predict_proba(X))

    def test_a_loaded_model_is_used_like_any_other(self, fitted: Any, data: Known, tmp_path: Path) -> None:
        fitted.save(tmp_path / "model")
        loaded = sylvan.load(tmp_path / "model", mmap=True)
        X = self.inputs(data.X)
        expected = bits(fitted.rank(X, k=5))
        assert bits(pickle.loads(pickle.dumps(loaded)).rank(X, k=5)) == expected
        assert bits(copy.deepcopy(loaded).rank(X, k=5)) == expected
        loaded.save(tmp_path / "copy")
        assert bits(sylvan.load(tmp_path / "copy").rank(X, k=5)) == expected
        changed = loaded.without_labels([1]) if self.loses_labels else loaded
        same_bits(changed.fit(X, self.targets(data)), fitted)
        assert changed.removed_labels_.tolist() == [], "fitted anew it knows all labels"

    def test_a_deep_copy_is_another_model_and_saving_over_it_replaces_it(
        self, fitted: Any, data: Known, tmp_path: Path
    ) -> None:
        X, half = self.inputs(data.X), Known(data.X[:30], data.labels[:30], data.n_labels)
        expected = bits(fitted.rank(X, k=5))
        other = copy.deepcopy(fitted).fit(self.inputs(half.X), self.targets(half))
        assert bits(fitted.rank(X, k=5)) == expected, "what a copy learns is its own"
        other.save(tmp_path / "model")
        mapped = sylvan.load(tmp_path / "model", mmap=True)
        fitted.save(tmp_path / "model")
        assert bits(sylvan.load(tmp_path / "model").rank(X, k=5)) == bits(fitted.rank(X, k=5))
        assert bits(mapped.rank(X, k=5)) == bits(other.rank(X, k=5)), "a model mapped before lives on"
        assert [path.name for path in tmp_path.iterdir()] == ["model"], "and nothing else is left behind"

    def test_saving_over_the_folder_it_was_loaded_from(self, fitted: Any, data: Known, tmp_path: Path) -> None:
        fitted.save(tmp_path / "model")
        loaded = sylvan.load(tmp_path / "model", mmap=True)
        loaded.save(tmp_path / "model")
        X = self.inputs(data.X)
        assert bits(loaded.rank(X, k=5)) == bits(fitted.rank(X, k=5))
        assert bits(sylvan.load(tmp_path / "model").rank(X, k=5)) == bits(fitted.rank(X, k=5))

    def test_a_model_loads_in_a_process_that_only_imported_sylvan(
        self, fitted: Any, data: Known, tmp_path: Path
    ) -> None:
        fitted.save(tmp_path / "model")
        assert answer_of_child(self.anew, load_into, str(tmp_path / "model")) == type(fitted).__name__

    # ---------------------------------------- refusals

    def test_ranking_before_fitting(self, data: Known, tmp_path: Path) -> None:
        model = self.make()
        for call in (
            lambda: model.rank(self.inputs(data.X), k=1),
            lambda: model.predict(self.inputs(data.X)),
            lambda: model.predict_proba(self.inputs(data.X)),
            lambda: model.save(tmp_path / "model"),
        ):
            with raises(NotFittedError, type(model).__name__):
                call()
        assert not list(tmp_path.iterdir())

    def test_a_k_that_is_none_or_that_no_memory_holds_is_refused(self, fitted: Any, data: Known) -> None:
        for k in (0, -1, 1.5, "3", None, True, 2**31 - 1):
            with raises(ParameterError, "'k'"):
                fitted.rank(self.inputs(data.X), k=k)

    def test_k_may_be_a_numpy_int(self, fitted: Any, data: Known) -> None:
        X = self.inputs(data.X)
        assert bits(fitted.rank(X, k=np.int64(3))) == bits(fitted.rank(X, k=3))

    def test_a_beam_that_is_none_is_refused(self, fitted: Any, data: Known) -> None:
        if not self.has_beam:
            pytest.skip("this model has no beam")
        beam: Any
        for beam in (0, -1, 1.5, "3", True):
            with raises(ParameterError, "beam"):
                fitted.rank(self.inputs(data.X), k=1, beam=beam)
            with raises(ParameterError, "beam"):
                self.fit(data, beam=beam)

    def test_a_number_of_threads_that_is_none_is_refused(self, fitted: Any, data: Known) -> None:
        n_jobs: Any
        for n_jobs in (0, -5, 1.5, "2", True):
            with raises(ParameterError, "n_jobs"):
                self.fit(data, n_jobs=n_jobs)
        for n_jobs in (0, -5):
            model = copy.deepcopy(fitted).set_params(**self.jobs(n_jobs))
            with raises(ParameterError, "n_jobs"):
                model.rank(self.inputs(data.X), k=1)

    def test_a_parameter_out_of_its_range_is_refused_after_fit_too(self, fitted: Any, data: Known) -> None:
        model, X, asked = copy.deepcopy(fitted), self.inputs(data.X), 0
        expected = bits(model.rank(X, k=3))
        for name, value in model.get_params().items():
            *parts, own = name.split("__")
            owner = model
            for part in parts:
                owner = owner.members[int(part[6:])] if hasattr(owner, "members") else owner.part(part)
            if own in owner.constraints and not hasattr(value, "get_params") and not hasattr(owner, "tokenize"):
                range_, asked = owner.constraints[own].describe(), asked + 1
                model.set_params(**{name: object()})
                for use in (model.to_state, model.rank, model.rank, model.to_state):
                    with raises(ParameterError, repr(own), type(owner).__name__, range_):
                        use(*(X, 1) if use == model.rank else ())
                model.set_params(**{name: value})
        assert asked
        assert bits(model.rank(X, k=3)) == expected

    def test_unknown_parameters_are_refused(self) -> None:
        with raises(ParameterError, "beem"):
            self.make().set_params(beem=3)

    def test_a_failed_fit_leaves_the_model_as_it_was(self, fitted: Any, data: Known) -> None:
        model, X, n = copy.deepcopy(fitted), self.inputs(data.X), len(data.X)
        expected = bits(model.rank(X, k=5))
        short = self.targets(Known(data.X[:-2], data.labels[:-2], data.n_labels))
        for each in (model, self.make()):
            with raises(DataError, n, n - 2):
                each.fit(X, short)
        assert bits(model.rank(X, k=5)) == expected
