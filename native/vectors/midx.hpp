// Two-stage draws from an inverted multi-index of two codebooks (MIDX, arXiv 2501.08563, Theorem 2).
#pragma once

#include <cstdint>

namespace sylvan {

// Inputs of a batch of draws. Scores may be any numbers, NaN included: every draw is a valid class as long as
// the offsets are valid (from 0 to n_classes, never decreasing).
struct MidxDraw {
  int64_t n_queries;
  int64_t n_draws;
  int64_t n_codewords;
  int64_t n_classes;
  const double* cumulative;  // (n_queries, n_codewords) cumulative psi exp(score), first codebook
  const double* second;      // (n_queries, n_codewords) exp(score), second codebook
  const float* log_first;    // (n_queries, n_codewords) log-scores, first codebook
  const float* log_second;   // (n_queries, n_codewords) log-scores, second codebook
  const int64_t* offsets;    // (n_codewords * n_codewords + 1) of each cell in `order`
  const double* masses;      // (n_codewords * n_codewords) weight of each cell, without its scores
  const double* in_cells;    // (n_classes) cumulative probabilities along `order`, 1 a cell; null: uniform
  const float* own_scores;   // (n_classes) what is added to a class's log-probability; null with in_cells
  const double* uniforms;    // (n_queries, n_draws) uniform from 0 to below 1
};

// Classes and their log-probabilities, both (n_queries, n_draws). `Id` is the type of `order`.
template <typename Id>
void midx_draw(const MidxDraw& draw, const Id* order, int64_t* ids, float* log_q);

}  // namespace sylvan
