"""Readers and writers of the field's formats, vocabularies of label names, and a bundled real sample.

Every reader raises :class:`~sylvan.errors.DataError` for a file that it can't read, naming file, line (or
array) and what is wrong. Every writer puts the file in place in one step, at the end. Text files may be
packed (``.gz``, ``.xz``), and ``"-"`` stands for stdin and stdout.
"""

from __future__ import annotations

from sylvan.data.arrays import load_npy, load_npz, load_npz_pair, save_npy, save_npz, save_npz_pair
from sylvan.data.jsonl import TextData, read_jsonl, read_records, stream_jsonl, write_jsonl, write_records
from sylvan.data.samples import Sample, load_sample
from sylvan.data.text_matrices import load_svmlight, load_xmc, save_svmlight, save_xmc
from sylvan.data.vocabulary import Vocabulary

__all__ = [
    "Sample",
    "TextData",
    "Vocabulary",
    "load_npy",
    "load_npz",
    "load_npz_pair",
    "load_sample",
    "load_svmlight",
    "load_xmc",
    "read_jsonl",
    "read_records",
    "save_npy",
    "save_npz",
    "save_npz_pair",
    "save_svmlight",
    "save_xmc",
    "stream_jsonl",
    "write_jsonl",
    "write_records",
]
