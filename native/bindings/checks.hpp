// What the bindings verify before a kernel is called.
#pragma once

#include <stdexcept>

#include "base/sparse_rows.hpp"
#include "bindings/bindings.hpp"

template <typename T>
int64_t size(const T& array) {
  return static_cast<int64_t>(array.size());
}

inline void need(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Offsets of n parts: n + 1 of them, from 0 to total, never decreasing.
inline void need_offsets(const In<int64_t>& offsets, int64_t n, int64_t total, const char* what) {
  need(size(offsets) == n + 1 && offsets.data()[0] == 0 && offsets.data()[n] == total, what);
  for (int64_t i = 0; i < n; ++i) need(offsets.data()[i] <= offsets.data()[i + 1], what);
}

inline sylvan::SparseRows rows_of(const In<int64_t>& indptr, const In<int32_t>& indices,
                                  const In<float>& values, int64_t first, int64_t last) {
  need(0 <= first && first <= last && last < size(indptr), "the rows are out of range");
  need(indices.size() == values.size() && indptr.data()[last] <= size(indices),
       "the query's arrays disagree");
  return {last - first, indptr.data() + first, indices.data(), values.data()};
}
