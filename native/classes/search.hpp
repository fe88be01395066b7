// Beam search for the best classes (CANE, Algorithm 3), in training and in ranking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "classes/edges.hpp"
#include "classes/frontier.hpp"
#include "classes/tree.hpp"

namespace sylvan {

// The edges that a search has scored, for reuse of their scores; `scored_at` is `now` for these.
struct EdgeScores {
  float* scores;       // (n_edges)
  int64_t* scored_at;  // (n_edges)
  int64_t now;
};

// Has a workspace: not thread-safe.
class ClassSearch {
 public:
  ClassSearch(const ClassTree& tree, int64_t beam, NodeScore score)
      : tree_(tree), beam_(beam), frontier_(tree, beam, score) {}

  // The k best classes below the beam's nodes, best first, lower class first among equals; -1 and -inf where
  // there are no more. A NaN is ignored.
  void find(const EdgeWeights& weights, const ClassRow& row, int64_t k, int32_t* classes, float* scores,
            EdgeScores* seen);

  // The edges above the nodes that the last `find` with `seen` opened, layer by layer without the root, and
  // where each layer's end.
  const std::vector<int32_t>& opened() const { return opened_; }
  const std::vector<size_t>& opened_ends() const { return opened_ends_; }

  // Of all classes that the last `find` reached, see ClassFrontier.
  float log_sum_of_reached(float best) { return frontier_.log_sum_of_reached(sums_.data(), best); }

 private:
  void open(const EdgeWeights& weights, const ClassRow& row, EdgeScores* seen);

  const ClassTree& tree_;
  int64_t beam_;
  ClassFrontier frontier_;
  std::vector<int32_t> nodes_;  // the edges above the beam's nodes; -1 for the root
  std::vector<float> above_;    // their scores
  std::vector<float> sums_;     // the scores of the nodes below them
  int64_t n_nodes_ = 0;
  std::vector<int32_t> opened_;
  std::vector<size_t> opened_ends_;
};

}  // namespace sylvan
