"""Two processes fine-tune a small BERT over three layers as one does, and go on after a stop to the same bits."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import environment, python

for name in ("torch", "transformers", "accelerate"):
    pytest.importorskip(name)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes that find each other by gloo")
HERE = Path(__file__).parent
ENVIRONMENT = environment(HERE.parents[1], HERE.parents[1] / "neural" / "loop")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the two processes wrote."""
    from neural.text.tiny_bert import tiny_bert
    from tuning_worker import TEXTS

    place = tmp_path_factory.mktemp("tuned")
    tiny_bert(place / "bert", TEXTS)
    done = python(HERE / "tuning_worker.py", place, env=ENVIRONMENT)
    assert done.returncode == 0 and json.loads(done.stdout) == [0, 0], done.stderr[-3000:]
    return place


@pytest.fixture(scope="module")
def both(folder: Path) -> list[dict[str, Any]]:
    return [dict(np.load(folder / f"{process}.npz")) for process in range(2)]


def test_two_processes_learn_what_one_does(folder: Path, both: list[dict[str, Any]]) -> None:
    """Slow reference: one process, whole batches. Candidates are refreshed at a step where one process has no row."""
    from tuning_worker import training

    alone = training(folder / "bert", None)
    assert np.abs(alone["vectors"] - alone["begin"]).max() > 0.1 and alone["looked"] == 22
    for found in both:
        assert found["whole.looked"] == 22 and (found["whole.best"] == alone["best"]).all()
        np.testing.assert_allclose(found["whole.losses"], alone["losses"], rtol=1e-3)
        for name in ("table0", "table1", "table2", "vectors"):
            np.testing.assert_allclose(found[f"whole.{name}"], alone[name], atol=2e-3, err_msg=name)


def test_both_have_the_same_bits(both: list[dict[str, Any]]) -> None:
    for name, value in both[0].items():
        np.testing.assert_array_equal(both[1][name], value, err_msg=name)


@pytest.mark.parametrize(("stop", "left"), [(14, 24), (33, 6)])
def test_both_go_on_to_the_same_bits(both: list[dict[str, Any]], stop: int, left: int) -> None:
    """Of what was done the finished layers, or the finished epoch, aren't done again."""
    for name in ("table0", "table1", "table2", "vectors", "losses", "best"):
        np.testing.assert_array_equal(both[0][f"stopped{stop}.{name}"], both[0][f"whole.{name}"], err_msg=name)
    assert both[0]["whole.steps"] == 36 and both[0][f"stopped{stop}.steps"] == left


def test_two_processes_go_on_together(tmp_path: Path) -> None:
    """Before, the first took what is stored and the others waited for its part of the embeddings."""
    done = python(HERE / "resuming_worker.py", tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0 and json.loads(done.stdout) == [0, 0], done.stderr[-3000:]
    for process in range(2):
        found = json.loads((tmp_path / f"{process}.json").read_text())
        assert found["stored"] == {"made": 0, "scores": found["whole"]}
        assert found["spoiled"] == {"made": 1, "scores": found["whole"]}, "one can't read them: all make them anew"
