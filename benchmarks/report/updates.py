"""Tables of what updates give and take, beside trainings anew."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["UPDATES", "updates_tables"]

UPDATES = (
    "By `python -m benchmarks.linear.updates`: a model of the first 60% of the rows, in a fixed shuffle, which a tenth "
    "of the labels are hidden from, then twenty updates of 2%. Every fifth time, two models are trained anew on the "
    "same rows, one with the updated model's tree. PSP by the propensities of all rows that come."
)


def updates_tables(record: Record) -> list[str]:
    """What ``updates.py`` measured."""
    rows = []
    for step in record["steps"]:
        if "P" not in step:
            continue
        own = ["/".join(f"{value:.2f}" for value in step[key]) for key in ("P", "PSP")]
        others = [step.get("same_tree"), step.get("anew")]
        beside = ["–" if other is None else "/".join(f"{value:.2f}" for value in other["P"]) for other in others]
        spent = [f"{step['cpu_s']:.2f}", "–" if others[1] is None else f"{others[1]['cpu_s']:.2f}"]
        rows.append([f"{step['update']}", f"{step['rows']:,}", *own, *beside, *spent])
    head = (
        "| update | rows | P@1/3/5 | PSP@1/3/5 | P, trained anew with the same tree | P, with a new tree | CPU-s | "
        "CPU-s, trained anew |"
    )
    updates = [step["cpu_s"] for step in record["steps"][1:]]
    anew = [step["anew"]["cpu_s"] for step in record["steps"] if "anew" in step]
    wall = ", ".join(f"{what} {value:.0f} ms" for what, value in record["milliseconds"].items())
    share = 100 * fmean(updates) / fmean(anew)
    about = [
        f"An update took {median(updates):.2f} CPU-s (median), {share:.0f}% of training anew in the mean.",
        f"Single changes, wall time: {wall}.",
        f"The model has {record['model_mb']:.1f} MB, the rows that it keeps {record['rows_mb']:.0f} MB.",
        f"A new tree would save {100 * record['drift']:.0f}% of a search, by its shape.",
    ]
    return [*markdown.table(head, rows), "", " ".join([*about, *_peers_of_updates(record)])]


def _peers_of_updates(record: Record) -> Iterator[str]:
    """What others give with all rows."""
    names = {
        "napkinxc-online": "napkinXC's online PLT, in one pass over all rows",
        "fasttext": "fastText, trained anew on all texts",
    }
    for peer in record.get("peers", ()):
        if "error" in peer:
            yield f"{names[peer['contender']]}, failed ({peer['error']})."
        else:
            points = "/".join(f"{peer[f'P@{k}']:.2f}" for k in (1, 3, 5))
            yield f"{names[peer['contender']]}: P@1/3/5 {points} in {peer['cpu_s']:.0f} CPU-s."
