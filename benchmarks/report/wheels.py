"""The section of the results on installed wheels, from what ``benchmarks.wheels`` measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["wheels_section"]

WORDS = (
    "By `python -m benchmarks.wheels`: the wheel {wheel} ({wheel_mb:.2f} MB) with what it requires, in bare "
    "environments. Seconds of installing are without the download. MB are files below `site-packages`, pip's own "
    "aside; bytecode, which pip compiles and uv doesn't, and the tests of NumPy and SciPy are parts of them. "
    "Importing: CPU seconds, the least of three new processes; a model's class brings NumPy and `scipy.sparse` with "
    "it, which take most of the time. {taken}"
)
VECTORIZER = (
    "By `python -m benchmarks.wheels.vectorizer`: the vectoriser with the kernels of the stable ABI beside those of "
    "one version of Python, before / after and their ratio, CPU time of one thread. The stable ABI doesn't show where "
    "the characters of a text lie, unless all are ASCII: others are copied. {taken}"
)


def wheels_section(folder: Path) -> list[str]:
    """Tables of the environments and of the vectoriser; nothing where neither was measured."""
    lines: list[str] = []
    if found := markdown.book(folder / "wheels.json"):
        lines += ["", WORDS.format(**found, taken=markdown.taken(found)), "", *_environments(found["runs"])]
    if found := markdown.book(folder / "wheels-vectorizer.json"):
        lines += ["", VECTORIZER.format(taken=markdown.taken(found)), "", *_vectorizer(found["runs"])]
    return ["", "## Wheels", *lines] if lines else []


def _environments(runs: list[Record]) -> list[str]:
    heads = [
        "Python", "by", "installing, s", "environment, MB", "NumPy", "SciPy", "Sylvan", "bytecode", "tests",
        "`import sylvan`, CPU-s", "`from sylvan import TextModel, XRLinear`, CPU-s", "`import scipy.sparse`, CPU-s",
    ]  # fmt: skip
    rows = []
    for run in runs:
        sizes = [f"{run['packages_mb'].get(name, 0.0):.1f}" for name in ("numpy", "scipy", "sylvan")]
        times = [f"{run[name]:.3f}" for name in ("import_cpu_s", "import_model_cpu_s", "import_scipy_cpu_s")]
        rows.append(
            [run["python"] + "t" * run["free_threaded"], run["installer"], f"{run['install_s']:.1f}",
             f"{run['mb']:.0f}", *sizes, f"{run['bytecode_mb']:.1f}", f"{run['tests_mb']:.1f}", *times]
        )  # fmt: skip
    return markdown.table(heads, rows)


def _vectorizer(runs: list[Record]) -> list[str]:
    heads = ["texts", "of them ASCII", "terms", "fit, s", "ratio", "transform, s", "ratio", "one text, µs", "ratio"]
    rows = []
    for run in runs:
        cells = [run["set"], f"{run['n_ascii'] / run['n_texts']:.0%}", run["setting"]]
        for name, digits in (("fit_s", 3), ("transform_s", 3), ("single_us", 1)):
            found = run[name]
            cells += [f"{found['before']:.{digits}f} / {found['after']:.{digits}f}", f"{found['ratio']:.3f}"]
        rows.append(cells)
    return markdown.table(heads, rows)
