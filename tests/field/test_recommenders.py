"""Recommenders and tasks as people use them: files of ratings, flat histories, unknown items, other widths."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises, warns

from sylvan import XRLinear
from sylvan.data import build_sequences, read_sequences
from sylvan.errors import DataError, DataWarning, ParameterError
from sylvan.tasks import ExtremeClassification, LanguageModel, SequentialRecommendation
from sylvan.tasks.language_model import build_corpus

# Who rated what when; in the order of time everybody saw 1, 2 and 3 of their own.
RATED = [(user, f"i{user}{place}", 1 + place % 5 / 2, 100 - place) for user in range(4) for place in range(3)]


def table(path: Path, names: str | None, mark: str = ",", order: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    lines = [mark.join(str(row[place]) for place in order) for row in RATED]
    path.write_text("\n".join([*([names] if names else []), *lines]) + "\n")
    return str(path)


def items_of(found: Any) -> list[list[str]]:
    return [[found.items[item] for item in row] for row in found]


BY_TIME = [[f"i{user}{place}" for place in (2, 1, 0)] for user in range(4)]
BY_LINE = [row[::-1] for row in BY_TIME]
CHOSEN: dict[str, tuple[str | None, str, tuple[int, ...], dict[str, Any], list[list[str]]]] = {
    "by name": ("user,item,rating,time", ",", (0, 1, 2, 3), {"columns": ("user", "item", "time")}, BY_TIME),
    "by number": (None, ",", (0, 1, 2, 3), {"columns": (1, 2, 4)}, BY_TIME),
    "by number below names": ("u,i,r,t", ",", (0, 1, 2, 3), {"columns": [1, 2, 4], "header": True}, BY_TIME),
    "without the time": (None, "\t", (0, 1, 2, 3), {"columns": (1, 2)}, BY_LINE),
    "in another order": ("t;u;i".replace(";", "\t"), "\t", (3, 0, 1), {"columns": ("u", "i", "t")}, BY_TIME),
    "parted by blanks": (None, " ", (2, 1, 0, 3), {"columns": (3, 2, 4)}, BY_TIME),
    "the usual three": (None, " ", (0, 1, 3), {}, BY_TIME),
    "names of the usual three": ("u i t", " ", (0, 1, 3), {"header": True}, BY_TIME),
}


@pytest.mark.parametrize("title", CHOSEN)
def test_columns_are_chosen(tmp_path: Path, title: str) -> None:
    names, mark, order, options, right = CHOSEN[title]
    path = table(tmp_path / "ratings.txt", names, mark, order)
    assert items_of(read_sequences(path, min_interactions=1, **options)) == right


REFUSED: dict[str, tuple[str | None, tuple[int, ...], dict[str, Any], str]] = {
    "four columns": (None, (0, 1, 2, 3), {}, "--columns"),
    "four with names": ("user,item,rating,time", (0, 1, 2, 3), {}, "--columns"),
    "three with names": ("user,item,time", (0, 1, 3), {}, "--columns"),
    "an item a user, with ratings": ("user,item,rating", (1, 0, 2), {}, "--columns"),
    "as interactions": (None, (0, 1, 2, 3), {"layout": "interactions"}, "--columns"),
    "as users": (None, (0, 1, 2, 3), {"layout": "users"}, "--columns"),
    "no such name": ("user,item,rating,time", (0, 1, 2, 3), {"columns": ("user", "film")}, ("user", "item", "rating")),
    "no such number": (None, (0, 1, 2, 3), {"columns": (1, 5)}, ("column 5", 4)),
}


@pytest.mark.parametrize("title", REFUSED)
def test_ratings_never_become_items(tmp_path: Path, title: str) -> None:
    names, order, options, said = REFUSED[title]
    path = table(tmp_path / "ratings.csv", names, ",", order)
    with raises(DataError, said) as caught:
        read_sequences(path, min_interactions=1, **options)
    advice = re.findall(r"layout=|columns=", str(caught.value))
    assert advice != ["layout="], "no message sends to another that sends back"


@pytest.mark.parametrize("columns", [(0, 1), (1,), (1, 1), ("a", 2), "ab", (1, 2, 3, 4), (True, False)])
def test_columns_out_of_range(tmp_path: Path, columns: Any) -> None:
    with raises(ParameterError, "'columns'"):
        read_sequences(table(tmp_path / "r.csv", None), columns=columns)


def test_ratings_in_the_place_of_times_are_remarked_on(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("".join(f"u{row % 3},i{row},{1 + row % 5}\n" for row in range(60)))
    with warns(DataWarning, "ratings", 5):
        read_sequences(path, min_interactions=1)
    path.write_text("".join(f"u{row % 10},i{row},{row // 10}\n" for row in range(60)))  # places, each once for a user
    assert len(read_sequences(path, min_interactions=1)) == 10


def test_columns_on_the_command_line(in_folder: Path, call: Any, refused: Any) -> None:
    table(in_folder / "ratings.csv", "user,item,rating,time")
    task = "task sequential-recommendation ratings.csv --min-interactions 1 --epochs 1 --set dim=4 --out"
    refused("--columns", f"{task} refused")
    for columns in ("user,item,time", "1,2,4 --header"):
        said = call(f"{task} {columns[0]} --columns {columns}", code=None).out
        assert "Read 4 users, 12 items, 12 interactions" in said


@pytest.fixture(scope="module")
def recommender() -> SequentialRecommendation:
    users = [user for user in range(30) for _ in range(6)]
    items = [(user + place) % 30 for user in range(30) for place in range(6)]
    return SequentialRecommendation(build_sequences(users, items, min_interactions=1), dim=4, hidden=4, n_samples=3)


def test_histories(recommender: SequentialRecommendation) -> None:
    ask = recommender.recommend
    both = ask([["19", "21"], [3]], k=4)
    assert [len(row) for row in both] == [4, 4]
    assert both == [ask([["19", "21"]], k=4)[0], ask([["3"]], k=4)[0]]
    assert ask([np.array([19, 21])], k=4)[0] == both[0]
    assert ask([["nope", "19", "21"], ["nope"], [3]], k=4, unknown="ignore") == [both[0], [], both[1]]
    assert ask([], k=4) == [] and ask([["nope"]], unknown="ignore") == [[]]
    for flat in (["19", "21"], [19, 21], np.array(["19", "21"]), "19"):
        with raises(DataError, "histories"):
            ask(flat)
    with raises(DataError, "nope", 30, "row 1", "unknown='ignore'"):
        ask([["3"], ["19", "nope"]])
    with raises(DataError, "row 1", "empty"):
        ask([["3"], []])
    for k in (0, -1, 2.0, True, "3"):
        with raises(ParameterError, "'k'"):
            ask([["3"]], k=k)
    with raises(ParameterError, "unknown", "skip"):
        ask([["3"]], unknown="skip")


def test_rows_of_another_width_are_refused_as_by_xr_linear() -> None:
    random = np.random.default_rng(0)
    X, y = random.random((60, 20)).astype(np.float32), np.arange(60) % 7
    job, model = ExtremeClassification(X, y, n_samples=3, dim=4), XRLinear(n_jobs=1).fit(X, y)
    assert job.rank(X[:3], 2).labels.shape == (3, 2)
    assert job.rank(X[:3].tolist(), np.int64(2)).labels.shape == (3, 2)
    for wrong in (X[:3, :5], np.hstack([X, X[:, :5]]), X[0], np.where(X[:3] > 0.9, np.nan, X[:3])):
        said = []
        for rank in (job.rank, model.rank):
            with pytest.raises(DataError) as caught:
                rank(wrong, 2)
            said.append(str(caught.value))
        assert said[0].replace("ExtremeClassification", "XRLinear") == said[1]
    for k in (0, 2.0, True):
        with raises(ParameterError, "'k'"):
            job.rank(X[:3], k)


def test_a_sentence_is_a_list_of_words() -> None:
    text = [["a", "b"]] * 8
    model = LanguageModel(build_corpus(text, text, text), n_samples=1, embedding=4, hidden=4, length=3, batch_size=2)
    assert len(model.log_probabilities(["a", "b"])) == 3
    with raises(DataError, "words"):
        model.log_probabilities("ab")
