#include "classes/pick.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/platform.hpp"
#include "base/reaching.hpp"

namespace sylvan {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();
constexpr int64_t kLanes = 8;
constexpr int64_t kFew = 32;  // are put in order by counting what stands above each: no branch to guess

// Falls as a score falls, and with the name where scores are equal.
uint64_t falling_key(float score, int32_t name) {
  const float plain = score + 0.0f;  // -0 and 0 are one
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

// The largest of the values i, i + n_lanes, i + 2 n_lanes, ... for each i; a NaN is passed over.
SYLVAN_CLONES void lane_maxima(const float* SYLVAN_RESTRICT values, int64_t n, int64_t n_lanes,
                               float* SYLVAN_RESTRICT maxima) {
  for (int64_t first = 0; first < n; first += n_lanes) {
    const int64_t m = std::min(n_lanes, n - first);
    for (int64_t i = 0; i < m; ++i) {
      maxima[i] = values[first + i] > maxima[i] ? values[first + i] : maxima[i];
    }
  }
}

// How many of the n <= kFew values are no smaller than each. Each value is held against all at once: sums
// across a vector would take longer than all else.
template <typename Value>
SYLVAN_INLINE void count_above(const Value* SYLVAN_RESTRICT values, int64_t n,
                               int32_t* SYLVAN_RESTRICT counts) {
  for (int64_t i = 0; i < n; ++i) counts[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const Value value = values[j];
    for (int64_t i = 0; i < n; ++i) counts[i] += value >= values[i];
  }
}

// The largest value that at least `width` of the n <= kFew values reach; -inf when only that does.
SYLVAN_CLONES float reached_by(const float* SYLVAN_RESTRICT values, int64_t n, int64_t width) {
  int32_t n_reaching[kFew];
  count_above(values, n, n_reaching);
  float floor = kLeast;
  for (int64_t i = 0; i < n; ++i) {
    floor = n_reaching[i] >= width && values[i] > floor ? values[i] : floor;
  }
  return floor;
}

// The first `width` of n <= kFew different keys, from the largest down.
SYLVAN_CLONES void first_keys(const uint64_t* SYLVAN_RESTRICT keys, int64_t n, int64_t width,
                              uint64_t* SYLVAN_RESTRICT out) {
  int32_t places[kFew];
  count_above(keys, n, places);  // itself among them
  for (int64_t i = 0; i < n; ++i) {
    if (places[i] <= width) out[places[i] - 1] = keys[i];
  }
}

}  // namespace

// A score that at least `width` of n scores reach, and few more: of more lanes than that, the width-th
// largest maximum. -inf when there are too few scores for it to be worth while.
float ClassPicker::floor_of(const float* scores, int64_t n, int64_t width) {
  const int64_t n_lanes = (width + kLanes - 1) / kLanes * kLanes;
  if (n < 2 * n_lanes) return kLeast;
  maxima_.assign(static_cast<size_t>(n_lanes), kLeast);
  lane_maxima(scores, n, n_lanes, maxima_.data());
  if (n_lanes <= kFew) return reached_by(maxima_.data(), n_lanes, width);
  std::nth_element(maxima_.begin(), maxima_.begin() + (width - 1), maxima_.end(), std::greater<float>());
  return maxima_[static_cast<size_t>(width - 1)];
}

int64_t ClassPicker::pick(const ClassItems& items, int64_t width, int32_t* names, float* scores) {
  const float floor = floor_of(items.scores, items.n, std::min(width, items.n));
  int32_t places[kReaching];
  keys_.clear();
  for (int64_t first = 0; first < items.n; first += kReaching) {
    const int64_t n_near =
        reaching(items.scores + first, std::min(kReaching, items.n - first), floor, places);
    for (int64_t i = 0; i < n_near; ++i) {
      const int32_t edge = items.edges[first + places[i]];
      const int32_t name = items.names ? items.names[edge - items.first_named] : edge;
      keys_.push_back(falling_key(items.scores[first + places[i]], name));
    }
  }
  const auto n_keys = static_cast<int64_t>(keys_.size());
  const int64_t wanted = std::min(width, n_keys);
  const uint64_t* best = keys_.data();
  uint64_t few[kFew];
  if (n_keys <= kFew) {
    first_keys(keys_.data(), n_keys, wanted, few);
    best = few;
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
    scores[i] = kLeast;
  }
}

}  // namespace sylvan
