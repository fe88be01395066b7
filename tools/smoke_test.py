#!/usr/bin/env python
"""Try an installed Sylvan, in an environment that has nothing else: tools/smoke_test.py

Trains, saves, loads and ranks texts and matrices, asks the command line for its demo, and reads an error of the
kernels, as an exception has to cross from them into Python. Runs outside of the repository, so that what is tried is
what pip installed. Prints one line of JSON: which Python, where the package lies, and what `import sylvan` takes.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path


def train_save_load_rank(folder: Path) -> None:
    """A tagger of texts, and a tree over a matrix, before and after they were saved."""
    import numpy as np

    import sylvan

    texts = ["whales of the southern seas", "bread and cakes", "Wale der S\u00fcdsee", "\u9be8\u306e\u6b4c"] * 5
    tagger = sylvan.TextModel().fit(texts, [["Whaling"], ["Baking"], ["Walfang"], ["\u9be8"]] * 5)
    tagger.save(folder / "tagger")
    asked = ["southern whales", "S\u00fcdsee", "\u9be8\u306e\u6b4c", "a cake and bread"]
    names = sylvan.load(folder / "tagger").rank(asked, k=1).names
    assert [row[0] for row in names] == ["Whaling", "Walfang", "\u9be8", "Baking"], names

    X = np.eye(40, dtype=np.float32)
    model = sylvan.XRLinear(max_leaf=4).fit(X, np.arange(40))
    model.save(folder / "tree")
    top, again = model.rank(X, k=3), sylvan.load(folder / "tree").rank(X, k=3)
    assert (top.labels[:, 0] == np.arange(40)).all()
    assert (top.labels == again.labels).all()
    assert (top.scores == again.scores).all()


def read_an_error() -> None:
    """What a kernel refuses is an exception in Python, although another module throws it."""
    from sylvan import kernels

    terms = kernels.TfidfTerms()
    try:
        terms.absorb(terms)
    except ValueError as error:
        assert "absorb itself" in str(error), error
    else:
        raise AssertionError("a vocabulary absorbed itself")


def demo(folder: Path) -> None:
    """The command line, as a person would try it first."""
    command = [sys.executable, "-m", "sylvan", "demo", "--quiet", "--model", str(folder / "demo")]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    asked = [sys.executable, "-m", "sylvan", "predict", str(folder / "demo"), "-", "-k", "1"]
    answer = subprocess.run(asked, check=True, capture_output=True, cwd=folder, input=b"Astronomy for beginners\n")
    assert b"Astronomy" in answer.stdout, answer.stdout


def seconds(statement: str) -> float:
    """CPU seconds, the least of three runs of a new interpreter, beyond what it takes to start."""
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    """Tries everything in a temporary folder."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # out of the repository
        import sylvan

        train_save_load_rank(Path(scratch))
        read_an_error()
        demo(Path(scratch))
        from sylvan import kernels  # noqa: F401

        native = Path(sys.modules["sylvan._native"].__file__ or "")
        found = {
            "python": platform.python_version(),
            "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
            "machine": platform.machine(),
            "libc": "-".join(platform.libc_ver()),
            "sylvan": sylvan.__version__,
            "module": native.name,
            "module_bytes": native.stat().st_size,
            "import_cpu_s": seconds("import sylvan"),
            "import_model_cpu_s": seconds("from sylvan import TextModel, XRLinear"),
            "import_scipy_cpu_s": seconds("import numpy, scipy.sparse"),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
