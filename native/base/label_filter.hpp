// The labels that a query may be answered with, carried up the tree: a node is allowed if a label below it
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sylvan {

// The path from each label up to the root's children.
struct LabelPaths {
  // A layer above the labels. Layer 0 is the root's children; the last holds the clusters of labels.
  struct Layer {
    int64_t n_nodes;
    const int32_t* parents;     // (n_nodes) nodes of the layer above; null in layer 0
    const int32_t* n_children;  // (n_nodes)
  };
  int64_t n_labels;
  const int64_t* offsets;   // (n_labels + 1) each label's part of `clusters`
  const int32_t* clusters;  // the clusters that contain it
  std::vector<Layer> layers;
};

// One layer's marks as the search reads them, by reported name: node numbers, or labels in the last layer.
struct Marks {
  uint8_t* marked;
  uint8_t allowed;         // the mark of what is allowed
  const int64_t* offsets;  // (n_rows + 1), or null where no row has marks of its own
  const int32_t* names;    // what each row marks in addition, without repetitions

  // Sets (1) or clears (0) the marks of one row.
  void mark_own(int64_t row, uint8_t mark) const {
    if (offsets == nullptr) return;
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) marked[names[i]] = mark;
  }
};

// Label lists of single rows: row r has labels[offsets[r]] to labels[offsets[r + 1] - 1].
struct RowLabels {
  const int64_t* offsets;
  const int32_t* labels;
};

// Marks labels, either as the only allowed ones or as the denied ones, and with them the nodes that become
// allowed (by one label below) or denied (by all labels below). The cost is one step for each listed label
// and each marked node, whatever the size of the tree: a short list is cheap, whether it allows or denies.
class LabelFilter {
 public:
  LabelFilter(const LabelPaths& paths, bool listed_are_allowed);

  // Marks labels for all rows, permanently.
  void mark(const int32_t* labels, int64_t n);

  // Prepares the marks of rows first to first + n_rows - 1, replacing those of earlier rows.
  void list_rows(const RowLabels& own, int64_t first, int64_t n_rows);

  // The marks of a layer of nodes or, after the last layer, of the labels; valid until the next call.
  Marks marks_of(size_t layer);

 private:
  struct Lists {
    std::vector<uint8_t> marked;
    std::vector<int32_t> n_denied;  // marked children of each node, when the list denies
    std::vector<int32_t> names;     // what the prepared rows mark
    std::vector<int64_t> offsets;
  };
  void mark_paths(const int32_t* labels, int64_t n);
  void mark_node(size_t layer, int32_t node);
  void uncount_child(size_t layer, int32_t node);
  void clear_names();

  const LabelPaths& paths_;
  const bool listed_are_allowed_;
  bool has_rows_ = false;
  std::vector<Lists> layers_;  // the layers of the paths, then the labels
};

}  // namespace sylvan
