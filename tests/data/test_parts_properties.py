"""Any division of a matrix into parts gives the model of the matrix; odd files become right parts or a sentence."""

import gzip
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import same_bits
from kit.errors import raises

from sylvan import TextModel, TfidfVectorizer, XRLinear, data
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.data.parts import part_folders, row_parts
from sylvan.data.parts.part_folders import write_part
from sylvan.errors import DataError

PARAMETERS: dict[str, Any] = {
    "negatives": ["tfn", "man", "tfn+man"], "n_trees": [1, 2], "branching": [2, 3], "max_leaf": [1, 4, 100],
    "overlap": [1, 2], "spectral_dimensions": [3], "scaling": ["auto", "none"], "keep_rows": [False],
    "calibration_folds": [1, 2], "normalize": [False, True], "embedding": ["pifa", "spectral"],
    "calibration": [None, "isotonic"], "tail": [None, "psp"], "seed": [0, 1],
}  # fmt: skip


def divided(folder: Path, X: Csr, Y: Csr | None, edges: list[int]) -> list[str]:
    """Parts that end before these rows, some of which may be empty."""
    paths = []
    bounds = [0, *sorted(min(edge, X.shape[0]) for edge in edges), X.shape[0]]
    for at, (first, last) in enumerate(itertools.pairwise(bounds)):
        rows = np.arange(first, last)
        paths.append(str(folder / f"part-{at:05d}"))
        write_part(paths[-1], X.take(rows), None if Y is None else Y.take(rows))
    return paths


def outcome(X: Any, Y: Any, parameters: dict[str, Any]) -> Any:
    try:
        return XRLinear(n_jobs=1, **parameters).fit(X, Y).to_state()
    except DataError as error:
        return str(error)


@settings(max_examples=30)
@given(
    n_rows=st.integers(1, 30), n_columns=st.integers(1, 8), n_labels=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.05, 0.3, 0.9]), label_density=st.sampled_from([0.03, 0.2, 0.5]),
    seed=st.integers(0, 10_000), in_units=st.booleans(), edges=st.lists(st.integers(0, 30), max_size=8),
    parameters=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in PARAMETERS.items()}),
)  # fmt: skip
def test_any_division_gives_the_model_of_the_matrix(
    n_rows: int, n_columns: int, n_labels: int, density: float, label_density: float, seed: int, in_units: bool,
    edges: list[int], parameters: dict[str, Any], tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    values = sp.random(n_rows, n_columns, density, "csr", np.float32, random)
    if in_units:
        values = values.multiply(random.choice([1, 1000.0, 1e-3], n_columns)).tocsr()
    X = validate.features(values)
    Y = validate.labels(sp.random(n_rows, n_labels, label_density, "csr", np.float32, random) != 0)
    paths = divided(tmp_path_factory.mktemp("parts"), X, Y, edges)
    rows, labels = data.open_parts(paths)
    assert rows.shape == X.shape and labels is not None and labels.shape == Y.shape
    wanted, found = outcome(X, Y, parameters), outcome(rows, labels, parameters)
    if isinstance(wanted, str):
        assert found == wanted
    else:
        assert not isinstance(found, str), found
        same_bits(wanted, found)


def test_ranking_and_probabilities_of_rows_in_parts(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    X = validate.features(sp.random(40, 9, 0.4, "csr", np.float32, random))
    Y = validate.labels(sp.random(40, 6, 0.3, "csr", np.float32, random) != 0)
    rows, _ = data.open_parts(divided(tmp_path, X, Y, [0, 0, 7, 8, 8, 40]))
    for normalize in (False, True):
        model = XRLinear(normalize=normalize, max_leaf=2).fit(X, Y)
        with raises(DataError, "XRLinear.fit"):
            model.rank(rows, 3)
        found = [model.rank(block, 3) for block in rows.blocks()]
        assert b"".join(each.scores.tobytes() for each in found) == model.rank(X, 3).scores.tobytes()


def test_huge_feature_numbers(tmp_path: Path) -> None:
    n_features = 2**31 - 1
    X = validate.features(
        sp.csr_matrix(
            (np.ones(6, np.float32), np.array([0, n_features - 1, 5, n_features - 1, 0, 7]), np.arange(0, 7, 2)),
            shape=(3, n_features),
        )
    )
    Y = validate.labels([[0], [1], [2]])
    paths = divided(tmp_path, X, Y, [1, 2])
    rows, labels = data.open_parts(paths)
    assert rows.shape == (3, n_features)
    assert rows.take(np.array([0, 2])).indices.tolist() == [0, n_features - 1, 0, 7]
    assert rows.row_squares().tolist() == [2, 2, 2] and labels is not None


# ---------------------------------------- parts that don't agree


def test_parts_that_dont_agree_are_named(tmp_path: Path) -> None:
    X, Y = validate.features(np.eye(4)), validate.labels([[0], [1], [2], [3]])
    (with_labels,) = divided(tmp_path / "a", X, Y, [])
    (without,) = divided(tmp_path / "b", X, None, [])
    (other_columns,) = divided(tmp_path / "d", validate.features(np.eye(4, 5)), Y, [])
    for paths, named in [
        ([with_labels, without], without),
        ([without, with_labels], with_labels),
        ([with_labels, other_columns], other_columns),
    ]:
        with raises(DataError, named):
            data.open_parts(paths)


def test_no_rows_at_all(tmp_path: Path) -> None:
    X, Y = validate.features(np.eye(3)).take(np.arange(0)), validate.labels([[0], [1], [2]]).take(np.arange(0))
    rows, labels = data.open_parts(divided(tmp_path, X, Y, []))
    assert rows.shape == (0, 3) and rows.take(np.arange(0)).shape == (0, 3)
    assert rows.row_squares().tolist() == []
    assert outcome(X, Y, {}) == outcome(rows, labels, {})
    data.save_parts(tmp_path / "saved", X, Y)
    assert data.open_parts(tmp_path / "saved")[0].shape == (0, 3)


@pytest.mark.parametrize("rows", [[-1], [50], [3, 2], [1, 1]])
def test_rows_that_arent_there_or_dont_rise(rows: list[int], tmp_path: Path) -> None:
    opened, _ = data.open_parts(divided(tmp_path, validate.features(np.eye(5)), None, [2]))
    with pytest.raises((DataError, ValueError, IndexError)):
        opened.take(np.array(rows))


# ---------------------------------------- files


VECTORIZER = TfidfVectorizer().fit(["whales at sea", "bread and cakes", "sea bread"])


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labels_of(folder: Path, names: Any) -> list[list[Any]]:
    _, labels = data.open_parts(folder)
    assert labels is not None
    ids = [labels.indices[first:last] for first, last in zip(labels.indptr, labels.indptr[1:], strict=False)]
    return [[list(names)[one] for one in each] for each in ids]


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    files = [lines(tmp_path / "a.jsonl"), lines(tmp_path / "b.jsonl", {"text": "sea", "labels": ["x"]})]
    with raises(DataError, "a.jsonl"):
        data.write_parts(files, tmp_path / "parts", VECTORIZER)


def test_one_bad_line_is_named(tmp_path: Path) -> None:
    good = lines(tmp_path / "a.jsonl", {"text": "sea", "labels": ["x"]})
    for at, bad in enumerate(
        ["{", "[]", '{"text": 3, "labels": []}', '{"text": "a"}', '{"text": "a", "labels": [1.5]}']
    ):
        path = tmp_path / f"bad{at}.jsonl"
        path.write_text('{"text": "sea", "labels": ["x"]}\n' + bad + "\n")
        with raises(DataError, f"bad{at}.jsonl") as caught:
            data.write_parts([good, path], tmp_path / f"parts{at}", VECTORIZER)
        assert "2" in str(caught.value)


def test_labels_as_numbers_mixed_and_twice(tmp_path: Path) -> None:
    numbers = lines(tmp_path / "n.jsonl", {"text": "sea", "labels": [7, 3]}, {"text": "bread", "labels": [10]})
    names = data.write_parts([numbers], tmp_path / "numbers", VECTORIZER)
    assert labels_of(tmp_path / "numbers", names) == [["3", "7"], ["10"]]
    twice = lines(tmp_path / "t.jsonl", {"text": "sea", "labels": ["b", "a", "b"]})
    names = data.write_parts([twice], tmp_path / "twice", VECTORIZER)
    assert labels_of(tmp_path / "twice", names) == [["a", "b"]]
    mixed = lines(tmp_path / "m.jsonl", {"text": "sea", "labels": [7, "seven"]})
    apart = [numbers, lines(tmp_path / "s.jsonl", {"text": "sea", "labels": ["seven"]})]
    for at, files in enumerate([[mixed], apart]):
        with pytest.raises(DataError, match=r"\.$"):
            data.write_parts(files, tmp_path / f"mixed{at}", VECTORIZER)


def test_a_label_that_the_vocabulary_lacks_is_left_out(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"text": "sea", "labels": ["x"]}, {"text": "sea", "labels": ["y"]})
    names = data.write_parts([path], tmp_path / "parts", VECTORIZER, vocabulary=data.Vocabulary(["x"]))
    assert labels_of(tmp_path / "parts", names) == [["x"], []]


def test_compressed_files_and_names_with_spaces(tmp_path: Path) -> None:
    place = tmp_path / "a folder"
    place.mkdir()
    with gzip.open(place / "x y.jsonl.gz", "wt") as file:
        file.write('{"text": "sea", "labels": ["x"]}\n')
    other = lines(place / "ö#%41?.jsonl", {"text": "bread", "labels": ["z"]})
    names = data.write_parts([place / "x y.jsonl.gz", other], place / "the parts", VECTORIZER)
    assert labels_of(place / "the parts", names) == [["x"], ["z"]]


def test_a_name_that_isnt_of_a_known_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,labels\n")
    with raises(DataError, "a.csv"):
        data.write_parts([tmp_path / "a.csv"], tmp_path / "parts", VECTORIZER)


def test_parquet_that_is_odd(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    def written(name: str, **columns: Any) -> Path:
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        return tmp_path / f"{name}.parquet"

    numbers = pa.array([[2, 0, 2]], pa.list_(pa.int64()))
    for name, columns in {
        "missing": {"indices": [[0]], "values": [[1.0]]},
        "huge": {"indices": [[2**31 - 1]], "values": [[1.0]], "labels": [["a"]]},
        "infinite": {"indices": [[1]], "values": [[float("inf")]], "labels": [["a"]]},
        "fractions": {"indices": [[1.5]], "values": [[1.0]], "labels": [["a"]]},
        "plain": {"indices": [1], "values": [1.0], "labels": [["a"]]},
        "nolabel": {"indices": [[1]], "values": [[1.0]], "labels": pa.array([[None]], pa.list_(pa.string()))},
    }.items():
        with raises(DataError, name):
            data.write_parts([written(name, **columns)], tmp_path / f"{name}.parts")
    twice = written("twice", indices=numbers, values=[[1.0, 5.0, 2.0]], labels=[["a"]])
    data.write_parts([twice], tmp_path / "twice.parts")
    assert data.open_parts(tmp_path / "twice.parts")[0].take(np.arange(1)).data.tolist() == [5, 3]
    empty = written("empty", indices=pa.array([], numbers.type), values=pa.array([], numbers.type),
                    labels=pa.array([], pa.list_(pa.string())))  # fmt: skip
    full = written("full", indices=[[3]], values=[[1.0]], labels=[["a"]])
    names = data.write_parts([empty, full, empty], tmp_path / "with-empty")
    assert data.open_parts(tmp_path / "with-empty")[0].shape == (1, 4) and list(names) == ["a"]
    most = written("most", indices=[[2**31 - 2, 0]], values=[[1.0, 2.0]], labels=[["a"]])
    data.write_parts([most], tmp_path / "most")
    assert data.open_parts(tmp_path / "most")[0].shape == (1, 2**31 - 1)
    with pytest.raises(DataError, match=r"\.$"):
        data.write_parts([full], tmp_path / "few", n_features=3)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with raises(DataError, "broken"):
        data.write_parts([tmp_path / "broken.parquet"], tmp_path / "broken")


def test_other_files_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.jsonl", {"text": "sea", "labels": ["x"]})
    two = lines(tmp_path / "b.jsonl", {"text": "sea", "labels": ["y"]})
    data.write_parts([one], tmp_path / "parts", VECTORIZER)
    with raises(DataError, "part-00000"):
        data.write_parts([two, one], tmp_path / "parts", VECTORIZER)
    assert len(data.open_parts(tmp_path / "parts")[0].paths) == 1  # nothing was added
    other = TfidfVectorizer(ngrams=(1, 2)).fit(["whales at sea", "bread and cakes at sea"])
    with raises(DataError, "part-00000"):
        data.write_parts(
            [one], tmp_path / "parts", VECTORIZER, labels_field="others", vocabulary=data.Vocabulary(["x"])
        )
    # The same files with another vectoriser, or with other label numbers, aren't the same parts.
    with raises(DataError, "part-00000"):
        data.write_parts([one], tmp_path / "parts", other)
    with raises(DataError, "part-00000"):
        data.write_parts([one], tmp_path / "parts", VECTORIZER, vocabulary=data.Vocabulary(["w", "x"]))


def test_a_file_more_that_gives_other_label_numbers_is_refused(tmp_path: Path) -> None:
    """Interrupted, then called with a further file whose labels come first: old parts would have wrong numbers."""
    one = lines(tmp_path / "a.jsonl", {"text": "sea", "labels": ["x"]})
    data.write_parts([one], tmp_path / "parts", VECTORIZER)
    with raises(DataError, "part-00000"):
        data.write_parts(
            [one, lines(tmp_path / "b.jsonl", {"text": "sea", "labels": ["a"]})], tmp_path / "parts", VECTORIZER
        )


# ---------------------------------------- what is left open


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings(word: str) -> int:
    return Path("/proc/self/maps").read_text().count(word)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_nothing_stays_open(tmp_path: Path) -> None:
    import gc

    X = validate.features(sp.random(400, 9, 0.4, "csr", np.float32, np.random.default_rng(0)))
    Y = validate.labels(np.arange(400) % 7)
    data.save_parts(tmp_path / "leaky", X, Y, rows_per_part=4)  # 100 parts
    XRLinear().fit(*data.open_parts(tmp_path / "leaky"))
    gc.collect()
    before, mapped = open_files(), mappings("leaky")
    for _ in range(2):
        XRLinear().fit(*data.open_parts(tmp_path / "leaky"))
    gc.collect()
    assert open_files() <= before and mappings("leaky") <= mapped
    rows, _ = data.open_parts(tmp_path / "leaky")
    rows.take(np.arange(400))
    assert open_files() <= before + 260


def test_a_text_model_of_parts_is_that_of_the_texts(tmp_path: Path) -> None:
    texts, labels = ["whales at sea", "bread and cakes", "sea bread"] * 4, [["w"], ["b"], ["s", "b"]] * 4
    data.write_jsonl(tmp_path / "a.jsonl", texts[:5], labels[:5])
    data.write_jsonl(tmp_path / "b.jsonl", texts[5:], labels[5:])
    names = data.write_parts([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "parts", VECTORIZER)
    model = XRLinear().fit(*data.open_parts(tmp_path / "parts"))
    tagger = TextModel.from_parts(VECTORIZER, model, names)
    plain = XRLinear().fit(VECTORIZER.transform(texts), names.encode(labels))
    same_bits(plain, model)
    assert tagger.rank(["cakes"], k=1).names == [["b"]]


def test_a_part_that_is_cut_short_later_is_named(tmp_path: Path) -> None:
    (path,) = divided(tmp_path, validate.features(np.eye(5000)), None, [])
    rows, _ = data.open_parts([path])
    os.truncate(Path(path) / "data.npy", 4096)
    with raises(DataError, "data.npy", "read"):
        rows.take(np.arange(5000))


def test_more_parts_than_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_parts, "_OPEN", 2)
    X = validate.features(np.eye(20))
    rows, _ = data.open_parts(divided(tmp_path, X, None, list(range(1, 20))))
    for chosen in (np.arange(20), np.array([3, 19])):
        assert rows.take(chosen).indices.tolist() == chosen.tolist()


def test_parts_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = validate.features(np.eye(8))
    data.save_parts(tmp_path / "parts", X, rows_per_part=2)
    shutil.rmtree(tmp_path / "parts" / "part-00001")
    with raises(DataError, "part-00001"):
        data.open_parts(tmp_path / "parts")
    with raises(DataError, "part-00001"):
        data.open_parts(f"file://{tmp_path}/parts")
    written: list[str] = []

    def stopped(path: str, *_: Any) -> None:
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt
        write_part(path, *_)

    monkeypatch.setattr(part_folders, "write_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        data.save_parts(tmp_path / "half", X, rows_per_part=2)
    with raises(DataError, "part-00002/shape.npy", "part"):
        data.open_parts(tmp_path / "half")


def test_where_parts_cant_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = lines(tmp_path / "a.jsonl", {"text": "sea", "labels": ["x"]})
    for place, words in [(tmp_path / "file" / "parts", "written"), ("memory://parts", "copy")]:
        with raises(DataError, words):
            data.save_parts(place, np.eye(3))
        with raises(DataError, words):
            data.write_parts([path], place, VECTORIZER)


class Failing:
    """A file system whose errors are of a kind of its own."""

    def __getattr__(self, name: str) -> Any:
        def fails(*_: Any, **__: Any) -> Any:
            raise LookupError("no credentials.")

        return fails


def test_errors_of_file_systems_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with raises(DataError, "memory://no/parts", "directory"):
        data.open_parts("memory://no/parts")
    data.save_parts(tmp_path, np.eye(3))
    monkeypatch.setattr(row_parts, "_file_system", lambda url: (Failing(), url))
    for asked in ("s3://a", ["s3://a/part-00000"]):
        with raises(DataError, "credentials"):
            data.open_parts(asked)
    with raises(DataError, "credentials"):
        row_parts.exists("s3://a")


@pytest.mark.parametrize("rows_per_part", [0, 2.5, "3"])
def test_rows_per_part_must_be_an_int(rows_per_part: Any, tmp_path: Path) -> None:
    with raises(DataError, 1, "rows_per_part"):
        data.save_parts(tmp_path, np.eye(3), rows_per_part=rows_per_part)
