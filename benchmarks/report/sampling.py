"""The sections of docs/results/ on the output layer and on codewords, and the table in docs/sampling.md."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.sampling import tradeoff

__all__ = ["codewords_section", "output_layer_section", "output_layer_summary", "peaked_section", "variance_section"]

PLAIN, CHUNKED = "full softmax", "full softmax, chunked"
NAMES = {
    "uniform": "uniform", "unigram": "unigram", "lsh": "LSH", "sphere": "Sphere", "rff": "RFF", "midx-pq": "MIDX-pq",
    "midx-rq": "MIDX-rq", "midx-aware-rq": "MIDX-rq, query-aware", "midx-rq-torch": "MIDX-rq, drawn by PyTorch",
    "head-unigram": "head and tail, unigram", "head-midx-rq": "head and tail, MIDX-rq",
    "head-midx-aware-rq": "head and tail, MIDX-rq, query-aware",
}  # fmt: skip
WAYS = {"own": "{n_samples:,} negatives for each query", "shared": "{n_shared:,} negatives shared by the batch"}
GOALS = (  # classes, with the optimiser's step, against whom, how many times faster
    (100_000, False, PLAIN, 20), (100_000, False, CHUNKED, 12), (1_000_000, False, PLAIN, 250),
    (1_000_000, False, CHUNKED, 100), (1_000_000, True, PLAIN, 70),
)  # fmt: skip
AIMED = ("midx-rq", "head-unigram", "head-midx-aware-rq")  # the last is the tasks' default
Record = dict[str, Any]


class Figures:
    """The medians of one device, by contender, number of classes and figure."""

    def __init__(self, record: Record, device: str) -> None:
        self.runs = {(run["contender"], run["n_classes"]): run for run in record["runs"] if run["device"] == device}
        self.classes = sorted({n for _, n in self.runs})

    def contenders(self) -> list[str]:
        """Those that were measured, in the tables' order."""
        return [name for name in (PLAIN, CHUNKED, *NAMES) if any((name, n) in self.runs for n in self.classes)]

    def get(self, contender: str, n_classes: int, *path: str) -> float | None:
        """One figure, or None where it wasn't measured."""
        found: Any = self.runs.get((contender, n_classes), {}).get("median")
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return None if found is None else float(found)

    def sum(self, contender: str, n_classes: int, *paths: tuple[str, ...]) -> float | None:
        """The sum of several figures."""
        found = [self.get(contender, n_classes, *path) for path in paths]
        return None if None in found else sum(value for value in found if value is not None)

    def steps(self, contender: str, n_classes: int, way: str, update: bool) -> float | None:
        """Milliseconds of a step; the update is dense Adam's for full softmax, row-wise Adagrad's for the others."""
        inside = () if contender in (PLAIN, CHUNKED) else (way,)
        paths = [(*inside, "step_ms")]
        if update:
            paths.append((*inside, "adagrad_ms" if inside else "adam_ms"))
        return self.sum(contender, n_classes, *paths)

    def failed(self, contender: str, n_classes: int) -> str | None:
        """Why there are no figures."""
        error: str | None = self.runs.get((contender, n_classes), {}).get("error")
        return error


def milliseconds(value: float | None) -> str:
    """Three digits or so, with the unit that suits."""
    if value is None:
        return "–"
    return f"{value / 1e3:.2f} s" if value >= 1000 else f"{value:.0f} ms" if value >= 100 else f"{value:.2g} ms"


def step_table(figures: Figures, way: str, update: bool) -> list[str]:
    """What a step takes, and how many times less that is than full softmax, plain and chunked."""
    rows = []
    for contender in figures.contenders():
        cells = []
        for n in figures.classes:
            own = figures.steps(contender, n, way, update)
            cell = milliseconds(own)
            if own is not None and contender in NAMES:
                full = [figures.steps(other, n, way, update) for other in (PLAIN, CHUNKED)]
                cell += " (" + ", ".join("–" if other is None else f"{other / own:.1f}×" for other in full) + ")"
            cells.append(cell)
        rows.append([NAMES.get(contender, contender), *cells])
    return markdown.table("| | " + " | ".join(f"{n:,} classes" for n in figures.classes) + " |", rows)


def drawing_table(figures: Figures) -> list[str]:
    """Drawing alone, refreshing, and memory."""
    classes = figures.classes
    head = (
        f"| | drawing, each query's own: {' / '.join(f'{n:,}' for n in classes)} classes | last to first | "
        "shared by the batch | refresh | again, from the last index | peak memory of a step, MiB |"
    )
    rows = []
    for contender in figures.contenders():
        if contender in NAMES:
            draws = [figures.get(contender, n, "own", "draw_ms") for n in classes]
            ratio = "–" if None in (draws[0], draws[-1]) else f"{(draws[-1] or 0) / (draws[0] or 1):.2f}×"
            shared = [figures.get(contender, n, "shared", "draw_ms") for n in classes]
            cells = [slashes(draws), ratio, slashes(shared)]
            cells += [
                slashes([figures.get(contender, n, key) for n in classes]) for key in ("refresh_ms", "refresh_again_ms")
            ]
        else:
            cells = ["–"] * 5
        inside = ("own",) if contender in NAMES else ()
        memory = [figures.get(contender, n, *inside, "peak_mib") for n in classes]
        cells.append(" / ".join("–" if value is None else f"{value:,.0f}" for value in memory))
        rows.append([NAMES.get(contender, contender), *cells])
    return markdown.table(head, rows)


def slashes(values: list[float | None]) -> str:
    """Milliseconds side by side; a dash where nothing was measured at all."""
    return "–" if all(value is None for value in values) else " / ".join(milliseconds(value) for value in values)


def output_layer_section(folder: Path) -> list[str]:
    """What ``output_layer.py`` measured; nothing where it didn't run."""
    record = markdown.book(folder / "output_layer.json")
    if record is None:
        return []
    settings = record["settings"]
    lines = [
        "", "## Output layer", "",
        f"By `python -m benchmarks.sampling.output_layer`: a training step of an output layer with {settings['dim']} "
        f"dimensions, batch {settings['batch']}, {settings['codewords']} codewords per codebook; {record['threads']} "
        f"thread{'s' if record['threads'] > 1 else ''} of {record['machine']['cpu']}, PyTorch {record['torch']}, "
        f"{record['date']}. Class embeddings are synthetic, in clusters. In brackets: how many times less than full "
        "softmax, plain (`cross_entropy` over a product) and chunked (`FullSoftmaxLoss`). Every raw value is in the "
        "JSON.",
    ]  # fmt: skip
    for device in dict.fromkeys(run["device"] for run in record["runs"]):
        figures = Figures(record, device)
        where = "" if device == "cpu" else f", {record.get('gpu', device)}"
        for way, words in WAYS.items():
            title = words.format(**settings)
            lines += ["", f"### {title}{where}", "", "Forward and backward:", "", *step_table(figures, way, False)]
            lines += ["", "With the optimiser's step (dense Adam for full softmax, row-wise Adagrad for the others):"]
            lines += ["", *step_table(figures, way, True)]
        lines += ["", f"### Drawing, refreshing and memory{where}", "", *drawing_table(figures), *notes(figures)]
        if device == "cpu":
            lines += goals(figures)
    return [*lines, *heads_lines(folder)]


def heads_lines(folder: Path) -> list[str]:
    """A step of the loss with a head beside the full softmax, measured at the same time."""
    record = markdown.book(folder / "output_layer_heads.json")
    if record is None:
        return []
    figures, settings = Figures(record, "cpu"), record["settings"]
    words = (
        "By the same command for some contenders (`--contenders`), one after another on a machine busy with other "
        f"work, so that ratios count and times don't: forward and backward, {settings['n_samples']} negatives for each "
        f"query, heads of {settings['n_head']:,} classes; the processor's time of one thread, {record['date']}."
    )
    return ["", "### Head and tail", "", words, "", *step_table(figures, "own", False), *goals(figures)]


def goals(figures: Figures) -> list[str]:
    """What was wanted of a step, beside what is reached with negatives of each query's own and with shared ones."""
    rows = []
    for contender in AIMED:
        for n, update, other, least in GOALS:
            full = figures.steps(other, n, "own", update)
            found = [figures.steps(contender, n, way, update) for way in WAYS]
            if full is None or None in found:
                continue
            cells = (f"{full / (own or math.inf):.0f}×" for own in found)
            with_update = ", with the optimiser's step" if update else ""
            rows.append([f"{NAMES[contender]}: {n:,} classes, against {other}{with_update}", f"{least}×", *cells])
    draws = [[figures.get("midx-rq", n, way, "draw_ms") for n in (10_000, 1_000_000)] for way in WAYS]
    if all(None not in pair for pair in draws):
        cells = (f"{(last or 0) / (first or 1):.2f}×" for first, last in draws)
        rows.append(["MIDX-rq: drawing from 1,000,000 classes, against 10,000", "at most 1.3×", *cells])
    head = "| | wanted | each query's own | shared by the batch |"
    return ["", *markdown.table(head, rows)] if rows else []


def notes(figures: Figures) -> list[str]:
    """Dense SGD beside dense Adam, and what failed."""
    lines = []
    for n in figures.classes:
        adam, sgd = (figures.get(PLAIN, n, f"{name}_ms") for name in ("adam", "sgd"))
        rows = figures.get("midx-rq", n, "own", "adagrad_ms")
        shown = ", ".join(
            f"{name} {milliseconds(value)}"
            for name, value in (("dense Adam", adam), ("dense SGD", sgd), ("row-wise Adagrad", rows))
        )
        lines.append(f"- The optimiser's step alone, {n:,} classes: {shown}.")
    lloyd = [(n, figures.get("midx-rq", n, "lloyd_ms")) for n in figures.classes]
    shown = ", ".join(f"{milliseconds(value)} over {n:,}" for n, value in lloyd if value is not None)
    if shown:
        lines.append(f"- A Lloyd iteration of one codebook, all classes and dimensions: {shown}.")
    for contender, n in figures.runs:
        if reason := figures.failed(contender, n):
            lines.append(f"- {NAMES.get(contender, contender)}, {n:,} classes: not measured ({reason}).")
    return ["", *lines]


def output_layer_summary(folder: Path) -> str:
    """What stands between docs/sampling.md's markers: the table, and what ``tradeoff.py`` adds."""
    record = markdown.book(folder / "output_layer.json")
    if record is None:
        return "Nothing has been measured yet."
    figures = Figures(record, "cpu")
    settings = record["settings"]
    lines = [
        f"A step's forward and backward pass on {record['threads']} thread of {record['machine']['cpu']}, "
        f"{settings['dim']} dimensions, batch {settings['batch']}; in brackets how many times faster than the full "
        "softmax, plain and chunked.",
    ]
    for way, words in WAYS.items():
        lines += ["", f"With {words.format(**settings)}:", "", *step_table(figures, way, False)]
    return "\n".join([*lines, *tradeoff.section(folder)])


def codewords_section(folder: Path) -> list[str]:
    """What ``codeword_learning.py`` measured, nearest first."""
    record = markdown.book(folder / "codeword-learning.json")
    if record is None:
        return []
    intro = (
        "By `python -m benchmarks.sampling.codeword_learning`: an LSTM trained on Penn Treebank by the full softmax "
        f"for {record['steps']} steps. Codewords are made from queries of training text ({record['joint_steps']} "
        f"steps of `learning_loss` if they are learned jointly, section 6.2.3). Means over {record['queries']} "
        "queries of other text. ln d₂(P‖Q) bounds the gradient's bias (the paper's Theorem 6). The longer a network is "
        "trained, and the faster its class table moves, the further every sampler is from the softmax: table 5 above "
        "has the same after a whole epoch."
    )
    rows = [
        [name, *(f"{found[measure]:.2f}" for measure in ("ln_d2", "kl_q_p", "kl_p_q"))]
        for name, found in sorted(record["samplers"].items(), key=lambda item: item[1]["ln_d2"])
    ]
    table = markdown.table("| | ln d₂(P‖Q) | KL(Q‖P) | KL(P‖Q) |", rows)
    return ["", "### How near codewords come", "", intro, "", *table]


def peaked_section(folder: Path) -> list[str]:
    """What ``peaked.py`` measured, at the last step of each row."""
    record = markdown.book(folder / "peaked_scores.json")
    if record is None:
        return []
    settings, most = record["runs"][0]["settings"], max(run["steps"] for run in record["runs"])
    intro = (
        f"By `python -m benchmarks.sampling.peaked`: {settings['n_classes']:,} classes, queries that are sums of "
        f"{settings['of_class']} embeddings (`EmbeddingBag(mode='sum')`), `RowwiseAdagrad(lr=0.3)` where the row says "
        f"nothing else, samplers refreshed every {settings['refresh']} steps, {settings['n_samples']} draws; "
        f"{most} steps of batch {settings['batch']}, one seed. Scores differ by tens from class "
        "to class. The loss is measured on 1,000 other queries, as is what it estimates; the last column tells at "
        "which of the steps 64, 128 and 256 `check` warned. A loss that corrects the target's logit too is by its "
        "definition above the cross-entropy, by up to the logarithm of classes by draws with uniform draws."
    )
    rows = []
    for run in record["runs"]:
        last = run["curve"][-1]
        warned = ", ".join(str(entry["step"]) for entry in run["curve"] if entry.get("warned"))
        name = run["contender"] + ("" if run["steps"] == most else f" ({run['steps']} steps)")
        loss = f"{last['sampled']:.2f}" if "sampled" in last else "–"
        shown = warned or ("never" if "warned" in last else "–")
        rows.append(
            [name, loss, f"{last['full']:.2f}", f"{last['accuracy']:.3f}", f"{last['cpu_s']:.0f}", shown]
        )
    table = markdown.table("| | its loss | cross-entropy | accuracy | CPU seconds | `check` warned |", rows)
    return ["", "### Peaked scores", "", intro, "", *table, "", markdown.taken(record)]


def variance_section(folder: Path) -> list[str]:
    """What ``variance.py`` measured."""
    record = markdown.book(folder / "loss_variance.json")
    if record is None:
        return []
    intro = (
        f"By `python -m benchmarks.sampling.variance`: an LSTM trained on Penn Treebank for {record['steps']} steps, "
        f"and {record['queries']} queries of validation text. Each loss was computed {record['repeats']} times with "
        f"{record['draws']} new draws. Deviations are standard deviations over the draws: of the loss in nats, of its "
        "gradient for the query in shares of the full softmax's. Bias is the distance of the mean gradient from the "
        "full softmax's, error that of a single one, for the label that a query has. (Losses whose optimum is the "
        "labels' distribution are unbiased there over all labels, not for each.)"
    )
    measures = ("loss_deviation", "gradient_deviation", "gradient_bias", "gradient_error")
    rows = [[run["contender"], *(f"{run[measure]:.3f}" for measure in measures)] for run in record["runs"]]
    head = "| | deviation of the loss | of the gradient | bias of the gradient | its error |"
    table = markdown.table(head, rows)
    return ["", "### Scatter of losses and gradients", "", intro, "", *table, "", markdown.taken(record)]
