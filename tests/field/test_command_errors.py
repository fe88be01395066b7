"""What the command line says when something is wrong: options, as they are typed, and never Python's arguments."""

import re
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import scipy.sparse as sp

from sylvan import TextModel, TfidfVectorizer, XRLinear, data
from sylvan.cli.app import cli
from sylvan.cli.session import in_options

TEXTS = ["sea whale harpoon", "bread oven flour", "loan bank money"] * 8
LABELS = [["sea"], ["baking"], ["bank"]] * 8
# An argument with its value, a method of a class, or a name of Python's: what a command line can't take.
PYTHON = re.compile(
    r"(?<![-\w.'\"/])(?<!--set )(?<!--set-text )[a-z_]\w*=(?=[\w'\"\[({…])"
    r"|\b[A-Za-z_]\w*\.[a-z_]\w*\(|\b[a-z_]\w*\(\)|set_params|\b(?:True|False)\b"
)
TRAIN = "train xr-linear train.jsonl --model new"

# A command, and what its last line has: words that must be there, and words that mustn't.
WRONG: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "no rows to forget": (
        "update m --forget ids",
        ("--forget FILE", "--set keep_rows=true", "--rows"),
        ("(X, Y)", "forget="),
    ),
    "no rows to merge": (
        "update m --merge sea,bank=bank",
        ("--merge", "--set keep_rows=true", "--rows TRAIN"),
        ("(X, Y)",),
    ),
    "no rows of known labels": ("update m train.jsonl", ("--set keep_rows=true", "--rows TRAIN"), ("True", "(X, Y)")),
    "no word left": (f"{TRAIN} --min-df 1000", ("--min-df 1000", "--max-df 1.0"), ("min_df", "max_df")),
    "no pairs of characters": (
        f"{TRAIN} --analyzer char --set-text phrase_weight=0.5",
        ("--analyzer char", "'phrase_weight'"),
        ("analyzer=",),
    ),
    "no features of labels": (
        "train xr-linear six.xmc --model new --set max_leaf=2 --set embedding=pifa_lf",
        ("--label-features",),
        ("label_features",),
    ),
    "features of other labels": (
        "train xr-linear six.xmc --model new --set max_leaf=2 --set embedding=pifa_lf --label-features other.npz",
        ("--label-features has shape",),
        ("label_features",),
    ),
    "no separator": (f"{TRAIN} --label-separator ''", ("--label-separator must be",), ("label_separator",)),
    "no such field of text": (f"{TRAIN} --text-field body", ("--text-field",), ("text_fields",)),
    "no such column of text": (
        "train xr-linear semicolons.csv --model new",
        ("--text-field", '--delimiter ";"'),
        ("text_columns", "delimiter="),
    ),
    "another encoding": ("train xr-linear latin.jsonl --model new", ("--encoding cp1252",), ("EncodedPath",)),
    "blanks in labels": ("convert blank.jsonl out.txt --to fasttext", ("--blanks _",), ("blanks=",)),
    "line breaks in texts": ("convert break.jsonl out.txt --to fasttext", ("--one-line",), ("one_line",)),
    "weights of labels": ("train xr-linear weighted.xmc --model new", ("--weighted-labels",), ("weighted_labels",)),
    "columns beside users": (
        "task sequential-recommendation log.tsv --out new --columns 1,2 --layout users",
        ("--columns", "--layout users"),
        ("layout=", "'columns'"),
    ),
    "fields of a table": ("task sequential-recommendation wide.tsv --out new", ("--columns 1,2,4",), ("columns=",)),
    "names in a column of times": (
        "task sequential-recommendation named.tsv --out new --layout interactions",
        ("--header",),
        ("header=",),
    ),
    "names of other features": ("explain m --text sea --feature-names ids", ("--feature-names",), ("feature_names",)),
    "a value out of range": (f"{TRAIN} --set beam=0", ("'beam' parameter of XRLinear", "Got 0"), ("beam=",)),
    "a value of Python's": (f"{TRAIN} --set keep_rows=maybe", ("'keep_rows'", "true or false"), ("keep_rows=",)),
    "no such parameter": (f"{TRAIN} --set beem=3", ("'beam'",), ("set_params",)),
}

# What warns on the way: a command, words that the warning has, and words that it hasn't.
WARNED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "new labels without rows": ("update m new.jsonl", ("--set keep_rows=true", "--rows TRAIN"), ("=True", "(X, Y)")),
    "labels that look like several": (
        "train xr-linear bars.jsonl --model new",
        ('--label-separator "|"', "--label-separator none"),
        ("label_separator",),
    ),
    "cells over lines": ("train xr-linear long.csv --model new", ("--no-quoting",), ("quoting=",)),
}


@pytest.fixture(autouse=True)
def files(in_folder: Path) -> None:
    """A model that keeps no rows, and files to be misread."""
    TextModel(TfidfVectorizer(n_jobs=1), XRLinear(n_jobs=1)).fit(TEXTS, LABELS).save("m")
    data.write_jsonl("train.jsonl", TEXTS, LABELS)
    data.write_jsonl("new.jsonl", ["sail mast"] * 3, [["sailing"]] * 3)
    data.write_jsonl("bars.jsonl", TEXTS, [["sea|bank"], ["bank"], ["sea"]] * 8)
    data.write_jsonl("blank.jsonl", ["sea"], [["high seas"]])
    data.write_jsonl("break.jsonl", ["sea\nwhale"], [["sea"]])
    sp.save_npz("other.npz", sp.csr_matrix(np.eye(7, 4, dtype=np.float32)))
    files = {
        "six.xmc": "24 2 6\n" + "".join(f"{n % 6} 0:1 1:{n + 1}\n" for n in range(24)),
        "ids": "1\n2\n",
        "weighted.xmc": "16 2 2\n" + "0:0.5 0:1\n1:2 1:1\n" * 8,
        "semicolons.csv": "body;labels\nsea;whale\n" * 4,
        "log.tsv": "u\ti\nv\tj\n" * 8,
        "wide.tsv": "user\titem\tstars\ttime\n" + "".join(f"u{n % 3}\ti{n}\t{n % 5}\t{n}\n" for n in range(20)),
        "named.tsv": "user\titem\ttime\n" + "".join(f"u{n % 3}\ti{n}\t{n}\n" for n in range(20)),
        "long.csv": "text,labels\n" + '"sea\nwhale",sea\n"bread oven",baking\n' * 8,
    }
    for name, text in files.items():
        Path(name).write_text(text, "utf-8")
    Path("latin.jsonl").write_bytes('{"text": "Köln", "labels": ["a"]}\n'.encode("cp1252"))


def check(sentence: str, there: tuple[str, ...], absent: tuple[str, ...]) -> None:
    assert [word for word in there if word not in sentence] == [], sentence
    assert [word for word in absent if word in sentence] == [] and PYTHON.findall(sentence) == [], sentence


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_options(case: str, call: Any) -> None:
    command, *words = WRONG[case]
    last = call(command, code=2).err.splitlines()[-1]
    assert last.startswith("Error: ")
    check(last, *words)


@pytest.mark.parametrize("case", WARNED)
def test_warnings_name_options(case: str, call: Any) -> None:
    command, *words = WARNED[case]
    lines = call(command, code=None).err.splitlines()
    (sentence,) = [line for line in lines if line.startswith(("Warning: ", "Note: "))]
    check(sentence, *words)


# A sentence of the library, the command that it is read with, and how it is said.
SAID = [
    ("rows=(X, Y), or keep_rows=True.", "update", "--rows TRAIN, or --set keep_rows=true."),
    (
        "What takes less: memory_limit='2GB'; n_jobs=1.",
        "train xr-linear",
        "What takes less: --memory-limit 2GB; --threads 1.",
    ),
    ("Go on with force=True (--force).", "train xr-linear", "Go on with --force."),
    ("Say text_columns (--text-field).", "predict", "Say --text-field."),
    ("quoting=False reads marks.", "predict", "--no-quoting reads marks."),
    ("ngrams=(1, 2) has none.", "train xr-linear", "--ngrams 1,2 has none."),
    ("a loss='cane' or l2=1e-4", "train xr-linear", "a --set loss=cane or --set l2=1e-4"),
    ("set_params(beam=20) sets it.", "predict", "--set beam=20 sets it."),
    ("The 'text_fields' parameter must name a field.", "predict", "--text-field must name a field."),
    (
        "The 'seed' parameter of XRLinear must be an int.",
        "train xr-linear",
        "The 'seed' parameter of XRLinear must be an int.",
    ),
    # What is no argument stays: what was typed, a file's name, what is quoted.
    ("Try --set beam=20.", "predict", "Try --set beam=20."),
    ("TextModel(unlearned='answer') ranks them.", "train xr-linear", "--set unlearned=answer ranks them."),
    ("XRLinear(n_trees=3, beam=20) does.", "train xr-linear", "--set n_trees=3, --set beam=20 does."),
    ("--set takes name=value.", "predict", "--set takes name=value."),
    (
        "beam=20 holds no model; runs/beam=20/x, beam=20.jsonl.",
        "predict",
        "beam=20 holds no model; runs/beam=20/x, beam=20.jsonl.",
    ),
    ("Got 'beam=20' instead.", "predict", "Got 'beam=20' instead."),
]


@pytest.mark.parametrize(("sentence", "names", "expected"), SAID)
def test_a_sentence_in_options(sentence: str, names: str, expected: str) -> None:
    command: click.Command = cli
    for name in names.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or cli
    assert in_options(sentence, command, {"beam=20"} if "holds no model" in sentence else ()) == expected
