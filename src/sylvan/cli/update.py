"""``sylvan update``: a saved model learns new rows and labels, forgets rows; labels are renamed, merged, removed."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import click

from sylvan import store
from sylvan.cli.options import input_options, subjects_options
from sylvan.cli.session import Session, quietly, say
from sylvan.data.streams import open_read
from sylvan.errors import DataError, ParameterError
from sylvan.params.wording import are

_CHANGES = ("new", "renames", "remove", "merges", "forget", "label_texts")


@click.command("update")
@click.argument("model", metavar="MODEL")
@click.argument("new", metavar="NEW", required=False)
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="Give a label another name.")
@click.option("--remove", metavar="FILE", help="Labels that are never to be answered again, one per line: names, or "
              "the ids of a model over matrices (- for stdin).")  # fmt: skip
@click.option("--merge", "merges", multiple=True, metavar="A,B=C", help="Let the rows of labels A and B be those of "
              "label C; also as JSON, {\"C\": [\"A\", \"B\"]}.")  # fmt: skip
@click.option("--forget", metavar="FILE", help="Ids of rows that the model is to know nothing of any more, one per "
              "line; the first row of its training is 0.")  # fmt: skip
@click.option("--label-texts", metavar="FILE", help="Texts of labels that are new, or have none yet, or have had "
              "others: lines of label, tab and text, or JSON lines with label and text.")  # fmt: skip
@click.option("--rows", metavar="TRAIN", help="What the model was trained on, where it keeps no rows itself "
              "(--set keep_rows=true). Without them, it learns new labels alone.")  # fmt: skip
@click.option("--precise/--quick", default=None, help="Solve every node again that is off its optimum, or let those "
              "wait that changed rows hardly matter to; by default, precise where the solver is.")  # fmt: skip
@click.option("--keep", type=click.IntRange(0, 1000), default=1, show_default=True, metavar="N",
              help="Earlier versions that stay in the folder, for --undo.")  # fmt: skip
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--undo", is_flag=True, help="Go back to the version before the last update.")
@subjects_options
@input_options
def command(model: str, keep: int, only_plan: bool, undo: bool, **flags: Any) -> None:
    """Change the model in the folder MODEL, in one step.

    It learns the rows of the file NEW, of labels that it knows and of new ones. Ids and scores of all other labels
    stay, as far as the changed rows don't matter to them. What the model has learned of a removed label or a forgotten
    row is gone from its files once no earlier version is kept (--keep 0). Processes that use the model go on with the
    version that they have loaded.

    \b
    Examples:
      sylvan update runs/m new.jsonl
      sylvan update runs/m --rename "Whaling=Whale hunting" --remove retired.txt
      sylvan update runs/m new.jsonl --merge "Ships,Boats=Ships" --plan
      sylvan update runs/m --forget ids.txt --keep 0
      sylvan update runs/m --label-texts new-labels.tsv
      sylvan update runs/m --undo
    """
    changes = any(flags[name] not in (None, ()) for name in _CHANGES)
    if undo and (changes or only_plan):
        raise click.UsageError("--undo goes alone: it changes nothing but the version.")
    if not (undo or changes):
        raise click.UsageError(
            "there is nothing to do: give NEW, --forget, --merge, --label-texts, --rename, --remove or --undo."
        )
    store.contents(model)  # says that there is no model, where there is none to lock
    with store.updating(model), quietly(flags):
        if undo:
            n_left = store.undo(model, keep)
            words = f"Went back to the version before; {n_left} earlier {are(n_left)} left."
        else:
            words = _changed(model, flags, None if only_plan else keep)
    if only_plan:
        click.echo(words)
    else:
        say(flags, words, err=True)


def _changed(folder: str, flags: dict[str, Any], keep: int | None) -> str:
    """Change the model and save it, where ``keep`` is given; what was done, in words."""
    from sylvan.cli.io.inputs import read_labels
    from sylvan.cli.models import LOST_THRESHOLD, kept_rows, load_model, training_notes
    from sylvan.hub.card import HISTORY, THRESHOLD, history_of, noted, words_of

    before = store.load(folder)
    history = history_of(before)
    model = load_model(folder, (), flags["threads"])
    (X, Y), options = _row_changes(folder, model, flags)
    n_labels, plan, merge = model.n_labels_, "", options.get("merge", {})
    kept, new = kept_rows(model), flags["new"]
    counts = {
        "learned": 0 if X is None else len(X) if isinstance(X, list) else X.shape[0],
        "forgotten": len(set(options.get("forget", ()))), "described": len(options.get("label_texts", ())),
        "merged": sum(len(set(labels) - {into}) for into, labels in merge.items()),
    }  # fmt: skip
    if X is not None or {"forget", "merge", "label_texts"} & set(options):
        if keep is None:
            plan = f" {model.plan_update(X, Y, **options).text()}"
        else:
            model.update(X, Y, **options)
            counts["added"] = model.n_labels_ - n_labels
    warning = ""
    if new is not None:
        n_repeated = None if keep is None or kept is None else kept_rows(model).repeated(kept.next_id)
        warning = _repeated(folder, new, n_repeated, f"; sylvan update {folder} --undo goes back" if keep else "")
    if flags["remove"] is not None:
        gone = read_labels(flags["remove"], model)
        model, counts["removed"] = model.without_labels(gone), len(set(gone))
    if flags["renames"]:
        names = _read_renames(flags["renames"], model)
        model, counts["renamed"] = model.with_label_names(names), len(names)
    if keep is not None:
        state = model.to_state()
        state.meta[HISTORY] = noted(history, counts)
        state.meta.update(training_notes(folder, flags["new"]))
        store.save(folder, state, keep=keep)
        Session.of(click.get_current_context()).written = f"the model in {folder} was updated"
    click.echo(warning, err=True, nl=bool(warning))
    if keep is None:
        return f"Would update {folder}: {words_of(counts)}.{plan}"
    return f"Updated {folder}: {words_of(counts)}.{LOST_THRESHOLD.format(folder) if THRESHOLD in before.meta else ''}"


def _repeated(folder: str, path: str, n_rows: int | None, way: str) -> str:
    """A warning that the model had learned rows of a file before: how many, or None where the rows that it keeps don't
    tell, but the file itself may be one that it has learned; empty where it hadn't."""
    from sylvan.cli.models import training_name

    if n_rows is None and training_name(folder, path) is not None:
        return f"Warning: the model has learned from {path} before: its rows count twice then{way}."
    had = f"Warning: the model had learned {n_rows or 0:,} of the rows of {path} before, with the same labels"
    return f"{had}: they count twice now{way}." if n_rows else ""


def _row_changes(folder: str, model: Any, flags: dict[str, Any]) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """New rows, and the other arguments of the model's ``update``."""
    from sylvan.cli.models import input_for

    rows: tuple[Any, Any] = (None, None)
    if flags["new"] is not None:
        rows = input_for(model, folder, flags["new"], flags, "trn").read()
    options: dict[str, Any] = {} if flags["precise"] is None else {"precise": flags["precise"]}
    if flags["forget"] is not None:
        options["forget"] = _read_ids(flags["forget"])
    if flags["merges"]:
        options["merge"] = _read_merges(flags["merges"], model)
    if flags["label_texts"] is not None:
        options["label_texts"] = _read_label_texts(flags["label_texts"], model, flags["language"])
    if flags["rows"] is not None:
        options["rows"] = input_for(model, folder, flags["rows"], {**flags, "labels": None}, "trn").read()
    return rows, options


def _read_ids(path: str) -> list[int]:
    """Ids of rows, one a line."""
    source, ids = "stdin" if path == "-" else path, []
    with open_read(path) as stream:
        for number, line in stream.lines():
            if not line.strip().isdigit():
                word = line.decode(errors="replace").strip()
                raise DataError(f"{source}, line {number}: {word!r} is no id of a row.")
            ids.append(int(line))
    if not ids:
        raise DataError(f"{source} names no row.")
    return ids


def _read_label_texts(path: str, model: Any, language: str | None) -> Any:
    """Texts of labels, for a model that has use for them."""
    from sylvan.cli.io.inputs import read_given_texts
    from sylvan.data import read_label_texts
    from sylvan.models.lexical.lexical_matcher import LexicalMatcher
    from sylvan.models.text import TextModel

    if not isinstance(model, TextModel | LexicalMatcher):
        raise DataError(f"--label-texts is for a TextModel or a LexicalMatcher. Got a {type(model).__name__} instead.")
    return read_label_texts(path) if path == "names" else read_given_texts(path, language)["label_texts"]


def _splits(word: str) -> list[tuple[str, str]]:
    """What stands before and behind each equals sign of a word."""
    return [(word[:place], word[place + 1 :]) for place, character in enumerate(word) if character == "="]


def _read_merges(words: tuple[str, ...], model: Any) -> dict[Any, list[Any]]:
    """What ``A,B=C`` says, or ``{"C": ["A", "B"]}``; where names hold signs or commas themselves, those that divide
    known names count, if one way does."""
    merges: dict[Any, list[Any]] = {}
    for word in words:
        readings = list(itertools.islice(_readings(word, model), 2))
        if len(readings) != 1:
            given = _of_json(word)
            names = [*given, *itertools.chain(*given.values())] or word.replace("=", ",").split(",")
            unknown = next((name for name in names if _label(str(name), model) is None), None)
            ways = " and ".join(json.dumps({into: labels}, ensure_ascii=False) for into, labels in readings)
            fault = "" if unknown is None else f", but {unknown!r} is no label"
            fault = f", which may be {ways}: write the one that you mean" if ways else fault
            raise ParameterError(
                f"--merge takes A,B=C, labels of the model and the one that they become. Got {word!r} instead{fault}."
            )
        into, labels = readings[0]
        if into in merges:
            raise ParameterError(f"--merge gives {into!r} twice.")
        merges[into] = labels
    return merges


def _readings(word: str, model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Each way to read labels of the model and the one that they become."""
    given = _of_json(word)
    for name, names in given.items():
        into, labels = _label(name, model), [_label(str(each), model) for each in names]
        if into is not None and labels and None not in labels:
            yield into, labels
    for before, behind in () if given else _splits(word):
        into = _label(behind, model)
        if into is not None:
            yield from ((into, labels) for labels in _lists(before.split(","), model) if labels)


def _of_json(word: str) -> dict[str, list[Any]]:
    """The lists by their names that a word is in JSON; none where it is nothing of the kind."""
    with contextlib.suppress(ValueError):
        found = json.loads(word)
        if isinstance(found, dict) and all(isinstance(names, list) for names in found.values()):
            return found
    return {}


def _label(word: str, model: Any) -> str | int | None:
    """A label by its name, or by its id where labels have none; None where there is no such label."""
    if model.vocabulary_ is not None:
        return word if word in model.vocabulary_ else None
    return int(word) if word.isdigit() and int(word) < model.n_labels_ else None


def _lists(parts: list[str], model: Any) -> Iterator[list[Any]]:
    """Each list of labels that parts between commas may name, some of which belong together."""
    if not parts:
        yield []
    for n in range(1, len(parts) + 1):
        first = _label(",".join(parts[:n]), model)
        if first is not None:
            yield from ([first, *others] for others in _lists(parts[n:], model))


def _read_renames(words: tuple[str, ...], model: Any) -> dict[str, str]:
    """What ``OLD=NEW`` says; where names hold signs themselves, the first that ends a label's name divides them."""
    names: dict[str, str] = {}
    for word in words:
        splits = _splits(word) or [("", "")]
        old, new = next((split for split in splits if split[0] in (model.vocabulary_ or ())), splits[0])
        if not (old and new):
            raise ParameterError(f"--rename takes OLD=NEW, the name of a label and its new name. Got {word!r} instead.")
        if old in names:
            raise ParameterError(f"--rename gives {old!r} twice.")
        names[old] = new
    return names
