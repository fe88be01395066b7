#include "candidates/columns.hpp"

#include "bindings/checks.hpp"

namespace {

sylvan::CandidateRows candidates_of(const In2<int32_t>& labels, const In2<float>& means) {
  need(means.shape(0) == labels.shape(0) && means.shape(1) == labels.shape(1), "labels and means disagree");
  return {static_cast<int64_t>(labels.shape(0)), static_cast<int64_t>(labels.shape(1)), labels.data(),
          means.data()};
}

// The width of the output, which has a row for each candidate.
int64_t width_of(const Out2<float>& out, const sylvan::CandidateRows& rows, int64_t least) {
  const int64_t width = out.shape(1);
  need(static_cast<int64_t>(out.shape(0)) == rows.n * rows.k && width >= least, "the output doesn't fit");
  return width;
}

sylvan::IdLists lists_of(const In<int64_t>& offsets, const In<int32_t>& ids, const float* values) {
  need(size(offsets) >= 1, "offsets are missing");
  return {size(offsets) - 1, size(ids), offsets.data(), ids.data(), values};
}

void member_columns(In2<int32_t> labels, In2<int32_t> top_labels, In2<float> top_scores, In<int64_t> bounds,
                    Out2<float> out) {
  const sylvan::CandidateRows rows{static_cast<int64_t>(labels.shape(0)),
                                   static_cast<int64_t>(labels.shape(1)), labels.data(), nullptr};
  const int64_t n_members = size(bounds) - 1, width = top_labels.shape(1);
  need(n_members >= 0, "bounds are missing");
  need_offsets(bounds, n_members, width, "bounds are not offsets");
  need(static_cast<int64_t>(top_labels.shape(0)) == rows.n && top_scores.shape(0) == top_labels.shape(0) &&
           top_scores.shape(1) == top_labels.shape(1),
       "the members' answers disagree");
  const int64_t columns = width_of(out, rows, 3 * n_members + 2);
  nb::gil_scoped_release release;
  sylvan::member_columns(rows, {n_members, width, bounds.data(), top_labels.data(), top_scores.data()},
                         columns, out.data());
}

void together_columns(In2<int32_t> labels, In2<float> means, In<int64_t> offsets, In<int32_t> others,
                      In<float> both, In<int64_t> counts, int64_t n_leaders, Out2<float> out) {
  const auto rows = candidates_of(labels, means);
  need(both.size() == others.size() && size(counts) + 1 == size(offsets) && n_leaders >= 0,
       "labels that occur together disagree");
  const int64_t width = width_of(out, rows, 4);
  bool sound = false;
  {
    nb::gil_scoped_release release;
    sound = sylvan::together_columns(rows, lists_of(offsets, others, both.data()), counts.data(), n_leaders,
                                     width, out.data());
  }
  need(sound, "a candidate is out of range");
}

void neighbor_columns(In2<int32_t> labels, In2<int32_t> neighbors, In2<float> similarities,
                      In<int64_t> offsets, In<int32_t> labels_of, Out2<float> out) {
  const sylvan::CandidateRows rows{static_cast<int64_t>(labels.shape(0)),
                                   static_cast<int64_t>(labels.shape(1)), labels.data(), nullptr};
  need(static_cast<int64_t>(neighbors.shape(0)) == rows.n && similarities.shape(0) == neighbors.shape(0) &&
           similarities.shape(1) == neighbors.shape(1),
       "the neighbours disagree");
  const int64_t width = width_of(out, rows, 3);
  bool sound = false;
  {
    nb::gil_scoped_release release;
    sound = sylvan::neighbor_columns(rows, neighbors.data(), similarities.data(), neighbors.shape(1),
                                     lists_of(offsets, labels_of, nullptr), width, out.data());
  }
  need(sound, "a neighbour is out of range");
}

void shared_columns(In2<int32_t> labels, In2<float> means, In<int64_t> offsets, In<int32_t> items,
                    In<float> values, In<uint8_t> kinds, Out2<float> out) {
  const auto rows = candidates_of(labels, means);
  need(values.size() == items.size(), "items and values disagree");
  const int64_t width = width_of(out, rows, 1);
  bool sound = false;
  {
    nb::gil_scoped_release release;
    sound = sylvan::shared_columns(rows, lists_of(offsets, items, values.data()), kinds.data(), size(kinds),
                                   width, out.data());
  }
  need(sound, "a candidate or an item is out of range");
}

void tied_columns(In2<int32_t> labels, In2<float> means, In<int64_t> offsets, In<int32_t> ties,
                  int64_t n_labels, In<uint8_t> kinds, Out2<float> out) {
  const auto rows = candidates_of(labels, means);
  need(n_labels >= 1, "there are no labels");
  const int64_t width = width_of(out, rows, 1);
  bool sound = false;
  {
    nb::gil_scoped_release release;
    sound = sylvan::tied_columns(rows, lists_of(offsets, ties, nullptr), n_labels, kinds.data(), size(kinds),
                                 width, out.data());
  }
  need(sound, "a candidate or a tie is out of range");
}

}  // namespace

void bind_candidates(nb::module_& m) {
  m.def("member_columns", &member_columns, nb::arg("labels").noconvert(), nb::arg("top_labels").noconvert(),
        nb::arg("top_scores").noconvert(), nb::arg("bounds").noconvert(), nb::arg("out").noconvert(),
        "What each member says of candidates, and how many propose each.");
  m.def("together_columns", &together_columns, nb::arg("labels").noconvert(), nb::arg("means").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("others").noconvert(), nb::arg("both").noconvert(),
        nb::arg("counts").noconvert(), nb::arg("n_leaders"), nb::arg("out").noconvert(),
        "How often candidates occur together with a row's first ones.");
  m.def("neighbor_columns", &neighbor_columns, nb::arg("labels").noconvert(),
        nb::arg("neighbors").noconvert(), nb::arg("similarities").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("labels_of").noconvert(), nb::arg("out").noconvert(),
        "Which of a row's neighbours have each candidate.");
  m.def("shared_columns", &shared_columns, nb::arg("labels").noconvert(), nb::arg("means").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("items").noconvert(), nb::arg("values").noconvert(),
        nb::arg("kinds").noconvert(), nb::arg("out").noconvert(),
        "How far candidates share items with the others of their row.");
  m.def("tied_columns", &tied_columns, nb::arg("labels").noconvert(), nb::arg("means").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("ties").noconvert(), nb::arg("n_labels"),
        nb::arg("kinds").noconvert(), nb::arg("out").noconvert(),
        "How far candidates are tied to the others of their row.");
}
