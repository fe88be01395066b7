#include "base/select.hpp"

#include "base/platform.hpp"

namespace sylvan {
namespace {

SYLVAN_CLONES int64_t filter(const float* SYLVAN_RESTRICT scores, int64_t n, float threshold,
                             int32_t* SYLVAN_RESTRICT out) {
  int32_t any = 0;
  for (int64_t i = 0; i < n; ++i) any |= scores[i] >= threshold;
  if (!any) return 0;  // the usual case, and the loop above is vector code
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[found] = static_cast<int32_t>(i);
    found += scores[i] >= threshold;
  }
  return found;
}

}  // namespace

int64_t select_at_least(const float* scores, int64_t n, float threshold, int32_t* out) {
  return filter(scores, n, threshold, out);
}

}  // namespace sylvan
