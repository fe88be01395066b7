#include "class_search.hpp"

#include <cmath>
#include <cstring>

namespace sylvan {
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
    nodes_.resize(static_cast<size_t>(beam_));
    above_.resize(static_cast<size_t>(beam_));
    const auto n_kept = static_cast<size_t>(picker_.pick({sums_.data(), edges_.data(), opened(), nullptr, 0},
                                                         beam_, nodes_.data(), above_.data()));
    nodes_.resize(n_kept);  // fewer than the beam where scores are no numbers
    above_.resize(n_kept);
  }
  open(weights, row, seen);
  picker_.pick_all({sums_.data(), edges_.data(), opened(), tree_.leaf_classes(), tree_.first_leaf()}, k,
                   classes, scores);
}

float ClassSearch::log_sum_of_reached(float best) {
  scratch_.assign(sums_.begin(), sums_.end());
  const double found = static_cast<double>(best) + std::log(exponentials(scratch_.data(), opened(), best));
  return std::isfinite(found) ? static_cast<float>(found) : 0.0f;
}

}  // namespace sylvan
