#include "base/reaching.hpp"

#include "base/platform.hpp"

namespace sylvan {
namespace {

SYLVAN_CLONES int64_t filter(const float* SYLVAN_RESTRICT scores, int64_t n, float floor,
                             int32_t* SYLVAN_RESTRICT out) {
  int32_t any = 0;
  for (int64_t i = 0; i < n; ++i) any |= scores[i] >= floor;
  if (!any) return 0;  // mostly, and the loop above is vector code
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[found] = static_cast<int32_t>(i);
    found += scores[i] >= floor;
  }
  return found;
}

}  // namespace

int64_t reaching(const float* scores, int64_t n, float floor, int32_t* out) {
  return filter(scores, n, floor, out);
}

}  // namespace sylvan
