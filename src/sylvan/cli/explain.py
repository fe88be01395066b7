"""``sylvan explain``: why a saved model gives a label to a row, or doesn't."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from sylvan.cli.io.inputs import LabelTitles, read_names, read_titles
from sylvan.cli.models import codes_of, input_for, load_model
from sylvan.cli.options import input_options, label_names_option, ranking_option, vocabulary_options
from sylvan.cli.predict import say_unknown
from sylvan.cli.session import keep_inputs, quietly, write_text
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.explain.explanation import Explanation, as_page
from sylvan.hub.card import distinct_titles
from sylvan.models.blocks import unknown_texts
from sylvan.params.wording import counted
from sylvan.store.registry import load


class TitledModel:
    """A model, what its labels are called, and which code each title stands for; without titles, the model as it is.
    ``names`` are the labels' names where the model itself has none."""

    def __init__(self, model: Any, titles: LabelTitles | None, names: Vocabulary | None = None) -> None:
        self.model, self.names = model, names
        self.title_of: dict[str, str] = {}
        if titles is None:
            return
        codes = codes_of(model) if names is None else names
        titles.check(codes)
        listed = distinct_titles(codes, titles)
        self.title_of = {code: title for code, title in zip(codes, listed, strict=True) if title != code}
        if model.vocabulary_ is not None and names is None:
            self.model = model.with_label_names(self.title_of)
        else:
            self.names = Vocabulary.verbatim(listed)

    def title(self, name: str) -> str:
        """What a label is called here that was given by its code or by its title."""
        return self.title_of.get(name, name)

    def explain(self, x: Any, label: Any, options: Mapping[str, Any]) -> Explanation:
        """An explanation with the label's code beside its title."""
        result: Explanation = self.model.explain(x, label, **options)
        code = next((code for code, title in self.title_of.items() if title == result.name), None)
        return result if code is None else replace(result, name=result.name.removesuffix(f" ({code})"), code=code)


@click.command("explain")
@click.argument("model", metavar="MODEL")
@click.argument("input_", metavar="[INPUT]", required=False)
@click.option("--text", metavar="TEXT", help="The text to explain, instead of a row of INPUT.")
@click.option("--row", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Which row of INPUT; 0 is the first.")  # fmt: skip
@click.option("--label", "wanted", multiple=True, metavar="NAME", help="A label to explain, by name or id; give it "
              "again for several. [default: the best -k answers]")  # fmt: skip
@click.option("-k", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="K", help="Answers to explain.")
@click.option("--features", "top", type=click.IntRange(1, 10_000), default=5, show_default=True, metavar="N",
              help="Most features listed for, and most against, each step.")  # fmt: skip
@click.option("--examples", metavar="TRAIN", help="The training file, for the nearest rows with the label (of an "
              ".npz, the labels with --labels); or a saved model of neighbors.")  # fmt: skip
@click.option("--neighbors", type=click.IntRange(1, 10_000), default=3, show_default=True, metavar="N",
              help="How many of them.")  # fmt: skip
@click.option("--feature-names", metavar="FILE", help="For matrices: names of the columns, one per line.")
@label_names_option
@click.option("--html", metavar="FILE", help="Write a page for the browser.")
@click.option("--json", "json_", metavar="FILE", help="Write the data (- for stdout alone).")
@vocabulary_options
@ranking_option
@input_options
def command(model: str, input_: str | None, settings: tuple[str, ...], **flags: Any) -> None:
    """Explain the answers of the model in the folder MODEL for one text, or one row of INPUT (- for stdin).

    Shows the path to each label through the tree, score and place at each step, and the words that weighed most;
    for a label that is not among the answers, where the search lost it and which beam would reach it. Of labels that
    are codes, --vocabulary gives the names, also those of the clusters on the path.

    \b
    Examples:
      sylvan explain runs/m --text "whale hunting in the south seas" --label Whaling
      sylvan explain runs/m test.jsonl --row 7 --examples train.jsonl --html why.html
      sylvan explain runs/m test.jsonl --vocabulary subjects.ttl --language en
      sylvan explain runs/m X.tst.npz --row 7 --label 1234 --json -
    """
    keep_inputs("html", "json_")
    titles = read_titles(flags)
    loaded = load_model(model, settings, flags["threads"])
    with quietly(flags):
        x = _row(loaded, model, input_, flags)
        names: dict[str, Any] = {}  # of features and labels of a model over matrices
        for name in ("feature_names", "label_names"):
            if flags[name] is not None and loaded.takes_texts:
                raise DataError(f"--{name.replace('_', '-')} is for matrices: a model over text knows its names.")
            names[name] = None if flags[name] is None else read_names(flags[name])
        titled = TitledModel(loaded, titles, names["label_names"] and Vocabulary(names["label_names"]))
        loaded, names["label_names"] = titled.model, titled.names
        options: dict[str, Any] = {"top": flags["top"], **{name: value for name, value in names.items() if value}}
        if flags["examples"] is not None:
            options.update(examples=_examples(titled, model, flags), n_examples=flags["neighbors"])
        labels = [_label(word, titled) for word in flags["wanted"]]
        if not labels:
            top = loaded.rank(x, k=min(flags["k"], loaded.n_labels_))
            say_unknown(flags, int(unknown_texts(loaded, x, top)[0]), 1)
            labels = [loaded.vocabulary_[i] if loaded.vocabulary_ else i for i in top.labels[0].tolist() if i >= 0]
        explanations = [titled.explain(x, label, options) for label in labels]
    html, json_ = flags["html"], flags["json_"]
    if html is not None:
        write_text(html, as_page(explanations))
    if json_ is not None:
        content = [each.to_dict() for each in explanations]
        write_text(json_, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    if explanations and "-" not in (html, json_):
        click.echo("\n\n".join(each.text() for each in explanations))


def _row(model: Any, folder: str, path: str | None, flags: dict[str, Any]) -> Any:
    """The one row that is meant, as the model takes it; the file is read no further than that."""
    if flags["text"] is not None:
        if path is not None:
            raise click.UsageError("Give INPUT or --text, not both.")
        if not model.takes_texts:
            raise DataError(f"--text is for models over text, but the model in {folder!r} takes matrices.")
        return [flags["text"]]
    source: Any = input_for(model, folder, path or "-", {**flags, "labels": None})
    number, n_read = flags["row"], 0
    for rows, _ in source.blocks(False if source.is_text else model.n_features_):
        n = len(rows) if isinstance(rows, list) else rows.shape[0]
        if number < n_read + n:
            return rows[number - n_read : number - n_read + 1]
        n_read += n
    raise DataError(f"{source.name} has {counted(n_read, 'row')}: there is no row {number:,}, as the first is row 0.")


def _label(word: str, titled: TitledModel) -> str | int:
    """A label as it was typed: a name where labels have names, else an id."""
    names = titled.model.vocabulary_ if titled.names is None else titled.names
    title = titled.title(word)
    if titled.model.takes_texts or (names is not None and (title in names or not word.isdecimal())):
        return title
    if not word.isdecimal():
        raise DataError(f"--label takes an id, as this model knows no names (--label-names). Got {word!r} instead.")
    return int(word)


def _examples(titled: TitledModel, folder: str, flags: dict[str, Any]) -> Any:
    """Training rows and their labels, or a saved model that has its rows."""
    if os.path.isfile(os.path.join(flags["examples"], "manifest.json")):
        saved: Any = load(flags["examples"])
        if titled.title_of and getattr(saved, "vocabulary_", None) is not None:
            titles = {code: title for code, title in titled.title_of.items() if code in saved.vocabulary_}
            return saved.with_label_names(titles)
        return saved
    source: Any = input_for(titled.model, folder, flags["examples"], {**flags, "format_": None}, part="trn")
    rows, labels = source.read()
    if titled.model.takes_texts and titled.title_of:  # labels, or pairs of label and relevance, are codes
        pairs = ([each if isinstance(each, tuple) else (each,) for each in row] for row in labels)
        named = ([(titled.title(str(code)), *relevance) for code, *relevance in row] for row in pairs)
        labels = [[each if len(each) > 1 else each[0] for each in row] for row in named]
    return rows, labels
