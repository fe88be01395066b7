"""A driver that trains on a cluster until it is killed: ``python ray_driver.py ADDRESS PARTS CHECKPOINT``."""

import sys

import sylvan
from sylvan import XRLinear, data
from sylvan.runtime.checkpoint import Checkpoint


def main() -> None:
    address, parts, checkpoint = sys.argv[1:]
    X, Y = data.open_parts(parts)
    with sylvan.distributed.ray(address):
        XRLinear(n_jobs=1, n_trees=3, max_leaf=20).fit(X, Y, checkpoint=Checkpoint(checkpoint))
    print("done", flush=True)


if __name__ == "__main__":
    main()
