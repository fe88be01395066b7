// Verification of a compressed sparse matrix before any other kernel trusts it, and its canonical form:
// rows sorted by column, each column once, float32 values, none of them 0.
#pragma once

#include <cstdint>

namespace sylvan {

enum class CheckFault : int {
  none = 0,
  offsets_not_monotone = 1,    // indptr falls, does not start at 0, or ends beyond the values
  index_out_of_range = 2,      // an index below 0 or at least n_columns
  not_finite = 3,              // a NaN or an infinity among the values
  not_sorted_or_repeated = 4,  // valid, but a row's indices are unsorted or repeated
  explicit_zero = 5,           // valid and sorted, but a stored value is 0
  too_large = 6                // a finite double beyond float32 (only canonical_rows and the dense kernels)
};

struct CheckResult {
  CheckFault fault;
  int64_t row;  // the first row at fault, -1 without one
};

// Faults 1 to 3 are reported before 4, and 4 before 5: a matrix with fault 4 or 5 is safe to read.
CheckResult check_compressed(const int64_t* indptr, int64_t n_rows, const int32_t* indices, const float* data,
                             int64_t nnz, int64_t n_columns);

// The canonical form of a matrix of which nothing is trusted: everything is verified on the way.
// Repeated columns are summed in Value's precision, in the order in which they are stored. out_indptr has
// room for n_rows + 1, out_indices and out_data for nnz.
template <typename Index, typename Value>
CheckResult canonical_rows(const int64_t* indptr, int64_t n_rows, const Index* indices, const Value* data,
                           int64_t nnz, int64_t n_columns, int64_t* out_indptr, int32_t* out_indices,
                           float* out_data);

// For each row of a dense n_rows x n_columns matrix, how many values are not 0 as float32.
template <typename Value>
CheckResult count_dense(const Value* values, int64_t n_rows, int64_t n_columns, int64_t* counts);

// The non-zeros of each row, written to [indptr[row], indptr[row + 1]) and never beyond; false when a row
// does not fill its range, which happens only if the matrix has changed since it was counted.
template <typename Value>
bool fill_dense(const Value* values, int64_t n_rows, int64_t n_columns, const int64_t* indptr,
                int32_t* out_indices, float* out_data);

}  // namespace sylvan
