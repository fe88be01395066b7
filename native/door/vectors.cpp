#include "../vectors.hpp"

#include <nanobind/stl/optional.h>

#include <new>
#include <optional>

#include "../best_columns.hpp"
#include "checks.hpp"

namespace {

// Queries first to last - 1, checked against everything that belongs to them.
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

void nearest_vectors(In2<float> queries, In2<float> base, std::optional<In<int32_t>> leave_out, int64_t first,
                     int64_t last, int metric, Out2<int32_t> out_ids, Out2<float> out_distances) {
  const Task task = task_of(queries, base, first, last, metric, out_ids, out_distances);
  need(!leave_out || leave_out->size() == queries.shape(0), "one row to leave out is needed for each query");
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::nearest_vectors(task.queries, task.base, leave_out ? leave_out->data() + first : nullptr,
                                   task.k, task.metric, task.ids, task.distances);
  }
  if (!done) throw std::bad_alloc();
}

void best_columns(In2<float> values, Out2<int32_t> out_columns, Out2<float> out_values) {
  const auto n_rows = static_cast<int64_t>(values.shape(0));
  const auto n_columns = static_cast<int64_t>(values.shape(1));
  const auto k = static_cast<int64_t>(out_columns.shape(1));
  need(n_columns <= INT32_MAX && 0 <= k && k <= n_columns, "the columns are out of range");
  need(out_columns.shape(0) == values.shape(0) && out_values.shape(0) == values.shape(0) &&
           out_values.shape(1) == out_columns.shape(1),
       "the outputs and the rows disagree");
  if (k == 0) return;
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::best_columns(values.data(), n_rows, n_columns, k, out_columns.data(), out_values.data());
  }
  if (!done) throw std::bad_alloc();
}

}  // namespace

void bind_vectors(nb::module_& m) {
  m.def("best_columns", &best_columns, nb::arg("values").noconvert(), nb::arg("out_columns").noconvert(),
        nb::arg("out_values").noconvert(), "The columns of each row's largest values, and these.");
  m.def("nearest_candidates", &nearest_candidates, nb::arg("queries").noconvert(),
        nb::arg("base").noconvert(), nb::arg("offsets").noconvert(), nb::arg("ids").noconvert(),
        nb::arg("first"), nb::arg("last"), nb::arg("metric"), nb::arg("out_ids").noconvert(),
        nb::arg("out_distances").noconvert(), "The nearest of each query's candidates, by true distance.");
  m.def("nearest_vectors", &nearest_vectors, nb::arg("queries").noconvert(), nb::arg("base").noconvert(),
        nb::arg("leave_out").noconvert().none(), nb::arg("first"), nb::arg("last"), nb::arg("metric"),
        nb::arg("out_ids").noconvert(), nb::arg("out_distances").noconvert(),
        "The nearest of all vectors, by true distance.");
}
