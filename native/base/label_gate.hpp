// Which labels a query may be answered with, carried up the tree: a node is open while a label below it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sylvan {

// The way from each label up to the root's children.
struct LabelPaths {
  // A layer above the labels. Layer 0 is the root's children; the last holds the clusters of labels.
  struct Layer {
    int64_t n_nodes;
    const int32_t* parents;     // (n_nodes) nodes of the layer above; null in layer 0
    const int32_t* n_children;  // (n_nodes)
  };
  int64_t n_labels;
  const int64_t* offsets;   // (n_labels + 1) each label's part of `clusters`
  const int32_t* clusters;  // the clusters that hold it
  std::vector<Layer> layers;
};

// One layer's marks as the search reads them, by the names that it reports: node numbers, and labels at last.
struct Marks {
  uint8_t* marked;
  uint8_t open;            // the mark of what may be answered
  const int64_t* offsets;  // (n_rows + 1), or null where no row has marks of its own
  const int32_t* names;    // what each row marks beside what is marked already, none of it twice

  // Sets the marks that a row has for itself, or takes them back.
  void mark_own(int64_t row, uint8_t mark) const {
    if (offsets == nullptr) return;
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) marked[names[i]] = mark;
  }
};

// The labels that rows list for themselves: row r has labels[offsets[r]] to labels[offsets[r + 1] - 1].
struct RowLabels {
  const int64_t* offsets;
  const int32_t* labels;
};

// Marks labels, either as the only ones that are open or as those that are closed, and with them the nodes
// that this opens (one label below does) or closes (it takes all of them). Costs a step for each listed label
// and each node marked, however large the tree; a list that opens few labels and one that closes few are both
// short.
class LabelGate {
 public:
  LabelGate(const LabelPaths& paths, bool listed_are_open);

  // Marks labels for all rows, for good.
  void mark(const int32_t* labels, int64_t n);

  // Lists what rows first to first + n_rows - 1 mark for themselves, in place of the rows before.
  void list_rows(const RowLabels& own, int64_t first, int64_t n_rows);

  // The marks of a layer of nodes, or, below the last of them, of the labels; good until the next call.
  Marks of_layer(size_t layer);

 private:
  struct Lists {
    std::vector<uint8_t> marked;
    std::vector<int32_t> n_closed;  // children of each node that are marked, where the listed are closed
    std::vector<int32_t> names;     // what the listed rows mark
    std::vector<int64_t> offsets;
  };
  void climb(const int32_t* labels, int64_t n);
  void arrive(size_t layer, int32_t node);
  void leave(size_t layer, int32_t node);
  void clear_names();

  const LabelPaths& paths_;
  const bool listed_are_open_;
  bool has_rows_ = false;
  std::vector<Lists> layers_;  // those of the paths, then the labels
};

}  // namespace sylvan
