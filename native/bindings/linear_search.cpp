#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>
#include <vector>

#include "bindings/checks.hpp"
#include "bindings/label_filter.hpp"
#include "linear/beam.hpp"
#include "linear/merge.hpp"

namespace {

using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A layer; owns references to the arrays that kernels borrow.
struct Layer {
  std::vector<AnyArray> arrays;
  std::optional<In<float>> codebook;
  sylvan::LayerView view{};
};

sylvan::ChildType child_type(const std::optional<AnyArray>& children) {
  if (!children) return sylvan::ChildType::packed;
  const AnyArray& array = *children;
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

// Bits of a packed entry: a code, and the number of any child.
int packed_bits(int64_t max_children) {
  int bits = 0;
  while (((max_children - 1) >> bits) > 0) ++bits;
  return sylvan::kCodeBits + bits;
}

void make_layer(Layer* self, int64_t n_features, int block_bits, In<int64_t> child_offsets,
                In<int64_t> row_offsets, In<int64_t> entry_offsets, In<uint32_t> block_starts, AnyArray keys,
                AnyArray lengths, std::optional<AnyArray> children, AnyArray weights,
                std::optional<In<float>> codebook, In<float> intercepts) {
  need(block_bits >= 0 && block_bits <= 16 && n_features >= 0 && n_features <= INT32_MAX,
       "sizes out of range");
  const int64_t n_clusters = size(child_offsets) - 1, n_offsets = size(entry_offsets);
  const bool packed = !children;
  const int64_t n_rows = size(keys) - sylvan::kKeyPadding;
  const bool wide_keys = keys.dtype() == nb::dtype<uint16_t>();
  need(n_clusters >= 1 && n_rows >= 0, "there must be a cluster, and keys must be padded");
  need(wide_keys || (keys.dtype() == nb::dtype<uint8_t>() && block_bits <= 8), "keys have the wrong width");
  need(n_offsets >= 1, "entry_offsets are not offsets");
  const int64_t n_entries = packed ? entry_offsets.data()[n_offsets - 1] : size(*children);
  need(size(lengths) == (packed ? n_rows / 2 + sylvan::kKeyPadding : size(keys)) &&
           lengths.dtype() == (packed ? nb::dtype<uint8_t>() : children->dtype()),
       "lengths and keys disagree");
  need_offsets(child_offsets, n_clusters, size(intercepts), "child_offsets are not offsets");
  need_offsets(row_offsets, n_clusters, n_rows, "row_offsets are not offsets");
  need_offsets(entry_offsets, n_clusters, n_entries, "entry_offsets are not offsets");
  const int64_t n_blocks = (n_features + (int64_t{1} << block_bits) - 1) >> block_bits;
  need(size(block_starts) == 2 * n_clusters * (n_blocks + 1), "block_starts have the wrong size");
  const sylvan::ChildType type = child_type(children);
  int64_t max_children = 1;
  for (int64_t c = 0; c < n_clusters; ++c) {
    const int64_t n = child_offsets.data()[c + 1] - child_offsets.data()[c];
    max_children = n > max_children ? n : max_children;
    need(type != sylvan::ChildType::u8 || n <= 256, "a cluster has more children than their type can number");
  }
  const int entry_bits = packed_bits(max_children);
  if (packed) {
    // Where a product overflowed, the array would have to be larger than any memory.
    need(n_entries <= (int64_t{1} << 56) / entry_bits &&
             size(weights) == (n_entries * entry_bits + 7) / 8 + sylvan::kEntryPadding,
         "weights and entry_offsets disagree");
    need(codebook && size(*codebook) == n_clusters * sylvan::kBook, "a cluster's codebook holds 16 weights");
    need(weights.dtype() == nb::dtype<uint8_t>(), "codes must be uint8");
  } else {
    need(size(weights) == n_entries, "weights and children disagree");
    need(!codebook || size(*codebook) == 256, "a codebook holds 256 weights");
  }
  new (self) Layer();
  sylvan::LayerView& view = self->view;
  view.n_clusters = n_clusters;
  view.n_nodes = size(intercepts);
  view.n_features = n_features;
  view.n_blocks = n_blocks;
  view.n_rows = n_rows;
  view.n_entries = n_entries;
  view.max_children = max_children;
  view.block_bits = block_bits;
  view.child_type = type;
  view.weight_type = packed ? sylvan::WeightType::packed : weight_type(weights, codebook.has_value());
  view.entry_bits = entry_bits;
  view.wide_keys = wide_keys;
  view.child_offsets = child_offsets.data();
  view.row_offsets = row_offsets.data();
  view.entry_offsets = entry_offsets.data();
  view.block_starts = reinterpret_cast<const sylvan::BlockStart*>(block_starts.data());
  view.keys = keys.data();
  view.lengths = lengths.data();
  view.children = packed ? nullptr : children->data();
  view.weights = weights.data();
  view.codebook = codebook ? codebook->data() : nullptr;
  view.intercepts = intercepts.data();
  self->arrays = {AnyArray(child_offsets),
                  AnyArray(row_offsets),
                  AnyArray(entry_offsets),
                  AnyArray(block_starts),
                  keys,
                  lengths,
                  weights,
                  AnyArray(intercepts)};
  if (children) self->arrays.push_back(*children);
  self->codebook = codebook;
}

sylvan::Rule rule_of(int combine, float power, float share) {
  need(combine >= 0 && combine <= 3, "no such way to combine scores");
  need(share >= 0.0f && share <= 1.0f, "a share must be in [0, 1]");
  return {static_cast<sylvan::Combine>(combine), power, share};
}

void search(const Layer& layer, In<int64_t> indptr, In<int32_t> indices, In<float> values, int64_t first,
            int64_t last, Out2<int32_t> from_nodes, Out2<float> from_scores, int combine, float power,
            float share, Out2<int32_t> to_nodes, Out2<float> to_scores,
            std::optional<In<int64_t>> change_offsets, std::optional<In<int32_t>> changed_nodes,
            std::optional<In<float>> changes) {
  const sylvan::SparseRows query = rows_of(indptr, indices, values, first, last);
  const int64_t from_width = from_nodes.shape(1), to_width = to_nodes.shape(1);
  need(from_width >= 1 && to_width >= 1 && static_cast<int64_t>(from_nodes.shape(0)) >= last &&
           static_cast<int64_t>(to_nodes.shape(0)) >= last && from_scores.size() == from_nodes.size() &&
           to_scores.size() == to_nodes.size(),
       "the beams and the rows disagree");
  const sylvan::Rule rule = rule_of(combine, power, share);
  sylvan::RowChanges changed{};
  if (change_offsets) {
    need(changed_nodes && changes && size(*changes) == size(*changed_nodes), "changes and nodes disagree");
    need(size(*change_offsets) > last, "the changes and the rows disagree");
    need_offsets(*change_offsets, size(*change_offsets) - 1, size(*changes),
                 "change_offsets are not offsets");
    changed = {change_offsets->data() + first, changed_nodes->data(), changes->data()};
  }
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::search_layer(
        layer.view, query,
        {from_width, from_nodes.data() + first * from_width, from_scores.data() + first * from_width}, rule,
        change_offsets ? &changed : nullptr,
        {to_width, to_nodes.data() + first * to_width, to_scores.data() + first * to_width});
  }
  if (!done) throw std::bad_alloc();
}

// Whether the paths are those of these layers: the search reads marks by node and, in the last layer, by
// label.
void need_fit(const sylvan::TreeSearch& search, const Paths& paths) {
  bool fit =
      paths.view.layers.size() + 1 == search.layers.size() && paths.leaf_labels.data() == search.leaf_labels;
  for (size_t t = 0; fit && t + 1 < search.layers.size(); ++t)
    fit = paths.view.layers[t].n_nodes == search.layers[t]->n_nodes;
  need(fit, "the paths are those of another tree");
}

bool rank_listed(const sylvan::TreeSearch& search, const sylvan::SparseRows& query, const Paths& paths,
                 const Listed& listed, int64_t first) {
  sylvan::LabelFilter filter(paths.view, listed.allowed);
  filter.mark(listed.shared.data(), size(listed.shared));
  if (!listed.row_offsets) return rank_rows(search, query, &filter, nullptr);
  const sylvan::RowLabels own = listed.rows(first);
  return rank_rows(search, query, &filter, &own);
}

void rank(const nb::typed<nb::list, Layer>& layers, In<int64_t> indptr, In<int32_t> indices, In<float> values,
          int64_t first, int64_t last, int64_t beam, const std::vector<int>& combine, float power,
          const std::vector<float>& shares, In<int32_t> leaf_labels, int64_t n_copies, bool exponentiate,
          Out2<int32_t> out_labels, Out2<float> out_scores, const Paths* paths, const Listed* listed) {
  const sylvan::SparseRows query = rows_of(indptr, indices, values, first, last);
  sylvan::TreeSearch search{};
  int64_t n_nodes = 1;
  for (nb::handle item : layers) {
    search.layers.push_back(&nb::cast<const Layer&>(item).view);
    need(search.layers.back()->n_clusters == n_nodes,
         "a layer's clusters are not the nodes of the layer above");
    n_nodes = search.layers.back()->n_nodes;
  }
  const int64_t k = out_labels.shape(1);
  need(!search.layers.empty() && combine.size() == search.layers.size() && shares.size() == combine.size() &&
           size(leaf_labels) == n_nodes,
       "the layers disagree");
  need(beam >= 1 && k >= 1 && n_copies >= 1 && out_scores.shape(1) == out_labels.shape(1) &&
           static_cast<int64_t>(out_labels.shape(0)) >= last &&
           static_cast<int64_t>(out_scores.shape(0)) >= last,
       "the outputs and the rows disagree");
  for (size_t t = 0; t < combine.size(); ++t) search.rules.push_back(rule_of(combine[t], power, shares[t]));
  search.beam = beam;
  search.leaf_labels = leaf_labels.data();
  search.n_copies = n_copies;
  search.exponentiate = exponentiate;
  search.k = k;
  search.out_labels = out_labels.data() + first * k;
  search.out_scores = out_scores.data() + first * k;
  if (listed) {
    need(paths != nullptr, "listed labels need the tree's paths");
    need_fit(search, *paths);
    need_listed(*listed, paths->view.n_labels, first, last);
  }
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = listed ? rank_listed(search, query, *paths, *listed, first)
                  : rank_rows(search, query, nullptr, nullptr);
  }
  if (!done) throw std::bad_alloc();
}

void merge_rankings(In2<int32_t> labels, In2<float> values, int64_t first, int64_t last,
                    Out2<int32_t> out_labels, Out2<float> out_scores) {
  const int64_t n_rows = labels.shape(0), width = labels.shape(1), k = out_labels.shape(1);
  need(0 <= first && first <= last && last <= n_rows, "the rows are out of range");
  need(width >= 1 && width <= (int64_t{1} << 30) && k >= 1, "sizes out of range");
  need(values.size() == labels.size() && static_cast<int64_t>(values.shape(1)) == width,
       "labels and values disagree");
  need(static_cast<int64_t>(out_labels.shape(0)) == n_rows && out_scores.size() == out_labels.size() &&
           static_cast<int64_t>(out_scores.shape(1)) == k,
       "the outputs and the rows disagree");
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::merge_rankings(last - first, width, labels.data() + first * width,
                                  values.data() + first * width, k, out_labels.data() + first * k,
                                  out_scores.data() + first * k);
  }
  if (!done) throw std::bad_alloc();
}

}  // namespace

void bind_linear_search(nb::module_& m) {
  nb::class_<Layer>(m, "Layer",
                    "One layer's weights as the kernels see them; it refers to the arrays that it borrows.")
      .def("__init__", &make_layer, nb::arg("n_features"), nb::arg("block_bits"),
           nb::arg("child_offsets").noconvert(), nb::arg("row_offsets").noconvert(),
           nb::arg("entry_offsets").noconvert(), nb::arg("block_starts").noconvert(),
           nb::arg("keys").noconvert(), nb::arg("lengths").noconvert(),
           nb::arg("children").noconvert().none(), nb::arg("weights").noconvert(),
           nb::arg("codebook").noconvert().none(), nb::arg("intercepts").noconvert());
  m.def("search_layer", &search, nb::arg("layer"), nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("first"), nb::arg("last"),
        nb::arg("from_nodes").noconvert(), nb::arg("from_scores").noconvert(), nb::arg("combine"),
        nb::arg("power"), nb::arg("share"), nb::arg("to_nodes").noconvert(), nb::arg("to_scores").noconvert(),
        nb::arg("change_offsets").noconvert().none() = nb::none(),
        nb::arg("changed_nodes").noconvert().none() = nb::none(),
        nb::arg("changes").noconvert().none() = nb::none(),
        "One layer of beam search for rows first to last - 1.");
  m.def("rank", &rank, nb::arg("layers"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("values").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("beam"), nb::arg("combine"),
        nb::arg("power"), nb::arg("shares"), nb::arg("leaf_labels").noconvert(), nb::arg("n_copies"),
        nb::arg("exponentiate"), nb::arg("out_labels").noconvert(), nb::arg("out_scores").noconvert(),
        nb::arg("paths").none() = nb::none(), nb::arg("listed").none() = nb::none(),
        "Beam search through all layers for rows first to last - 1.");
  m.def("merge_rankings", &merge_rankings, nb::arg("labels").noconvert(), nb::arg("values").noconvert(),
        nb::arg("first"), nb::arg("last"), nb::arg("out_labels").noconvert(),
        nb::arg("out_scores").noconvert(),
        "The labels of the highest sums of values in rows first to last - 1.");
}
