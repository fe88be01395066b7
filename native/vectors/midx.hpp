// Two-stage draws from an inverted multi-index of two codebooks (MIDX, arXiv 2501.08563, Theorem 2).
#pragma once

#include <cstdint>

namespace sylvan {

// What a batch of queries draws from. Scores may be any numbers, NaN included: whatever is drawn lies within
// the classes as long as the offsets are offsets (0 to n_classes, never falling).
struct MidxDraw {
  int64_t n_queries;
  int64_t n_draws;
  int64_t n_codewords;
  int64_t n_classes;
  const double* heights;    // (n_queries, n_codewords) running sums of psi exp(score), first codebook
  const double* second;     // (n_queries, n_codewords) exp(score), second codebook
  const float* log_first;   // (n_queries, n_codewords) log-scores, first codebook
  const float* log_second;  // (n_queries, n_codewords) log-scores, second codebook
  const int64_t* offsets;   // (n_codewords * n_codewords + 1) of each cell in `order`
  const double* masses;     // (n_codewords * n_codewords) what each cell weighs beside its scores
  const double*
      in_cells;  // (n_classes) running sums along `order`, each cell 1 high; null: classes are alike
  const float* own_scores;  // (n_classes) what is added to a class's log-probability; null with in_cells
  const double* coins;      // (n_queries, n_draws) uniform from 0 to below 1
};

// Classes and the log-probability of each, (n_queries, n_draws). `Id` is what the classes are stored as.
template <typename Id>
void midx_draw(const MidxDraw& draw, const Id* order, int64_t* ids, float* log_q);

}  // namespace sylvan
