#include "class_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "platform.hpp"
#include "reaching.hpp"

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

// The largest value that at least `width` of the n <= kFew values reach; -inf when only that does.
SYLVAN_CLONES float reached_by(const float* SYLVAN_RESTRICT values, int64_t n, int64_t width) {
  float floor = kLeast;
  for (int64_t i = 0; i < n; ++i) {
    int32_t n_reaching = 0;
    for (int64_t j = 0; j < n; ++j) n_reaching += values[j] >= values[i];
    floor = n_reaching >= width && values[i] > floor ? values[i] : floor;
  }
  return floor;
}

// The first `width` of n <= kFew different keys, from the largest down.
SYLVAN_CLONES void first_keys(const uint64_t* SYLVAN_RESTRICT keys, int64_t n, int64_t width,
                              uint64_t* SYLVAN_RESTRICT out) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t above = 0;
    for (int64_t j = 0; j < n; ++j) above += keys[j] > keys[i];
    if (above < width) out[above] = keys[i];
  }
}

}  // namespace

double log_sum(const float* scores, int64_t n, float* scratch) {
  const float most = largest(scores, n);
  if (scratch != scores) std::memcpy(scratch, scores, static_cast<size_t>(n) * sizeof *scores);
  return static_cast<double>(most) + std::log(exponentials(scratch, n, most));
}

// Scores of siblings become logarithms of their probabilities.
void ClassSearch::normalize(size_t first, size_t last) {
  scratch_.resize(last - first);
  const auto log_total =
      static_cast<float>(log_sum(sums_.data() + first, static_cast<int64_t>(last - first), scratch_.data()));
  for (size_t i = first; i < last; ++i) sums_[i] -= log_total;
}

// All edges below the beam, and the scores of their ends.
void ClassSearch::open(const EdgeWeights& weights, const ClassRow& row, EdgeScores* seen) {
  edges_.clear();
  for (const int32_t above : nodes_) {
    const int64_t first = tree_.first_child(static_cast<int64_t>(above) + 1);
    const int64_t n = tree_.first_child(static_cast<int64_t>(above) + 2) - first;
    const size_t at = edges_.size();
    edges_.resize(at + static_cast<size_t>(n));
    int32_t* to = edges_.data() + at;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int32_t>(first + i);
  }
  sums_.resize(edges_.size());
  score_edges(weights, row, edges_.data(), 0, static_cast<int64_t>(edges_.size()), sums_.data());
  if (seen) {
    for (size_t i = 0; i < edges_.size(); ++i) {
      seen->scores[edges_[i]] = sums_[i];
      seen->scored_at[edges_[i]] = seen->now;
    }
  }
  size_t at = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int64_t node = static_cast<int64_t>(nodes_[i]) + 1;
    const size_t end = at + static_cast<size_t>(tree_.first_child(node + 1) - tree_.first_child(node));
    if (log_probabilities_) normalize(at, end);
    for (; at < end; ++at) sums_[at] = above_[i] + sums_[at];
  }
}

// A score that at least `width` of the sums reach, and few more: of more lanes than that, the width-th
// largest maximum. -inf when there are too few sums for it to be worth while.
float ClassSearch::floor_of(int64_t width) {
  const auto n = static_cast<int64_t>(sums_.size());
  const int64_t n_lanes = (width + kLanes - 1) / kLanes * kLanes;
  if (n < 2 * n_lanes) return kLeast;
  scratch_.assign(static_cast<size_t>(n_lanes), kLeast);
  lane_maxima(sums_.data(), n, n_lanes, scratch_.data());
  if (n_lanes <= kFew) return reached_by(scratch_.data(), n_lanes, width);
  std::nth_element(scratch_.begin(), scratch_.begin() + (width - 1), scratch_.end(), std::greater<float>());
  return scratch_[static_cast<size_t>(width - 1)];
}

// The best `width` of what is below the beam, best first, lower name first among equals.
template <typename Name>
void ClassSearch::pick(int64_t width, Name name) {
  const auto n = static_cast<int64_t>(sums_.size());
  const float floor = floor_of(std::min(width, n));
  int32_t places[kReaching];
  keys_.clear();
  for (int64_t first = 0; first < n; first += kReaching) {
    const int64_t n_near = reaching(sums_.data() + first, std::min(kReaching, n - first), floor, places);
    for (int64_t i = 0; i < n_near; ++i) {
      const auto at = static_cast<size_t>(first + places[i]);
      keys_.push_back(falling_key(sums_[at], name(edges_[at])));
    }
  }
  const size_t wanted = std::min(static_cast<size_t>(width), keys_.size());
  if (keys_.size() <= static_cast<size_t>(kFew)) {
    uint64_t first[kFew];
    first_keys(keys_.data(), static_cast<int64_t>(keys_.size()), static_cast<int64_t>(wanted), first);
    keys_.assign(first, first + wanted);
    return;
  }
  std::nth_element(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(wanted - 1), keys_.end(),
                   std::greater<uint64_t>());
  keys_.resize(wanted);
  std::sort(keys_.begin(), keys_.end(), std::greater<uint64_t>());
}

void ClassSearch::find(const EdgeWeights& weights, const ClassRow& row, int64_t k, int32_t* classes,
                       float* scores, EdgeScores* seen) {
  nodes_.assign(1, -1);
  above_.assign(1, 0.0f);
  for (int64_t layer = 0; layer + 1 < tree_.n_layers(); ++layer) {
    open(weights, row, seen);
    if (static_cast<int64_t>(edges_.size()) <= beam_) {
      nodes_.swap(edges_);
      above_.swap(sums_);
      continue;
    }
    pick(beam_, [](int32_t edge) { return edge; });
    nodes_.resize(keys_.size());  // fewer than the beam where scores are no numbers
    above_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      nodes_[i] = name_of(keys_[i]);
      above_[i] = score_of(keys_[i]);
    }
  }
  open(weights, row, seen);
  pick(k, [this](int32_t edge) { return tree_.class_of(edge); });
  for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
    classes[i] = i < keys_.size() ? name_of(keys_[i]) : -1;
    scores[i] = i < keys_.size() ? score_of(keys_[i]) : kLeast;
  }
}

}  // namespace sylvan
