"""The section of docs/results.md on calibration."""

from __future__ import annotations

from typing import Any

__all__ = ["calibration_section"]


def calibration_section(records: list[dict[str, Any]]) -> list[str]:
    """What ``calibration.py`` found, two tables a set."""
    if not records:
        return []
    lines = [
        "",
        "## Probabilities and when to stop",
        "",
        "By `benchmarks/calibration.py`, in percent on the test rows; ECE in 15 bins of equal width. The factor is the "
        "CPU time of training over that without calibration, of models trained in turns.",
    ]
    for record in records:
        lines += ["", f"### {record['set']}", "", "| calibration | ECE@1/3/5 | P@1/3/5 | training, CPU-s | factor |"]
        lines.append("|---|---|---|---|---|")
        for run in record["calibrations"]:
            ece, precision = ("/".join(f"{value:.2f}" for value in run[key]) for key in ("ece", "P"))
            cost = f"{run['cpu_s']:.2f} | {run['factor']:.2f}"
            lines.append(f"| {run['method'] or 'none'} | {ece} | {precision} | {cost} |")
        lines += ["", "| isotonic, answered with | precision | recall | F1 | mean F1 of the rows | labels a row |"]
        lines.append("|---|---|---|---|---|---|")
        for name, found in record["rules"].items():
            cells = " | ".join(f"{found[key]:.2f}" for key in ("precision", "recall", "f1", "row_f1", "labels"))
            lines.append(f"| {name} | {cells} |")
    return lines
