// Selects the scores of a block that reach a threshold.
#pragma once

#include <cstdint>

namespace sylvan {

constexpr int64_t kSelectBlock =
    64;  // scores examined together: once the threshold is high, mostly none reaches it

// Writes the indices of the scores (at most kSelectBlock) that reach the threshold, which a NaN never does;
// returns how many there are.
int64_t select_at_least(const float* scores, int64_t n, float threshold, int32_t* out);

}  // namespace sylvan
