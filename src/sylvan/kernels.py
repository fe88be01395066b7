"""The only importer of the native module: everything else asks for its kernels here."""

from __future__ import annotations

from sylvan._native import (
    TfidfTerms,
    aggregate_features,
    bound_lines,
    canonical_rows,
    check_compressed,
    count_dense,
    fill_dense,
    format_lines,
    parse_lines,
    split_dense_rows,
    split_sparse_rows,
    tfidf_add_totals,
    tfidf_check_terms,
    tfidf_first_non_text,
    tfidf_keep_columns,
    tfidf_slots,
    tfidf_text_lengths,
    tfidf_transform,
    tfidf_weigh_rows,
)

__all__ = [
    "TfidfTerms",
    "aggregate_features",
    "bound_lines",
    "canonical_rows",
    "check_compressed",
    "count_dense",
    "fill_dense",
    "format_lines",
    "parse_lines",
    "split_dense_rows",
    "split_sparse_rows",
    "tfidf_add_totals",
    "tfidf_check_terms",
    "tfidf_first_non_text",
    "tfidf_keep_columns",
    "tfidf_slots",
    "tfidf_text_lengths",
    "tfidf_transform",
    "tfidf_weigh_rows",
]
