"""Readers and writers of the field's formats, vocabularies of label names, and a bundled real sample.

Every reader raises :class:`~sylvan.errors.DataError` for a file that it can't read, naming file, line (or
array) and what is wrong. Every writer puts the file in place in one step, at the end. Text files may be
packed (``.gz``, ``.xz``, ``.bz2``, ``.zst``), and ``"-"`` stands for stdin and stdout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, typed_names

if TYPE_CHECKING:
    from sylvan.data.formats.annif import (
        read_annif_folder,
        read_annif_tsv,
        stream_annif_folder,
        stream_annif_tsv,
        write_annif_folder,
        write_annif_jsonl,
        write_annif_tsv,
    )
    from sylvan.data.formats.arrays import (
        load_npy,
        load_npz,
        load_npz_pair,
        load_numbers,
        load_vectors,
        save_npy,
        save_npz,
        save_npz_pair,
    )
    from sylvan.data.formats.columnar import read_dataset, read_parquet, stream_dataset, stream_parquet, write_parquet
    from sylvan.data.formats.jsonl import read_jsonl, read_records, stream_jsonl, write_jsonl, write_records
    from sylvan.data.formats.lines_of_text import (
        read_fasttext,
        read_pecos,
        stream_fasttext,
        stream_pecos,
        write_fasttext,
        write_pecos,
    )
    from sylvan.data.formats.marc import read_marc, stream_marc
    from sylvan.data.formats.spreadsheets import read_spreadsheet, stream_spreadsheet
    from sylvan.data.formats.subjects import SubjectVocabulary, read_label_texts, read_subjects, write_subjects
    from sylvan.data.formats.tables import read_table, stream_table, write_table
    from sylvan.data.formats.text_matrices import (
        load_filter_labels,
        load_svmlight,
        load_xmc,
        save_filter_labels,
        save_svmlight,
        save_xmc,
    )
    from sylvan.data.label_terms import LabelTerms
    from sylvan.data.parts.part_folders import open_csr, open_parts, save_csr, save_parts, write_parts
    from sylvan.data.parts.row_parts import RowParts
    from sylvan.data.samples import Sample, load_sample
    from sylvan.data.sequences import SequenceData, build_sequences, read_sequences, write_sequences
    from sylvan.data.streams import EncodedPath
    from sylvan.data.text_rows import TextData
    from sylvan.labels.vocabulary import Vocabulary

__all__ = [
    "EncodedPath", "LabelTerms", "RowParts", "Sample", "SequenceData", "SubjectVocabulary", "TextData", "Vocabulary",
    "build_sequences", "load_filter_labels", "load_npy", "load_npz", "load_npz_pair", "load_numbers", "load_sample",
    "load_svmlight", "load_vectors", "load_xmc", "open_csr", "open_parts", "read_annif_folder", "read_annif_tsv",
    "read_dataset", "read_fasttext", "read_jsonl", "read_label_texts", "read_marc", "read_parquet", "read_pecos",
    "read_records", "read_sequences", "read_spreadsheet", "read_subjects", "read_table", "save_csr",
    "save_filter_labels", "save_npy", "save_npz", "save_npz_pair", "save_parts", "save_svmlight", "save_xmc",
    "stream_annif_folder", "stream_annif_tsv", "stream_dataset", "stream_fasttext", "stream_jsonl", "stream_marc",
    "stream_parquet", "stream_pecos", "stream_spreadsheet", "stream_table", "write_annif_folder", "write_annif_jsonl",
    "write_annif_tsv", "write_fasttext", "write_jsonl", "write_parquet", "write_parts", "write_pecos", "write_records",
    "write_sequences", "write_subjects", "write_table",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
