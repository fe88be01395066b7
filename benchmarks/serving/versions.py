"""The versions of packages in this interpreter's environment."""

from __future__ import annotations

import contextlib
import platform
from typing import Any

from benchmarks.common import process


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Those that are installed; Sylvan itself needn't be."""
    from importlib import metadata

    found = {"python": platform.python_version()}
    if job["sylvan"]:
        import sylvan

        found["sylvan"] = sylvan.__version__
    for name in job["packages"]:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


if __name__ == "__main__":
    process.serve(work)
