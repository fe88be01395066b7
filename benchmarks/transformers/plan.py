"""The rows that can be measured: a plain dict each, which is what a finished row is found by."""

from __future__ import annotations

from typing import Any

__all__ = ["KEYS", "TITLES", "describe", "members", "planned", "same"]

Row = dict[str, Any]
KEYS = (  # what a row may say beside its seed
    "set", "rows", "tests", "contender", "tokens", "batch", "steps", "precision", "settings", "seeds", "device",
)  # fmt: skip
TITLES = {
    "xr-linear": "XR-Linear on TF-IDF",
    "frozen": "XR-Linear on [TF-IDF, frozen encoder]",
    "xr-transformer": "XR-Transformer",
    "x-transformer": "X-Transformer",
    "libpecos-frozen": "libpecos: XR-Linear on [TF-IDF, frozen encoder]",
    "libpecos-xr-transformer": "libpecos: XR-Transformer",
}
# For each set: the encoder's tokens, and what of it every contender gets where an encoder is fine-tuned.
TOKENS = {"eurlex57k": 128, "gutenberg": 32}
PART = {"eurlex57k": {"rows": 5000, "tests": 2000}, "gutenberg": {"rows": 10_000, "tests": 3000}}
STEPS = {"eurlex57k": 300, "gutenberg": 900}  # of all layers together
BATCH = 32
LARGER = {"gutenberg": {"rows": 30_000, "tests": 3000}}  # a part that Sylvan's are given too, to see what texts do
LARGER_STEPS = {"gutenberg": 938}  # each text once
ALL_STEPS = {"eurlex57k": 4_220, "gutenberg": 4_420}  # of all texts, on a GPU: three epochs, and two
ALL_TOKENS = {"eurlex57k": 512}  # beside TOKENS
# XRTransformer's rankers, for TF-IDF alone; XRLinear's, for [TF-IDF, encoder].
RANKER: Row = {
    "negatives": "paper", "combine": "paper", "threshold": 0.05, "n_trees": 3, "scaling": "none", "negative_cost": 1.0,
    "man_threshold": 0.0, "calibration": None,
}  # fmt: skip
LINEAR: Row = {"negatives": "tfn", "combine": "l3_hinge", "threshold": 0.1, "n_trees": 1}
BESIDE: tuple[Row, ...] = (
    {"n_trees": 1}, {"dense_scale": 0.5}, {"dense_scale": 1.0}, {"dense_scale": 2.0}, {"threshold": 0.1},
    {"threshold": 0.01},
)  # fmt: skip


def same(row: Row, record: Row) -> bool:
    """Whether a finished row is this one."""
    return all(row.get(name) == record.get(name) for name in (*KEYS, "seed"))


def planned(sets: list[str], *, quick: bool = False) -> list[Row]:
    """All rows, those first that the goals compare."""
    first, second, third = [], [], []
    for name in sets:
        whole: Row = {"set": name}
        frozen = {"tokens": TOKENS[name]}
        first += [{**whole, **frozen, "contender": "frozen"}]
        first += [{**whole, "contender": "xr-linear"}, {**whole, "contender": "xr-linear", "settings": RANKER}]
        second += [{**whole, **frozen, "contender": "frozen", "settings": LINEAR}]
        if name in LARGER:
            larger: Row = {"set": name, **LARGER[name]}
            once = {"batch": BATCH, "steps": LARGER_STEPS[name], "precision": "bf16"}
            first += [{**larger, "contender": "xr-linear"}, {**larger, "contender": "xr-linear", "settings": RANKER}]
            first += [{**larger, **frozen, "contender": "frozen"}]
            first += [{**larger, **frozen, **once, "contender": "xr-transformer"}]
        third += [{**whole, **frozen, "contender": "frozen", "settings": change} for change in BESIDE]
        part: Row = {"set": name, **PART[name]}
        budget = {"tokens": TOKENS[name], "batch": BATCH, "steps": STEPS[name]}
        fast = {**part, **budget, "precision": "bf16"}
        first += [{**part, "contender": "xr-linear"}, {**part, "contender": "xr-linear", "settings": RANKER}]
        first += [{**part, **frozen, "contender": "frozen"}]
        first += [{**fast, "contender": "xr-transformer"}]
        first += [{**part, **budget, "contender": "libpecos-xr-transformer"}]
        first += [{**fast, "contender": "x-transformer"}]
        second += [{**part, "tokens": TOKENS[name], "contender": "libpecos-frozen"}]
        second += [{**fast, "contender": "xr-transformer", "seed": seed} for seed in (1, 2)]
        second += [{**fast, "contender": "xr-transformer", "seeds": [0, 1, 2]}]
        second += [{**part, **frozen, "contender": "frozen", "seed": seed} for seed in (1, 2)]
        second += [{**part, **frozen, "contender": "frozen", "seeds": [0, 1, 2]}]
        second += [{**fast, "contender": "x-transformer", "steps": times * STEPS[name]} for times in (2, 5, 8)]
        third += [{**fast, "contender": "x-transformer", "seed": seed} for seed in (1, 2)]
        third += [{**fast, "contender": "x-transformer", "seeds": [0, 1, 2]}]
        all_rows: Row = {**whole, "tokens": TOKENS[name], "batch": BATCH, "precision": "bf16", "device": "cuda"}
        all_rows["contender"] = "xr-transformer"
        if name == "gutenberg":  # eurlex57k's was measured on a processor
            third += [{**whole, **frozen, "contender": "frozen", "device": "cuda"}]
        third += [{**all_rows, "steps": ALL_STEPS[name], "seed": seed} for seed in (0, 1, 2)]
        third += [{**all_rows, "steps": ALL_STEPS[name], "seeds": [0, 1, 2]}]
        if name in ALL_TOKENS:
            third += [{**all_rows, "steps": ALL_STEPS[name], "tokens": ALL_TOKENS[name]}]
    rows = [row if "seeds" in row else {"seed": 0, **row} for row in first + second + third]
    small = [_quick(row) for row in rows]
    return [row for at, row in enumerate(small) if row not in small[:at]] if quick else rows


def members(row: Row) -> list[Row]:
    """The rows that an ensemble is made of; the row itself where it is none."""
    if "seeds" not in row:
        return [row]
    shared = {name: value for name, value in row.items() if name != "seeds"}
    return [{**shared, "seed": seed} for seed in row["seeds"]]


def describe(row: Row) -> str:
    """The row in a few words."""
    settings = {**row, **row.get("settings", {})}
    shown_elsewhere = ("set", "contender", "settings")
    words = ", ".join(f"{name} {value}" for name, value in settings.items() if name not in shown_elsewhere)
    return f"{row['set']}: {row['contender']}" + (f", {words}" if words else "")


def _quick(row: Row) -> Row:
    """A small version of a row."""
    small: Row = {"rows": 400, "tests": 100} if "rows" in row else {"rows": 600, "tests": 100}
    if "steps" in row:
        small |= {"steps": max(1, row["steps"] // STEPS[row["set"]]) * 6, "batch": 8}
    if "tokens" in row:
        small["tokens"] = 24
    return {**row, **small}
