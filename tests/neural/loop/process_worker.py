"""One of several processes that train together; ``test_processes`` starts them and reads what they wrote.

Called with a folder, it goes through all scenarios; the results go to ``folder/<scenario>.<process>.json``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from forked_processes import together
from jobs import Points, Rows
from torch import Tensor

from sylvan.errors import ParameterError, SylvanError
from sylvan.neural import Engine, TokenRows, WarmupSchedule, load_tree, train

TIMEOUT = 400.0
HANG = 8.0  # seconds: two processes find each other sooner, on a busy machine too


def uneven(seed: int = 0) -> Rows:
    """The epoch's last batches have 7 rows and 1 row, which two processes can't share evenly."""
    job = Rows((20, 20, 20, 7, 1), seed)
    job.schedulers = WarmupSchedule(steps=15).schedulers(job.optimizers)
    return job


def numbers(job: Points) -> list[Any]:
    return [tensor.tolist() for tensor in job.module.state_dict().values()]


def equal_everywhere(engine: Engine, value: Any) -> bool:
    values = engine.everyone(value)
    return all(other == values[0] for other in values)


def trained(engine: Engine, seed: int = 0) -> dict[str, Any]:
    """Three epochs; what else a process begins with is the main one's after all."""
    job = uneven(seed)
    history = train(job, epochs=3, clip_norm=2.0, engine=engine)
    measures = [{key: value for key, value in entry.items() if key != "seconds"} for entry in history.epochs]
    return {"numbers": numbers(job), "epochs": measures, "seen": job.seen, "test": history.test}


def training(folder: Path) -> dict[str, Any]:
    engine = Engine(device="cpu", timeout=TIMEOUT)
    found = trained(engine, seed=engine.process)
    again = trained(engine)
    return {
        **found, "same": equal_everywhere(engine, found["numbers"]), "again": again["numbers"] == found["numbers"],
        "accumulated": trained(Engine(device="cpu", accumulate=2, timeout=TIMEOUT)), "gradients": gradients(engine),
        "rows": rows(engine), "resumed": resumed(engine, folder), "refused": refused(), "engine": repr(engine),
    }  # fmt: skip


def gradients(engine: Engine) -> dict[str, Any]:
    """By hand: process 0 has ones, process 1 threes, and each lacks some."""
    mine = 1.0 + 2.0 * engine.process

    def sparse(rows: list[int]) -> Tensor:
        values = torch.full((len(rows), 2), mine)
        return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.int64), values, (6, 2))

    names = ("dense", "half", "only_first", "nowhere", "sparse", "sparse_only_second", "mixed", "scalar")
    tensors = {name: torch.zeros(6, 2, requires_grad=True) for name in names}
    tensors["half"] = torch.zeros(3, dtype=torch.bfloat16, requires_grad=True)
    tensors["scalar"] = torch.zeros((), requires_grad=True)
    tensors["dense"].grad = torch.full((6, 2), mine)
    tensors["half"].grad = torch.full((3,), mine, dtype=torch.bfloat16)
    tensors["scalar"].grad = torch.tensor(mine)
    tensors["sparse"].grad = sparse([[1, 1, 4], [4]][engine.process])
    if engine.is_main:
        tensors["only_first"].grad = torch.full((6, 2), mine)
        tensors["mixed"].grad = torch.full((6, 2), mine)
    else:
        tensors["sparse_only_second"].grad = sparse([5, 0])
        tensors["mixed"].grad = sparse([2])
    engine.reduce_gradients(tensors.values())
    kinds = {name: None if p.grad is None else p.grad.is_sparse for name, p in tensors.items()}
    dense = {name: None if p.grad is None else p.grad.to_dense().tolist() for name, p in tensors.items()}
    return {"kinds": kinds, "values": dense}


def rows(engine: Engine) -> dict[str, Any]:
    """What is cut and gathered is whole again, whatever it is and however short."""
    wrong = []
    for n in (0, 1, 2, 5):
        arrays: list[Any] = [np.arange(n), np.ones((n, 3), np.float16), np.arange(n) > 1, np.zeros((n, 2, 2))]
        arrays += [torch.arange(n), torch.ones(n, 2, dtype=torch.bfloat16), torch.arange(n) > 0, torch.zeros(n, 0)]
        for array in arrays:
            whole = engine.gather(engine.share(array))
            same = np.array_equal(whole, array) if isinstance(array, np.ndarray) else torch.equal(whole, array)
            if not same or whole.dtype != array.dtype:
                wrong.append(repr(array))
    tokens = TokenRows(np.arange(6, dtype=np.int32), np.array([0, 1, 3, 6], np.int64))
    parts = engine.share({"rows": tokens, "ids": [7, 8, 9], "pair": (torch.arange(3), torch.tensor(5.0))})
    return {
        "wrong": wrong, "ids": parts["ids"], "tokens": parts["rows"].ids.tolist(),
        "pair": [part.tolist() for part in parts["pair"]], "agreed": engine.agree({"process": engine.process}),
        "everyone": engine.everyone(engine.process),
    }  # fmt: skip


def resumed(engine: Engine, folder: Path) -> dict[str, Any]:
    """With dropout, carried states and a stop within an epoch: the bits of a training that never stopped."""

    def bits(name: str) -> list[Any]:
        tree = load_tree(folder / name / "checkpoint", kind="neural-checkpoint")
        return [t.tolist() for t in tree["module"].values()] + [p["random"]["cpu"].tolist() for p in tree["processes"]]

    train(Points(), epochs=2, folder=folder / "whole", engine=engine)
    stopped = train(Points(), epochs=2, folder=folder / "parts", max_steps=5, engine=engine)
    job = Points()
    history = train(job, epochs=2, folder=folder / "parts", resume=True, engine=engine)
    whole = bits("whole")
    return {
        "stopped": stopped.stopped,
        "steps": job.steps,
        "same": whole == bits("parts") and equal_everywhere(engine, history.epochs[-1]),
        "different": whole[-1] != whole[-2],  # each process draws its own dropout
        "module": numbers(job),
        "files": sorted(path.name for path in (folder / "parts").iterdir()),
    }


def refused() -> str:
    try:
        Engine(device="cuda:0" if torch.cuda.is_available() else torch.device("cpu", 3), timeout=TIMEOUT)
    except ParameterError as error:
        return str(error)
    return ""


def failing(folder: Path, at: int, how: str) -> dict[str, Any]:
    """Process 1 comes to nothing at a step; what process 0 says, and when."""
    engine = Engine(device="cpu", timeout=HANG if how == "hang" else TIMEOUT)
    job = Points()
    step = job.step

    def fail(batch: Tensor, number: int) -> Tensor:
        if number == at and not engine.is_main:
            if how == "interrupted":
                raise KeyboardInterrupt
            time.sleep(2 * HANG if how == "hang" else 0.0)
            os._exit(3)
        return step(batch, number)

    job.step = fail  # type: ignore[method-assign]
    started = time.monotonic()
    try:
        train(job, epochs=3, folder=folder / how, engine=engine, checkpoint_every=0)
    except SylvanError as error:
        return {"error": str(error), "seconds": time.monotonic() - started}
    return {"error": "", "seconds": 0.0}


def never() -> dict[str, Any]:
    """The other process isn't even started."""
    try:
        Engine(device="cpu", timeout=1.0)
    except SylvanError as error:
        return {"error": str(error)}
    return {"error": ""}


def killed_alone(folder: Path) -> None:
    """A training of one process, without others, that is killed at its eighth step."""
    job = Points()
    step = job.step

    def killed(batch: Tensor, number: int) -> Tensor:
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(batch, number)

    job.step = killed  # type: ignore[method-assign]
    train(job, epochs=3, folder=folder / "alone", checkpoint_every=0)


def run(scenario: str, folder: Path) -> dict[str, Any]:
    if scenario == "training":
        return training(folder)
    return never() if scenario == "never" else failing(folder, 3, scenario)


def main() -> None:
    """One scenario after the other."""
    folder = Path(sys.argv[1])
    codes = {}
    for scenario in ("training", "killed", "interrupted", "hang", "never"):

        def work(process: int, scenario: str = scenario) -> None:
            (folder / f"{scenario}.{process}.json").write_text(json.dumps(run(scenario, folder)))

        codes[scenario] = together(work, [0] if scenario == "never" else [0, 1])
    (alone,) = together(lambda process: killed_alone(folder), [0])
    (folder / "codes.json").write_text(json.dumps({**codes, "alone": [0 if alone == -signal.SIGKILL else 1]}))


if __name__ == "__main__":
    main()
