"""The section of docs/results/ on answers over HTTP, from what ``benchmarks.serving`` measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["serving_section"]

WORDS = (
    "By `python -m benchmarks.serving`: servers on the same machine as wrk, their client, which keeps 1 to 512 "
    "connections busy; one text a request, ten labels an answer. Sylvan's is `sylvan serve`. FastAPI is what a user "
    "would write around libpecos, with its vectoriser and its predict-only mode, under uvicorn; its endpoint is `def` "
    "or `async def`. Annif has its omikuji backend, under gunicorn with uvicorn's workers. In process is the model "
    "without a server: text in, JSON out, in one thread. CPU is that of all processes of a server. Ratios say how "
    "many times better Sylvan with one worker is; below 1, it is worse."
)
NAMES = {
    "sylvan": "Sylvan", "sylvan-2": "Sylvan, 2 workers", "fastapi": "FastAPI + libpecos",
    "fastapi-async": "FastAPI + libpecos, async", "fastapi-2": "FastAPI + libpecos, 2 workers", "annif": "Annif",
    "annif-2": "Annif, 2 workers", "in-process": "in process",
}  # fmt: skip
ONE_FASTAPI, ANY_ANNIF = ("fastapi", "fastapi-async"), ("annif", "annif-2")
ORDER = ("gutenberg", "eurlex57k")
KEYS = ("requests_s", "p50_ms", "p99_ms", "p99.9_ms", "cpu_ms")
FLAT = 1.05  # how much memory may grow in an overload and still be called flat
EARLY = 10  # seconds of an overload that it has for growing to its size


def serving_section(folder: Path) -> list[str]:
    """A part for each set; nothing where none was measured."""
    books = {name: found for name in ORDER if (found := markdown.book(folder / f"serving-{name}.json"))}
    if not books:
        return []
    lines = ["", "## Serving", "", WORDS]
    for name, book in books.items():
        lines += ["", f"### Serving {name}", "", *_set(book)]
    return lines


def _set(book: Record) -> list[str]:
    runs = book["runs"]
    figures = {key: _medians(found) for key, found in _by(runs, "load").items()}
    date = max((run["date"] for run in runs if run["part"] == "load"), default=book["date"])
    lines = [f"{_repeats(runs)}{markdown.taken({**book, 'date': date})} {_versions(runs)}", ""]
    if figures:
        lines += [*_loads(figures), "", *_goals(figures, _by(runs, "overload"))]
    if answers := _by(runs, "answers"):
        lines += ["", *_answers([found[-1] for found in answers.values()])]
    if memory := [run for run in runs if run["part"] == "memory"]:
        lines += ["", *_memory(memory)]
    if overload := [run for run in runs if run["part"] == "overload"]:
        lines += ["", *_overload(overload)]
    return lines


def _by(runs: Iterable[Record], part: str) -> dict[tuple[str, int], list[Record]]:
    """A part's runs by contender and number of connections."""
    found: dict[tuple[str, int], list[Record]] = {}
    for run in runs:
        if run["part"] == part:
            found.setdefault((run["contender"], run.get("connections", 0)), []).append(run)
    return found


def _medians(runs: Sequence[Record]) -> Record:
    """The medians over the repeats, and the sum of what was not answered."""
    found = {key: statistics.median(run[key] for run in runs) for key in KEYS}
    return found | {key: sum(run.get(key, 0) for run in runs) for key in ("refused", "failed")}


def _repeats(runs: Iterable[Record]) -> str:
    loads = [run for run in runs if run["part"] == "load"]
    if not loads:
        return ""
    n = max(run["repeat"] for run in loads) + 1
    seconds = sorted({run["seconds"] for run in loads})
    words = " or ".join(f"{one:g}" for one in seconds)
    return f"Medians of {n} repeat{'s' if n > 1 else ''} of {words} seconds. "


def _versions(runs: Iterable[Record]) -> str:
    """All packages of all contenders, each once."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in run["versions"].items():
            found.setdefault(name, {})[version] = None
    return "; ".join(f"{name} {' and '.join(versions)}" for name, versions in found.items()) + "."


def _loads(figures: dict[tuple[str, int], Record]) -> list[str]:
    heads = [
        "connections", "", "requests a second", "p50, ms", "p99, ms", "p99.9, ms", "CPU, ms a request",
        "Sylvan's throughput", "its p99",
    ]  # fmt: skip
    rows = []
    for connections in sorted({connections for _, connections in figures}):
        own = figures.get(("sylvan", connections))
        for name, title in NAMES.items():
            if (found := figures.get((name, connections))) is None:
                continue
            ratios = ["", ""]
            if own is not None and name != "sylvan":
                ratios = [_ratio(own["requests_s"], found["requests_s"]), _ratio(found["p99_ms"], own["p99_ms"])]
            missed = found["refused"] + found["failed"]
            lost = f" ({missed:,} not answered)" if missed else ""
            rows.append([
                f"{connections}", title, f"{found['requests_s']:,.0f}{lost}",
                *(f"{found[key]:.2f}" for key in ("p50_ms", "p99_ms", "p99.9_ms")), f"{found['cpu_ms']:.3f}", *ratios,
            ])  # fmt: skip
    return markdown.table(heads, rows)


def _ratio(better: float, worse: float) -> str:
    if not worse:
        return "–"
    ratio = better / worse
    return f"{ratio:.2f}×" + (" **behind**" if ratio < 1 else "")


def _goals(figures: dict[tuple[str, int], Record], overload: dict[tuple[str, int], list[Record]]) -> list[str]:
    """The goals, and how near they are."""
    lines = []
    own = figures.get(("sylvan", 64))
    if own and (peers := [figures[name, 64] for name in ONE_FASTAPI if (name, 64) in figures]):
        most, least = max(found["requests_s"] for found in peers), min(found["p99_ms"] for found in peers)
        lines += [
            _goal("64 connections, throughput beside FastAPI's better endpoint", own["requests_s"] / most, 5),
            _goal("64 connections, the lower p99 of FastAPI's endpoints beside Sylvan's", least / own["p99_ms"], 5),
        ]
    if own and (peers := [figures[name, 64] for name in ANY_ANNIF if (name, 64) in figures]):
        most = max(found["requests_s"] for found in peers)
        lines.append(
            _goal("64 connections, throughput beside Annif's better number of workers", own["requests_s"] / most, 20)
        )
    alone, engine = figures.get(("sylvan", 1)), figures.get(("in-process", 1))
    if alone and engine:
        more = alone["p50_ms"] - engine["p50_ms"]
        within = _met(more <= 0.35)
        lines.append(f"- One connection, p50 beyond the call in process: {more:.3f} ms; goal at most 0.35: {within}.")
    few, many = (overload.get(("sylvan", n), [None])[-1] for n in (64, 512))
    if few and many:
        ratio = many["accepted_p99_ms"] / few["accepted_p99_ms"]
        growth, odd = _growth(many["rss_mb"]), _other(many)
        lines += [
            f"- Overload, p99 of accepted requests at 512 connections beside that at 64: {ratio:.2f}×; goal under 2×: "
            f"{_met(ratio < 2)}.",
            f"- Overload, answers: {odd:,} neither right nor refused with 429; goal 0: {_met(not odd)}.",
            f"- Overload, resident memory at its highest in the last half beside that after {EARLY} seconds: "
            f"{growth:.3f}×; goal flat (up to {FLAT}×): {_met(growth <= FLAT)}.",
        ]
    return lines


def _goal(what: str, ratio: float, wanted: float) -> str:
    return f"- {what}: {ratio:.1f}×; goal {wanted:g}×: {_met(ratio >= wanted)}."


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def _growth(memory: Sequence[float]) -> float:
    """How many times what was resident early the most of the last half is."""
    early = memory[min(EARLY, len(memory) // 2)]
    return max(memory[len(memory) // 2 :]) / early


def _other(run: Record) -> int:
    """Answers that were neither right nor a refusal, wrk's and the probe's."""
    counts = [*run.get("statuses", {}).items(), *run["probe_statuses"].items()]
    odd = sum(n for code, n in counts if code not in ("200", "429"))
    return int(odd + run["failed"] + run["probe_wrong"] + sum(run["probe_failures"].values()))


def _answers(runs: Sequence[Record]) -> list[str]:
    rows = []
    for run in runs:
        same = f"{run['same']} of {run['texts']}" if "same" in run else ""
        rows.append([NAMES[run["contender"]], markdown.at(run, "P"), same, f"{run['ready_s']:.1f}"])
    words = f"Precision of {runs[0]['texts']} answers over HTTP, and the time from a server's start to its readiness:"
    return [words, "", *markdown.table(["", "P@1/3/5", "the same as in process", "ready after, s"], rows)]


def _memory(runs: Sequence[Record]) -> list[str]:
    words = (
        "Memory after a load, in MiB, of all processes of a server. Of a page that several share, each counts its part "
        "(PSS), so that sums count it once; the model's files are those pages of them that are mapped."
    )
    rows = [
        [
            NAMES[run["contender"]], f"{run['workers']}", f"{run['processes']}", f"{run['pss_mb']:.0f}",
            f"{run['model_pss_mb']:.1f}", f"{run['rss_mb']:.0f}",
        ]
        for run in sorted(runs, key=lambda run: (list(NAMES).index(run["contender"]), run["workers"]))
    ]  # fmt: skip
    return [words, "", *markdown.table(["", "workers", "processes", "PSS", "of it the model's files", "RSS"], rows)]


def _overload(runs: Sequence[Record]) -> list[str]:
    words = (
        "Sylvan with the limits that it has by default, under which 64 requests may wait, and a probe on eight of the "
        "connections, which checks each answer. The loop's lag is the time that `/health/live` takes on a connection "
        f"of its own. Resident memory (MiB) is read every second. Measured on {max(run['date'] for run in runs)}."
    )
    heads = [
        "connections", "seconds", "200", "429", "neither", "accepted p50 / p99, ms", "loop's lag p50 / p99 / max, ms",
        f"memory after {EARLY} s / highest later / at the end",
    ]  # fmt: skip
    rows = []
    for run in sorted(runs, key=lambda run: run["connections"]):
        counts = {code: run["statuses"].get(code, 0) + run["probe_statuses"].get(code, 0) for code in ("200", "429")}
        memory = run["rss_mb"]
        early = min(EARLY, len(memory) // 2)
        rows.append([
            f"{run['connections']}", f"{run['seconds']:g}", f"{counts['200']:,}", f"{counts['429']:,}",
            f"{_other(run):,}",
            f"{run['accepted_p50_ms']:.1f} / {run['accepted_p99_ms']:.1f}",
            f"{run['lag_p50_ms']:.2f} / {run['lag_p99_ms']:.2f} / {run['lag_max_ms']:.1f}",
            f"{memory[early]:.0f} / {max(memory[early:]):.0f} / {memory[-1]:.0f}",
        ])  # fmt: skip
    return [words, "", *markdown.table(heads, rows)]
