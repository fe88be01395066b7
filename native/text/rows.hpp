// Documents to rows of entries, and rows of entries to weighted rows of a matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "text/ngrams.hpp"
#include "text/terms.hpp"

namespace sylvan {

enum class Norm : int { none = 0, l1 = 1, l2 = 2 };

struct Weighting {
  const float* idf;  // of each column; null for none
  bool sublinear;    // 1 + log(count) instead of count
  Norm norm;
};

// Appends the entries of each document to `entries` and their ends to `ends`.
void count_documents(const std::vector<TextView>& texts, const TextSettings& settings, TermTable& table,
                     Entries& entries, int64_t* ends);

// The same over a fitted vocabulary; each row's entries are sorted by column.
void look_up_documents(const std::vector<TextView>& texts, const TextSettings& settings,
                       const FrozenTerms& terms, int64_t n_terms, Entries& entries, int64_t* ends);

// totals[i] += occurrences of term i; false when an entry names a term that is not below n_terms.
bool add_totals(const uint64_t* entries, int64_t n_entries, int64_t* totals, int64_t n_terms);

// Renumbers terms as columns in place, drops those with column -1, sorts each row by column, closes the gaps
// and rewrites indptr. False when indptr or an entry's term is out of range (then nothing is promised but
// that no memory outside was touched).
bool select_columns(uint64_t* entries, int64_t n_entries, int64_t* indptr, int64_t n_rows,
                    const int32_t* column_of, int64_t n_terms);

// The columns and weights of rows of entries. False when indptr or a column is out of range, as above.
bool weigh_rows(const uint64_t* entries, int64_t n_entries, const int64_t* indptr, int64_t n_rows,
                int64_t n_columns, const Weighting& weighting, int32_t* indices, float* data);

}  // namespace sylvan
