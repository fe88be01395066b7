"""What is served: texts, ready requests, and a model of each library trained on the same texts and labels.

Everything of a set lies in ``CACHE/serving/SET`` and is made once; models are trained in their own environments.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.common import datasets, process

__all__ = ["ANNIF_PROJECT", "TOP", "annif_environment", "read_lines", "texts", "train"]

TOP = 10
N_REQUESTS = 2000  # test texts that are asked for, drawn with seed 0
ANNIF_PROJECT = "omikuji"
# Annif's own parameters of the backend (Parabel's: balanced 2-means, 3 trees), the others' least frequency, and no more
# suggestions than are asked for; its simple analyser is the fastest.
ANNIF_CONFIG = """[{project}]
name=omikuji
language=en
backend=omikuji
analyzer=simple
vocab=labels
min_df=2
limit={top}
"""
_FILES = ("train.jsonl", "test.jsonl", "labels.json", "json.bodies", "form.bodies")


def read_lines(path: Path) -> list[Any]:
    """The values of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """A JSON value a line."""
    with open(path, "w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def texts(name: str, data: Path, cache: Path) -> Path:
    """The folder of the set's texts, label names and requests."""

    def write(folder: Path) -> None:
        rows, labels = datasets.read_jsonl(data / name / "train.jsonl.xz")
        rows = [plain(text) for text in rows]
        known = sorted({label for row in labels for label in row})
        write_lines(folder / "train.jsonl", ({"text": t, "labels": y} for t, y in zip(rows, labels, strict=True)))
        found, truth = datasets.read_jsonl(data / name / "test.jsonl.xz")
        test = [
            {"text": plain(text), "labels": row}
            for text, row in zip(found, truth, strict=True) if set(row) & set(known)
        ]  # fmt: skip
        test = random.Random(0).sample(test, min(N_REQUESTS, len(test)))
        write_lines(folder / "test.jsonl", test)
        (folder / "labels.json").write_text(json.dumps(known), encoding="utf-8")
        write_lines(folder / "json.bodies", ({"text": row["text"], "k": TOP} for row in test))
        forms = (urlencode({"text": row["text"], "limit": TOP}) for row in test)
        (folder / "form.bodies").write_text("".join(form + "\n" for form in forms), encoding="ascii")

    return datasets.made_once(cache / "serving" / name / "texts", _FILES, write)


def plain(text: str) -> str:
    """A text on one line, as Annif's corpora have them."""
    return re.sub(r"\s+", " ", text).strip()


def train(kind: str, python: str, folder: Path, cache: Path, name: str) -> Path:
    """The folder of a library's model of these texts, trained unless it is there."""

    def write(beside: Path) -> None:
        process.say(f"{name}: {kind} is trained once")
        if kind == "annif":
            train_annif(python, folder, beside)
            return
        job = {"texts": str(folder), "model": str(beside / "model")}
        figures = process.run(python, f"benchmarks.serving.{kind}_model", job, threads=2)
        if "error" in figures:
            raise SystemExit(f"training of {kind} on {name}: {figures['error']}")
        (beside / "done.json").write_text(json.dumps(figures) + "\n")

    return datasets.made_once(cache / "serving" / name / kind, ["done.json"], write)


def annif_environment(folder: Path) -> dict[str, str]:
    """Where Annif finds its projects and models; one thread for each process."""
    places = {"ANNIF_DATADIR": str(folder / "data"), "ANNIF_PROJECTS": str(folder / "projects.cfg")}
    return process.environment(1, **places, PYTHONUNBUFFERED="1")


def train_annif(python: str, folder: Path, beside: Path) -> None:
    """Loads the labels as a vocabulary and trains the project, by Annif's own commands."""
    known = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    uris = {label: f"http://example.org/{at}" for at, label in enumerate(known)}
    (beside / "projects.cfg").write_text(ANNIF_CONFIG.format(project=ANNIF_PROJECT, top=TOP), encoding="ascii")
    with open(beside / "labels.csv", "w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(["uri", "label_en"])
        table.writerows([uri, label] for label, uri in uris.items())
    with open(beside / "train.tsv", "w", encoding="utf-8") as lines:
        for row in read_lines(folder / "train.jsonl"):
            subjects = " ".join(f"<{uris[label]}>" for label in row["labels"])
            lines.write(f"{row['text']}\t{subjects}\n")
    annif = [str(Path(python).parent / "annif")]
    with open(beside / "log", "wb") as log:
        for command in (
            ["load-vocab", "--language", "en", "labels", str(beside / "labels.csv")],
            ["train", "--jobs", str(os.cpu_count()), ANNIF_PROJECT, str(beside / "train.tsv")],
        ):
            done = subprocess.run(annif + command, env=annif_environment(beside), stdout=log, stderr=log)
            if done.returncode:
                raise SystemExit(f"annif {command[0]} failed:\n{(beside / 'log').read_text()[-2000:]}")
    for leftover in (beside / "data" / "projects" / ANNIF_PROJECT / "omikuji-train.txt", beside / "train.tsv"):
        leftover.unlink(missing_ok=True)
    (beside / "done.json").write_text("{}\n")
