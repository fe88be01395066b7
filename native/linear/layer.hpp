// One layer's weights, borrowed, in the layout of the file: per cluster, rows keyed by feature.
#pragma once

#include <cstdint>

namespace sylvan {

enum class ChildType : int { u8 = 0, u16 = 1, u32 = 2 };
enum class WeightType : int { f32 = 0, f16 = 1, code = 2 };

// Where the rows and entries of a block of features begin, counted within the cluster.
struct BlockStart {
  uint32_t row;
  uint32_t entry;
};

// Features are cut into blocks of 2^block_bits; a cluster has the starts of each block's rows (n_blocks + 1
// of them), and a row's key is the low bits of its feature. A lookup reads one block start, compares the few
// keys of the block, and adds up the lengths before the hit. Only the sizes of the arrays are trusted: each
// offset is checked against them where it is used, so that a damaged file gives wrong answers, but never an
// access out of bounds.
struct LayerView {
  int64_t n_clusters, n_nodes, n_features, n_blocks, n_rows, n_entries;
  int64_t max_children;  // of any cluster
  int block_bits;
  ChildType child_type;  // of `children`, and of `lengths`
  WeightType weight_type;
  bool wide_keys;                  // 16-bit keys rather than 8-bit
  const int64_t* child_offsets;    // (n_clusters + 1)
  const int64_t* row_offsets;      // (n_clusters + 1)
  const int64_t* entry_offsets;    // (n_clusters + 1)
  const BlockStart* block_starts;  // (n_clusters, n_blocks + 1)
  const void* keys;                // (n_rows, then padding of 16 keys)
  const void* lengths;             // (n_rows, then padding) entries of the row minus one
  const void* children;            // (n_entries) child number within the cluster
  const void* weights;             // (n_entries)
  const float* codebook;           // (256) with WeightType::code
  const float* intercepts;         // (n_nodes)
};

constexpr int64_t kKeyPadding = 16;

}  // namespace sylvan
