"""Makes small faults in the sources, one at a time, and runs the test files that should notice.

    python -m benchmarks.mutation --areas losses,matching --mutants 80 --minutes 8

Needs cosmic-ray, whose operators it uses. Mutants are drawn at random, with a seed, from all places that an operator
applies to. Each is tried in a copy of the repository, until a test fails or ``--seconds`` of tests have passed: first
those that reach its line, the quickest first, as a traced run of the area's tests found (in ``build/mutation``, made
where it is missing). Results are written to ``results/mutation-AREA.json`` after each; the same command again tries
what is missing, and ``--again`` tries those once more that survived, after new tests, which run first. Tests that are
marked as slow run with ``--slow`` alone, all in the files of the area's tests: ``--again --slow --seconds 0``.
``equivalent.json`` says of survivors why no test can fail.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.common.records import about, save
from benchmarks.mutation.areas import AREAS, sources, tests_of
from benchmarks.mutation.mutants import Mutant, made, mutated, places
from benchmarks.mutation.reach import DEFINITIONS, Reach
from benchmarks.mutation.trials import Copy

EQUIVALENT = Path(__file__).parent / "equivalent.json"
SEED = 20261123
WALL = 400.0  # seconds a trial may take on a busy machine
TRACES = ROOT / "build" / "mutation"


class Record:
    """The JSON of an area: its trials, in the order of the mutants."""

    def __init__(self, folder: Path, area: str, places: int) -> None:
        self.path, self.area, self.places = folder / f"mutation-{area}.json", area, places
        old = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.trials: list[dict[str, Any]] = old.get("trials", [])

    def find(self, mutant: Mutant) -> dict[str, Any] | None:
        """The trial of a mutant, wherever its line stands now."""
        names = ("path", "operator", "before", "after")
        return next((t for t in self.trials if all(t[name] == getattr(mutant, name) for name in names)), None)

    def put(self, mutant: Mutant, found: dict[str, Any], by_new: bool) -> None:
        """Take a trial in, and write everything; ``first`` is what came of the mutant before there were new tests."""
        old = self.find(mutant)
        trial = {**asdict(mutant), "first": old["first"] if old and by_new else found["result"], **found}
        if old:
            self.trials[self.trials.index(old)] = trial
        else:
            self.trials.append(trial)
        self.write()

    def write(self) -> None:
        """Writes the counts, now and at first; the survivors, each with the reason where there is one; the trials."""
        reasons = _reasons()
        survivors = [
            {name: trial[name] for name in ("path", "line", "operator", "before", "after")}
            | {"reason": reasons.get(_words(trial), "")}
            for trial in self.trials
            if trial["result"] == "survived"
        ]
        save(self.path, {
            **about(), "area": self.area, "tool": f"cosmic-ray {version('cosmic-ray')}", "seed": SEED,
            "places": self.places, "tried": len(self.trials),
            "cpu_seconds": round(sum(trial["seconds"] for trial in self.trials)),
            "at_first": dict(Counter(trial["first"] for trial in self.trials)),
            "now": dict(Counter(trial["result"] for trial in self.trials)),
            "without_a_reason": sum(not survivor["reason"] for survivor in survivors),
            "survivors": survivors, "trials": self.trials,
        })  # fmt: skip


def _reasons() -> dict[tuple[str, str, str], str]:
    """Why no test can notice a mutant, by its :func:`_words`."""
    return {_words(each): each["reason"] for each in json.loads(EQUIVALENT.read_text())}


def _words(mutant: dict[str, Any]) -> tuple[str, str, str]:
    return mutant["path"], mutant["before"], mutant["after"]


def _reach(copy: Copy, areas: Sequence[str]) -> Reach:
    """What tests reach, after tracing those of these areas that no earlier run has traced."""
    TRACES.mkdir(parents=True, exist_ok=True)
    reach = Reach(ROOT, TRACES)
    tests = [test for area in areas for path in sources(ROOT, area) for test in tests_of(path)]
    if new := reach.missing([DEFINITIONS, *tests]):
        copy.trace(new, TRACES / f"{len(list(TRACES.iterdir()))}.json", 3600)
        reach = Reach(ROOT, TRACES)
    return reach


def _try(copy: Copy, mutant: Mutant, record: Record, reach: Reach, seconds: float, slow: bool) -> None:
    """Run what should notice a mutant."""
    choice = reach.choose(mutant.path, mutant.line, seconds)
    if slow:
        choice = replace(choice, files=list(dict.fromkeys([*choice.files, *tests_of(mutant.path)])), slow=True)
    found = copy.run(choice, WALL * (3 if slow else 1), (mutant.path, mutated(ROOT, mutant)))
    record.put(mutant, found, by_new=not reach.traced(found["by"]))
    print(f"{found['result']:>9} {found['seconds']:6.1f} s  {mutant.path}:{mutant.line}  {mutant.after}", flush=True)


def _survivors(record: Record) -> list[Mutant]:
    """The mutants that survived so far without a reason, where their lines are still as they were."""
    names, reasons = [field.name for field in fields(Mutant)], _reasons()
    survived = [trial for trial in record.trials if trial["result"] == "survived" and _words(trial) not in reasons]
    found = [Mutant(**{name: trial[name] for name in names}) for trial in survived]
    return [mutant for mutant in found if mutant.after in mutated(ROOT, mutant)]


def main() -> None:
    """Tries mutants until the minutes are over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--mutants", type=int, default=60, help="an area, with those that were tried")
    parser.add_argument("--seconds", type=float, default=60, help="of tests against each, measured while tracing")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--again", action="store_true", help="those that survived without a reason")
    parser.add_argument("--slow", action="store_true", help="tests that are marked as slow too")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    todo, records = [], []
    for area in options.areas.split(","):
        drawn = places(ROOT, sources(ROOT, area), SEED)
        records.append(record := Record(options.results, area, len(drawn)))
        tried = {tuple(trial[name] for name in ("path", "operator", "occurrence")) for trial in record.trials}
        new = [each for each in drawn if (each.path, each.operator, each.occurrence) not in tried]
        missing = max(0, options.mutants - len(record.trials))
        mine: list[Any] = _survivors(record) if options.again else new[:missing]
        todo += [(number, record, each) for number, each in enumerate(mine)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(ROOT, Path(folder) / "sylvan")
        reach = _reach(copy, options.areas.split(","))
        for _, record, each in sorted(todo, key=lambda each: each[0]):  # one of each area in turn
            if time.monotonic() > until:
                break
            mutant = each if isinstance(each, Mutant) else made(ROOT, each)
            if mutant is not None:
                _try(copy, mutant, record, reach, options.seconds, options.slow)
    for record in records:
        record.write()
        print(record.area, Counter(trial["result"] for trial in record.trials))


if __name__ == "__main__":
    main()
