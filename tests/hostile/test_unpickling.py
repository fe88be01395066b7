"""Nothing of Sylvan unpickles: models of every kind are opened and used in a process that would notice.

Python tells its audit hooks whenever an unpickler looks up a class or a function, which is what a hostile pickle needs.
The static half, no import of pickle anywhere, is among the tests of the sources.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import child_processes
import pytest

from hostile.specimens import SPECIMENS, there

TESTS = Path(__file__).parent.parent
_CODE = """
import json, pickle, sys, traceback

from hostile.exercise import exercise
from hostile.specimens import SPECIMENS, there
from sylvan.store import registry

for _, module, needed in SPECIMENS.values():
    there(module, needed)
looked_up = []
where = ""


def hook(event, arguments):
    if event == "pickle.find_class":
        # PyTorch's compiler, where a first use loads it, may read tables of its own
        if not any("/torch/" in frame.filename for frame in traceback.extract_stack()):
            looked_up.append([where, list(map(str, arguments))])


sys.addaudithook(hook)
pickle.loads(pickle.dumps(json.JSONDecoder))
assert looked_up == [["", ["json.decoder", "JSONDecoder"]]], "the hook is told of nothing"
looked_up.clear()
for where in sys.argv[1:]:
    for mmap in (True, False):
        exercise(registry.load(where, mmap=mmap))
print(json.dumps(looked_up))
"""


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


@pytest.mark.filterwarnings("ignore:Nothing could be learned")  # of a specimen's few rows
def test_nothing_is_unpickled_with_pickles_in_every_folder(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    folders = []
    for name, (make, module, needed) in SPECIMENS.items():
        if not there(module, needed):
            continue
        make(tmp_path / name)
        folders.append(str(tmp_path / name))
        for stray in ("model.pkl", "pytorch_model.bin", "x.npy", "model.joblib", "state.pt", "conftest.py"):
            (tmp_path / name / stray).write_bytes(trap)
    assert len(folders) > 10
    done = child_processes.python("-c", _CODE, *folders, env=child_processes.environment(TESTS))
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert not (tmp_path / "sprung").exists()
