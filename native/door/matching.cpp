#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "../beam.hpp"
#include "door.hpp"

namespace {

using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
int64_t size(const T& array) {
  return static_cast<int64_t>(array.size());
}

void need(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Offsets of n parts: n + 1 of them, from 0 to total, never falling.
void need_offsets(const In<int64_t>& offsets, int64_t n, int64_t total, const char* what) {
  need(size(offsets) == n + 1 && offsets.data()[0] == 0 && offsets.data()[n] == total, what);
  for (int64_t i = 0; i < n; ++i) need(offsets.data()[i] <= offsets.data()[i + 1], what);
}

// A layer's arrays, held for as long as kernels borrow from them.
struct Layer {
  std::vector<AnyArray> held;
  std::optional<In<float>> codebook;
  sylvan::LayerView view{};
};

sylvan::ChildType child_type(const AnyArray& array) {
  if (array.dtype() == nb::dtype<uint8_t>()) return sylvan::ChildType::u8;
  if (array.dtype() == nb::dtype<uint16_t>()) return sylvan::ChildType::u16;
  need(array.dtype() == nb::dtype<uint32_t>(), "children must be uint8, uint16 or uint32");
  return sylvan::ChildType::u32;
}

sylvan::WeightType weight_type(const AnyArray& array, bool has_codebook) {
  if (has_codebook) {
    need(array.dtype() == nb::dtype<uint8_t>(), "codes must be uint8");
    return sylvan::WeightType::code;
  }
  if (array.dtype() == nb::dtype<float>()) return sylvan::WeightType::f32;
  need(array.dtype() == nb::dtype<uint16_t>(), "weights must be float32, or float16 viewed as uint16");
  return sylvan::WeightType::f16;
}

void make_layer(Layer* self, int64_t n_features, int block_bits, In<int64_t> child_offsets,
                In<int64_t> row_offsets, In<int64_t> entry_offsets, In<uint32_t> block_starts, AnyArray keys,
                AnyArray lengths, AnyArray children, AnyArray weights, std::optional<In<float>> codebook,
                In<float> intercepts) {
  need(block_bits >= 0 && block_bits <= 16 && n_features >= 0 && n_features <= INT32_MAX,
       "sizes out of range");
  const int64_t n_clusters = size(child_offsets) - 1, n_entries = size(children);
  const int64_t n_rows = size(keys) - sylvan::kKeyPadding;
  const bool wide_keys = keys.dtype() == nb::dtype<uint16_t>();
  need(n_clusters >= 1 && n_rows >= 0, "there must be a cluster, and keys must be padded");
  need(wide_keys || (keys.dtype() == nb::dtype<uint8_t>() && block_bits <= 8), "keys have the wrong width");
  need(size(lengths) == size(keys) && lengths.dtype() == children.dtype(), "lengths and keys disagree");
  need(size(weights) == n_entries, "weights and children disagree");
  need(!codebook || size(*codebook) == 256, "a codebook holds 256 weights");
  need_offsets(child_offsets, n_clusters, size(intercepts), "child_offsets are not offsets");
  need_offsets(row_offsets, n_clusters, n_rows, "row_offsets are not offsets");
  need_offsets(entry_offsets, n_clusters, n_entries, "entry_offsets are not offsets");
  const int64_t n_blocks = (n_features + (int64_t{1} << block_bits) - 1) >> block_bits;
  need(size(block_starts) == 2 * n_clusters * (n_blocks + 1), "block_starts have the wrong size");
  new (self) Layer();
  const sylvan::ChildType type = child_type(children);
  int64_t most_children = 1;
  for (int64_t c = 0; c < n_clusters; ++c) {
    const int64_t n = child_offsets.data()[c + 1] - child_offsets.data()[c];
    most_children = n > most_children ? n : most_children;
    need(type != sylvan::ChildType::u8 || n <= 256, "a cluster has more children than their type can number");
  }
  sylvan::LayerView& view = self->view;
  view.n_clusters = n_clusters;
  view.n_nodes = size(intercepts);
  view.n_features = n_features;
  view.n_blocks = n_blocks;
  view.n_rows = n_rows;
  view.n_entries = n_entries;
  view.most_children = most_children;
  view.block_bits = block_bits;
  view.child_type = type;
  view.weight_type = weight_type(weights, codebook.has_value());
  view.wide_keys = wide_keys;
  view.child_offsets = child_offsets.data();
  view.row_offsets = row_offsets.data();
  view.entry_offsets = entry_offsets.data();
  view.block_starts = reinterpret_cast<const sylvan::BlockStart*>(block_starts.data());
  view.keys = keys.data();
  view.lengths = lengths.data();
  view.children = children.data();
  view.weights = weights.data();
  view.codebook = codebook ? codebook->data() : nullptr;
  view.intercepts = intercepts.data();
  self->held = {AnyArray(child_offsets),
                AnyArray(row_offsets),
                AnyArray(entry_offsets),
                AnyArray(block_starts),
                keys,
                lengths,
                children,
                weights,
                AnyArray(intercepts)};
  self->codebook = codebook;
}

sylvan::Query rows_of(const In<int64_t>& indptr, const In<int32_t>& indices, const In<float>& values,
                      int64_t first, int64_t last) {
  need(0 <= first && first <= last && last < size(indptr), "the rows are out of range");
  need(indices.size() == values.size() && indptr.data()[last] <= size(indices),
       "the query's arrays disagree");
  return {last - first, indptr.data() + first, indices.data(), values.data()};
}

sylvan::Combine combine_of(int number) {
  need(number >= 0 && number <= 2, "no such way to combine scores");
  return static_cast<sylvan::Combine>(number);
}

void search(const Layer& layer, In<int64_t> indptr, In<int32_t> indices, In<float> values, int64_t first,
            int64_t last, Out2<int32_t> from_nodes, Out2<float> from_scores, int combine, float power,
            Out2<int32_t> to_nodes, Out2<float> to_scores) {
  const sylvan::Query query = rows_of(indptr, indices, values, first, last);
  const int64_t from_width = from_nodes.shape(1), to_width = to_nodes.shape(1);
  need(from_width >= 1 && to_width >= 1 && static_cast<int64_t>(from_nodes.shape(0)) >= last &&
           static_cast<int64_t>(to_nodes.shape(0)) >= last && from_scores.size() == from_nodes.size() &&
           to_scores.size() == to_nodes.size(),
       "the beams and the rows disagree");
  const sylvan::Combine how = combine_of(combine);
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::search_layer(
        layer.view, query,
        {from_width, from_nodes.data() + first * from_width, from_scores.data() + first * from_width}, how,
        power, nullptr, {to_width, to_nodes.data() + first * to_width, to_scores.data() + first * to_width});
  }
  if (!done) throw std::bad_alloc();
}

// All layers for some rows, from the root to the labels.
bool rank_rows(const std::vector<const sylvan::LayerView*>& layers, const sylvan::Query& query, int64_t beam,
               const std::vector<int>& combine, float power, const int32_t* leaf_labels, int64_t n_copies,
               bool exponentiate, int64_t k, int32_t* out_labels, float* out_scores) {
  std::vector<int32_t> nodes(static_cast<size_t>(query.n_rows), 0), next_nodes;
  std::vector<float> scores(static_cast<size_t>(query.n_rows), 0.0f), next_scores;
  int64_t width = 1;
  for (size_t t = 0; t < layers.size(); ++t) {
    const bool last = t + 1 == layers.size();
    const int64_t wanted = last ? k * n_copies : beam;
    const int64_t next_width = wanted < layers[t]->n_nodes ? wanted : layers[t]->n_nodes;
    next_nodes.resize(static_cast<size_t>(query.n_rows * next_width));
    next_scores.resize(next_nodes.size());
    if (!sylvan::search_layer(*layers[t], query, {width, nodes.data(), scores.data()},
                              static_cast<sylvan::Combine>(combine[t]), power, last ? leaf_labels : nullptr,
                              {next_width, next_nodes.data(), next_scores.data()})) {
      return false;
    }
    nodes.swap(next_nodes);
    scores.swap(next_scores);
    width = next_width;
  }
  sylvan::distinct_labels({width, nodes.data(), scores.data()}, query.n_rows, n_copies, exponentiate, k,
                          out_labels, out_scores);
  return true;
}

void rank(nb::list layers, In<int64_t> indptr, In<int32_t> indices, In<float> values, int64_t first,
          int64_t last, int64_t beam, const std::vector<int>& combine, float power, In<int32_t> leaf_labels,
          int64_t n_copies, bool exponentiate, Out2<int32_t> out_labels, Out2<float> out_scores) {
  const sylvan::Query query = rows_of(indptr, indices, values, first, last);
  std::vector<const sylvan::LayerView*> views;
  int64_t n_nodes = 1;
  for (nb::handle item : layers) {
    views.push_back(&nb::cast<const Layer&>(item).view);
    need(views.back()->n_clusters == n_nodes, "a layer's clusters are not the nodes of the layer above");
    n_nodes = views.back()->n_nodes;
  }
  const int64_t k = out_labels.shape(1);
  need(!views.empty() && combine.size() == views.size() && size(leaf_labels) == n_nodes,
       "the layers disagree");
  need(beam >= 1 && k >= 1 && n_copies >= 1 && out_scores.shape(1) == out_labels.shape(1) &&
           static_cast<int64_t>(out_labels.shape(0)) >= last &&
           static_cast<int64_t>(out_scores.shape(0)) >= last,
       "the outputs and the rows disagree");
  for (const int how : combine) combine_of(how);
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = rank_rows(views, query, beam, combine, power, leaf_labels.data(), n_copies, exponentiate, k,
                     out_labels.data() + first * k, out_scores.data() + first * k);
  }
  if (!done) throw std::bad_alloc();
}

}  // namespace

void bind_matching(nb::module_& m) {
  nb::class_<Layer>(m, "Layer",
                    "One layer's weights as the kernels see them; it holds the arrays it borrows from.")
      .def("__init__", &make_layer, nb::arg("n_features"), nb::arg("block_bits"),
           nb::arg("child_offsets").noconvert(), nb::arg("row_offsets").noconvert(),
           nb::arg("entry_offsets").noconvert(), nb::arg("block_starts").noconvert(),
           nb::arg("keys").noconvert(), nb::arg("lengths").noconvert(), nb::arg("children").noconvert(),
           nb::arg("weights").noconvert(), nb::arg("codebook").noconvert().none(),
           nb::arg("intercepts").noconvert());
  m.def("search_layer", &search, nb::arg("layer"), nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("first"), nb::arg("last"),
        nb::arg("from_nodes").noconvert(), nb::arg("from_scores").noconvert(), nb::arg("combine"),
        nb::arg("power"), nb::arg("to_nodes").noconvert(), nb::arg("to_scores").noconvert(),
        "One layer of beam search for rows first to last - 1.");
  m.def("rank", &rank, nb::arg("layers"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("values").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("beam"), nb::arg("combine"),
        nb::arg("power"), nb::arg("leaf_labels").noconvert(), nb::arg("n_copies"), nb::arg("exponentiate"),
        nb::arg("out_labels").noconvert(), nb::arg("out_scores").noconvert(),
        "Beam search through all layers for rows first to last - 1.");
}
