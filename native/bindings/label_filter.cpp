#include "bindings/label_filter.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings/checks.hpp"

namespace {

void need_labels(const In<int32_t>& labels, int64_t first, int64_t last, int64_t n_labels) {
  for (int64_t i = first; i < last; ++i)
    need(0 <= labels.data()[i] && labels.data()[i] < n_labels, "a listed label is out of range");
}

void make_paths(Paths* self, In<int32_t> leaf_labels, In<int64_t> offsets, In<int32_t> clusters,
                const std::vector<In<int32_t>>& parents, const std::vector<In<int32_t>>& n_children) {
  const int64_t n_labels = size(offsets) - 1;
  need(n_labels >= 1, "there must be a label");
  need(parents.size() == n_children.size(), "parents and n_children disagree");
  need_offsets(offsets, n_labels, size(clusters), "offsets are not offsets");
  need_labels(leaf_labels, 0, size(leaf_labels), n_labels);
  std::vector<sylvan::LabelPaths::Layer> layers;
  int64_t n_above = 1;
  for (size_t t = 0; t < parents.size(); ++t) {
    need(parents[t].size() == n_children[t].size(), "parents and n_children disagree");
    for (int64_t i = 0; i < size(parents[t]); ++i) {
      need(0 <= parents[t].data()[i] && parents[t].data()[i] < n_above, "a parent is out of range");
    }
    n_above = size(parents[t]);
    layers.push_back({n_above, parents[t].data(), n_children[t].data()});
  }
  for (int64_t i = 0; i < size(clusters); ++i) {
    need(0 <= clusters.data()[i] && clusters.data()[i] < n_above, "a cluster is out of range");
  }
  new (self) Paths();
  self->arrays = parents;
  self->arrays.insert(self->arrays.end(), n_children.begin(), n_children.end());
  self->arrays.push_back(clusters);
  self->offsets = offsets;
  self->leaf_labels = leaf_labels;
  self->view = {n_labels, self->offsets.data(), self->arrays.back().data(), std::move(layers)};
}

void make_listed(Listed* self, bool allowed, In<int32_t> shared, std::optional<In<int64_t>> row_offsets,
                 In<int32_t> row_labels) {
  new (self) Listed{allowed, shared, row_offsets, row_labels};
}

}  // namespace

void need_listed(const Listed& listed, int64_t n_labels, int64_t first, int64_t last) {
  need_labels(listed.shared, 0, size(listed.shared), n_labels);
  if (!listed.row_offsets) return;
  const int64_t* offsets = listed.row_offsets->data();
  need(last < size(*listed.row_offsets) && offsets[first] >= 0 && offsets[last] <= size(listed.row_labels),
       "the rows' lists are out of range");
  for (int64_t r = first; r < last; ++r) need(offsets[r] <= offsets[r + 1], "row_offsets are not offsets");
  need_labels(listed.row_labels, offsets[first], offsets[last], n_labels);
}

void bind_label_filter(nb::module_& m) {
  nb::class_<Paths>(m, "LabelPaths", "The path from each label of a tree up to the root, for listed labels.")
      .def("__init__", &make_paths, nb::arg("leaf_labels").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("clusters").noconvert(), nb::arg("parents"), nb::arg("n_children"));
  nb::class_<Listed>(m, "ListedLabels", "The labels that rows may, or may not, be answered with.")
      .def("__init__", &make_listed, nb::arg("allowed"), nb::arg("shared").noconvert(),
           nb::arg("row_offsets").noconvert().none(), nb::arg("row_labels").noconvert());
}
