from typing import Any

import numpy as np
import numpy.typing as npt

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
