// One layer's weights, borrowed, in the layout of the file: per cluster, rows keyed by feature.
#pragma once

#include <cstdint>

namespace sylvan {

// With `packed`, child numbers and 4-bit codes of weights share the array `weights`, and lengths are 4 bits.
enum class ChildType : int { u8 = 0, u16 = 1, u32 = 2, packed = 3 };
enum class WeightType : int { f32 = 0, f16 = 1, code = 2, packed = 3 };

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
//
// A packed entry is `entry_bits` bits, low bits first: a code into the cluster's own codebook, and above it
// the child number. Entries of one child that follow each other in a row are one weight, the sum of theirs.
// Rows of one key that follow each other are one row.
struct LayerView {
  int64_t n_clusters, n_nodes, n_features, n_blocks, n_rows, n_entries;
  int64_t max_children;  // of any cluster
  int block_bits;
  ChildType child_type;  // of `children`, and of `lengths`
  WeightType weight_type;
  int entry_bits;                  // of packed entries
  bool wide_keys;                  // 16-bit keys rather than 8-bit
  const int64_t* child_offsets;    // (n_clusters + 1)
  const int64_t* row_offsets;      // (n_clusters + 1)
  const int64_t* entry_offsets;    // (n_clusters + 1)
  const BlockStart* block_starts;  // (n_clusters, n_blocks + 1)
  const void* keys;                // (n_rows, then padding of 16 keys)
  const void* lengths;             // (n_rows, then padding) entries of the row minus one; packed, two a byte
  const void* children;            // (n_entries) child number within the cluster; null when packed
  const void* weights;             // (n_entries; packed, then padding of 8 bytes)
  const float* codebook;           // (256) with WeightType::code; packed, (n_clusters, 16)
  const float* intercepts;         // (n_nodes)
};

constexpr int64_t kKeyPadding = 16;
constexpr int64_t kEntryPadding = 8;
constexpr int kCodeBits = 4;
constexpr int64_t kBook = 1 << kCodeBits;  // weights of a packed cluster's codebook

}  // namespace sylvan
