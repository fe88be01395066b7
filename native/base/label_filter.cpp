#include "base/label_filter.hpp"

namespace sylvan {

LabelFilter::LabelFilter(const LabelPaths& paths, bool listed_are_allowed)
    : paths_(paths), listed_are_allowed_(listed_are_allowed), layers_(paths.layers.size() + 1) {
  for (size_t t = 0; t < paths.layers.size(); ++t) {
    layers_[t].marked.assign(static_cast<size_t>(paths.layers[t].n_nodes), 0);
    if (!listed_are_allowed) layers_[t].n_denied.assign(static_cast<size_t>(paths.layers[t].n_nodes), 0);
  }
  layers_.back().marked.assign(static_cast<size_t>(paths.n_labels), 0);
}

// Called when something below a node was marked: marks the node itself where that follows.
void LabelFilter::mark_node(size_t layer, int32_t node) {
  Lists& lists = layers_[layer];
  if (listed_are_allowed_ ? lists.marked[node] != 0
                          : ++lists.n_denied[node] != paths_.layers[layer].n_children[node])
    return;
  lists.marked[node] = 1;
  lists.names.push_back(node);
}

void LabelFilter::uncount_child(size_t layer, int32_t node) {
  if (!listed_are_allowed_) --layers_[layer].n_denied[node];
}

// Marks the labels and the nodes above them; newly marked ones are appended to their layers' names.
void LabelFilter::mark_paths(const int32_t* labels, int64_t n) {
  const size_t depth = paths_.layers.size();
  Lists& last = layers_.back();
  const size_t first = last.names.size();
  for (int64_t i = 0; i < n; ++i) {
    if (last.marked[labels[i]]) continue;
    last.marked[labels[i]] = 1;
    last.names.push_back(labels[i]);
  }
  if (depth == 0) return;
  std::vector<size_t> begins(depth);
  for (size_t t = 0; t < depth; ++t) begins[t] = layers_[t].names.size();
  for (size_t i = first; i < last.names.size(); ++i) {
    const int32_t label = last.names[i];
    for (int64_t j = paths_.offsets[label]; j < paths_.offsets[label + 1]; ++j)
      mark_node(depth - 1, paths_.clusters[j]);
  }
  for (size_t t = depth - 1; t > 0; --t) {
    for (size_t i = begins[t]; i < layers_[t].names.size(); ++i)
      mark_node(t - 1, paths_.layers[t].parents[layers_[t].names[i]]);
  }
}

void LabelFilter::clear_names() {
  for (Lists& lists : layers_) lists.names.clear();
}

void LabelFilter::mark(const int32_t* labels, int64_t n) {
  mark_paths(labels, n);
  clear_names();
}

void LabelFilter::list_rows(const RowLabels& own, int64_t first, int64_t n_rows) {
  const size_t depth = paths_.layers.size();
  has_rows_ = true;
  clear_names();
  for (Lists& lists : layers_) lists.offsets.assign(1, 0);
  for (int64_t r = first; r < first + n_rows; ++r) {
    mark_paths(own.labels + own.offsets[r], own.offsets[r + 1] - own.offsets[r]);
    // Unmarked again at once: the search sets each row's marks when it comes to the row.
    for (size_t t = 0; t <= depth; ++t) {
      Lists& lists = layers_[t];
      for (size_t i = static_cast<size_t>(lists.offsets.back()); i < lists.names.size(); ++i) {
        const int32_t name = lists.names[i];
        lists.marked[name] = 0;
        if (t == depth && depth > 0) {
          for (int64_t j = paths_.offsets[name]; j < paths_.offsets[name + 1]; ++j)
            uncount_child(depth - 1, paths_.clusters[j]);
        } else if (t > 0 && t < depth) {
          uncount_child(t - 1, paths_.layers[t].parents[name]);
        }
      }
      lists.offsets.push_back(static_cast<int64_t>(lists.names.size()));
    }
  }
}

Marks LabelFilter::marks_of(size_t layer) {
  Lists& lists = layers_[layer];
  return {lists.marked.data(), static_cast<uint8_t>(listed_are_allowed_ ? 1 : 0),
          has_rows_ ? lists.offsets.data() : nullptr, lists.names.data()};
}

}  // namespace sylvan
