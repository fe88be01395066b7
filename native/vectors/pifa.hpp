// Positive instance feature aggregation (PECOS 2.1.1): sums of the feature rows of each label's instances.
#pragma once

#include <cstdint>

namespace sylvan {

// Rows first .. last of Y^T X (members: Y^T in CSR form), scaled to length one. Of a label's values the
// max_features largest in magnitude remain (0: all), columns sorted. of_all: the length is that of all
// values, not only of those that remain. Rows are written one after the other, their lengths to out_length;
// the outputs have room for min(max_features, n_columns, entries of its rows) values of each label.
void aggregate_features(const int64_t* x_indptr, const int32_t* x_indices, const float* x_data,
                        int64_t n_columns, const int64_t* members_indptr, const int32_t* members,
                        const float* member_weights, int64_t first, int64_t last, int64_t max_features,
                        bool of_all, int64_t* out_length, int32_t* out_indices, float* out_data);

}  // namespace sylvan
