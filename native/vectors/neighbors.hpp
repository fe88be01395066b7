// The nearest rows of a sparse matrix by cosine: an inverted file for the features of few rows, bounds for
// the rest.
#pragma once

#include <cstdint>

#include "base/label_filter.hpp"
#include "base/sparse_rows.hpp"

namespace sylvan {

constexpr int64_t kPageRows =
    256;  // rows that are examined together; pages without a posting are mostly skipped

// The rows, scaled to length one. A feature of few rows has a list of postings (row, value); features of many
// rows are stored row by row, as indices into `frequent`.
struct NeighborView {
  int64_t n_rows;
  int64_t n_rare;
  const int32_t* rare;             // (n_rare), ascending
  const int64_t* posting_offsets;  // (n_rare + 1)
  const int32_t* posting_rows;
  const float* posting_values;
  int64_t n_frequent;
  const int32_t* frequent;     // (n_frequent), ascending
  const int64_t* row_offsets;  // (n_rows + 1)
  const int32_t* row_places;
  const float* row_values;
  const float* row_lengths;   // (n_rows) of the frequent part, rounded up
  const float* page_lengths;  // the largest of each page
};

// The `n` rows most similar to each query, best first, lower row first among equals; only rows of a positive
// cosine are neighbours, and -1 with -inf ends a shorter list. `only` (n_rows), where it isn't null, flags
// the eligible rows. Returns false when memory runs out.
bool nearest_rows(const NeighborView& index, const SparseRows& queries, int64_t n, const uint8_t* only,
                  int32_t* out_rows, float* out_similarities);

// The rows' labels: each row's, and optionally the weight of each row's vote and of each of its labels.
struct LabelRows {
  int64_t n_rows;
  int64_t n_labels;
  const int64_t* indptr;
  const int32_t* labels;
  const float* relevance;    // of each label of each row, in (0, 1]; null for 1
  const float* row_weights;  // (n_rows); null for 1
};

// The k labels of the largest votes, best first, lower label first among equals. The weight of a neighbour is
// its similarity to the power of `power`; a label's score is its share of all the weight. Only labels that
// the filter (unless null) and the query's own list (unless null) allow are answered.
bool vote(const LabelRows& labels, int64_t n_queries, int64_t n, const int32_t* rows,
          const float* similarities, float power, LabelFilter* filter, const RowLabels* own, int64_t k,
          int32_t* out_labels, float* out_scores);

}  // namespace sylvan
