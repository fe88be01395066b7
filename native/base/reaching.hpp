// Which of a block of scores are worth offering to the best found so far.
#pragma once

#include <cstdint>

namespace sylvan {

constexpr int64_t kReaching =
    64;  // scores looked at together: once the best are good, mostly none is worth it

// The places of those of at most kReaching scores that reach the floor; a NaN never does.
int64_t reaching(const float* scores, int64_t n, float floor, int32_t* out);

}  // namespace sylvan
