// Verification of a compressed sparse matrix before any other kernel trusts it.
#pragma once

#include <cstdint>

namespace sylvan {

enum class CheckFault : int {
  none = 0,
  offsets_not_monotone = 1,   // indptr falls, does not start at 0, or does not end at nnz
  index_out_of_range = 2,     // an index below 0 or at least n_columns
  not_finite = 3,             // a NaN or an infinity among the values
  not_sorted_or_repeated = 4  // valid, but a row's indices are unsorted or repeated
};

struct CheckResult {
  CheckFault fault;
  int64_t row;  // the first row at fault, -1 without one
};

CheckResult check_compressed(const int64_t* indptr, int64_t n_rows, const int32_t* indices, const float* data,
                             int64_t nnz, int64_t n_columns);

}  // namespace sylvan
