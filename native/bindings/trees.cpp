#include "trees/boosting.hpp"

#include "bindings/checks.hpp"

namespace {

void add_histograms(In2<uint8_t> bins, In<int32_t> nodes, In<double> first, In<double> second,
                    int64_t n_nodes, int64_t n_bins, Out<double> sums) {
  const int64_t n_rows = bins.shape(0), n_features = bins.shape(1);
  need(size(nodes) == n_rows && size(first) == n_rows && size(second) == n_rows, "rows and values disagree");
  need(n_nodes >= 1 && n_nodes <= 1 << 16 && n_bins >= 1 && n_bins <= 256 &&
           size(sums) == 2 * n_nodes * n_features * n_bins,
       "the sums don't fit");
  bool sound = false;
  {
    nb::gil_scoped_release release;
    sound = sylvan::add_histograms(bins.data(), nodes.data(), first.data(), second.data(), n_rows, n_features,
                                   n_nodes, n_bins, sums.data());
  }
  need(sound, "a bin or a node is out of range");
}

void score_forest(In2<int32_t> features, In2<float> thresholds, In2<float> leaves, In2<float> rows,
                  float base, Out<float> out) {
  const int64_t n_trees = features.shape(0), n_splits = features.shape(1), n_features = rows.shape(1);
  int depth = 0;
  while (depth < 16 && (int64_t{1} << depth) - 1 < n_splits) ++depth;
  need((int64_t{1} << depth) - 1 == n_splits && static_cast<int64_t>(leaves.shape(1)) == n_splits + 1 &&
           static_cast<int64_t>(leaves.shape(0)) == n_trees && thresholds.size() == features.size() &&
           thresholds.shape(1) == features.shape(1),
       "the trees' arrays disagree");
  need(size(out) == static_cast<int64_t>(rows.shape(0)), "one score a row is needed");
  for (size_t i = 0; i < features.size(); ++i) {
    need(features.data()[i] >= 0 && features.data()[i] < n_features,
         "a tree asks for a feature that there isn't");
  }
  nb::gil_scoped_release release;
  const sylvan::Forest forest{n_trees, depth, features.data(), thresholds.data(), leaves.data()};
  sylvan::score_forest(forest, rows.data(), static_cast<int64_t>(rows.shape(0)), n_features, base,
                       out.data());
}

}  // namespace

void bind_trees(nb::module_& m) {
  m.def("add_histograms", &add_histograms, nb::arg("bins").noconvert(), nb::arg("nodes").noconvert(),
        nb::arg("first").noconvert(), nb::arg("second").noconvert(), nb::arg("n_nodes"), nb::arg("n_bins"),
        nb::arg("sums").noconvert(), "Adds two values of each row to the sums of its node, feature and bin.");
  m.def("score_forest", &score_forest, nb::arg("features").noconvert(), nb::arg("thresholds").noconvert(),
        nb::arg("leaves").noconvert(), nb::arg("rows").noconvert(), nb::arg("base"),
        nb::arg("out").noconvert(), "What a forest of complete trees says of rows.");
}
