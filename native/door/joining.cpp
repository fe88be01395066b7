#include <new>

#include "../join.hpp"
#include "checks.hpp"

namespace {

void join_rankings(In2<int32_t> labels, In2<float> values, int64_t first, int64_t last,
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
    done = sylvan::join_rankings(last - first, width, labels.data() + first * width,
                                 values.data() + first * width, k, out_labels.data() + first * k,
                                 out_scores.data() + first * k);
  }
  if (!done) throw std::bad_alloc();
}

}  // namespace

void bind_joining(nb::module_& m) {
  m.def("join_rankings", &join_rankings, nb::arg("labels").noconvert(), nb::arg("values").noconvert(),
        nb::arg("first"), nb::arg("last"), nb::arg("out_labels").noconvert(),
        nb::arg("out_scores").noconvert(),
        "The labels of the highest sums of values in rows first to last - 1.");
}
