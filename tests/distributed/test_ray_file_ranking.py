"""Files ranked on a Ray cluster: the bytes of one machine, whole or not there, whichever worker is lost."""

import gzip
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import start
from kit.errors import raises
from ray_work import ChangingFile, DyingFile, OddFile
from waiting import PATIENCE, until

import sylvan
from sylvan import TextModel, XRLinear, data
from sylvan.cli import main
from sylvan.data.streams import remove_unfinished
from sylvan.distributed.ranking import Ranker, rank_sources
from sylvan.errors import DataError, ModelError, ParameterError

pytest.importorskip("ray", reason='needs Ray: pip install "sylvan[ray]"')
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture
def shards(saved: Any, tmp_path: Path) -> list[Path]:
    """Files of one, two and three parts of the texts."""
    paths = []
    for number, part in enumerate((slice(0, 40), slice(40, 120), slice(120, 240))):
        paths.append(tmp_path / f"{number}.jsonl")
        data.write_jsonl(paths[-1], saved.texts[part])
    return paths


def predicted(folder: str, path: Path, *words: str) -> bytes:
    """What one machine writes."""
    target = path.with_name("one-machine.jsonl")
    assert main(["predict", folder, str(path), "-o", str(target), "-q", *words]) == 0
    return target.read_bytes()


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_form_has_the_answers_of_one_machine(cluster: Any, saved: Any, shards: list[Path]) -> None:
    from pyarrow import parquet

    folder = shards[0].parent
    packed, columns = folder / "a.jsonl.gz", folder / "b.parquet"
    data.write_jsonl(packed, saved.texts[:40])
    data.write_parquet(columns, saved.texts[:40])
    with sylvan.distributed.ray() as runner:
        ranked = sylvan.distributed.rank_files([*shards, packed, columns], saved.text_folder, folder / "out", 5)
        assert sum(phase.bytes_shared + phase.bytes_sent for phase in runner.phases) < 1000  # workers read the files
    assert ranked.paths == [str(folder / "out" / path.name) for path in (*shards, packed, columns)]
    assert (ranked.n_rows, ranked.n_unknown) == (320, 3)
    for path in shards:
        assert (folder / "out" / path.name).read_bytes() == predicted(saved.text_folder, path, "-k", "5", "--scores")
    unpacked = gzip.decompress((folder / "out" / "a.jsonl.gz").read_bytes())
    assert unpacked == predicted(saved.text_folder, packed, "-k", "5", "--scores")
    table = parquet.read_table(folder / "out" / "b.parquet")
    top = saved.text_model.rank(saved.texts[:40], 5)
    assert table["labels"].to_pylist() == top.names
    assert np.array(table["scores"].to_pylist(), np.float32).tobytes() == top.scores.tobytes()
    assert {path.name for path in (folder / "out").iterdir()} == {Path(path).name for path in ranked.paths}


def test_the_format_that_is_asked_for(cluster: Any, saved: Any, shards: list[Path]) -> None:
    columns, folder = shards[0].with_suffix(".parquet"), shards[0].parent
    data.write_parquet(columns, saved.texts[:40])
    lines = sylvan.distributed.rank_files([columns], saved.text_folder, folder / "lines", 5, format="jsonl")
    assert Path(lines.paths[0]).name == "0.jsonl"
    assert Path(lines.paths[0]).read_bytes() == predicted(saved.text_folder, shards[0], "-k", "5", "--scores")
    made = sylvan.distributed.rank_files(shards[:1], saved.text_folder, folder / "columns", 5, format="parquet")
    assert Path(made.paths[0]).name == "0.parquet" and Path(made.paths[0]).read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_features(form: str, cluster: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(90, 15)) * (rng.random((90, 15)) < 0.4)).astype(np.float32)
    model = XRLinear(n_jobs=1, max_leaf=5).fit(X, [[int(at)] for at in rng.integers(0, 30, 90)])
    model.save(tmp_path / "m")
    rows = [{"ids": np.flatnonzero(row).tolist(), "weights": row[row != 0].tolist()} for row in X]
    path = tmp_path / f"rows.{form}"
    if form == "jsonl":
        data.write_records(path, rows)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    made = sylvan.distributed.rank_files(
        [path], tmp_path / "m", tmp_path / "out", 4, features=("ids", "weights"), format="jsonl"
    )
    top = model.rank(X, 4)
    result = records(Path(made.paths[0]))
    assert [row["labels"] for row in result] == [[str(name) for name in names] for names in top.names]
    assert np.allclose([row["scores"] for row in result], top.scores, rtol=1e-5)
    with raises(DataError, "indices"):
        sylvan.distributed.rank_files([path], tmp_path / "m", tmp_path / "other", 4)


def test_a_call_begins_again_and_takes_the_place_of_what_was_there(
    cluster: Any, saved: Any, shards: list[Path]
) -> None:
    out = shards[0].parent / "out"
    first = sylvan.distributed.rank_files(shards, saved.text_folder, out, 5)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "0.jsonl").unlink()
    (out / "1.jsonl").write_bytes(b"spoiled")
    assert sylvan.distributed.rank_files(shards, saved.text_folder, out, 5) == first
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    sylvan.distributed.rank_files(shards[:1], saved.text_folder, out, 2)
    before["0.jsonl"] = predicted(saved.text_folder, shards[0], "-k", "2", "--scores")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_file_that_is_not_to_be_read_is_named_and_the_others_are_ranked(
    cluster: Any, saved: Any, shards: list[Path]
) -> None:
    out = shards[0].parent / "out"
    good = shards[1].read_bytes()
    shards[1].write_bytes(good + b"{\n")
    with raises(DataError, "1.jsonl", "line 81", "JSON", 2):
        sylvan.distributed.rank_files(shards, saved.text_folder, out, 5)
    assert sorted(path.name for path in out.iterdir()) == ["0.jsonl", "2.jsonl"]
    shards[0].write_bytes(b"")
    shards[1].write_bytes(good)
    with raises(DataError, "0.jsonl", "objects"):
        sylvan.distributed.rank_files(shards[:2], saved.text_folder, out, 5)
    assert sorted(path.name for path in out.iterdir()) == ["0.jsonl", "1.jsonl", "2.jsonl"]
    bad = [shards[0], shards[0].with_name("bad.jsonl")]
    bad[1].write_text('{"body": "x"}\n')
    with raises(DataError, 2, "0.jsonl", "bad.jsonl", "line 1"):
        sylvan.distributed.rank_files(bad, saved.text_folder, out.with_name("other"), 5)


def test_a_worker_that_is_killed_is_replaced(cluster: Any, saved: Any, shards: list[Path], tmp_path: Path) -> None:
    sources = [DyingFile(str(path), str(tmp_path / "mark")) for path in shards]
    ranked = rank_sources(sources, Ranker.of(saved.text_folder, 5, {}), str(tmp_path / "out"))
    assert (tmp_path / "mark").exists() and ranked.n_rows == 240
    for path in shards:
        assert (tmp_path / "out" / path.name).read_bytes() == predicted(saved.text_folder, path, "-k", "5", "--scores")
    assert not list((tmp_path / "out").glob(".*"))  # what the killed worker had begun is gone


def test_a_file_that_changes_while_it_is_read_is_not_ranked(cluster: Any, saved: Any, shards: list[Path]) -> None:
    out = shards[0].parent / "out"
    left = out / f".{shards[0].name}.0123abcd.part"  # of an earlier call
    out.mkdir()
    left.touch()
    with raises(DataError, "0.jsonl", "while"):
        rank_sources([ChangingFile(str(shards[0]), "")], Ranker.of(saved.text_folder, 5, {}), str(out))
    assert not list(out.iterdir())


def test_a_fault_that_nobody_has_thought_of_is_no_ranking(cluster: Any, saved: Any, shards: list[Path]) -> None:
    sources = [OddFile(str(path), "") for path in shards[:1]]
    with raises(KeyError, "gone"):
        rank_sources(sources, Ranker.of(saved.text_folder, 5, {}), str(shards[0].parent / "out"))
    assert not list((shards[0].parent / "out").iterdir())


def test_only_one_process_ranks_into_a_folder(cluster: Any, saved: Any, shards: list[Path], tmp_path: Path) -> None:
    from sylvan.store import updating

    (tmp_path / "out").mkdir()
    with updating(tmp_path / "out"), raises(ModelError, "updated"):
        sylvan.distributed.rank_files(shards, saved.text_folder, tmp_path / "out", 5)


@pytest.mark.parametrize(
    ("names", "options", "sentence"),
    [
        (["a.jsonl", "b/a.jsonl"], {}, ("b/a.jsonl", "into 'a.jsonl'")),
        (["a.jsonl", "a.txt"], {}, ("a.jsonl", "a.txt")), (["out/a.jsonl"], {}, "a.jsonl"), ([], {}, "files"),
        (["a.jsonl"], {"format": "csv"}, ("jsonl", "parquet", "csv")), (["a.jsonl"], {"allowed": "Whaling"}, "allowed"),
        (["a.jsonl"], {"k": 0}, ("'k'", 0)),
    ],
)  # fmt: skip
def test_what_makes_no_ranking(
    names: list[str], options: dict[str, Any], sentence: object, saved: Any, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in names]
    given = {"k": 5, **options}
    with raises(ParameterError, sentence):
        sylvan.distributed.rank_files(paths, saved.text_folder, tmp_path / "out", given.pop("k"), **given)


def test_missing_inputs_and_folders_that_are_none(saved: Any, tmp_path: Path) -> None:
    with raises(DataError, "gone.jsonl"):
        sylvan.distributed.rank_files([tmp_path / "gone.jsonl"], saved.text_folder, tmp_path / "out", 5)
    (tmp_path / "file").write_text("")
    with raises(DataError, tmp_path / "file"):
        sylvan.distributed.rank_files([tmp_path / "file"], saved.text_folder, tmp_path / "file", 5)


def test_a_node_that_sees_another_folder_is_named(
    cluster: Any, saved: Any, shards: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def elsewhere(module: Any, work: Any, *arguments: Any) -> list[tuple[str, Any]]:
        if work is not Path.is_file:
            return []
        found.append(work(*arguments))
        return [("n", False)]

    monkeypatch.setattr("sylvan.distributed.ranking.ask_nodes", elsewhere)
    with raises(DataError, "'n'", shards[0].parent / "out"):
        sylvan.distributed.rank_files(shards, saved.text_folder, shards[0].parent / "out", 5)
    assert found == [True] and not list((shards[0].parent / "out").iterdir())


def test_what_writers_have_left_that_were_killed(tmp_path: Path) -> None:
    names = ["a[1].jsonl", ".a[1].jsonl.0123abcd.part", ".a[1].jsonl.x.part", ".a1.jsonl.0123abcd.part"]
    for name in names:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / names[0])
    assert {path.name for path in tmp_path.iterdir()} == {*names} - {names[1]}


# ---------------------------------------- the command line


def test_the_command_line_ranks_files_into_a_folder(
    cluster: Any, saved: Any, shards: list[Path], tmp_path: Path, call: Any
) -> None:
    out = tmp_path / "out"
    words = ("--ray", cluster.address, "-o", out, "--threshold", "0.1")
    said = call("predict", saved.text_folder, *shards, *words).out
    assert said == f"Ranked 240 rows of 3 files into '{out}'.\n"
    for path in shards:
        assert (out / path.name).read_bytes() == predicted(saved.text_folder, path, "--threshold", "0.1")


def test_the_command_line_ranks_a_file_in_blocks(
    cluster: Any, saved: Any, shards: list[Path], tmp_path: Path, call: Any, refused: Any
) -> None:
    big, top = tmp_path / "big.jsonl", tmp_path / "top.jsonl"
    data.write_jsonl(big, saved.texts[:240] * 20, others=({"id": f"t{at}"} for at in range(4800)))  # three blocks
    (tmp_path / "denied").write_text(saved.text_model.vocabulary_[0] + "\n")
    options = ("-k", "4", "--set", "beam=3", "--denied", str(tmp_path / "denied"))
    words = ("predict", saved.text_folder, big, "--ray", cluster.address, *options)
    call(*words, "-o", top)
    assert top.read_bytes() == predicted(saved.text_folder, big, *options)
    assert [row["id"] for row in records(top)] == [f"t{at}" for at in range(4800)]
    assert call(*words).out.encode() == top.read_bytes()
    refused("would take its place", *words, "-o", f"{tmp_path}/")  # a folder: here lies what is to be ranked


def test_texts_without_a_known_word_are_counted(cluster: Any, saved: Any, tmp_path: Path, call: Any) -> None:
    for name, unknown in (("a.jsonl", ["Πάντα ῥεῖ", ""]), ("b.jsonl", ["подснежник"]), ("c.jsonl", [])):
        data.write_jsonl(tmp_path / name, [*saved.texts[:5], *unknown])
    a, b, c = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    sentence = "The model knows no word of {} texts, so there are no labels for them; --set unknown=prior gives"
    on_ray = ("--ray", cluster.address, "-o")
    said = call("predict", saved.text_folder, a, b, c, *on_ray, tmp_path / "out").err
    assert sentence.format("3 of 18") in said
    one = ("predict", saved.text_folder, a, *on_ray, tmp_path / "top.jsonl")
    assert sentence.format("2 of 7") in call(*one).err
    assert "no word" not in call(*one, "--set", "unknown=prior").err


def test_matrices_and_subjects(cluster: Any, tmp_path: Path, call: Any, refused: Any) -> None:
    X = np.eye(4, dtype=np.float32)
    matrices, model, tags = [tmp_path / name for name in ("a.npz", "b.npz")], str(tmp_path / "t"), tmp_path / "tags"
    XRLinear(n_jobs=1).fit(X, [[0], [1], [2], [3]]).save(tmp_path / "m")
    for path in matrices:
        data.save_npz(path, X)
    on_ray = ("--ray", cluster.address, "-k", "2", "-q", "-o")
    call("predict", tmp_path / "m", *matrices, *on_ray, tmp_path / "out")
    assert (tmp_path / "out" / "b.jsonl").read_bytes() == predicted(str(tmp_path / "m"), matrices[1], "-k", "2")
    fields = ("--output-fields", "id")
    refused("--output-fields is for texts", "predict", tmp_path / "m", *matrices, *on_ray, f"{tags}/", *fields)

    TextModel().fit(["whales", "bread"], [["urn:1"], ["urn:2"]]).save(model)
    data.write_jsonl(tmp_path / "a.jsonl", ["bread"], others=[{"id": "b", "title": "Bread"}])
    (tmp_path / "names.tsv").write_text("<urn:1>\twhaling\n<urn:2>\tbaking\n")
    more = ("--vocabulary", str(tmp_path / "names.tsv"))
    words = ("predict", model, tmp_path / "a.jsonl", *on_ray, f"{tags}/", *more)
    call(*words)
    lines = (tags / "a.jsonl").read_bytes()
    assert lines == predicted(model, tmp_path / "a.jsonl", "-k", "2", *more)
    (row,) = records(tags / "a.jsonl")
    assert row["labels"][0] == "baking" and row["uris"][0] == "urn:2"
    assert list(row) == ["id", "title", "labels", "scores", "uris"]
    call(*words, *fields)
    assert list(records(tags / "a.jsonl")[0]) == ["id", "labels", "scores", "uris"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("a b", "Several inputs are ranked on a cluster: say --ray, or give one."),
        ("a b --ray auto", "Several inputs are ranked into a folder: name it with -o."),
        ("a --output-format jsonl", "--output-format is for several inputs"),
        ("- a --ray auto -o out", "Rows of stdin are ranked alone"),
    ],
)
def test_usage(cluster: Any, words: str, sentence: str, saved: Any, refused: Any) -> None:
    refused(sentence, f"predict {saved.text_folder} {words}")


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_what_was_ranked_before_an_interrupt_is_whole(
    cluster: Any, saved: Any, shards: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "big.jsonl").write_text('{"text": "whale hunting in the south seas"}\n' * 1_000_000)
    out = tmp_path / "out"
    words = ["predict", saved.text_folder, *map(str, shards), "--ray", cluster.address, "-o", str(out)]
    with open(tmp_path / "errors", "wb") as log:
        process = start([sys.executable, "-m", "sylvan", *words, tmp_path / "big.jsonl"], stdout=log, stderr=log)

    def are_ranked() -> bool:
        assert process.poll() is None, (tmp_path / "errors").read_text()
        return len(list(out.glob("?.jsonl"))) == 3

    until(are_ranked, "the small files aren't ranked")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 1
    said = (tmp_path / "errors").read_text().strip().splitlines()[-1]
    assert said == f"Interrupted; the files in '{out}' are whole, and the same command begins again."
    assert not (out / "big.jsonl").exists()
    for path in shards:
        assert (out / path.name).read_bytes() == predicted(saved.text_folder, path)
