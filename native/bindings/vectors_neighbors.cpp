#include <nanobind/stl/optional.h>

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "bindings/checks.hpp"
#include "bindings/label_filter.hpp"
#include "vectors/neighbors.hpp"

namespace {

// An index; owns references to the arrays that the kernel borrows.
struct Neighbors {
  In<int32_t> rare;
  In<int64_t> posting_offsets;
  In<int32_t> posting_rows;
  In<float> posting_values;
  In<int32_t> frequent;
  In<int64_t> row_offsets;
  In<int32_t> row_places;
  In<float> row_values;
  In<float> row_lengths;
  std::vector<float> page_lengths;
  sylvan::NeighborView view{};
};

void make_neighbors(Neighbors* self, In<int32_t> rare, In<int64_t> posting_offsets, In<int32_t> posting_rows,
                    In<float> posting_values, In<int32_t> frequent, In<int64_t> row_offsets,
                    In<int32_t> row_places, In<float> row_values, In<float> row_lengths) {
  const int64_t n_rows = size(row_lengths);
  need(n_rows >= 1 && n_rows <= INT32_MAX, "the number of rows is out of range");
  need(posting_rows.size() == posting_values.size() && row_places.size() == row_values.size(),
       "values and their places disagree");
  need_offsets(posting_offsets, size(rare), size(posting_rows), "posting_offsets are not offsets");
  need_offsets(row_offsets, n_rows, size(row_places), "row_offsets are not offsets");
  new (self) Neighbors{rare,        posting_offsets, posting_rows, posting_values, frequent,
                       row_offsets, row_places,      row_values,   row_lengths,    {}};
  for (int64_t first = 0; first < n_rows; first += sylvan::kPageRows) {
    const float* lengths = row_lengths.data();
    const int64_t last = std::min(n_rows, first + sylvan::kPageRows);
    self->page_lengths.push_back(*std::max_element(lengths + first, lengths + last));
  }
  self->view = {n_rows,
                size(rare),
                rare.data(),
                posting_offsets.data(),
                posting_rows.data(),
                posting_values.data(),
                size(frequent),
                frequent.data(),
                row_offsets.data(),
                row_places.data(),
                row_values.data(),
                row_lengths.data(),
                self->page_lengths.data()};
}

void nearest(const Neighbors& index, In<int64_t> indptr, In<int32_t> indices, In<float> values, int64_t first,
             int64_t last, std::optional<In<uint8_t>> only, Out2<int32_t> out_rows,
             Out2<float> out_similarities) {
  const sylvan::SparseRows queries = rows_of(indptr, indices, values, first, last);
  const int64_t n = out_rows.shape(1);
  need(n >= 1 && static_cast<int64_t>(out_rows.shape(0)) >= last &&
           out_similarities.size() == out_rows.size() && out_similarities.shape(1) == out_rows.shape(1),
       "the outputs and the rows disagree");
  need(!only || size(*only) == index.view.n_rows, "one flag a row of the index is needed");
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::nearest_rows(index.view, queries, n, only ? only->data() : nullptr,
                                out_rows.data() + first * n, out_similarities.data() + first * n);
  }
  if (!done) throw std::bad_alloc();
}

void vote(In<int64_t> label_offsets, In<int32_t> labels, std::optional<In<float>> relevance,
          std::optional<In<float>> row_weights, int64_t n_labels, In2<int32_t> rows, In2<float> similarities,
          float power, int64_t first, int64_t last, Out2<int32_t> out_labels, Out2<float> out_scores,
          const Listed* listed) {
  const int64_t n_rows = size(label_offsets) - 1, n = rows.shape(1), k = out_labels.shape(1);
  need(n_rows >= 1 && n_labels >= 1 && n_labels <= INT32_MAX, "sizes out of range");
  need(n >= 1 && k >= 1 && 0 <= first && first <= last && static_cast<int64_t>(rows.shape(0)) >= last,
       "the rows are out of range");
  need(similarities.size() == rows.size() && similarities.shape(1) == rows.shape(1),
       "rows and similarities disagree");
  need(out_scores.size() == out_labels.size() && out_scores.shape(1) == out_labels.shape(1) &&
           static_cast<int64_t>(out_labels.shape(0)) >= last,
       "the outputs and the rows disagree");
  need((!relevance || relevance->size() == labels.size()) && (!row_weights || size(*row_weights) == n_rows),
       "weights and rows disagree");
  need_offsets(label_offsets, n_rows, size(labels), "label_offsets are not offsets");
  const sylvan::LabelRows of_rows{n_rows,
                                  n_labels,
                                  label_offsets.data(),
                                  labels.data(),
                                  relevance ? relevance->data() : nullptr,
                                  row_weights ? row_weights->data() : nullptr};
  if (listed) need_listed(*listed, n_labels, first, last);
  bool done = false;
  {
    nb::gil_scoped_release release;
    const sylvan::LabelPaths flat{n_labels, nullptr, nullptr, {}};
    std::optional<sylvan::LabelFilter> filter;
    if (listed) {
      filter.emplace(flat, listed->allowed);
      filter->mark(listed->shared.data(), size(listed->shared));
    }
    const bool has_own = listed && listed->row_offsets;
    const sylvan::RowLabels own = has_own ? listed->rows(first) : sylvan::RowLabels{};
    done = sylvan::vote(of_rows, last - first, n, rows.data() + first * n, similarities.data() + first * n,
                        power, filter ? &*filter : nullptr, has_own ? &own : nullptr, k,
                        out_labels.data() + first * k, out_scores.data() + first * k);
  }
  if (!done) throw std::bad_alloc();
}

}  // namespace

void bind_vectors_neighbors(nb::module_& m) {
  nb::class_<Neighbors>(
      m, "Neighbors",
      "The rows of a neighbour index as the kernel sees them; it refers to the arrays that it borrows.")
      .def("__init__", &make_neighbors, nb::arg("rare").noconvert(), nb::arg("posting_offsets").noconvert(),
           nb::arg("posting_rows").noconvert(), nb::arg("posting_values").noconvert(),
           nb::arg("frequent").noconvert(), nb::arg("row_offsets").noconvert(),
           nb::arg("row_places").noconvert(), nb::arg("row_values").noconvert(),
           nb::arg("row_lengths").noconvert());
  m.def("nearest_rows", &nearest, nb::arg("index"), nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("first"), nb::arg("last"),
        nb::arg("only").noconvert().none(), nb::arg("out_rows").noconvert(),
        nb::arg("out_similarities").noconvert(),
        "The most similar rows of queries first to last - 1; only those flagged where flags are given.");
  m.def("vote", &vote, nb::arg("label_offsets").noconvert(), nb::arg("labels").noconvert(),
        nb::arg("relevance").noconvert().none(), nb::arg("row_weights").noconvert().none(),
        nb::arg("n_labels"), nb::arg("rows").noconvert(), nb::arg("similarities").noconvert(),
        nb::arg("power"), nb::arg("first"), nb::arg("last"), nb::arg("out_labels").noconvert(),
        nb::arg("out_scores").noconvert(), nb::arg("listed").none() = nb::none(),
        "The labels that rows' neighbours vote for.");
}
