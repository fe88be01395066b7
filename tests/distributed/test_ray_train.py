"""The recipe for Ray Train: two of its processes fine-tune an encoder to the bits of two that torchrun starts."""

import re
from pathlib import Path
from typing import Any

import pytest
import together_texts
from child_processes import python
from ray_work import dying_once
from recipes import recipe
from together_texts import LABELS, TEXTS, parameters

import sylvan
from sylvan import XRTransformer, data

for name in ("torch", "transformers", "accelerate"):
    pytest.importorskip(name)
pytest.importorskip("ray.train", reason='needs Ray Train: pip install "ray[train]"', exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
DEATH = 20  # a step of the second layer: the first one's are 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, an encoder, and the model that two processes of torchrun have made of them."""
    from neural.text.tiny_bert import tiny_bert

    place = tmp_path_factory.mktemp("together")
    tiny_bert(place / "bert", TEXTS)
    data.write_jsonl(place / "rows.jsonl", TEXTS, LABELS)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    python(*launch, together_texts.__file__, place, place / "torchrun", check=True)
    return place


def bits(model: Path) -> dict[str, bytes]:
    """The files of a model, the encoder's too, without the mark of the save in their names."""
    files = [path for path in model.rglob("*") if path.is_file() and path.name != "manifest.json"]
    return {re.sub(r"\.[0-9a-f]{8}\.", ".", str(path.relative_to(model))): path.read_bytes() for path in files}


def test_a_training_makes_the_model_of_torchrun_and_goes_on_after_the_death_of_a_process(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recipe("ray_train")
    monkeypatch.setattr(made, "fit", dying_once(made.fit, str(tmp_path), DEATH))
    made.train_together(str(folder / "rows.jsonl"), str(folder / "lost"), 2, **parameters(folder))
    assert bits(folder / "lost") == bits(folder / "torchrun") != {}
    XRTransformer(**parameters(folder)).fit(TEXTS, LABELS).save(folder / "alone")
    assert bits(folder / "lost") != bits(folder / "alone"), "two processes round otherwise: were there two?"
    assert not (folder / "lost.training").exists()
    steps = [layer["history"]["epochs"][-1]["step"] for layer in sylvan.load(folder / "torchrun").history_]
    assert steps[0] < DEATH < sum(steps)
    done = len((tmp_path / "steps1").read_text().split())  # in both of its lives
    assert sum(steps) < done <= sum(steps) + DEATH - steps[0], "a layer that was done isn't done again"
