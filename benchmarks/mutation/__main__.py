"""Makes small faults in the sources, one at a time, and runs the test files that should notice.

    python -m benchmarks.mutation --areas losses,matching --mutants 80 --minutes 8

Needs cosmic-ray, whose operators it uses. Mutants are drawn at random, with a seed, from all places that an operator
applies to. Each is tried in a copy of the repository, until a test fails or a limit of CPU time is passed. Results are
written to ``results/mutation-AREA.json`` after each; the same command again tries what is missing, and ``--again``
tries those once more that survived, after new tests. ``equivalent.json`` says of survivors why no test can fail.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.common.records import about, save
from benchmarks.mutation.areas import AREAS, sources, tests_of
from benchmarks.mutation.mutants import Mutant, made, mutated, places
from benchmarks.mutation.trials import Copy

EQUIVALENT = Path(__file__).parent / "equivalent.json"
SEED = 20261123
WALL = 500.0  # seconds a trial may take on a busy machine


class Record:
    """The JSON of an area: its trials, in the order of the mutants."""

    def __init__(self, folder: Path, area: str, places: int) -> None:
        self.path, self.area, self.places = folder / f"mutation-{area}.json", area, places
        old = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.trials: list[dict[str, Any]] = old.get("trials", [])
        self.unharmed: dict[str, float] = old.get("unharmed", {})  # CPU seconds of test files where nothing is wrong

    def find(self, mutant: Mutant) -> dict[str, Any] | None:
        """The trial of a mutant, wherever its line stands now."""
        names = ("path", "operator", "before", "after")
        return next((t for t in self.trials if all(t[name] == getattr(mutant, name) for name in names)), None)

    def put(self, mutant: Mutant, found: dict[str, Any]) -> None:
        """Take a trial in, and write everything; ``first`` is what came of the mutant when it was tried first."""
        old = self.find(mutant)
        trial = {**asdict(mutant), "first": old["first"] if old else found["result"], **found}
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
            "survivors": survivors, "trials": self.trials, "unharmed": self.unharmed,
        })  # fmt: skip


def _reasons() -> dict[tuple[str, str, str], str]:
    """Why no test can notice a mutant, by its :func:`_words`."""
    return {_words(each): each["reason"] for each in json.loads(EQUIVALENT.read_text())}


def _words(mutant: dict[str, Any]) -> tuple[str, str, str]:
    return mutant["path"], mutant["before"], mutant["after"]


def _try(copy: Copy, mutant: Mutant, record: Record) -> None:
    """Run what should notice a mutant, and what it takes without one where that isn't known yet."""
    tests = tests_of(mutant.path)
    key = " ".join(tests)
    if key not in record.unharmed:
        found = copy.run(tests, 600, WALL)
        assert found["result"] == "survived", (tests, found)
        record.unharmed[key] = found["seconds"]
    found = copy.run(tests, 2 * record.unharmed[key] + 10, WALL, (mutant.path, mutated(ROOT, mutant)))
    record.put(mutant, found)
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
    parser.add_argument("--mutants", type=int, default=60, help="an area")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--again", action="store_true", help="those that survived without a reason")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    todo, records = [], []
    for area in options.areas.split(","):
        paths = sources(ROOT, area)
        drawn = places(ROOT, paths, SEED)
        records.append(record := Record(options.results, area, len(drawn)))
        tried = {tuple(trial[name] for name in ("path", "operator", "occurrence")) for trial in record.trials}
        new = [each for each in drawn[: options.mutants] if (each.path, each.operator, each.occurrence) not in tried]
        mine: list[Any] = _survivors(record) if options.again else new
        todo += [(number, record, each) for number, each in enumerate(mine)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(ROOT, Path(folder) / "sylvan")
        for _, record, each in sorted(todo, key=lambda each: each[0]):  # one of each area in turn
            if time.monotonic() > until:
                break
            mutant = each if isinstance(each, Mutant) else made(ROOT, each)
            if mutant is not None:
                _try(copy, mutant, record)
    for record in records:
        record.write()
        print(record.area, Counter(trial["result"] for trial in record.trials))


if __name__ == "__main__":
    main()
