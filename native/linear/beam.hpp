// Beam search through the layers of a tree (PECOS Algorithm 2, lines 8-15, and Section 2.5).
#pragma once

#include <cstdint>
#include <vector>

#include "base/label_gate.hpp"
#include "base/sparse_rows.hpp"
#include "linear/layer.hpp"

namespace sylvan {

// How a child's score joins its parent's (PECOS Eq. 12, 13 and the product of sigmoids), in logarithms where
// the paper multiplies.
enum class Combine : int { ranker = 0, hinge = 1, sigmoid = 2 };

// The clusters that a query may open in a layer, best first, and their scores; -1 ends a shorter list.
struct Beam {
  int64_t width;
  int32_t* nodes;  // (n_rows, width)
  float* scores;   // (n_rows, width)
};

// The best children of the beam's clusters, best first. `names` (n_nodes) is what they are reported and,
// among equals, ordered by (the leaves' labels); null for the node numbers themselves. `power` is Eq. 13's p.
// With `marks` only what is open is kept. Returns false when memory could not be had.
bool search_layer(const LayerView& layer, const SparseRows& query, const Beam& from, Combine combine,
                  float power, const int32_t* names, const Marks* marks, const Beam& to);

// The first k different labels of each row (a label may stand in n_copies leaves: the best counts).
// Logarithms become scores when `exponentiate`.
void distinct_labels(const Beam& found, int64_t n_rows, int64_t n_copies, bool exponentiate, int64_t k,
                     int32_t* out_labels, float* out_scores);

// How a search through all layers goes, and what it gives.
struct TreeSearch {
  std::vector<const LayerView*> layers;
  std::vector<Combine> combine;  // one a layer
  float power;
  int64_t beam;
  const int32_t* leaf_labels;  // (nodes of the last layer)
  int64_t n_copies;            // most leaves of a label
  bool exponentiate;
  int64_t k;
  int32_t* out_labels;  // (n_rows, k)
  float* out_scores;
};

// The k best labels of each row, of those that the gate (unless null) and the row's own list (unless null)
// leave open. Returns false when memory could not be had.
bool rank_rows(const TreeSearch& search, const SparseRows& query, LabelGate* gate, const RowLabels* own);

}  // namespace sylvan
