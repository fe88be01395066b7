"""An encoder that several processes of a Ray cluster fine-tune together, as those of ``torchrun`` do on one machine.

Run it with ``python ray_train.py train.jsonl /shared/runs/books 4`` in this folder. Every node reads the file of texts
and labels and the folder at the same places. Needs ``pip install "sylvan[transformers,ray]" "ray[train]"``.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from ray import train
from ray.train.torch import TorchTrainer


def fit(settings: dict[str, Any]) -> None:
    """What each process does: the whole training, of which it learns its part of every batch."""
    from sylvan import XRTransformer, data

    rows = data.read_jsonl(settings["rows"])
    model = XRTransformer(**settings["parameters"])
    model.fit(rows.texts, rows.labels, checkpoint=f"{settings['model']}.training")
    if train.get_context().get_world_rank() == 0:
        model.save(settings["model"])
    train.report({"labels": model.n_labels_})


def train_together(rows: str, model: str, n_processes: int, **parameters: Any) -> None:
    """Train on a file of rows and save the model in a folder; what is lost with a process is taken up again."""
    folder = Path(model).absolute()
    TorchTrainer(
        fit,
        train_loop_config={"rows": str(Path(rows).absolute()), "model": str(folder), "parameters": parameters},
        scaling_config=train.ScalingConfig(num_workers=n_processes, use_gpu=torch.cuda.is_available()),
        run_config=train.RunConfig(
            name=f"{folder.name}.ray",
            storage_path=str(folder.parent),
            failure_config=train.FailureConfig(max_failures=3),
        ),
    ).fit()


if __name__ == "__main__":
    train_together(sys.argv[1], sys.argv[2], int(sys.argv[3]))
