#include "classes/pick.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/platform.hpp"
#include "base/select.hpp"

namespace sylvan {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kLanes = 8;
constexpr int64_t kSmall = 32;  // so many are sorted by counting the larger ones, without branches

// Sorts by descending score, then by ascending name.
uint64_t descending_key(float score, int32_t name) {
  const float plain = score + 0.0f;  // makes -0 equal to 0
  uint32_t bits;
  std::memcpy(&bits, &plain, sizeof bits);
  bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(bits) << 32 | ~static_cast<uint32_t>(name);
}

int32_t name_of(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

float score_of(uint64_t key) {
  auto bits = static_cast<uint32_t>(key >> 32);
  bits = (bits >> 31) != 0 ? bits & 0x7fffffffu : ~bits;
  float score;
  std::memcpy(&score, &bits, sizeof score);
  return score;
}

// For each lane i the largest of the values i, i + n_lanes, i + 2 n_lanes, ...; a NaN is skipped.
SYLVAN_CLONES void lane_maxima(const float* SYLVAN_RESTRICT values, int64_t n, int64_t n_lanes,
                               float* SYLVAN_RESTRICT maxima) {
  for (int64_t first = 0; first < n; first += n_lanes) {
    const int64_t m = std::min(n_lanes, n - first);
    for (int64_t i = 0; i < m; ++i) {
      maxima[i] = values[first + i] > maxima[i] ? values[first + i] : maxima[i];
    }
  }
}

// How many of the n <= kSmall values are at least as large as each. One value is compared with all at once,
// because a sum across a vector would be slow.
template <typename Value>
SYLVAN_INLINE void count_above(const Value* SYLVAN_RESTRICT values, int64_t n,
                               int32_t* SYLVAN_RESTRICT counts) {
  for (int64_t i = 0; i < n; ++i) counts[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const Value value = values[j];
    for (int64_t i = 0; i < n; ++i) counts[i] += value >= values[i];
  }
}

// The largest value that at least `width` of the n <= kSmall values reach, or -inf.
SYLVAN_CLONES float reached_by(const float* SYLVAN_RESTRICT values, int64_t n, int64_t width) {
  int32_t n_reaching[kSmall];
  count_above(values, n, n_reaching);
  float threshold = kMinusInfinity;
  for (int64_t i = 0; i < n; ++i) {
    threshold = n_reaching[i] >= width && values[i] > threshold ? values[i] : threshold;
  }
  return threshold;
}

// The `width` largest of n <= kSmall distinct keys, in descending order.
SYLVAN_CLONES void first_keys(const uint64_t* SYLVAN_RESTRICT keys, int64_t n, int64_t width,
                              uint64_t* SYLVAN_RESTRICT out) {
  int32_t places[kSmall];
  count_above(keys, n, places);  // including itself
  for (int64_t i = 0; i < n; ++i) {
    if (places[i] <= width) out[places[i] - 1] = keys[i];
  }
}

}  // namespace

// A score that at least `width` of n scores reach, and few more: the width-th largest of the lanes' maxima.
// -inf when there are too few scores to gain by it.
float ClassPicker::threshold_for(const float* scores, int64_t n, int64_t width) {
  const int64_t n_lanes = (width + kLanes - 1) / kLanes * kLanes;
  if (n < 2 * n_lanes) return kMinusInfinity;
  maxima_.assign(static_cast<size_t>(n_lanes), kMinusInfinity);
  lane_maxima(scores, n, n_lanes, maxima_.data());
  if (n_lanes <= kSmall) return reached_by(maxima_.data(), n_lanes, width);
  std::nth_element(maxima_.begin(), maxima_.begin() + (width - 1), maxima_.end(), std::greater<float>());
  return maxima_[static_cast<size_t>(width - 1)];
}

int64_t ClassPicker::pick(const ClassItems& items, int64_t width, int32_t* names, float* scores) {
  const float threshold = threshold_for(items.scores, items.n, std::min(width, items.n));
  int32_t places[kSelectBlock];
  keys_.clear();
  for (int64_t first = 0; first < items.n; first += kSelectBlock) {
    const int64_t n_near =
        select_at_least(items.scores + first, std::min(kSelectBlock, items.n - first), threshold, places);
    for (int64_t i = 0; i < n_near; ++i) {
      const int32_t edge = items.edges[first + places[i]];
      const int32_t name = items.names ? items.names[edge - items.first_named] : edge;
      keys_.push_back(descending_key(items.scores[first + places[i]], name));
    }
  }
  const auto n_keys = static_cast<int64_t>(keys_.size());
  const int64_t wanted = std::min(width, n_keys);
  const uint64_t* best = keys_.data();
  uint64_t small[kSmall];
  if (n_keys <= kSmall) {
    first_keys(keys_.data(), n_keys, wanted, small);
    best = small;
  } else {
    std::nth_element(keys_.begin(), keys_.begin() + (wanted - 1), keys_.end(), std::greater<uint64_t>());
    std::sort(keys_.begin(), keys_.begin() + wanted, std::greater<uint64_t>());
  }
  for (int64_t i = 0; i < wanted; ++i) {
    names[i] = name_of(best[i]);
    scores[i] = score_of(best[i]);
  }
  return wanted;
}

void ClassPicker::pick_all(const ClassItems& items, int64_t width, int32_t* names, float* scores) {
  for (int64_t i = pick(items, width, names, scores); i < width; ++i) {
    names[i] = -1;
    scores[i] = kMinusInfinity;
  }
}

}  // namespace sylvan
