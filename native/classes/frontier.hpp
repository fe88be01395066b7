// What lies below the nodes that a beam has opened, for one row at a time; of one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "classes/pick.hpp"
#include "classes/tree.hpp"

namespace sylvan {

class ClassFrontier {
 public:
  // A node's score is the sum of the edges above it, or of their log-probabilities among their siblings.
  ClassFrontier(const ClassTree& tree, int64_t beam, bool log_probabilities)
      : tree_(tree), beam_(beam), log_probabilities_(log_probabilities) {}

  // Lists the edges below n nodes, each named by the edge above it and -1 for the root.
  const std::vector<int32_t>& list(const int32_t* nodes, int64_t n);

  // The listed edges' scores become those of their ends: what is above them is added.
  void add_up(const int32_t* nodes, const float* above, int64_t n, float* sums);

  // The beam's best ends of the listed edges and their scores; how many there are, never more than the beam.
  int64_t narrow(const float* sums, int32_t* nodes, float* above);

  // The k best classes, where the listed edges end in some; -1 and -inf where there are no more.
  void finish(const float* sums, int64_t k, int32_t* classes, float* scores);

  // log(sum(exp)) of the listed edges' sums, of which `best` is the largest; 0 where that is no finite
  // number. A score that is no number counts as none.
  float log_sum_of_reached(const float* sums, float best);

 private:
  int64_t listed() const { return static_cast<int64_t>(edges_.size()); }

  const ClassTree& tree_;
  int64_t beam_;
  bool log_probabilities_;
  ClassPicker picker_;
  std::vector<int32_t> edges_;
  std::vector<float> scratch_;
};

// What log(sum(exp)) of n > 0 scores is, by a scratch of as many.
double log_sum(const float* scores, int64_t n, float* scratch);

}  // namespace sylvan
