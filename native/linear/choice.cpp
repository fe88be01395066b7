#include "linear/choice.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/platform.hpp"
#include "base/top_k.hpp"

namespace sylvan {
namespace {

constexpr int64_t kQuarters = 4;
constexpr int64_t kFew = 64;  // candidates that are compared with each other, all with all

// The greatest of every fourth of sixteen scores, and of all; a NaN is none.
SYLVAN_CLONES void find_greatest(const float* scores, int64_t n_groups, float* quarters, float* greatest) {
  for (int64_t g = 0; g < n_groups; ++g, scores += 16, quarters += kQuarters) {
    float best[kQuarters] = {kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
    for (int i = 0; i < 16; i += kQuarters) {
      for (int j = 0; j < kQuarters; ++j) best[j] = scores[i + j] > best[j] ? scores[i + j] : best[j];
    }
    for (int j = 0; j < kQuarters; ++j) quarters[j] = best[j];
    for (int j = 1; j < kQuarters; ++j) best[0] = best[j] > best[0] ? best[j] : best[0];
    greatest[g] = best[0];
  }
}

// How many are better than each: by score, then by name, then by place. Without branches, as who is better
// can't be predicted.
SYLVAN_CLONES void count_better(const float* SYLVAN_RESTRICT scores, const int32_t* SYLVAN_RESTRICT names,
                                int32_t n, int32_t* SYLVAN_RESTRICT ranks) {
  for (int32_t i = 0; i < n; ++i) {
    const float score = scores[i];
    const int32_t name = names[i];
    int32_t rank = 0;
    for (int32_t j = 0; j < n; ++j) {
      const int first = (names[j] < name) | ((names[j] == name) & (j < i));
      rank += (scores[j] > score) | ((scores[j] == score) & first);
    }
    ranks[i] = rank;
  }
}

// The n-th greatest score, where none is a NaN: without branches, as above.
SYLVAN_CLONES float nth_greatest(const float* scores, int32_t n_scores, int32_t nth) {
  float result = std::numeric_limits<float>::infinity();
  for (int32_t i = 0; i < n_scores; ++i) {
    const float score = scores[i];
    int32_t greater = 0;
    for (int32_t j = 0; j < n_scores; ++j) greater += scores[j] > score;
    result = (greater < nth) & (score < result) ? score : result;
  }
  return result;
}

}  // namespace

void Choice::add(const float* scores, int64_t n, int64_t first) {
  const size_t begin = greatest_.size(), n_groups = static_cast<size_t>(padded(n) / 16);
  parts_.push_back({scores, n, first});
  greatest_.resize(begin + n_groups);
  quarters_.resize(kQuarters * greatest_.size());
  find_greatest(scores, static_cast<int64_t>(n_groups), quarters_.data() + kQuarters * begin,
                greatest_.data() + begin);
}

// Keeps n of the scores: each the greatest of every n-th, so that they are still those of different groups.
void Choice::fold(int64_t n) {
  const int64_t n_scores = static_cast<int64_t>(scores_.size());
  float* SYLVAN_RESTRICT first = scores_.data();
  for (int64_t begin = n; begin < n_scores; begin += n) {
    const float* SYLVAN_RESTRICT other = scores_.data() + begin;
    const int64_t m = std::min(n, n_scores - begin);
    for (int64_t i = 0; i < m; ++i) first[i] = other[i] > first[i] ? other[i] : first[i];
  }
  scores_.resize(static_cast<size_t>(n));
}

// A score that at least `width` candidates have or exceed.
float Choice::least_of(int64_t width) {
  const int64_t folded = 3 * width;
  const bool enough = static_cast<int64_t>(greatest_.size()) >= folded;
  scores_ = enough ? greatest_ : quarters_;
  if (static_cast<int64_t>(scores_.size()) <= width) return kMinusInfinity;
  if (static_cast<int64_t>(scores_.size()) > folded) fold(folded);
  if (static_cast<int64_t>(scores_.size()) <= kFew)
    return nth_greatest(scores_.data(), static_cast<int32_t>(scores_.size()), static_cast<int32_t>(width));
  std::nth_element(scores_.begin(), scores_.begin() + (width - 1), scores_.end(), std::greater<float>());
  return scores_[static_cast<size_t>(width - 1)];
}

// Lists the candidates from `least` on.
void Choice::collect(float least) {
  const size_t most = greatest_.size() * 16;
  if (scores_.size() < most) scores_.resize(most);
  if (names_.size() < most) names_.resize(most);
  float* scores = scores_.data();
  int32_t* names = names_.data();
  const float* greatest = greatest_.data();
  n_ = 0;
  for (const Part& part : parts_) {
    for (int64_t begin = 0; begin < part.n; begin += 16) {
      if (!(*greatest++ >= least)) continue;
      const int64_t end = std::min(begin + 16, part.n);
      for (int64_t i = begin; i < end; ++i) {  // without branches, as above
        const float score = part.scores[i];
        scores[n_] = score;
        names[n_] = static_cast<int32_t>(part.first + i);
        n_ += score >= least;
      }
    }
  }
}

void Choice::finish(const int32_t* names, int64_t width, int32_t* out_names, float* out_scores) {
  collect(least_of(width));
  for (int64_t i = 0; names && i < n_; ++i) names_[i] = names[names_[i]];
  const int64_t n_best = std::min(n_, width);
  if (n_ <= kFew) {
    if (ranks_.size() < kFew) ranks_.resize(kFew);
    count_better(scores_.data(), names_.data(), static_cast<int32_t>(n_), ranks_.data());
    for (int64_t i = 0; i < n_; ++i) {
      if (ranks_[i] >= width) continue;
      out_names[ranks_[i]] = names_[i];
      out_scores[ranks_[i]] = scores_[i];
    }
    std::fill(out_names + n_best, out_names + width, -1);
    std::fill(out_scores + n_best, out_scores + width, kMinusInfinity);
  } else {
    TopK best(out_names, out_scores, width);
    for (int64_t i = 0; i < n_; ++i) best.offer(names_[i], scores_[i]);
    best.finish();
  }
  parts_.clear();
  greatest_.clear();
  quarters_.clear();
}

}  // namespace sylvan
