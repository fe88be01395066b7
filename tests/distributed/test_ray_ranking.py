"""Rows ranked on a Ray cluster have the answers of one machine, in order, whichever worker is lost."""

import functools
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises
from ray_work import lingers, squared, wait_for, wrong

import sylvan
from sylvan import XRLinear, data
from sylvan.distributed.ranking import Ranker
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.runtime import Job

pytest.importorskip("ray", reason='needs Ray: pip install "sylvan[ray]"')
ray_data = pytest.importorskip("ray.data", reason='needs Ray Data: pip install "sylvan[ray]"')
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def lists(rows: list[Any]) -> list[list[Any]]:
    return [list(row) for row in rows]


def bits(rows: list[dict[str, Any]]) -> list[bytes]:
    """The scores of each row; Ray Data makes doubles of them, which hold every float."""
    return [np.array(row["scores"]).astype(np.float32).tobytes() for row in rows]


def expected_bits(top: Any) -> list[bytes]:
    return [scores[labels >= 0].tobytes() for labels, scores in top]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_texts(form: str, cluster: Any, saved: Any, tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        part = slice(number * 100, (number + 1) * 100)
        paths.append(str(tmp_path / f"{number}.{form}"))
        write = data.write_jsonl if form == "jsonl" else data.write_parquet
        write(paths[-1], saved.texts[part], saved.labels[part], labels_field="right")
    read = ray_data.read_json if form == "jsonl" else ray_data.read_parquet
    result = sylvan.distributed.rank(read(str(tmp_path)), saved.folder / "texts", 5, batch_size=64)
    assert result.context.execution_options.preserve_order  # or blocks would come as they are ready
    rows = result.take_all()
    top = saved.text_model.rank(saved.texts, 5)
    assert [row["text"] for row in rows] == saved.texts
    assert lists([row["labels"] for row in rows]) == top.names
    assert bits(rows) == expected_bits(top)
    assert lists([row["right"] for row in rows]) == lists(saved.labels)
    assert result.schema().names == ["text", "right", "labels", "scores"]


def test_several_columns_of_text_and_lists_of_labels(cluster: Any, saved: Any) -> None:
    rows = [{"head": text[:20], "body": None if at % 3 == 0 else text[20:]} for at, text in enumerate(saved.texts[:60])]
    joined = [" ".join(filter(None, row.values())) for row in rows]
    first = saved.text_model.vocabulary_[0]
    result = sylvan.distributed.rank(
        ray_data.from_items(rows), saved.folder / "texts", 3, text=["head", "body"], denied=[first],
        columns=("tags", "numbers"),
    ).take_all()  # fmt: skip
    top = saved.text_model.rank(joined, 3, denied=[first])
    assert lists([row["tags"] for row in result]) == top.names
    assert [np.array(row["numbers"], np.float32).tobytes() for row in result] == expected_bits(top)


def sparse_rows(X: Any) -> list[dict[str, Any]]:
    rows = []
    for at in range(X.shape[0]):
        part = slice(X.indptr[at], X.indptr[at + 1])
        rows.append({"indices": X.indices[part].tolist(), "values": X.data[part].tolist()})
    return rows


def test_sparse_features_in_parquet(cluster: Any, saved: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    X = sp.csr_matrix(saved.X)
    X.data[X.indptr[7] : X.indptr[8]] = 0  # a row without features
    parquet.write_table(pa.Table.from_pylist(sparse_rows(X)), tmp_path / "rows.parquet")
    rows = sylvan.distributed.rank(
        ray_data.read_parquet(str(tmp_path / "rows.parquet")), saved.folder / "features", 5
    ).take_all()
    top = saved.matrix_model.rank(X, 5)
    assert [list(row["labels"]) for row in rows] == [labels[labels >= 0].tolist() for labels, _ in top]
    assert bits(rows) == expected_bits(top)


@pytest.mark.parametrize("form", ["lists", "tensors"])
def test_dense_features(form: str, cluster: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 12)).astype(np.float32)
    model = XRLinear(n_jobs=1, max_leaf=5).fit(X, [[int(at)] for at in rng.integers(0, 30, 80)])
    model.save(tmp_path / "m")
    rows = [{"vector": row if form == "tensors" else row.tolist()} for row in X]
    result = sylvan.distributed.rank(ray_data.from_items(rows), tmp_path / "m", 4, features="vector").take_all()
    top = model.rank(X, 4)
    names = [[str(model.classes_[label]) for label in labels] for labels in top.labels]
    assert [list(row["labels"]) for row in result] == names
    assert bits(result) == expected_bits(top)


def ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        yield process


def processes_of_actors() -> list[int]:
    """Those of this process's own cluster that rank."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            name = place.joinpath("cmdline").read_bytes()
            if re.match(rb"ray::MapWorker\(.*_Actor", name) and os.getpid() in ancestors(int(place.name)):
                found.append(int(place.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_an_actor_that_is_killed_is_replaced(cluster: Any, saved: Any, tmp_path: Path) -> None:
    rows = [{"number": at, "text": text} for at, text in enumerate(saved.texts[:100])]
    dataset = ray_data.from_items(rows, override_num_blocks=4).map(functools.partial(wait_for, str(tmp_path / "mark")))
    result, killed = [], []
    ranked = sylvan.distributed.rank(dataset, saved.folder / "texts", 3, batch_size=25, actors=1)
    for row in ranked.iter_rows():
        if not result:  # the other half waits for the mark
            killed = processes_of_actors()
            for process in killed:
                os.kill(process, signal.SIGKILL)
            (tmp_path / "mark").touch()
        result.append(row)
    assert len(killed) == 1
    top = saved.text_model.rank(saved.texts[:100], 3)
    assert lists([row["labels"] for row in result]) == top.names and bits(result) == expected_bits(top)


def test_jobs_are_made_as_there_is_room_and_answered_in_order(cluster: Any) -> None:
    made: list[int] = []

    def jobs() -> Iterator[Job[Any]]:
        for at in range(20):
            made.append(at)
            yield Job(f"job{at}", squared, {"at": at})

    base = np.arange(1000.0)
    with sylvan.distributed.ray() as runner:
        results = runner.ordered(jobs(), {"base": base})
        first = next(results)[0]
        assert len(made) == 4  # two for each of two CPUs
        assert [first, *(result[0] for result in results)] == [at**2 for at in range(20)]
        assert [(phase.bytes_shared, phase.n_jobs) for phase in runner.phases] == [(base.nbytes, 20)]
        with raises(DataError, "row 7"):
            list(runner.ordered([Job("a", wrong, {})], {"what": "row 7"}))


def test_what_was_handed_over_is_cancelled_after_an_interrupt(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job(f"job{at}", lingers, {"folder": str(tmp_path), "at": at}, cost=5 - at) for at in range(4)]
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # of a session that goes on

    def deliver(number: int, result: int) -> None:
        raise KeyboardInterrupt

    with sylvan.distributed.ray() as runner:
        with pytest.raises(KeyboardInterrupt):
            runner.stream(jobs, deliver)
        assert runner.run([Job("next", pow, {"base": 2, "exp": 3})] * 4) == [8] * 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "interactive", "cancelled"),
    [(KeyboardInterrupt(), True, ["a", "b"]), (KeyboardInterrupt(), False, []), (ValueError(), True, [])],
)
def test_nothing_is_cancelled_where_the_process_ends(
    error: BaseException, interactive: bool, cancelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cancel a task whose answer is on its way aborts the process: a command would end without its sentence."""
    if interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.delattr(sys, "ps1", raising=False)
    asked: list[str] = []
    module = SimpleNamespace(remote=lambda **_: lambda work: work, cancel=lambda task, force: asked.append(task))
    RayRunner(module)._leave(iter(["a", "b"]), error)
    assert asked == cancelled


def test_answers_carry_no_vocabulary(saved: Any) -> None:
    texts = ["The history of England", "qwxz"]
    top, names, n_unknown = Ranker.of(saved.folder / "texts", 2, {}).rank(texts)
    assert type(top) is sylvan.TopK and names == saved.text_model.rank(texts, 2).names and len(names[0]) == 2
    assert n_unknown == 1


# ---------------------------------------- sentences


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"k": 0}, ParameterError, "The 'k' parameter of rank must be an int in [1, "),
        ({"batch_size": 0}, ParameterError, "The 'batch_size' parameter of rank must be an int in [1, "),
        ({"features": "v"}, ParameterError, "The 'features' parameter isn't for the model in "),
        ({"columns": ("a",)}, ParameterError, "The 'columns' parameter must be two names. Got ('a',) instead."),
        ({"text": "body"}, DataError, "The dataset: there is no column 'body'. Its columns are: text, labels."),
        ({}, DataError, "The dataset has a column 'labels' already: give the added ones other names, columns=("),
        ({"model": "gone"}, ModelError, "gone': there is no such folder."),
        ({"model": "features"}, DataError, "there is no column 'indices'. Its columns are: text, labels."),
        ({"model": "features", "text": "text"}, ParameterError, "The 'text' parameter isn't for the model in "),
        ({"model": "features", "features": ["a"]}, ParameterError, "The 'features' parameter must be the column of"),
    ],
)
def test_what_is_wrong_is_said_at_once(
    options: dict[str, Any], error: type[Exception], sentence: str, cluster: Any, saved: Any
) -> None:
    given: dict[str, Any] = {"k": 3, **options}
    model = saved.folder / given.pop("model", "texts")
    dataset = ray_data.from_items([{"text": "whales", "labels": "Whaling"}])
    with pytest.raises(error) as caught:
        sylvan.distributed.rank(dataset, model, given.pop("k"), **given)
    assert sentence in str(caught.value)


def test_only_datasets_are_ranked(cluster: Any, saved: Any) -> None:
    with raises(ParameterError, "ray.data.Dataset", "list"):
        sylvan.distributed.rank(["whales"], saved.folder / "texts")


def test_columns_that_are_known_late_are_refused_with_the_same_sentence(cluster: Any, saved: Any) -> None:
    from ray.exceptions import RayTaskError

    dataset = ray_data.from_items([{"text": "whales"}]).map(lambda row: {"body": row["text"]})
    ranked = sylvan.distributed.rank(dataset, saved.folder / "texts", 3)
    with raises(RayTaskError, "text"):
        ranked.take_all()


def test_a_node_without_the_model_is_named(cluster: Any, saved: Any) -> None:
    import ray

    ranker = Ranker(str(saved.folder / "gone"), "crc32:00000000", 3)
    with raises(ModelError, "open"):
        ranker.check_nodes(ray)
    other = Ranker(str(saved.folder / "texts"), "crc32:00000000", 3)
    with raises(ModelError, "replaced"):
        other.check_nodes(ray)


def test_without_ray_or_ray_data_it_says_how_to_get_them(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with raises(ImportError, "sylvan[ray]"):
        sylvan.distributed.rank(None, saved.folder / "texts")
    monkeypatch.setitem(sys.modules, "ray", None)
    for call in (sylvan.distributed.rank, lambda *given: sylvan.distributed.rank_files(["a"], given[1], "out")):
        with raises(ImportError, "sylvan[ray]"):
            call(None, saved.folder / "texts")
