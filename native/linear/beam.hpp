// Beam search through the layers of a tree (PECOS Algorithm 2, lines 8-15, and Section 2.5).
#pragma once

#include <cstdint>
#include <vector>

#include "base/label_filter.hpp"
#include "base/sparse_rows.hpp"
#include "linear/layer.hpp"

namespace sylvan {

// How a child's score is combined with its parent's (PECOS Eq. 12, 13 and the product of sigmoids); products
// are computed as sums of logarithms. `nested` is Eq. 13 to the letter: the hinge takes the parent's score
// too.
enum class Combine : int { ranker = 0, hinge = 1, sigmoid = 2, nested = 3 };

// `share` is the factor of the parent's logarithm in a sum: 1 for a product, less where a layer's rankers
// have themselves been trained against other clusters.
struct Rule {
  Combine combine;
  float power;  // p of Eq. 13
  float share;
};

// The clusters that a query opens in a layer, best first, and their scores; -1 ends a shorter list.
struct Beam {
  int64_t width;
  int32_t* nodes;  // (n_rows, width)
  float* scores;   // (n_rows, width)
};

// Changes of single scores: of each row its nodes, rising, and what is added to their scores.
struct RowChanges {
  const int64_t* offsets;  // (n_rows + 1)
  const int32_t* nodes;
  const float* changes;
};

// The best children of the beam's clusters, best first. Children are reported, and ordered among equals, by
// `names` (n_nodes; the leaves' labels), or by node number where it is null. With `marks`
// only allowed children are reported. Returns false when memory runs out.
bool search_layer(const LayerView& layer, const SparseRows& query, const Beam& from, const Rule& rule,
                  const RowChanges* changes, const Beam& to);

// The first k distinct labels of each row (of a label's up to n_copies leaves the best counts). With
// `exponentiate` logarithms become scores.
void distinct_labels(const Beam& found, int64_t n_rows, int64_t n_copies, bool exponentiate, int64_t k,
                     int32_t* out_labels, float* out_scores);

// Settings and outputs of a search through all layers.
struct TreeSearch {
  std::vector<const LayerView*> layers;
  std::vector<Rule> rules;  // one a layer
  int64_t beam;
  const int32_t* leaf_labels;  // (nodes of the last layer)
  int64_t n_copies;            // the largest number of leaves of a label
  bool exponentiate;
  int64_t k;
  int32_t* out_labels;  // (n_rows, k)
  float* out_scores;
};

// The k best labels of each row, of those that the filter (unless null) and the row's own list (unless null)
// allow. Returns false when memory runs out.
bool rank_rows(const TreeSearch& search, const SparseRows& query, LabelFilter* filter, const RowLabels* own);

}  // namespace sylvan
