// The columns of the largest values of each row.
#pragma once

#include <cstdint>

namespace sylvan {

// The k <= n_columns best of each row, largest first, lower column first among equals; NaN is less than
// everything. Returns false when memory could not be had.
bool best_columns(const float* values, int64_t n_rows, int64_t n_columns, int64_t k, int32_t* out_columns,
                  float* out_values);

}  // namespace sylvan
