"""Loads and uses one spoiled folder after another; a crash tells the parent which one it was.

Reads lines of JSON from its input, {"folder": ..., "mmap": ...}, and answers each with a line {"outcome": ..., "text":
...}: "refused" with the sentence, "fine", or "fault" with the traceback of an error that no person should see.
"""

import json
import os
import sys
import traceback
from typing import Any

MEMORY_LIMIT = 6 << 30


def limit_memory() -> None:
    """A folder of kilobytes that makes a model ask for gigabytes is a fault too."""
    if os.environ.get("SYLVAN_SANITIZED"):
        return  # the sanitizers' shadow memory is larger than any limit
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def answer(folder: str, mmap: bool) -> dict[str, Any]:
    from hostile.exercise import exercise
    from sylvan.errors import ModelError
    from sylvan.store import registry

    try:
        exercise(registry.load(folder, mmap=mmap))
    except ModelError as error:
        return {"outcome": "refused", "text": str(error)}
    except BaseException:
        return {"outcome": "fault", "text": traceback.format_exc()}
    return {"outcome": "fine", "text": ""}


def main() -> None:
    import faulthandler

    faulthandler.enable()
    from hostile.specimens import SPECIMENS, there

    for _, module, needed in SPECIMENS.values():
        there(module, needed)  # importing a module registers its kinds
    limit_memory()
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(answer(task["folder"], task["mmap"])), flush=True)


if __name__ == "__main__":
    main()
