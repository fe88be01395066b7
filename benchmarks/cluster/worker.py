"""One training of ``benchmarks.cluster``, in a process of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.cluster.__main__ import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", type=json.loads, required=True)
    job = parser.parse_args().job
    figures = train(Path(job["folder"]), job["setting"], job["nodes"])
    Path(job["out"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
