// Recursive balanced two-way splits of rows, along the shape of a label tree; see cluster.cpp.
#pragma once

#include <cstdint>

namespace sylvan {

// Rows to cluster: sparse (indptr and indices set) or dense (both null, n_columns values a row).
struct Rows {
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
  int64_t n_columns;
};

// The shape: layer t's child offsets are offsets[layer_start[t] .. layer_start[t + 1]).
struct TreeShape {
  const int64_t* offsets;
  const int64_t* layer_start;
  int64_t n_layers;
};

struct SplitSettings {
  uint64_t seed;
  bool spherical;          // centres scaled to length one
  int64_t max_iterations;  // of Lloyd, a split
  int64_t sample;          // rows that larger splits iterate on before all rows are assigned
  int64_t max_steps;       // halvings to descend; further ones are left to other calls
};

// Number of leaves before node `node` of `layer`.
int64_t leaf_position(const TreeShape& shape, int64_t layer, int64_t node);

// Reorders `order`, the row ids of the leaves below nodes first .. last of `layer`, so that each node gets
// rows that are close to each other, and so do the nodes below.
void split_rows(const Rows& rows, const TreeShape& shape, int64_t layer, int64_t first, int64_t last,
                const SplitSettings& settings, int32_t* order);

}  // namespace sylvan
