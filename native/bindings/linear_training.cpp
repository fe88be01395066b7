#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "bindings/checks.hpp"
#include "linear/renumber.hpp"
#include "linear/solver.hpp"

namespace {

// Row ids are computed in Python and checked here; the matrix itself was verified before.
int64_t entries_of(const In<int64_t>& indptr, const In<int32_t>& rows) {
  int64_t total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    need(rows.data()[i] >= 0 && rows.data()[i] + 1 < size(indptr), "a row id is out of range");
    total += indptr.data()[rows.data()[i] + 1] - indptr.data()[rows.data()[i]];
  }
  return total;
}

int64_t renumber(In<int64_t> indptr, In<int32_t> indices, In<int32_t> rows, Out<int32_t> numbers,
                 Out<int32_t> out_local, Out<int64_t> out_begin, Out<int32_t> out_features) {
  const int64_t total = entries_of(indptr, rows);
  need(size(out_local) >= total && out_begin.size() >= rows.size() &&
           size(out_features) >= (total < size(numbers) ? total : size(numbers)),
       "an output is too small");
  nb::gil_scoped_release release;
  return sylvan::renumber_features(indptr.data(), indices.data(), size(numbers), rows.data(), size(rows),
                                   numbers.data(), out_local.data(), out_begin.data(), out_features.data());
}

int64_t solve(In<int64_t> indptr, In<float> values, In<float> squared_norms, In<int32_t> rows,
              In<int32_t> local, In<int64_t> begin, int64_t n_features, In<int64_t> positive_indptr,
              In<int32_t> positive_nodes, std::optional<In<float>> relevance,
              std::optional<In<float>> sample_weight, int32_t first_node, int n_children, int loss,
              float positive_cost, float negative_cost, float bias, float tolerance, int max_iterations,
              float threshold, int64_t max_weights, uint64_t seed, std::optional<In<uint8_t>> fold_of_row,
              int n_folds, std::optional<Out<float>> multipliers, bool start, int warm_rounds,
              Out<float> scratch, Out<int32_t> out_feature, Out<int32_t> out_child, Out<float> out_weight,
              Out<float> out_intercept, Out<int32_t> out_row, Out<int32_t> out_changed, Out<float> out_change,
              Out<int64_t> out_counts) {
  need(n_folds >= 0 && n_folds <= 255 && (n_folds == 0 || fold_of_row), "folds out of range");
  const int64_t n_rows = size(rows), capacity = n_features * n_children;
  need(n_children >= 1 && n_children <= sylvan::kMaxLanes && loss >= 0 && loss <= 2, "options out of range");
  need(size(begin) == n_rows && size(out_counts) >= 2 && size(out_intercept) >= n_children,
       "rows and outputs disagree");
  need(size(out_feature) >= capacity && size(out_child) >= capacity && size(out_weight) >= capacity,
       "an output is too small");
  need(warm_rounds >= 0 && (multipliers ? size(*multipliers) == n_rows * n_children : !start),
       "multipliers must be one a row and child");
  need(!relevance || relevance->size() == positive_nodes.size(), "relevance and nodes disagree");
  int64_t n_held_out = 0;
  for (int64_t i = 0; i < n_rows; ++i) {
    const int64_t row = rows.data()[i];
    need(row >= 0 && row + 1 < size(indptr) && row < size(squared_norms) && row + 1 < size(positive_indptr) &&
             (!sample_weight || row < size(*sample_weight)) && (!fold_of_row || row < size(*fold_of_row)),
         "a row id is out of range");
    const int64_t length = indptr.data()[row + 1] - indptr.data()[row];
    need(begin.data()[i] >= 0 && begin.data()[i] + length <= size(local), "a row begins out of range");
    n_held_out += n_folds > 0 && fold_of_row->data()[row] != 0;
  }
  need(size(scratch) >= sylvan::solver_scratch_floats(n_rows, n_features, sylvan::lanes_for(n_children),
                                                      n_folds, n_held_out),
       "the scratch memory is too small");
  need(size(out_row) >= n_held_out * n_children && size(out_changed) >= n_held_out * n_children &&
           size(out_change) >= n_held_out * n_children,
       "an output is too small");
  const sylvan::ClusterRows cluster{n_rows,        rows.data(),   begin.data(),         local.data(),
                                    indptr.data(), values.data(), squared_norms.data(), n_features};
  const sylvan::Positives positives{positive_indptr.data(), positive_nodes.data(),
                                    relevance ? relevance->data() : nullptr};
  const sylvan::SolverOptions options{static_cast<sylvan::Loss>(loss),
                                      positive_cost,
                                      negative_cost,
                                      sample_weight ? sample_weight->data() : nullptr,
                                      bias,
                                      tolerance,
                                      max_iterations,
                                      threshold,
                                      max_weights,
                                      seed};
  const sylvan::Folds folds{fold_of_row ? fold_of_row->data() : nullptr, n_folds};
  const sylvan::Multipliers kept{multipliers ? multipliers->data() : nullptr, start, warm_rounds};
  sylvan::Weights out{out_feature.data(), out_child.data(), out_weight.data(), out_intercept.data(), 0};
  sylvan::Changes changes{out_row.data(), out_changed.data(), out_change.data(), 0};
  nb::gil_scoped_release release;
  const int64_t visits = sylvan::solve_group(cluster, positives, first_node, n_children, options, folds, kept,
                                             scratch.data(), &out, &changes);
  out_counts.data()[0] = out.count;
  out_counts.data()[1] = changes.count;
  return visits;
}

int64_t sort(In<int32_t> feature, In<int32_t> child, In<float> weight, int64_t n_features,
             Out<int64_t> offsets, Out<int32_t> out_feature, Out<int32_t> out_length, Out<int32_t> out_child,
             Out<float> out_weight) {
  const int64_t n = size(feature), most = n < n_features ? n : n_features;
  need(size(child) == n && size(weight) == n && size(offsets) > n_features, "inputs disagree");
  need(size(out_feature) >= most && size(out_length) >= most && size(out_child) >= n && size(out_weight) >= n,
       "an output is too small");
  nb::gil_scoped_release release;
  return sylvan::sort_triples(feature.data(), child.data(), weight.data(), n, n_features, offsets.data(),
                              out_feature.data(), out_length.data(), out_child.data(), out_weight.data());
}

}  // namespace

void bind_linear_training(nb::module_& m) {
  m.def("renumber_features", &renumber, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("rows").noconvert(), nb::arg("numbers").noconvert(), nb::arg("out_local").noconvert(),
        nb::arg("out_begin").noconvert(), nb::arg("out_features").noconvert(),
        "The rows' features renumbered from 0; returns how many there are.");
  m.def("solver_scratch_floats", &sylvan::solver_scratch_floats, nb::arg("n_rows"), nb::arg("n_features"),
        nb::arg("n_lanes"), nb::arg("n_folds") = 0, nb::arg("n_held_out") = 0,
        "Floats of scratch memory that solve_group needs.");
  m.def("solve_group", &solve, nb::arg("indptr").noconvert(), nb::arg("values").noconvert(),
        nb::arg("squared_norms").noconvert(), nb::arg("rows").noconvert(), nb::arg("local").noconvert(),
        nb::arg("begin").noconvert(), nb::arg("n_features"), nb::arg("positive_indptr").noconvert(),
        nb::arg("positive_nodes").noconvert(), nb::arg("relevance").noconvert().none(),
        nb::arg("sample_weight").noconvert().none(), nb::arg("first_node"), nb::arg("n_children"),
        nb::arg("loss"), nb::arg("positive_cost"), nb::arg("negative_cost"), nb::arg("bias"),
        nb::arg("tolerance"), nb::arg("max_iterations"), nb::arg("threshold"), nb::arg("max_weights"),
        nb::arg("seed"), nb::arg("fold_of_row").noconvert().none(), nb::arg("n_folds"),
        nb::arg("multipliers").noconvert().none(), nb::arg("start"), nb::arg("warm_rounds"),
        nb::arg("scratch").noconvert(), nb::arg("out_feature").noconvert(), nb::arg("out_child").noconvert(),
        nb::arg("out_weight").noconvert(), nb::arg("out_intercept").noconvert(),
        nb::arg("out_row").noconvert(), nb::arg("out_changed").noconvert(), nb::arg("out_change").noconvert(),
        nb::arg("out_counts").noconvert(),
        "Solves up to 16 children of a cluster, and lists what the scores of held-out rows change by without "
        "their "
        "fold; returns the row visits.");
  m.def("sort_triples", &sort, nb::arg("feature").noconvert(), nb::arg("child").noconvert(),
        nb::arg("weight").noconvert(), nb::arg("n_features"), nb::arg("offsets").noconvert(),
        nb::arg("out_feature").noconvert(), nb::arg("out_length").noconvert(),
        nb::arg("out_child").noconvert(), nb::arg("out_weight").noconvert(),
        "Triples sorted by feature; returns the number of rows.");
}
