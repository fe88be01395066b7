#include <nanobind/stl/pair.h>

#include <new>

#include "base/best_columns.hpp"
#include "base/canonical.hpp"
#include "bindings/checks.hpp"

namespace {

using Fault = std::pair<int, int64_t>;

Fault fault_pair(sylvan::CheckResult result) { return {static_cast<int>(result.fault), result.row}; }

const Fault wrong_sizes{static_cast<int>(sylvan::CheckFault::offsets_not_monotone), 0};

template <typename Index, typename Value>
Fault canonical_rows(In<int64_t> indptr, In<Index> indices, In<Value> data, int64_t n_columns,
                     Out<int64_t> out_indptr, Out<int32_t> out_indices, Out<float> out_data) {
  if (indptr.size() < 1 || indices.size() != data.size()) return wrong_sizes;
  if (out_indptr.size() != indptr.size() || out_indices.size() != indices.size() ||
      out_data.size() != data.size()) {
    throw nb::value_error("canonical_rows: the outputs must be as long as the inputs");
  }
  if (n_columns > INT32_MAX) throw nb::value_error("canonical_rows: n_columns must be below 2^31");
  nb::gil_scoped_release release;
  return fault_pair(sylvan::canonical_rows(indptr.data(), static_cast<int64_t>(indptr.size()) - 1,
                                           indices.data(), data.data(), static_cast<int64_t>(indices.size()),
                                           n_columns, out_indptr.data(), out_indices.data(),
                                           out_data.data()));
}

template <typename Value>
Fault count_dense(In2<Value> values, Out<int64_t> counts) {
  if (counts.size() != values.shape(0)) throw nb::value_error("count_dense: counts must hold one int a row");
  nb::gil_scoped_release release;
  return fault_pair(sylvan::count_dense(values.data(), static_cast<int64_t>(values.shape(0)),
                                        static_cast<int64_t>(values.shape(1)), counts.data()));
}

template <typename Value>
bool fill_dense(In2<Value> values, In<int64_t> indptr, Out<int32_t> out_indices, Out<float> out_data) {
  const auto n_rows = static_cast<int64_t>(values.shape(0));
  const auto size = static_cast<int64_t>(out_data.size());
  bool fits = indptr.size() == values.shape(0) + 1 && out_indices.size() == out_data.size() &&
              indptr.data()[0] == 0 && indptr.data()[n_rows] == size;
  for (int64_t row = 0; fits && row < n_rows; ++row) {
    fits = indptr.data()[row] <= indptr.data()[row + 1] && indptr.data()[row + 1] <= size;
  }
  if (!fits || values.shape(1) > INT32_MAX)
    throw nb::value_error("fill_dense: the sizes do not fit together");
  nb::gil_scoped_release release;
  return sylvan::fill_dense(values.data(), n_rows, static_cast<int64_t>(values.shape(1)), indptr.data(),
                            out_indices.data(), out_data.data());
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

template <typename Index, typename Value>
void bind_canonical_rows(nb::module_& m) {
  m.def("canonical_rows", &canonical_rows<Index, Value>, nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("data").noconvert(), nb::arg("n_columns"),
        nb::arg("out_indptr").noconvert(), nb::arg("out_indices").noconvert(),
        nb::arg("out_data").noconvert(),
        "Write the sorted, summed, zero-free float32 form of a CSR matrix; fault code and row.");
}

template <typename Value>
void bind_dense(nb::module_& m) {
  m.def("count_dense", &count_dense<Value>, nb::arg("values").noconvert(), nb::arg("counts").noconvert(),
        "Count each row's non-zeros; fault code and first row at fault.");
  m.def("fill_dense", &fill_dense<Value>, nb::arg("values").noconvert(), nb::arg("indptr").noconvert(),
        nb::arg("out_indices").noconvert(), nb::arg("out_data").noconvert(),
        "Write each row's non-zeros; False when they are not as many as were counted.");
}

}  // namespace

void bind_base(nb::module_& m) {
  m.def(
      "check_compressed",
      [](In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_columns) {
        if (indptr.size() < 1 || indices.size() != data.size()) return wrong_sizes;
        nb::gil_scoped_release release;
        return fault_pair(sylvan::check_compressed(indptr.data(), static_cast<int64_t>(indptr.size()) - 1,
                                                   indices.data(), data.data(),
                                                   static_cast<int64_t>(indices.size()), n_columns));
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("n_columns"),
      "Fault code and first row at fault of a CSR matrix; (0, -1) when it is sound and canonical.");
  bind_canonical_rows<int32_t, float>(m);
  bind_canonical_rows<int32_t, double>(m);
  bind_canonical_rows<int64_t, float>(m);
  bind_canonical_rows<int64_t, double>(m);
  bind_dense<float>(m);
  bind_dense<double>(m);
  m.def("best_columns", &best_columns, nb::arg("values").noconvert(), nb::arg("out_columns").noconvert(),
        nb::arg("out_values").noconvert(), "The columns of each row's largest values, and these.");
}
