#include "base/canonical.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/platform.hpp"

namespace sylvan {
namespace {

bool offsets_hold(const int64_t* indptr, int64_t n_rows, int64_t nnz, int64_t* bad_row) {
  *bad_row = 0;
  if (indptr[0] != 0) return false;
  for (int64_t row = 0; row < n_rows; ++row) {
    *bad_row = row;
    if (indptr[row + 1] < indptr[row] || indptr[row + 1] > nnz) return false;
  }
  return true;
}

// A double as float32; beyond float32's range the cast would be undefined, so infinity is returned
// explicitly.
template <typename Value>
SYLVAN_INLINE float narrow(Value value) {
  constexpr double edge = 3.4028235677973366e38;  // from here on the nearest float32 is infinity
  if constexpr (sizeof(Value) > sizeof(float)) {
    if (value >= edge) return HUGE_VALF;
    if (value <= -edge) return -HUGE_VALF;
  }
  return static_cast<float>(value);
}

struct Row {
  bool in_range = true;
  bool finite = true;
  bool sorted = true;
};

template <typename Index, typename Value>
Row look_at_row(const Index* indices, const Value* data, int64_t start, int64_t stop, int64_t n_columns) {
  Row row;
  int64_t previous = -1;
  for (int64_t at = start; at < stop; ++at) {
    const int64_t column = indices[at];
    row.in_range &= column >= 0 && column < n_columns;
    row.sorted &= column > previous;
    row.finite &= std::isfinite(data[at]);
    previous = column;
  }
  return row;
}

}  // namespace

CheckResult check_compressed(const int64_t* indptr, int64_t n_rows, const int32_t* indices, const float* data,
                             int64_t nnz, int64_t n_columns) {
  int64_t bad_row = 0;
  if (!offsets_hold(indptr, n_rows, nnz, &bad_row)) return {CheckFault::offsets_not_monotone, bad_row};
  if (indptr[n_rows] != nnz) return {CheckFault::offsets_not_monotone, n_rows > 0 ? n_rows - 1 : 0};
  int64_t first_unsorted = -1, first_zero = -1;
  for (int64_t row = 0; row < n_rows; ++row) {
    int32_t previous = -1;
    bool in_range = true, finite = true, sorted = true, zero = false;
    for (int64_t at = indptr[row]; at < indptr[row + 1]; ++at) {
      const int32_t column = indices[at];
      in_range &= column >= 0 && column < n_columns;
      sorted &= column > previous;
      finite &= std::isfinite(data[at]);
      zero |= data[at] == 0.0f;
      previous = column;
    }
    if (!in_range) return {CheckFault::index_out_of_range, row};
    if (!finite) return {CheckFault::not_finite, row};
    if (!sorted && first_unsorted < 0) first_unsorted = row;
    if (zero && first_zero < 0) first_zero = row;
  }
  if (first_unsorted >= 0) return {CheckFault::not_sorted_or_repeated, first_unsorted};
  if (first_zero >= 0) return {CheckFault::explicit_zero, first_zero};
  return {CheckFault::none, -1};
}

template <typename Index, typename Value>
CheckResult canonical_rows(const int64_t* indptr, int64_t n_rows, const Index* indices, const Value* data,
                           int64_t nnz, int64_t n_columns, int64_t* out_indptr, int32_t* out_indices,
                           float* out_data) {
  int64_t bad_row = 0;
  if (!offsets_hold(indptr, n_rows, nnz, &bad_row)) return {CheckFault::offsets_not_monotone, bad_row};
  std::vector<int64_t> order;
  int64_t written = 0;
  out_indptr[0] = 0;
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t start = indptr[row], stop = indptr[row + 1];
    const Row seen = look_at_row(indices, data, start, stop, n_columns);
    if (!seen.in_range) return {CheckFault::index_out_of_range, row};
    if (!seen.finite) return {CheckFault::not_finite, row};
    if (!seen.sorted) {
      order.resize(static_cast<size_t>(stop - start));
      for (int64_t i = 0; i < stop - start; ++i) order[static_cast<size_t>(i)] = start + i;
      // Ties are broken by position, so repeated columns stay in their order.
      std::sort(order.begin(), order.end(), [indices](int64_t a, int64_t b) {
        return indices[a] != indices[b] ? indices[a] < indices[b] : a < b;
      });
    }
    for (int64_t i = 0; i < stop - start;) {
      const int64_t first = seen.sorted ? start + i : order[static_cast<size_t>(i)];
      Value sum = data[first];
      for (++i; !seen.sorted && i < stop - start; ++i) {
        const int64_t next = order[static_cast<size_t>(i)];
        if (indices[next] != indices[first]) break;
        sum += data[next];
      }
      const float value = narrow(sum);
      if (!std::isfinite(value)) return {CheckFault::too_large, row};
      out_indices[written] = static_cast<int32_t>(indices[first]);
      out_data[written] = value;
      written += value != 0.0f;
    }
    out_indptr[row + 1] = written;
  }
  return {CheckFault::none, -1};
}

template <typename Value>
CheckResult count_dense(const Value* values, int64_t n_rows, int64_t n_columns, int64_t* counts) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const Value* row_values = values + row * n_columns;
    int64_t count = 0;
    bool finite = true;
    for (int64_t column = 0; column < n_columns; ++column) {
      const float value = narrow(row_values[column]);
      finite &= std::isfinite(value);
      count += value != 0.0f;
    }
    if (!finite) {
      const bool every_finite =
          std::all_of(row_values, row_values + n_columns, [](Value value) { return std::isfinite(value); });
      return {every_finite ? CheckFault::too_large : CheckFault::not_finite, row};
    }
    counts[row] = count;
  }
  return {CheckFault::none, -1};
}

template <typename Value>
bool fill_dense(const Value* values, int64_t n_rows, int64_t n_columns, const int64_t* indptr,
                int32_t* out_indices, float* out_data) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const Value* row_values = values + row * n_columns;
    int64_t at = indptr[row];
    const int64_t stop = indptr[row + 1];
    for (int64_t column = 0; column < n_columns && at < stop; ++column) {
      const float value = narrow(row_values[column]);
      out_indices[at] = static_cast<int32_t>(column);
      out_data[at] = value;
      at += value != 0.0f;
    }
    if (at != stop) return false;
  }
  return true;
}

template CheckResult canonical_rows(const int64_t*, int64_t, const int32_t*, const float*, int64_t, int64_t,
                                    int64_t*, int32_t*, float*);
template CheckResult canonical_rows(const int64_t*, int64_t, const int32_t*, const double*, int64_t, int64_t,
                                    int64_t*, int32_t*, float*);
template CheckResult canonical_rows(const int64_t*, int64_t, const int64_t*, const float*, int64_t, int64_t,
                                    int64_t*, int32_t*, float*);
template CheckResult canonical_rows(const int64_t*, int64_t, const int64_t*, const double*, int64_t, int64_t,
                                    int64_t*, int32_t*, float*);
template CheckResult count_dense(const float*, int64_t, int64_t, int64_t*);
template CheckResult count_dense(const double*, int64_t, int64_t, int64_t*);
template bool fill_dense(const float*, int64_t, int64_t, const int64_t*, int32_t*, float*);
template bool fill_dense(const double*, int64_t, int64_t, const int64_t*, int32_t*, float*);

}  // namespace sylvan
