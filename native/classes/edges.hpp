// Scores of edges, and steps of their weights: the arithmetic of class training.
#pragma once

#include <cstdint>

namespace sylvan {

// Rows of features, dense or compressed, verified by the caller.
struct ClassRows {
  int64_t n_features;
  const float* dense;      // (n_rows, n_features); null for compressed rows
  const int64_t* indptr;   // (n_rows + 1)
  const int32_t* indices;  // each below n_features
  const float* values;
  float bias;  // the value of the last weight's feature
};

// One of them.
struct ClassRow {
  const float* values;     // (n)
  const int32_t* indices;  // (n), null when dense
  int64_t n;
  float bias;
};

inline ClassRow row_of(const ClassRows& rows, int64_t row) {
  if (rows.dense) return {rows.dense + row * rows.n_features, nullptr, rows.n_features, rows.bias};
  const int64_t begin = rows.indptr[row];
  return {rows.values + begin, rows.indices + begin, rows.indptr[row + 1] - begin, rows.bias};
}

// The layout of the weights: a row of `n_weights` for each edge or, which suits compressed rows, a row of
// `n_edges` for each feature. An edge's last weight is its intercept.
struct EdgeShape {
  int64_t n_edges;
  int64_t n_weights;
  bool by_feature;
};

struct EdgeWeights {
  const float* values;
  EdgeShape shape;
};

// The scores of n edges: those in `edges`, or from `first` on where it is null. An edge's score doesn't
// depend on which others are scored with it.
void score_edges(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges, int64_t first,
                 int64_t n, float* out);

// Replaces each score by exp(score - shift), and returns their sum. The relative error is at most 3e-7;
// values below e^-87 become e^-87.
double exponentials(float* scores, int64_t n, float shift);

// The largest of n > 0 numbers.
float largest(const float* values, int64_t n);

// How the weights of edges are updated.
struct EdgeStep {
  EdgeShape shape;
  float* weights;
  float* squares;  // AdaGrad's sums of squares, of the same shape; null for plain gradient descent
  float* delays;   // of the same shape; null unless plain gradient descent averages its weights
  float rate;
  float decay;  // of a weight whose feature isn't 0, at each step of its edge; not of the intercept
  float past;   // the weight, in the average, of all weights before this step
};

// Averaging costs no more than the steps themselves: with w_t the weight after step t and m_t its factor,
// sum(m_t w_t) / sum(m_t) = w_T - sum((w_t - w_{t-1}) (m_1 + ... + m_{t-1})) / (m_1 + ... + m_T). `delays`
// holds the sum in the middle, to which only the weights that move add.

// One gradient step for n distinct edges: those in `edges`, or from `first` on where it is null. An edge's
// gradient is its coefficient times the row's features.
void step_edges(const EdgeStep& step, const ClassRow& row, const int32_t* edges, int64_t first, int64_t n,
                const float* coefficients);

}  // namespace sylvan
