// Complete binary trees over binned features: what training sums up, and what trees say of rows.
#pragma once

#include <cstdint>

namespace sylvan {

// Adds each row's two values to the sums of its node, feature and bin: sums[((node * n_features) + feature) *
// n_bins
// + bin] holds a pair. Rows of node -1 are left out. False when a bin or a node is out of range.
bool add_histograms(const uint8_t* bins, const int32_t* nodes, const double* first, const double* second,
                    int64_t n_rows, int64_t n_features, int64_t n_nodes, int64_t n_bins, double* sums);

// A forest of n_trees complete trees of `depth` layers of splits: a row goes to the right child where its
// feature is above the threshold. The nodes of a tree are numbered layer by layer from 0.
struct Forest {
  int64_t n_trees;
  int depth;
  const int32_t* features;  // 2^depth - 1 a tree, verified
  const float* thresholds;  // the same
  const float* leaves;      // 2^depth a tree
};

// The sum of all trees' leaves, in their order, and `base`, for each row of n_features values.
void score_forest(const Forest& forest, const float* rows, int64_t n_rows, int64_t n_features, float base,
                  float* out);

}  // namespace sylvan
