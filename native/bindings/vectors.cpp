#include <nanobind/stl/optional.h>

#include <new>
#include <optional>

#include "bindings/checks.hpp"
#include "vectors/midx.hpp"
#include "vectors/nearest.hpp"

namespace {

// Queries first to last - 1, checked against the other arguments.
struct Task {
  sylvan::Vectors queries;
  sylvan::Vectors base;
  int64_t k;
  sylvan::Metric metric;
  int32_t* ids;
  float* distances;
};

Task task_of(const In2<float>& queries, const In2<float>& base, int64_t first, int64_t last, int metric,
             const Out2<int32_t>& out_ids, const Out2<float>& out_distances) {
  const auto dim = static_cast<int64_t>(base.shape(1));
  const auto k = static_cast<int64_t>(out_ids.shape(1));
  need(static_cast<int64_t>(queries.shape(1)) == dim, "queries and base disagree");
  need(static_cast<int64_t>(base.shape(0)) <= INT32_MAX, "the base is too large");
  need(0 <= first && first <= last && last <= static_cast<int64_t>(queries.shape(0)),
       "the queries are out of range");
  need(k >= 1 && out_ids.shape(0) == queries.shape(0) && out_distances.shape(0) == out_ids.shape(0) &&
           out_distances.shape(1) == out_ids.shape(1),
       "the outputs and the queries disagree");
  need(metric >= 0 && metric <= 2, "there is no such metric");
  return {{last - first, dim, queries.data() + first * dim},
          {static_cast<int64_t>(base.shape(0)), dim, base.data()},
          k,
          static_cast<sylvan::Metric>(metric),
          out_ids.data() + first * k,
          out_distances.data() + first * k};
}

void nearest_candidates(In2<float> queries, In2<float> base, In<int64_t> offsets, In<int32_t> ids,
                        int64_t first, int64_t last, int metric, Out2<int32_t> out_ids,
                        Out2<float> out_distances) {
  const Task task = task_of(queries, base, first, last, metric, out_ids, out_distances);
  need(size(offsets) == static_cast<int64_t>(queries.shape(0)) + 1, "offsets and queries disagree");
  bool done = false;
  {
    nb::gil_scoped_release release;
    const int64_t* own = offsets.data() + first;
    need(own[0] >= 0 && own[task.queries.n] <= size(ids), "offsets are not offsets");
    for (int64_t i = 0; i < task.queries.n; ++i) need(own[i] <= own[i + 1], "offsets are not offsets");
    bool good = true;
    for (int64_t i = own[0]; i < own[task.queries.n]; ++i) {
      good &= ids.data()[i] >= 0 && ids.data()[i] < task.base.n;
    }
    need(good, "a candidate is out of range");
    done = sylvan::nearest_candidates(task.queries, task.base, own, ids.data(), task.k, task.metric, task.ids,
                                      task.distances);
  }
  if (!done) throw std::bad_alloc();
}

void nearest_vectors(In2<float> queries, In2<float> base, std::optional<In<int32_t>> exclude, int64_t first,
                     int64_t last, int metric, Out2<int32_t> out_ids, Out2<float> out_distances) {
  const Task task = task_of(queries, base, first, last, metric, out_ids, out_distances);
  need(!exclude || exclude->size() == queries.shape(0), "one row to leave out is needed for each query");
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::nearest_vectors(task.queries, task.base, exclude ? exclude->data() + first : nullptr,
                                   task.k, task.metric, task.ids, task.distances);
  }
  if (!done) throw std::bad_alloc();
}

template <typename Id>
void midx_draw(In2<double> cumulative, In2<double> second, In2<float> log_first, In2<float> log_second,
               In<int64_t> offsets, In<double> masses, In<Id> order, In<double> in_cells,
               In<float> own_scores, In2<double> uniforms, Out2<int64_t> ids, Out2<float> log_q) {
  const auto n_queries = static_cast<int64_t>(cumulative.shape(0));
  const auto k = static_cast<int64_t>(cumulative.shape(1));
  const auto n_draws = static_cast<int64_t>(uniforms.shape(1));
  const auto has_shape = [](const auto& array, int64_t rows, int64_t columns) {
    return static_cast<int64_t>(array.shape(0)) == rows && static_cast<int64_t>(array.shape(1)) == columns;
  };
  need(0 < k && k < INT32_MAX && size(order) > 0, "there must be a codeword and a class");
  need(has_shape(second, n_queries, k) && has_shape(log_first, n_queries, k) &&
           has_shape(log_second, n_queries, k),
       "the scores disagree");
  need(has_shape(uniforms, n_queries, n_draws) && has_shape(ids, n_queries, n_draws) &&
           has_shape(log_q, n_queries, n_draws),
       "the draws disagree");
  need(size(masses) == k * k, "the masses disagree");
  const bool weighted = size(in_cells) > 0;
  need(size(own_scores) == size(in_cells) && (!weighted || size(in_cells) == size(order)),
       "the classes disagree");
  nb::gil_scoped_release release;
  need_offsets(offsets, k * k, size(order), "offsets are not offsets");
  const sylvan::MidxDraw draw{n_queries,
                              n_draws,
                              k,
                              size(order),
                              cumulative.data(),
                              second.data(),
                              log_first.data(),
                              log_second.data(),
                              offsets.data(),
                              masses.data(),
                              weighted ? in_cells.data() : nullptr,
                              weighted ? own_scores.data() : nullptr,
                              uniforms.data()};
  sylvan::midx_draw(draw, order.data(), ids.data(), log_q.data());
}

template <typename Id>
void bind_midx(nb::module_& m) {
  m.def("midx_draw", &midx_draw<Id>, nb::arg("cumulative").noconvert(), nb::arg("second").noconvert(),
        nb::arg("log_first").noconvert(), nb::arg("log_second").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("masses").noconvert(), nb::arg("order").noconvert(), nb::arg("in_cells").noconvert(),
        nb::arg("own_scores").noconvert(), nb::arg("uniforms").noconvert(), nb::arg("ids").noconvert(),
        nb::arg("log_q").noconvert(),
        "Draw classes in two stages from an inverted multi-index, with the log-probability of each.");
}

}  // namespace

void bind_vectors(nb::module_& m) {
  m.def("nearest_candidates", &nearest_candidates, nb::arg("queries").noconvert(),
        nb::arg("base").noconvert(), nb::arg("offsets").noconvert(), nb::arg("ids").noconvert(),
        nb::arg("first"), nb::arg("last"), nb::arg("metric"), nb::arg("out_ids").noconvert(),
        nb::arg("out_distances").noconvert(), "The nearest of each query's candidates, by true distance.");
  m.def("nearest_vectors", &nearest_vectors, nb::arg("queries").noconvert(), nb::arg("base").noconvert(),
        nb::arg("exclude").noconvert().none(), nb::arg("first"), nb::arg("last"), nb::arg("metric"),
        nb::arg("out_ids").noconvert(), nb::arg("out_distances").noconvert(),
        "The nearest of all vectors, by true distance.");
  bind_midx<int32_t>(m);
  bind_midx<int64_t>(m);
}
