"""A process that asks for clusters that can't be had; what each answer was goes to stdout as a line of JSON."""

import json
import socket
from typing import Any

import numpy as np

import sylvan
from sylvan.errors import SylvanError

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}


def answer(address: str | None = None, **options: Any) -> str:
    """What is said where a model is to be trained on such a cluster."""
    try:
        with sylvan.distributed.ray(address, **options):
            sylvan.XRLinear(n_jobs=1).fit(np.eye(8, dtype=np.float32), [[label] for label in range(8)])
    except SylvanError as error:
        return str(error)
    return "trained"


if __name__ == "__main__":
    with socket.socket() as another:  # accepts connections, and says nothing
        another.bind(("127.0.0.1", 0))
        another.listen()
        silent = answer(f"127.0.0.1:{another.getsockname()[1]}")
    answers = {
        "silent": silent, "no address": answer("nonsense"), "empty": answer(""),
        "client": answer("ray://10.0.0.1:10001"), "unknown option": answer(colour="red"),
        "no number": answer(num_cpus="two"), "negative": answer(num_cpus=-1),
        "threads": answer(n_jobs=0, num_cpus=1, **SMALL), "no CPUs": answer(num_cpus=0, **SMALL),
    }  # fmt: skip
    print(json.dumps(answers))
