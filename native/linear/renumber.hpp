// Renumbers the features of a cluster's rows from zero, so that its weights are contiguous.
#pragma once

#include <cstdint>

namespace sylvan {

// Renumbers the features of `rows` of a CSR matrix: those that occur get 0, 1, … in ascending order.
// `numbers` (n_columns) must be all -1 on entry, and is all -1 again on return. out_local holds the new
// numbers, row after row; out_begin where each row starts there; out_features the old number of each new one.
// Returns how many there are.
int64_t renumber_features(const int64_t* indptr, const int32_t* indices, int64_t n_columns,
                          const int32_t* rows, int64_t n_rows, int32_t* numbers, int32_t* out_local,
                          int64_t* out_begin, int32_t* out_features);

// Stable counting sort of (feature, child, weight) triples by feature: the rows of a cluster's weights.
// Writes the features that occur, the entries of each and the sorted children and weights; returns the number
// of rows.
int64_t sort_triples(const int32_t* feature, const int32_t* child, const float* weight, int64_t n,
                     int64_t n_features, int64_t* offsets, int32_t* out_feature, int32_t* out_length,
                     int32_t* out_child, float* out_weight);

}  // namespace sylvan
