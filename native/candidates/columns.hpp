// What is known of the candidates of rows, column by column. Every function fills columns of `out`, one row
// of `width` values for each candidate, which are zero before; those of places without a candidate (label -1)
// stay. All return false where offsets are none or a label is out of their range.
#pragma once

#include <cstdint>

namespace sylvan {

// Candidates of n rows, k each, a label once in a row.
struct CandidateRows {
  int64_t n, k;
  const int32_t* labels;
  const float* means;  // of a row's candidates, 0 where there is none
};

// Lists of ids behind each other, whose owners are labels or rows; `values` may be null for ones.
struct IdLists {
  int64_t n_owners, n_ids;
  const int64_t* offsets;
  const int32_t* ids;
  const float* values;

  bool holds(int32_t owner) const {
    return owner >= 0 && owner < n_owners && offsets[owner] >= 0 && offsets[owner] <= offsets[owner + 1] &&
           offsets[owner + 1] <= n_ids;
  }
};

// What members answered for the same rows: those of member m stand at bounds[m] to bounds[m + 1] of each row.
struct MemberAnswers {
  int64_t n_members, width;
  const int64_t* bounds;
  const int32_t* labels;
  const float* scores;
};

// Three columns a member: its score, 1 over the place there, and the score divided by the member's best of
// the row. Then how many members propose the candidate, and their highest score.
void member_columns(const CandidateRows& rows, const MemberAnswers& answers, int64_t width, float* out);

// Of rows that have one label, the shares that have another: the candidate given the row's first, the first
// given the candidate, the sum over the first n_leaders of means times the candidate's share, and the
// greatest of its terms. `together` holds for each label the rows that have it and another.
bool together_columns(const CandidateRows& rows, const IdLists& together, const int64_t* counts,
                      int64_t n_leaders, int64_t width, float* out);

// Of neighbours, n_each a row, nearest first and -1 behind the last: the similarity of the first that has the
// candidate, 1 over its place, and how many have it.
bool neighbor_columns(const CandidateRows& rows, const int32_t* neighbors, const float* similarities,
                      int64_t n_each, const IdLists& labels_of, int64_t width, float* out);

// For each kind of item, the sum of the other candidates' means times their product with a candidate over
// items of this kind. The kind of an item is its column in `out`.
bool shared_columns(const CandidateRows& rows, const IdLists& items, const uint8_t* kinds, int64_t n_items,
                    int64_t width, float* out);

// For each kind of tie, the sum of the means of the candidates that a candidate is tied to. A tie of kind
// number c to a label is the id c * n_labels + label; kinds[c] is its column in `out`.
bool tied_columns(const CandidateRows& rows, const IdLists& ties, int64_t n_labels, const uint8_t* kinds,
                  int64_t n_kinds, int64_t width, float* out);

}  // namespace sylvan
