#include "linear/renumber.hpp"

#include <algorithm>

namespace sylvan {

int64_t renumber_features(const int64_t* indptr, const int32_t* indices, int64_t n_columns,
                          const int32_t* rows, int64_t n_rows, int32_t* numbers, int32_t* out_local,
                          int64_t* out_begin, int32_t* out_features) {
  int64_t n_features = 0, at = 0;
  for (int64_t i = 0; i < n_rows; ++i) {
    out_begin[i] = at;
    for (int64_t t = indptr[rows[i]]; t < indptr[rows[i] + 1]; ++t) {
      const int32_t feature = indices[t];
      out_local[at++] = feature;
      if (numbers[feature] < 0) {
        numbers[feature] = 0;
        out_features[n_features++] = feature;
      }
    }
  }
  // Scanning all columns is cheaper than sorting, unless few of them occur.
  if (n_features * 16 > n_columns) {
    int64_t n = 0;
    for (int64_t column = 0; column < n_columns; ++column) {
      if (numbers[column] >= 0) out_features[n++] = static_cast<int32_t>(column);
    }
  } else {
    std::sort(out_features, out_features + n_features);
  }
  for (int64_t f = 0; f < n_features; ++f) numbers[out_features[f]] = static_cast<int32_t>(f);
  for (int64_t t = 0; t < at; ++t) out_local[t] = numbers[out_local[t]];
  for (int64_t f = 0; f < n_features; ++f) numbers[out_features[f]] = -1;
  return n_features;
}

int64_t sort_triples(const int32_t* feature, const int32_t* child, const float* weight, int64_t n,
                     int64_t n_features, int64_t* offsets, int32_t* out_feature, int32_t* out_length,
                     int32_t* out_child, float* out_weight) {
  std::fill(offsets, offsets + n_features + 1, int64_t{0});
  for (int64_t t = 0; t < n; ++t) ++offsets[feature[t] + 1];
  int64_t n_rows = 0;
  for (int64_t f = 0; f < n_features; ++f) {
    if (offsets[f + 1] > 0) {
      out_feature[n_rows] = static_cast<int32_t>(f);
      out_length[n_rows++] = static_cast<int32_t>(offsets[f + 1]);
    }
    offsets[f + 1] += offsets[f];
  }
  for (int64_t t = 0; t < n; ++t) {
    const int64_t at = offsets[feature[t]]++;
    out_child[at] = child[t];
    out_weight[at] = weight[t];
  }
  return n_rows;
}

}  // namespace sylvan
