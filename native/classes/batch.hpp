// Beam search for many dense rows at once: layer by layer, and in each node by node, so that the weights
// below a node are read once for all rows that open it. Gives the same bits as ClassSearch.
#pragma once

#include <cstdint>
#include <vector>

#include "classes/edges.hpp"
#include "classes/frontier.hpp"
#include "classes/tree.hpp"

namespace sylvan {

// Outputs of a search: k classes and scores per row, and, unless null, log_sum_of_reached.
struct ClassAnswers {
  int64_t k;
  int32_t* classes;  // (n_rows, k)
  float* scores;     // (n_rows, k)
  float* log_sums;   // (n_rows)
};

class ClassBatchSearch {
 public:
  ClassBatchSearch(const ClassTree& tree, int64_t beam, NodeScore score);

  // Fills in the answers of rows first to last - 1; weights are stored edge by edge, rows are dense.
  void find(const EdgeWeights& weights, const ClassRows& rows, int64_t first, int64_t last,
            const ClassAnswers& answers);

 private:
  void start(int64_t n_rows);
  void score_layer(const EdgeWeights& weights, const ClassRows& rows, int64_t first, int64_t layer);

  const ClassTree& tree_;
  int64_t beam_;        // at most the width of the layers above the last
  int64_t block_rows_;  // rows that are searched together
  ClassFrontier frontier_;
  int64_t n_rows_ = 0;
  std::vector<int32_t> nodes_;    // (n_rows, beam) as in ClassSearch
  std::vector<float> above_;      // (n_rows, beam)
  std::vector<int64_t> n_nodes_;  // (n_rows)
  std::vector<int64_t> row_at_;   // (n_rows) where a row's sums begin
  std::vector<float> sums_;
  std::vector<int64_t> pair_ends_;  // for each node of a layer, the end of its pairs
  std::vector<int64_t> pair_rows_;  // a pair is a row and a node that it opens; sorted by node
  std::vector<int64_t> pair_at_;    // where its scores are written
};

}  // namespace sylvan
