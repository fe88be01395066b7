"""Packed, damaged, missing and half-written files."""

import bz2
import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from child_processes import start
from kit.errors import raises
from waiting import PATIENCE, until

from sylvan import data
from sylvan.data.streams import head_of, open_read, open_write
from sylvan.errors import DataError

READERS = [data.load_xmc, data.load_svmlight, data.load_npz, data.load_npy, data.read_jsonl]
TEXT = b"".join(b"%d %d:0.5\n" % (i % 7, i % 11) for i in range(20_000))


@pytest.mark.parametrize("load", READERS)
def test_missing_folder_and_unreadable(tmp_path, load):
    with raises(DataError, "file", "nothing"):
        load(tmp_path / "nothing")
    with raises(DataError, "folder"):
        load(tmp_path)
    with raises(DataError, "opened"):
        load("a\0b")
    with raises(DataError, "opened"):
        data.read_table("x" * 300)  # whose head is looked at before


@pytest.mark.parametrize("load", READERS)
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_damaged_packing(tmp_path, load, suffix, pack):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"0 0:1\n")
    with raises(DataError, suffix, "content"):
        load(path)
    path.write_bytes(b"")
    with raises(DataError, suffix, "content"):
        load(path)
    whole = pack(TEXT)
    second = bytes([whole[0] ^ 1]) + whole[1:]  # of two files behind one another
    for damaged in (
        whole[: len(whole) // 2], whole[:-3], whole[:50] + bytes(40) + whole[90:], whole + second, whole + b"tail",
    ):  # fmt: skip
        path.write_bytes(damaged)
        with raises(DataError, "cut"):
            load(path)


@pytest.mark.parametrize(
    ("suffix", "whole"),
    [(".gz", gzip.compress(TEXT)), (".bz2", bz2.compress(TEXT)), (".xz", lzma.compress(TEXT) + bytes(4))],
)
def test_streams_behind_one_another_are_one_file(tmp_path, suffix, whole):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(whole * 3)
    with open_read(path) as stream:
        assert stream.read() == TEXT * 3


def test_packing_is_recognised_by_content(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(TEXT))
    (tmp_path / "b.txt").write_bytes(lzma.compress(TEXT))
    a, b = data.load_xmc(tmp_path / "a.txt")[0], data.load_xmc(tmp_path / "b.txt")[0]
    assert a.shape == b.shape == (20_000, 11)


@pytest.mark.parametrize("size", [1, 5, 1000, 10**9])
def test_blocks_are_whole_lines(tmp_path, size):
    path = tmp_path / "a.txt"
    for content in (b"", b"\n", b"a", b"a\n", b"\xef\xbb\xbf", b"\xef\xbb\xbfab\ncd\n\nefghijkl", TEXT):
        path.write_bytes(content)
        with open_read(path) as stream:
            blocks = list(stream.blocks(size))
        assert b"".join(blocks) == content.removeprefix(b"\xef\xbb\xbf")
        assert all(block.endswith(b"\n") for block in blocks[:-1])
        with open_read(path) as stream:
            lines = [line for _, line in stream.lines()]
        assert lines == content.removeprefix(b"\xef\xbb\xbf").splitlines()


def test_the_mark_may_come_in_pieces():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.pieces = [b"\xef", b"\xbb", b"\xbf0 0:1\n"]

        def readable(self):
            return True

        def readinto(self, target):
            piece = self.pieces.pop(0) if self.pieces else b""
            target[: len(piece)] = piece
            return len(piece)

    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BufferedReader(Slow()))
    try:
        assert data.load_xmc("-")[0].shape == (1, 1)
    finally:
        sys.stdin = stdin


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(28, "No space left on device")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, suffix, error):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")
    expected = DataError if isinstance(error, OSError) else error
    with pytest.raises(expected), open_write(path) as stream:
        stream.write(TEXT)
        raise error
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"old"


def test_a_finished_write_replaces_and_follows_links(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with open_write(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o666 & ~mask


def test_packed_files_are_the_same_bytes_every_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        with open_write(tmp_path / name) as stream:
            stream.write(TEXT)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_where_nothing_can_be_written(tmp_path):
    for path in (tmp_path / "no" / "a.txt", tmp_path, "a\0b", tmp_path / ("x" * 300)):
        with raises(DataError, repr(str(path))[1:-1]), open_write(path) as stream:
            stream.write(b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_named_pipes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=data.save_xmc, args=(pipe, np.eye(3), np.eye(3)))
    thread.start()
    x, _ = data.load_xmc(pipe)
    thread.join()
    assert x.toarray().tolist() == np.eye(3).tolist()
    with raises(DataError, "pipe", "stdin"):  # where the head would be missing for the reader that follows
        head_of(pipe)


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_from_outside(tmp_path, which):
    """Ctrl-C removes what was begun; even a kill leaves the old file whole."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    program = (
        "import sys, numpy as np; from sylvan import data\n"
        "rows = ({'x': i} for i in iter(int, 1))\n"
        "print('go', flush=True); data.write_records(sys.argv[1], rows)"
    )
    child = start([sys.executable, "-c", program, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    child.stdout.readline()
    until(lambda: len(os.listdir(tmp_path)) == 2, "it begins no file")
    child.send_signal(which)
    child.wait(PATIENCE)
    assert path.read_bytes() == b"old"
    if which == signal.SIGINT:
        assert os.listdir(tmp_path) == ["a.txt"]
