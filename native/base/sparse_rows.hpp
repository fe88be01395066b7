// Rows of a compressed sparse matrix, borrowed: verified before a kernel sees them, see canonical.hpp.
#pragma once

#include <cstdint>

namespace sylvan {

struct SparseRows {
  int64_t n_rows;
  const int64_t* indptr;  // (n_rows + 1), which need not begin at 0
  const int32_t* indices;
  const float* values;
};

}  // namespace sylvan
