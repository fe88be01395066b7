import numpy as np
import numpy.typing as npt

def check_compressed(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    n_columns: int,
) -> tuple[int, int]: ...
