#include "check.hpp"

#include <cmath>

#include "platform.hpp"

namespace sylvan {

CheckResult check_compressed(const int64_t* indptr, int64_t n_rows, const int32_t* indices, const float* data,
                             int64_t nnz, int64_t n_columns) {
  if (indptr[0] != 0 || indptr[n_rows] != nnz) return {CheckFault::offsets_not_monotone, 0};
  for (int64_t row = 0; row < n_rows; ++row) {
    if (indptr[row + 1] < indptr[row] || indptr[row + 1] > nnz) return {CheckFault::offsets_not_monotone, row};
  }
  int64_t first_unsorted = -1;
  for (int64_t row = 0; row < n_rows; ++row) {
    int32_t previous = -1;
    bool in_range = true, finite = true, sorted = true;
    for (int64_t at = indptr[row]; at < indptr[row + 1]; ++at) {
      const int32_t column = indices[at];
      in_range &= column >= 0 && column < n_columns;
      sorted &= column > previous;
      finite &= std::isfinite(data[at]);
      previous = column;
    }
    if (!in_range) return {CheckFault::index_out_of_range, row};
    if (!finite) return {CheckFault::not_finite, row};
    if (!sorted && first_unsorted < 0) first_unsorted = row;
  }
  if (first_unsorted >= 0) return {CheckFault::not_sorted_or_repeated, first_unsorted};
  return {CheckFault::none, -1};
}

}  // namespace sylvan
