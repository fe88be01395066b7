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
  ClassSearch(const ClassTree& tree, int64_t beam, bool log_probabilities)
      : tree_(tree), beam_(beam), frontier_(tree, beam, log_probabilities) {}

  // The k best classes below the beam's nodes, best first, lower class first among equals; -1 and -inf where
  // there are no more. A NaN is ignored.
  void find(const EdgeWeights& weights, const ClassRow& row, int64_t k, int32_t* classes, float* scores,
            EdgeScores* seen);

  // Of all classes that the last `find` reached, see ClassFrontier.
  float log_sum_of_reached(float best) { return frontier_.log_sum_of_reached(sums_.data(), best); }

 private:
  void open(const EdgeWeights& weights, const ClassRow& row, EdgeScores* seen);

  const ClassTree& tree_;
  int64_t beam_;
  ClassFrontier frontier_;
  std::vector<int32_t> nodes_;  // the edges above the beam's nodes; -1 for the root
  std::vector<float> above_;    // their scores
  std::vector<float> sums_;     // the path scores of the edges below them
  int64_t n_nodes_ = 0;
};

}  // namespace sylvan
