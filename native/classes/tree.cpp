#include "classes/tree.hpp"

namespace sylvan {

const char* ClassTree::build(const int64_t* child_starts, int64_t n_starts, const int32_t* leaf_classes,
                             int64_t n_leaves) {
  const int64_t first_leaf = n_starts - 2;
  if (first_leaf < 0 || n_leaves < 1 || n_leaves > INT32_MAX - first_leaf)
    return "the sizes are out of range";
  const int64_t n_edges = first_leaf + n_leaves;
  if (child_starts[0] != 0 || child_starts[n_starts - 1] != n_edges)
    return "the starts do not fit the leaves";
  for (int64_t node = 0; node <= first_leaf; ++node) {
    // Edges come after those above them, or a descent might not end.
    if (child_starts[node + 1] <= child_starts[node] || child_starts[node] < node) {
      return "the starts are not ascending";
    }
  }
  layer_starts_.assign(1, 0);
  int64_t end = child_starts[1];
  while (end <= first_leaf) {
    if (layer_starts_.size() >= static_cast<size_t>(kMaxLayers)) return "the tree is too deep";
    layer_starts_.push_back(end);
    end = child_starts[end + 1];
  }
  if (layer_starts_.back() != first_leaf) return "the leaves are not all in the last layer";
  layer_starts_.push_back(n_edges);
  child_starts_ = child_starts;
  leaf_classes_ = leaf_classes;
  parents_.resize(static_cast<size_t>(n_edges));
  for (int64_t node = 0; node <= first_leaf; ++node) {
    for (int64_t edge = child_starts[node]; edge < child_starts[node + 1]; ++edge) {
      parents_[static_cast<size_t>(edge)] = static_cast<int32_t>(node - 1);
    }
  }
  leaf_edges_.assign(static_cast<size_t>(n_leaves), -1);
  for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
    const int32_t name = leaf_classes[leaf];
    if (name < 0 || name >= n_leaves || leaf_edges_[static_cast<size_t>(name)] >= 0) {
      return "each class must stand in one leaf";
    }
    leaf_edges_[static_cast<size_t>(name)] = static_cast<int32_t>(first_leaf + leaf);
  }
  return nullptr;
}

}  // namespace sylvan
