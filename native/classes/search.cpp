#include "classes/search.hpp"

#include <algorithm>

namespace sylvan {

// Scores all edges below the beam.
void ClassSearch::open(const EdgeWeights& weights, const ClassRow& row, EdgeScores* seen) {
  const std::vector<int32_t>& edges = frontier_.list(nodes_.data(), n_nodes_);
  sums_.resize(edges.size());
  score_edges(weights, row, edges.data(), 0, static_cast<int64_t>(edges.size()), sums_.data());
  if (seen) {
    for (size_t i = 0; i < edges.size(); ++i) {
      seen->scores[edges[i]] = sums_[i];
      seen->scored_at[edges[i]] = seen->now;
    }
  }
  frontier_.add_up(nodes_.data(), above_.data(), n_nodes_, sums_.data());
}

void ClassSearch::find(const EdgeWeights& weights, const ClassRow& row, int64_t k, int32_t* classes,
                       float* scores, EdgeScores* seen) {
  nodes_.assign(1, -1);
  above_.assign(1, 0.0f);
  n_nodes_ = 1;
  opened_.clear();
  opened_ends_.clear();
  for (int64_t layer = 0; layer + 1 < tree_.n_layers(); ++layer) {
    open(weights, row, seen);
    const size_t most = std::min(sums_.size(), static_cast<size_t>(beam_));
    if (nodes_.size() < most) nodes_.resize(most), above_.resize(most);
    n_nodes_ = frontier_.narrow(sums_.data(), nodes_.data(), above_.data());
    if (seen) {
      opened_.insert(opened_.end(), nodes_.begin(), nodes_.begin() + n_nodes_);
      opened_ends_.push_back(opened_.size());
    }
  }
  open(weights, row, seen);
  frontier_.finish(sums_.data(), k, classes, scores);
}

}  // namespace sylvan
