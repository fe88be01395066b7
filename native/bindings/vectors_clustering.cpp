#include "bindings/checks.hpp"
#include "vectors/cluster.hpp"
#include "vectors/pifa.hpp"

namespace {

// Ids from 0 to below `limit`.
void need_ids(const int32_t* ids, size_t n, int64_t limit, const char* message) {
  bool sound = true;
  for (size_t i = 0; i < n; ++i) sound &= ids[i] >= 0 && ids[i] < limit;
  need(sound, message);
}

sylvan::TreeShape checked_shape(const In<int64_t>& offsets, const In<int64_t>& layer_start, size_t n_order,
                                int64_t layer, int64_t first, int64_t last) {
  const char* message = "offsets and layer_start do not describe a tree over the rows in order";
  const int64_t n_layers = static_cast<int64_t>(layer_start.size()) - 1;
  need(n_layers >= 1, message);
  need_offsets(layer_start, n_layers, size(offsets), message);
  int64_t n_parents = 1;
  for (int64_t t = 0; t < n_layers; ++t) {
    const int64_t* layer = offsets.data() + layer_start.data()[t];
    need(layer_start.data()[t + 1] - layer_start.data()[t] == n_parents + 1 && layer[0] == 0, message);
    for (int64_t i = 0; i < n_parents; ++i) need(layer[i] < layer[i + 1], message);
    n_parents = layer[n_parents];
  }
  need(layer >= 0 && layer < n_layers && first >= 0 && first < last, "no such nodes");
  need(last <= offsets.data()[layer_start.data()[layer + 1] - 1], "no such nodes");
  const sylvan::TreeShape shape{offsets.data(), layer_start.data(), n_layers};
  const int64_t begin = sylvan::leaf_position(shape, layer, first);
  need(sylvan::leaf_position(shape, layer, last) - begin == static_cast<int64_t>(n_order), message);
  return shape;
}

void split(const sylvan::Rows& rows, const sylvan::TreeShape& shape, int64_t layer, int64_t first,
           int64_t last, const sylvan::SplitSettings& settings, Out<int32_t>& order) {
  need(settings.sample == 0 || settings.sample > 1, "sample must be 0 or at least 2");
  nb::gil_scoped_release release;
  sylvan::split_rows(rows, shape, layer, first, last, settings, order.data());
}

void pifa(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_columns,
          In<int64_t> members_indptr, In<int32_t> members, In<float> member_weights, int64_t first,
          int64_t last, int64_t max_features, bool of_all, Out<int64_t> out_length, Out<int32_t> out_indices,
          Out<float> out_data) {
  const int64_t n_rows = static_cast<int64_t>(x_indptr.size()) - 1;
  const int64_t n_labels = static_cast<int64_t>(members_indptr.size()) - 1;
  need(x_indices.size() == x_data.size() && n_rows >= 0, "x_indices and x_data differ in length");
  need(members.size() == member_weights.size(), "members and member_weights differ in length");
  need(0 <= first && first <= last && last <= n_labels, "no such labels");
  need(out_length.size() == static_cast<size_t>(last - first), "out_length has the wrong length");
  need(out_indices.size() == out_data.size(), "out_indices and out_data differ in length");
  int64_t needed = 0;
  for (int64_t label = first; label < last; ++label) {
    const int64_t begin = members_indptr.data()[label], end = members_indptr.data()[label + 1];
    need(0 <= begin && begin <= end && end <= static_cast<int64_t>(members.size()),
         "members_indptr is wrong");
    need_ids(members.data() + begin, static_cast<size_t>(end - begin), n_rows, "members out of range");
    int64_t room = 0;
    for (int64_t m = begin; m < end; ++m) {
      const int64_t row_begin = x_indptr.data()[members.data()[m]];
      const int64_t row_end = x_indptr.data()[members.data()[m] + 1];
      need(0 <= row_begin && row_begin <= row_end && row_end <= static_cast<int64_t>(x_data.size()),
           "x_indptr is wrong");
      room += row_end - row_begin;
    }
    room = room < n_columns ? room : n_columns;
    needed += max_features > 0 && room > max_features ? max_features : room;
  }
  need(static_cast<int64_t>(out_data.size()) >= needed, "out_data has too little room");
  nb::gil_scoped_release release;
  sylvan::aggregate_features(x_indptr.data(), x_indices.data(), x_data.data(), n_columns,
                             members_indptr.data(), members.data(), member_weights.data(), first, last,
                             max_features, of_all, out_length.data(), out_indices.data(), out_data.data());
}

}  // namespace

void bind_vectors_clustering(nb::module_& m) {
  m.def("aggregate_features", &pifa, nb::arg("x_indptr").noconvert(), nb::arg("x_indices").noconvert(),
        nb::arg("x_data").noconvert(), nb::arg("n_columns"), nb::arg("members_indptr").noconvert(),
        nb::arg("members").noconvert(), nb::arg("member_weights").noconvert(), nb::arg("first"),
        nb::arg("last"), nb::arg("max_features"), nb::arg("of_all"), nb::arg("out_length").noconvert(),
        nb::arg("out_indices").noconvert(), nb::arg("out_data").noconvert(),
        "PIFA rows of a range of labels; X must be a verified CSR matrix.");
  m.def(
      "split_sparse_rows",
      [](In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_columns, In<int64_t> offsets,
         In<int64_t> layer_start, int64_t layer, int64_t first, int64_t last, uint64_t seed, bool spherical,
         int64_t max_iterations, int64_t sample, int64_t max_steps, Out<int32_t> order) {
        need(indices.size() == data.size(), "indices and data differ in length");
        need_ids(order.data(), order.size(), static_cast<int64_t>(indptr.size()) - 1, "order out of range");
        const auto shape = checked_shape(offsets, layer_start, order.size(), layer, first, last);
        split({indptr.data(), indices.data(), data.data(), n_columns}, shape, layer, first, last,
              {seed, spherical, max_iterations, sample, max_steps}, order);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("n_columns"), nb::arg("offsets").noconvert(), nb::arg("layer_start").noconvert(),
      nb::arg("layer"), nb::arg("first"), nb::arg("last"), nb::arg("seed"), nb::arg("spherical"),
      nb::arg("max_iterations"), nb::arg("sample"), nb::arg("max_steps"), nb::arg("order").noconvert(),
      "Reorder the rows below some nodes so that close ones lie together; the CSR matrix must be verified.");
  m.def(
      "split_dense_rows",
      [](In2<float> data, In<int64_t> offsets, In<int64_t> layer_start, int64_t layer, int64_t first,
         int64_t last, uint64_t seed, bool spherical, int64_t max_iterations, int64_t sample,
         int64_t max_steps, Out<int32_t> order) {
        need_ids(order.data(), order.size(), static_cast<int64_t>(data.shape(0)), "order out of range");
        const auto shape = checked_shape(offsets, layer_start, order.size(), layer, first, last);
        split({nullptr, nullptr, data.data(), static_cast<int64_t>(data.shape(1))}, shape, layer, first, last,
              {seed, spherical, max_iterations, sample, max_steps}, order);
      },
      nb::arg("data").noconvert(), nb::arg("offsets").noconvert(), nb::arg("layer_start").noconvert(),
      nb::arg("layer"), nb::arg("first"), nb::arg("last"), nb::arg("seed"), nb::arg("spherical"),
      nb::arg("max_iterations"), nb::arg("sample"), nb::arg("max_steps"), nb::arg("order").noconvert(),
      "Reorder the rows below some nodes so that close ones lie together.");
}
