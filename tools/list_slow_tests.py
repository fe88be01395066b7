#!/usr/bin/env python3
"""Lists the slow tests in tests/slow_tests.txt, by the times of a whole run.

    pytest -n 2 --junitxml times.xml && tools/list_slow_tests.py times.xml

Slow are the tests that ``pytest -m "not slow"`` has no time for: the quickest are taken until ``--seconds`` are spent,
and then the quickest of every file that has none yet, unless it takes more than ``--one``. All the values of a
parameter are one test. What the run left out (by ``-m "not slow"``, to make a daily run shorter) stays slow.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "slow_tests.txt"
HEAD = """\
# Tests that pytest -m "not slow" leaves out. Made by tools/list_slow_tests.py from measured times; a new test needs no
# line here before it takes seconds.
"""


def times(path: Path) -> dict[str, float]:
    """The seconds that each test took with all values of its parameters, by its name in the list."""
    found: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is None:
            places = (case.get("classname") or "").split(".")
            lengths = [n for n in range(2, len(places) + 1) if ROOT.joinpath(*places[:n]).with_suffix(".py").is_file()]
            if lengths and places[0] == "tests":
                n = lengths[-1]
                words = ["/".join(places[1:n]) + ".py", *places[n:], (case.get("name") or "").partition("[")[0]]
                found["::".join(words)] += float(case.get("time") or 0)
    return dict(found)


def slow(seconds: dict[str, float], budget: float, one: float) -> list[str]:
    """The tests for which there is no time."""
    spent, quick, files = 0.0, set(), set()
    in_order = sorted(seconds, key=lambda name: (seconds[name], name))
    for name in in_order:
        if spent + seconds[name] <= budget:
            spent += seconds[name]
            quick.add(name)
            files.add(name.partition("::")[0])
    for name in in_order:
        file = name.partition("::")[0]
        if file not in files and seconds[name] <= one:
            quick.add(name)
            files.add(file)
    return sorted(set(seconds) - quick)


def listed() -> set[str]:
    """The tests that are slow until now."""
    return {line for line in LIST.read_text("utf-8").splitlines() if line and not line.startswith("#")}


def write(names: Iterable[str]) -> None:
    LIST.write_text(HEAD + "".join(f"{name}\n" for name in names), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=Path, help="what pytest --junitxml has written")
    parser.add_argument("--seconds", type=float, default=100.0, help="for all quick tests together, of one processor")
    parser.add_argument("--one", type=float, default=3.0, help="for the one quick test of a file")
    given = parser.parse_args()
    seconds = times(given.times)
    names = slow(seconds, given.seconds, given.one)
    left_out = listed() - seconds.keys()
    write(sorted({*names, *left_out}))
    left, total = sum(seconds[name] for name in seconds.keys() - set(names)), sum(seconds.values())
    print(
        f"{len(names)} of {len(seconds)} tests are slow, the others took {left:.0f} of {total:.0f} s; "
        f"{len(left_out)} that weren't run stay slow."
    )


if __name__ == "__main__":
    main()
