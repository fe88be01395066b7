// Beam search for the best classes (CANE, Algorithm 3), in training and in ranking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "class_edges.hpp"
#include "class_pick.hpp"
#include "class_tree.hpp"

namespace sylvan {

// The edges that a search has looked at, for those who need their scores again; `scored_at` is `now` there.
struct EdgeScores {
  float* scores;       // (n_edges)
  int64_t* scored_at;  // (n_edges)
  int64_t now;
};

// A search's memory; of one thread at a time.
class ClassSearch {
 public:
  // A node's score is the sum of the edges above it, or of their log-probabilities among their siblings.
  ClassSearch(const ClassTree& tree, int64_t beam, bool log_probabilities)
      : tree_(tree), beam_(beam), log_probabilities_(log_probabilities) {}

  // The k best classes among those below the beam's nodes, best first, lower class first among equals; -1 and
  // -inf where there are no more. A score that is no number is never among them.
  void find(const EdgeWeights& weights, const ClassRow& row, int64_t k, int32_t* classes, float* scores,
            EdgeScores* seen);

  // log(sum(exp)) of the scores of all classes that the last `find` reached, of which `best` is the largest;
  // 0 where that is no finite number. A score that is no number counts as none.
  float log_sum_of_reached(float best);

 private:
  void open(const EdgeWeights& weights, const ClassRow& row, EdgeScores* seen);
  void normalize(size_t first, size_t last);
  int64_t opened() const { return static_cast<int64_t>(edges_.size()); }

  const ClassTree& tree_;
  int64_t beam_;
  bool log_probabilities_;
  ClassPicker picker_;
  std::vector<int32_t> nodes_;  // the edges above the beam's nodes; -1 for the root
  std::vector<float> above_;    // their scores
  std::vector<int32_t> edges_;  // all edges below the beam
  std::vector<float> sums_;     // the scores of what they lead to
  std::vector<float> scratch_;
};

// What log(sum(exp)) of n > 0 scores is, by a scratch of as many.
double log_sum(const float* scores, int64_t n, float* scratch);

}  // namespace sylvan
