from typing import Any

import numpy as np
import numpy.typing as npt

def bound_lines(text: npt.NDArray[np.uint8]) -> tuple[int, int, int]: ...
def canonical_rows(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    data: npt.NDArray[Any],
    n_columns: int,
    out_indptr: npt.NDArray[np.int64],
    out_indices: npt.NDArray[np.int32],
    out_data: npt.NDArray[np.float32],
) -> tuple[int, int]: ...
def check_compressed(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    n_columns: int,
) -> tuple[int, int]: ...
def count_dense(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> tuple[int, int]: ...
def fill_dense(
    values: npt.NDArray[Any],
    indptr: npt.NDArray[np.int64],
    out_indices: npt.NDArray[np.int32],
    out_data: npt.NDArray[np.float32],
) -> bool: ...
def format_lines(
    first: int,
    last: int,
    feature_offsets: npt.NDArray[np.int64],
    features: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    label_offsets: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    label_weights: npt.NDArray[np.float32],
    weighted_labels: bool,
    lowest_feature: int,
    out: npt.NDArray[np.uint8],
) -> int: ...
def parse_lines(
    text: npt.NDArray[np.uint8],
    lowest_feature: int,
    highest_feature: int,
    highest_label: int,
    weighted_labels: bool,
    svmlight: bool,
    feature_counts: npt.NDArray[np.int64],
    features: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    label_counts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    label_weights: npt.NDArray[np.float32],
) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]: ...
