"""The rows that can be measured: a plain dict each, which is what a finished row is found by."""

from __future__ import annotations

from typing import Any

from benchmarks.beam_tree.contenders import CONTENDERS, PEERS, RATES, choices, optimizers
from benchmarks.beam_tree.sets import BALANCED

__all__ = ["KEYS", "PARTS", "RULES", "chosen", "describe", "planned", "same", "settings"]

Row = dict[str, Any]
PARTS = ("tuning", "accuracy", "speed")
KEYS = (  # what a row may say
    "set", "contender", "optimizer", "rate", "power", "nodes", "swap_resistance", "epochs", "n_classes", "rows", "seed",
)  # fmt: skip
RULES = {
    "half": "after half an epoch, as the paper's appendix D has it",
    "long": "after some epochs",
}
EPOCHS = {  # of a training, and of the trainings that rates are chosen by
    "digits": (50, 10),
    "clinc150": (50, 5),
    "cpv-tenders": (30, 5),
    "made-1000": (10, 3),
    "made-10000": (10, 1),
}
_FEW = ("CANE-1v9", "CANE-5v5", "CANE-9v1", "softmax", "NCE-10", "BlackOut-10", "negative-sampling-10", "HSM")
_MANY = ("CANE-15v5", "CANE-19v1", "NCE-20", "BlackOut-20")
_VW = ("VW-filter-tree", "VW-LOMTree", "VW-recall-tree")
ENTRANTS = {
    "digits": (*_FEW, *_VW, "VW-oaa"),
    "clinc150": (*_FEW, "CANE-9v1-random", "CANE-15v5", *_VW, "VW-oaa"),
    "cpv-tenders": (*_FEW, *_MANY, "CANE-9v1-unigram", "CANE-9v1-random", *_VW, "VW-oaa"),
    "made-1000": (*_FEW, "CANE-9v1-random", "CANE-15v5", *_VW, "softmax-batches"),
    "made-10000": (*_FEW, *_MANY, *_VW, "softmax-batches"),
}
# Its features are crossed with its nodes: minutes a pass over dense rows. Tuned for half an epoch, and one seed.
SLOW = {("made-1000", "VW-recall-tree"), ("made-10000", "VW-recall-tree")}
CLASSES = (100, 1_000, 3_000, 10_000, 30_000, 100_000)  # of the sets that speed is measured on
ALL_SCORED = ("softmax", "softmax-batches")
ROWS, PRODUCTS = 40_000, 40_000_000  # of a timed pass; those who score every class have fewer rows where classes many


def settings(row: Row) -> Row:
    """The row and what its contender's name stands for."""
    return {**CONTENDERS.get(row["contender"], {}), **PEERS.get(row["contender"], {}), **row}


def same(row: Row, record: Row) -> bool:
    """Whether a finished row is this one."""
    return all(row.get(name) == record.get(name) for name in KEYS)


def describe(row: Row) -> str:
    """The row in a few words."""
    words = ", ".join(f"{name} {row[name]}" for name in KEYS if name in row and name not in ("set", "contender"))
    return f"{row.get('set', 'made')}: {row['contender']}, {words}"


def chosen(tuned: list[Row], name: str, contender: str, optimizer: str, rule: str, *, rows: int | None) -> Row | None:
    """The rate, and what is chosen with it, that ``rule`` takes; None before everything was tried.

    Of equals the first, which has the smallest rate.
    """
    found = []
    for choice in choices(contender, balanced=name in BALANCED):
        row = _tuning(name, contender, optimizer, choice)
        record = next((one for one in tuned if same({**row, **({"rows": rows} if rows else {})}, one)), None)
        if record is None:
            return None
        for point in record["points"]:
            marks = [value for mark, value in point["marks"] if (mark == 0.5) == (rule == "half")]
            if marks and "error" not in point:
                found.append((marks[-1], {**choice, "rate": point["rate"]}))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def planned(part: str, tuned: list[Row], *, seeds: list[int], quick: bool = False) -> list[Row]:
    """The rows of a part, those first that all tables need; of ``accuracy`` those whose rate is chosen."""
    rows = {"tuning": _tunings, "accuracy": _accuracies, "speed": _speeds}[part](tuned, seeds, quick)
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


def _tuning(name: str, contender: str, optimizer: str, choice: Row) -> Row:
    epochs = 0.5 if (name, contender) in SLOW else EPOCHS[name][1]
    return {"set": name, "contender": contender, "optimizer": optimizer, **choice, "epochs": epochs, "seed": 0}


def _tunings(_: list[Row], seeds: list[int], quick: bool) -> list[Row]:
    """Every choice; its rates are tried in one process."""
    rows = []
    for name, entrants in ENTRANTS.items():
        for contender in entrants:
            for optimizer in optimizers(contender):
                for choice in choices(contender, balanced=name in BALANCED):
                    rows.append(_tuning(name, contender, optimizer, choice))
    return [{**row, **_small(row["set"], quick)} for row in rows]


def _accuracies(tuned: list[Row], seeds: list[int], quick: bool) -> list[Row]:
    """By the paper's rule first, with every seed; then, with one, what the other rule chooses differently."""
    rows = []
    for rule in RULES:
        for seed in seeds if rule == "half" else seeds[:1]:
            for name, entrants in ENTRANTS.items():
                for contender in entrants:
                    if seed != seeds[0] and (name, contender) in SLOW:
                        continue
                    for optimizer in optimizers(contender):
                        small = _small(name, quick)
                        choice = chosen(tuned, name, contender, optimizer, rule, rows=small.get("rows"))
                        if choice is not None:
                            rows.append({"set": name, "contender": contender, "optimizer": optimizer, **choice,
                                         "epochs": EPOCHS[name][0], "seed": seed, **small})  # fmt: skip
    return rows


def _speeds(_: list[Row], seeds: list[int], quick: bool) -> list[Row]:
    rows = []
    for n_classes in CLASSES[:2] if quick else CLASSES:
        for optimizer, rate in (("adagrad", 0.1), ("sgd", 1.0)):
            for contender in (*_FEW, "softmax-batches"):
                few = contender in ALL_SCORED
                count = max(1000, min(ROWS, PRODUCTS // n_classes)) if few else ROWS
                rows.append({"contender": contender, "optimizer": optimizer, "rate": rate, "n_classes": n_classes,
                             "rows": min(count, 500) if quick else count, "seed": 0})  # fmt: skip
    return rows


def _small(name: str, quick: bool) -> Row:
    """Few rows of the set, to see that everything works."""
    return {"rows": 600 if name == "digits" else 2000} if quick else {}


def rates(row: Row) -> tuple[float, ...]:
    """The rates that a contender is tried with."""
    return RATES[row["optimizer"]]
