// The edges below the nodes of a beam, for one row at a time. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "classes/pick.hpp"
#include "classes/tree.hpp"

namespace sylvan {

// What a node's score is: the sum over the edges above it of their scores, or of their log-probabilities
// among siblings; or the score of its own edge alone.
enum class NodeScore { path, log_probability, own };

class ClassFrontier {
 public:
  ClassFrontier(const ClassTree& tree, int64_t beam, NodeScore score)
      : tree_(tree), beam_(beam), score_(score) {}

  // Lists the edges below n nodes, each given by the edge above it, or -1 for the root.
  const std::vector<int32_t>& list(const int32_t* nodes, int64_t n);

  // Turns the listed edges' scores into those of the nodes below them.
  void add_up(const int32_t* nodes, const float* above, int64_t n, float* sums);

  // The best of the listed edges and their nodes' scores, at most the beam's width; returns how many.
  int64_t narrow(const float* sums, int32_t* nodes, float* above);

  // The k best classes, when the listed edges end in classes; -1 and -inf where there are no more.
  void finish(const float* sums, int64_t k, int32_t* classes, float* scores);

  // log(sum(exp)) of the listed nodes' scores, of which `best` is the largest; 0 where that isn't
  // finite. A NaN is ignored.
  float log_sum_of_reached(const float* sums, float best);

 private:
  int64_t listed() const { return static_cast<int64_t>(edges_.size()); }

  const ClassTree& tree_;
  int64_t beam_;
  NodeScore score_;
  ClassPicker picker_;
  std::vector<int32_t> edges_;
  std::vector<float> scratch_;
};

// log(sum(exp)) of n > 0 scores, with a scratch buffer of the same size.
double log_sum(const float* scores, int64_t n, float* scratch);

}  // namespace sylvan
