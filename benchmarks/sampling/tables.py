"""The sections of docs/results/ on samplers and losses for large softmaxes."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.sampling.contenders import CHANGES, CONTENDERS, N_SAMPLES, PLANS, TABLE4, TABLE5, TABLE7, TABLE9

__all__ = ["MEASURES", "budget_of", "main_figure", "sampling_section", "section", "values"]

Record = dict[str, Any]
MEASURES = {
    "language-model": ("perplexity",),
    "sequential-recommendation": ("ndcg@10", "ndcg@50", "recall@10", "recall@50"),
    "extreme-classification": ("P@1", "P@3", "P@5"),
}
TITLES = {
    "table4": "Language models: perplexity (the paper's table 4)",
    "table5": "Language models: distance from the softmax (the paper's table 5)",
    "table7": "Sequential recommendation (the paper's table 7)",
    "table9": "Extreme classification (the paper's table 9)",
    "tablewords": "Language models: a text of 50,000 words",
    "tablemany": "Language models: 100,000 and a million classes, by the second",
    "samples": "Language models: number of samples",
    "codewords": "Language models: number of codewords",
    "sampling-time": "Time of drawing",
    "distribution": "Samplers' distributions",
}

MANY = (
    "The texts of the laws in eurlex57k. Words that often follow on one another are one token, as in word2vec's "
    "phrases, so that the model predicts the next word or phrase: 100,000 of them, or a million where tokens that "
    "follow on one another twice are joined once more. The network is small (64 dimensions, one layer of an LSTM, "
    "batches of 700 tokens), so that the output layer counts. Every row has the same CPU seconds, not the same steps;"
    " perplexity is over all classes, on 1,000 tokens for validation and 3,000 for the test. Rates are chosen with "
    "100,000 classes, and taken for a million too. The full softmax is left out: a step of its output layer alone "
    "takes half a second and five seconds (below)."
)


def sampling_section(folder: Path) -> list[str]:
    """Everything that ``sampled_softmax.py`` left in ``folder``."""
    lines: list[str] = []
    for what in TITLES:
        book = markdown.book(folder / f"sampled_softmax_{what.replace('-', '_')}.json")
        if book is not None:
            lines += [*section(what, book["runs"]), "", markdown.taken(book)]
    if not lines:
        return []
    intro = (
        "By `python -m benchmarks.sampling.sampled_softmax`: the same network with the same seeds and the same "
        "number of steps for each sampler and loss. In rows called “both corrected” the target's logit is corrected as "
        "the draws' are, which is the default; those of “Eq. (1)” are that reading of the paper, which corrects the "
        "draws' alone. The figures are means over the seeds ± their standard deviation. Minutes are the clock's, on a "
        "machine with other work; CPU-s are the processor's seconds of training without evaluation, where they were "
        "measured; a row “on a GPU” was trained there. "
        "The paper's figures (Chen and others, arXiv 2501.08563) are shown as printed there, after up to 100 epochs."
    )
    return ["", "## Softmax over many classes", "", intro, *lines]


def section(what: str, runs: list[Record]) -> list[str]:
    """One table or figure's section, in Markdown."""
    lines = ["", f"### {TITLES[what]}", *(["", MANY] if what == "tablemany" else [])]
    if what == "sampling-time":
        return lines + _times(runs)
    if what == "distribution":
        return lines + _distributions(runs)
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for run in runs:
        if what in PLANS and run["contender"] in CONTENDERS:
            groups.setdefault(budget_of(run), []).append(run)
    for group in groups.values():
        table = _by_second if group[0].get("marks") else _TABLES[what]
        lines += ["", _sentence(group), "", *table(group)]
    figure = f"sampled_softmax_{what}"
    return [*lines, "", f"![{TITLES[what]}](figures/{figure}.svg)"]


def budget_of(run: Record) -> tuple[Any, ...]:
    """What runs must agree in to stand in one table."""
    tuned = "table_learning_rate" if run.get("tuned") else None
    changed = [run.get(name) for name in CHANGES if name not in (tuned, "device")]
    marks = tuple(run.get("marks") or ())
    rates = (run["tuned"], run["model"]) if run.get("tuned") else None  # of each model its own
    return (run["task"], run["set"], run["epochs"], run.get("max_steps"), marks, rates, *changed)


def _sentence(group: list[Record]) -> str:
    run = group[0]
    seeds = sorted({record["seed"] for record in group})
    steps = sorted({record["steps"] for record in group if record["stopped"] not in ("diverged", "patience")})
    epochs = f"{run['epochs']} epoch{'s' if run['epochs'] != 1 else ''}"
    trained = f"{epochs} ({steps[-1]:,} steps)" if steps else epochs
    words = f"{run['set']}: " + (f"the first {run['max_steps']:,} steps" if run.get("max_steps") else trained)
    if run.get("marks"):
        words = f"{run['set']}: {run['marks'][-1]} CPU seconds of training for each row"
    words += f", {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    words += f", {N_SAMPLES[run['task']]} samples per query unless the row says otherwise"
    tuned = "table_learning_rate" if run.get("tuned") else None
    names = [name for name in CHANGES if name not in (tuned, "device")]
    values = {name: run[name] for name in names if run.get(name) is not None}
    changed = [f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values.items()]
    if run.get("tuned"):
        changed.append(
            "the class table's learning rate of each row (in brackets) chosen by doubles and halves on the validation "
            f"set after {run['tuned']} steps of seed 0"
        )
    return words + "".join(f", {word}" for word in changed) + "."


def _title(name: str, group: list[Record]) -> str:
    """A row's name, with its own learning rate where it was chosen for it."""
    rates = sorted({run["table_learning_rate"] for run in group if run["contender"] == name and run.get("tuned")})
    contender = CONTENDERS[name]
    reading = ", Eq. (1)" if contender.loss == "sampled-softmax-eq1" else ""
    where = ", on a GPU" if any(run.get("gpu") for run in group if run["contender"] == name) else ""
    own = any(run.get("own_rate") for run in group)
    whose = f", that of {CONTENDERS[contender.rate_of].title}" if contender.rate_of and not own else ""
    chosen = f" ({', '.join(f'{rate:g}' for rate in rates)}{whose})" if rates else ""
    return contender.title + reading + where + chosen


def _in_order(group: list[Record]) -> list[str]:
    return [name for name in CONTENDERS if any(run["contender"] == name for run in group)]


def values(group: list[Record], measure: str, **fixed: Any) -> list[float]:
    """A test measure of the runs that agree with ``fixed``, one a seed; infinite where the training diverged."""
    chosen = [run for run in group if all(run.get(name) == value for name, value in fixed.items())]
    found = []
    for run in chosen:
        value = run["test"].get(measure)
        found.append(math.inf if value is None or run["stopped"] == "diverged" else float(value))
    return found


def spread(found: list[float], digits: int = 1) -> str:
    """Mean and standard deviation of some seeds."""
    if any(math.isinf(value) for value in found):
        finite = sum(math.isfinite(value) for value in found)
        return "diverged" if not finite else f"diverged in {len(found) - finite} of {len(found)}"
    return markdown.mean(found, digits)


def against(found: list[float], full: list[float]) -> str:
    """How far above the full softmax with the same seeds, in percent."""
    if not found or not full or any(math.isinf(value) for value in found + full):
        return "–"
    return f"{100 * (statistics.mean(found) / statistics.mean(full) - 1):+.1f}%"


def _cpu(runs: list[Record]) -> str:
    """The mean of what training took where that was measured."""
    spent = [run["cpu_s"] for run in runs if run.get("cpu_s") is not None]
    return f"{statistics.mean(spent):.0f}" if spent else "–"


def _language_models(group: list[Record]) -> list[str]:
    models = sorted({run["model"] for run in group})
    columns = "perplexity | against full | the paper's | its against full | minutes | CPU-s"
    heads = [f"{model}: {columns}" for model in models]
    rows = []
    for name in _in_order(group):
        contender = CONTENDERS[name]
        cells = []
        for model in models:
            found = values(group, "perplexity", contender=name, model=model)
            seeds_of_row = {run["seed"] for run in group if run["contender"] == name}
            same = [run for run in group if run["seed"] in seeds_of_row]
            full = values(same, "perplexity", contender="full", model=model)
            place = ("lstm", "transformer").index(model)
            theirs = TABLE4.get(contender.paper or "")
            paper = ["–", "–"]
            if theirs is not None:
                paper = [f"{theirs[place]:.1f}", f"{100 * (theirs[place] / TABLE4['Full'][place] - 1):+.1f}%"]
            took = [run["seconds"] / 60 for run in group if run["contender"] == name and run["model"] == model]
            cells += [spread(found), against(found, full), *paper, f"{statistics.mean(took):.1f}" if took else "–"]
            cells.append(_cpu([run for run in group if run["contender"] == name and run["model"] == model]))
        seeds = len({run["seed"] for run in group if run["contender"] == name})
        rows.append([_title(name, group), str(seeds), *cells])
    lines = markdown.table("| | seeds | " + " | ".join(heads) + " |", rows)
    return [*lines, *_by_steps(group)] if group[0]["epochs"] > 1 else lines


def _by_steps(group: list[Record]) -> list[str]:
    """Of longer trainings, what was reached on the validation set on the way and what training had cost by then."""
    last = max(run["steps"] for run in group)
    steps = sorted({entry["step"] for run in group for entry in run["validation"]})
    rows = []
    for name in _in_order(group):
        runs = [run for run in group if run["contender"] == name]
        cells = []
        for step in steps:
            found = [entry["perplexity"] for run in runs for entry in run["validation"] if entry["step"] == step]
            cost = _cpu([{"cpu_s": run["cpu_s"] * step / run["steps"]} for run in runs if run.get("cpu_s")])
            cells.append(f"{spread(found)} ({cost})" if found else "–")
        rows.append([_title(name, group), *cells])
    words = "Validation perplexity on the way, in brackets the CPU seconds of training until then:"
    heads = [f"{step:,} steps, {group[0]['epochs'] * step / last:.2g} epochs" for step in steps]
    return ["", words, "", *markdown.table(["", *heads], rows)]


def _words(group: list[Record]) -> list[str]:
    """As table 4, with what training cost."""
    rows = []
    for name in _in_order(group):
        runs = [run for run in group if run["contender"] == name]
        seeds = {run["seed"] for run in runs}
        full = values([run for run in group if run["seed"] in seeds], "perplexity", contender="full")
        found = values(group, "perplexity", contender=name)
        rows.append([_title(name, group), str(len(found)), spread(found), against(found, full), _cpu(runs)])
    return markdown.table("| | seeds | perplexity | against full | CPU seconds of training |", rows)


def _by_second(group: list[Record]) -> list[str]:
    """The first measure at each mark of the processor's seconds, with the steps by then, and all of them at the end."""
    marks, measures = group[0]["marks"], MEASURES[group[0]["task"]]
    digits = 1 if measures == MEASURES["language-model"] else 4
    rows = []
    for name in _in_order(group):
        runs = [run for run in group if run["contender"] == name]
        cells = []
        for place in range(len(marks)):
            entries = [run["validation"][place] for run in runs]
            steps = statistics.mean(entry["step"] for entry in entries)
            cells.append(f"{spread([entry[measures[0]] for entry in entries], digits)} ({steps:,.0f})")
        cells += [spread(values(group, measure, contender=name), digits) for measure in measures]
        rows.append([_title(name, group), str(len(runs)), *cells])
    heads = [f"validation {measures[0]} after {mark} s (steps)" for mark in marks]
    tests = [f"test {measure} after {marks[-1]} s" for measure in measures]
    return markdown.table(["", "seeds", *heads, *tests], rows)


def _distances(group: list[Record]) -> list[str]:
    head = "| | ln d₂(P‖Q) | KL(Q‖P) | KL(P‖Q) | perplexity | ln perplexity | the paper's KL | its ln perplexity |"
    measured = any(run.get("lengths") for run in group)
    head += " CPU-s | length of codewords | of classes |" if measured else ""
    rows = []
    for name in _in_order(group):
        contender = CONTENDERS[name]
        runs = [run for run in group if run["contender"] == name and run["model"] == "lstm"]
        cells = []
        for key in ("ln_d2", "kl_q_p", "kl_p_q"):
            found = [run["distribution"][key] for run in runs if run.get("distribution")]
            known = [value for value in found if value is not None]
            cells.append(spread(known, 2) if len(known) == len(found) else "∞")
        perplexities = values(group, "perplexity", contender=name, model="lstm")
        cells += [spread(perplexities), spread([math.log(p) if p > 0 else math.inf for p in perplexities], 3)]
        theirs = TABLE5.get(contender.paper or "")
        cells += [f"{value:.4f}" for value in theirs] if theirs else ["–", "–"]
        if measured:
            lengths = [run["lengths"] for run in runs if run.get("lengths")]
            cells.append(_cpu(runs))
            cells += [spread([found[of] for found in lengths]) for of in ("codewords", "classes")]
        rows.append([_title(name, group), *cells])
    return markdown.table(head, rows)


def _ranked(group: list[Record], paper: dict[str, tuple[float, ...]], theirs: str) -> list[str]:
    measures = MEASURES[group[0]["task"]]
    models = sorted({run["model"] for run in group}, reverse=True)  # sasrec, then gru4rec
    heads = [f"{model}: {measure}" for model in models for measure in measures]
    rows = []
    for name in _in_order(group):
        cells = [spread(values(group, m, contender=name, model=model), 4) for model in models for m in measures]
        found = paper.get(CONTENDERS[name].paper or "")
        cells.append(_cpu([run for run in group if run["contender"] == name]))
        cells.append(" / ".join(f"{value:.4f}" for value in found) if found else "–")
        seeds = len({run["seed"] for run in group if run["contender"] == name})
        rows.append([_title(name, group), str(seeds), *cells])
    return markdown.table("| | seeds | " + " | ".join(heads) + f" | CPU-s | {theirs} |", rows)


def _recommenders(group: list[Record]) -> list[str]:
    return _ranked(group, TABLE7, "the paper's, Amazon-books: SASRec N@10 / N@50 / R@10 / R@50, then GRU4Rec")


def _classifiers(group: list[Record]) -> list[str]:
    return _ranked(group, TABLE9, "the paper's, AmazonCat-13K")


def _varied(group: list[Record]) -> list[str]:
    name = "codewords" if any("codewords" in run for run in group) else "n_samples"
    points = sorted({run[name] for run in group if name in run})
    rows = []
    for contender in _in_order(group):
        cells = []
        for point in points:
            fixed = {"contender": contender} if contender == "full" else {"contender": contender, name: point}
            cells.append(spread(values(group, "perplexity", **fixed)))
        rows.append([CONTENDERS[contender].title, *cells])
    return markdown.table([name.replace("n_", ""), *map(str, points)], rows)


_TABLES = {
    "table4": _language_models,
    "table5": _distances,
    "tablewords": _words,
    "tablemany": _by_second,
    "table7": _recommenders,
    "table9": _classifiers,
    "samples": _varied,
    "codewords": _varied,
}


def _times(runs: list[Record]) -> list[str]:
    sizes = sorted({run["n_classes"] for run in runs})
    first = runs[0]
    words = (
        f"Milliseconds to draw {first['n']} classes for each of {first['batch']} queries of {first['dim']} dimensions "
        f"(K = {first['codewords']}), {first['threads']} thread, median; in brackets a refresh."
    )
    rows = []
    for name in [name for name in CONTENDERS if any(run["contender"] == name for run in runs)]:
        cells = []
        for size in sizes:
            run = next((run for run in runs if run["contender"] == name and run["n_classes"] == size), None)
            cells.append(f"{run['draw_ms']:.2f} ({run['refresh_ms']:.0f})" if run else "–")
        rows.append([CONTENDERS[name].title, *cells])
    lines = ["", words, "", *markdown.table(["classes", *(f"{size:,}" for size in sizes)], rows)]
    return [*lines, "", f"![{TITLES['sampling-time']}](figures/sampled_softmax_sampling-time.svg)"]


def _distributions(runs: list[Record]) -> list[str]:
    run = runs[-1]
    words = (
        f"{run['set']}, class embeddings and validation queries of an LSTM before training and after {run['epochs']} "
        "epochs with the full softmax."
    )
    rows = []
    for name in run["contenders"]:
        cells = []
        for stage in ("before", "after"):
            found = run[stage]["samplers"][name]
            cells += ["∞" if found[key] is None else f"{found[key]:.2f}" for key in ("ln_d2", "kl_q_p")]
        rows.append([CONTENDERS[name].title, *cells])
    head = "| | before: ln d₂(P‖Q) | KL(Q‖P) | after: ln d₂(P‖Q) | KL(Q‖P) |"
    lines = ["", words, "", *markdown.table(head, rows)]
    return [*lines, "", f"![{TITLES['distribution']}](figures/sampled_softmax_distribution.svg)"]


def main_figure(record: Record) -> str:
    """The first measure of a record, for the progress lines."""
    if "trials" in record:
        trials = ", ".join(f"{rate:g}: {value}" for rate, value in record["trials"])
        return f"table_learning_rate {record['best']:g} of {trials}"
    if "draw_ms" in record:
        return f"{record['draw_ms']:.2f} ms"
    if "test" not in record:
        return "done"
    name = MEASURES[record["task"]][0]
    return f"{name} {record['test'].get(name, float('nan')):.4g} on test"
