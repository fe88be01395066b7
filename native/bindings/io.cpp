#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

#include "bindings/bindings.hpp"
#include "io/readers.hpp"

namespace {

using Counts = std::tuple<int64_t, int64_t, int64_t>;
using Found = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int,
                         int64_t, int64_t, int64_t>;

Counts bound_lines(In<uint8_t> text) {
  sylvan::LinesBound bound{};
  {
    nb::gil_scoped_release release;
    bound = sylvan::bound_lines(text.data(), static_cast<int64_t>(text.size()));
  }
  return {bound.rows, bound.features, bound.labels};
}

Found parse_lines(In<uint8_t> text, int64_t lowest_feature, int64_t highest_feature, int64_t highest_label,
                  bool weighted_labels, bool svmlight, Out<int64_t> feature_counts, Out<int32_t> features,
                  Out<float> values, Out<int64_t> label_counts, Out<int32_t> labels,
                  Out<float> label_weights) {
  const auto size = static_cast<int64_t>(text.size());
  sylvan::LinesResult r;
  bool fits = true;
  {
    nb::gil_scoped_release release;
    const sylvan::LinesBound bound = sylvan::bound_lines(text.data(), size);
    const auto holds = [](size_t have, int64_t need) { return static_cast<int64_t>(have) >= need; };
    fits = holds(feature_counts.size(), bound.rows) && holds(label_counts.size(), bound.rows) &&
           holds(features.size(), bound.features) && holds(values.size(), bound.features) &&
           holds(labels.size(), bound.labels) &&
           (!weighted_labels || holds(label_weights.size(), bound.labels)) &&
           highest_feature - lowest_feature <= INT32_MAX && lowest_feature >= 0 && highest_label <= INT32_MAX;
    if (fits) {
      const sylvan::LineFormat format{lowest_feature, highest_feature, highest_label, weighted_labels,
                                      svmlight};
      r = sylvan::parse_lines(text.data(), size, format, feature_counts.data(), features.data(),
                              values.data(), label_counts.data(), labels.data(),
                              weighted_labels ? label_weights.data() : nullptr);
    }
  }
  if (!fits)
    throw nb::value_error("parse_lines: an output is shorter than bound_lines says, or a limit too high.");
  return {r.rows,        r.lines,     r.features,     r.labels,        r.min_feature,
          r.max_feature, r.max_label, r.empty_at_end, r.first_highest, static_cast<int>(r.fault),
          r.line,        r.begin,     r.end};
}

// Offsets of rows [first, last) must be monotone and end within the arrays.
bool sound(const In<int64_t>& offsets, int64_t first, int64_t last, size_t n_entries) {
  if (first < 0 || last < first || last >= static_cast<int64_t>(offsets.size())) return false;
  const int64_t* at = offsets.data();
  for (int64_t row = first; row < last; ++row) {
    if (at[row] < 0 || at[row + 1] < at[row]) return false;
  }
  return at[last] <= static_cast<int64_t>(n_entries);
}

int64_t format_lines(int64_t first, int64_t last, In<int64_t> feature_offsets, In<int32_t> features,
                     In<float> values, In<int64_t> label_offsets, In<int32_t> labels, In<float> label_weights,
                     bool weighted_labels, int64_t lowest_feature, Out<uint8_t> out) {
  if (!sound(feature_offsets, first, last, std::min(features.size(), values.size())) ||
      !sound(label_offsets, first, last,
             weighted_labels ? std::min(labels.size(), label_weights.size()) : labels.size())) {
    throw nb::value_error("format_lines: rows or offsets out of range.");
  }
  const int64_t entries = feature_offsets.data()[last] - feature_offsets.data()[first] +
                          label_offsets.data()[last] - label_offsets.data()[first];
  if (static_cast<int64_t>(out.size()) < sylvan::bytes_per_entry * (entries + last - first)) {
    throw nb::value_error("format_lines: the output is too short.");
  }
  nb::gil_scoped_release release;
  return sylvan::format_lines(first, last, feature_offsets.data(), features.data(), values.data(),
                              label_offsets.data(), labels.data(),
                              weighted_labels ? label_weights.data() : nullptr, lowest_feature, out.data());
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def("bound_lines", &bound_lines, nb::arg("text").noconvert(),
        "Upper bounds for rows, features and labels in a block of lines.");
  m.def("parse_lines", &parse_lines, nb::arg("text").noconvert(), nb::arg("lowest_feature"),
        nb::arg("highest_feature"), nb::arg("highest_label"), nb::arg("weighted_labels"), nb::arg("svmlight"),
        nb::arg("feature_counts").noconvert(), nb::arg("features").noconvert(), nb::arg("values").noconvert(),
        nb::arg("label_counts").noconvert(), nb::arg("labels").noconvert(),
        nb::arg("label_weights").noconvert(),
        "Reads a block of lines into the arrays; its content and the first fault, see readers.hpp.");
  m.def("format_lines", &format_lines, nb::arg("first"), nb::arg("last"),
        nb::arg("feature_offsets").noconvert(), nb::arg("features").noconvert(),
        nb::arg("values").noconvert(), nb::arg("label_offsets").noconvert(), nb::arg("labels").noconvert(),
        nb::arg("label_weights").noconvert(), nb::arg("weighted_labels"), nb::arg("lowest_feature"),
        nb::arg("out").noconvert(), "Writes rows [first, last) as lines; the number of bytes written.");
}
