// What found rows add to the scores of a cluster's children, from their entries or from dense lines of
// weights.
#pragma once

#include <cstdint>

#include "linear/layer.hpp"

namespace sylvan {

// A row that was found: where its entries begin (or, if unpacked, the number of its dense line), how many
// there are, and the query's value.
struct Hit {
  int64_t entry;
  uint32_t length;
  float value;
};

constexpr int64_t kLeastSums = 256;  // sums that there must be: any 8-bit child number is then in range

// Rows of at least so many entries are unpacked to a dense line of all children: adding it takes one step per
// 16 children instead of one per entry. 0 when no row of the cluster is unpacked so.
uint32_t dense_length(const LayerView& layer, int64_t cluster);

// Adds the entries of a cluster's rows to the sums of its children, those of at least `dense` entries first
// when `dense` isn't 0.
void add_entries(const LayerView& layer, int64_t cluster, const Hit* hits, int64_t n_hits, uint32_t dense,
                 float* sums);

}  // namespace sylvan
