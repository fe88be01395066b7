// The Beam Tree over classes (CANE, arXiv 1711.00658): every edge has a row of weights, and the score of a
// class is the sum over the edges of its path (Eq. 9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sylvan {

constexpr int kMaxLayers = 64;  // as a LabelTree on disk has at most

// Edges are numbered layer after layer, siblings side by side; the edges of the last layer end in classes.
// Node 0 is the root, node e + 1 the lower end of edge e.
class ClassTree {
 public:
  // child_starts: (first_leaf + 2) the first edge below each node that isn't a leaf, then the number of
  // edges. leaf_classes: (n_leaves) the class of each leaf, each class once. Both are borrowed. Returns null,
  // or what is wrong with them.
  const char* build(const int64_t* child_starts, int64_t n_starts, const int32_t* leaf_classes,
                    int64_t n_leaves);

  int64_t n_edges() const { return layer_starts_.back(); }
  int64_t n_classes() const { return n_edges() - first_leaf(); }
  int64_t n_layers() const { return static_cast<int64_t>(layer_starts_.size()) - 1; }
  int64_t first_leaf() const { return layer_starts_[layer_starts_.size() - 2]; }
  int64_t layer_start(int64_t layer) const { return layer_starts_[static_cast<size_t>(layer)]; }
  int64_t first_child(int64_t node) const { return child_starts_[node]; }
  const int32_t* leaf_classes() const { return leaf_classes_; }  // from the edge first_leaf() on
  int32_t leaf_edge(int64_t name) const { return leaf_edges_[static_cast<size_t>(name)]; }
  int32_t parent(int64_t edge) const { return parents_[static_cast<size_t>(edge)]; }  // -1 below the root

 private:
  const int64_t* child_starts_ = nullptr;
  const int32_t* leaf_classes_ = nullptr;
  std::vector<int64_t> layer_starts_;  // the first edge of each layer, then the number of edges
  std::vector<int32_t> parents_;
  std::vector<int32_t> leaf_edges_;  // of each class
};

}  // namespace sylvan
