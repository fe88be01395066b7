#include "classes/edges.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/lanes.hpp"
#include "classes/features.hpp"

namespace sylvan {
namespace {

constexpr int kWidth = 8;
constexpr int kRows = 8;                // edges scored at once, which hides the latency of additions
constexpr int64_t kBlock = 256;         // exponentials that are summed in float
constexpr float kEpsilon = 1e-10f;      // what AdaGrad adds to the square root
constexpr float kMinExponent = -87.0f;  // below it a float loses precision
constexpr float kMaxExponent = 88.0f;

// The weights of a group of edges; an incomplete group repeats its last, so that sums don't depend on the
// group.
SYLVAN_INLINE void rows_of_edges(const EdgeWeights& weights, const int32_t* edges, int64_t first, int64_t i,
                                 int64_t n, const float** rows) {
  for (int j = 0; j < kRows; ++j) {
    const int64_t at = i + j < n ? i + j : n - 1;
    rows[j] =
        weights.values + (edges ? static_cast<int64_t>(edges[at]) : first + at) * weights.shape.n_weights;
  }
}

SYLVAN_CLONES void score_dense(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges,
                               int64_t first, int64_t n, float* SYLVAN_RESTRICT out) {
  const int64_t wide = row.n - row.n % kWidth;
  const float* SYLVAN_RESTRICT x = row.values;
  for (int64_t i = 0; i < n; i += kRows) {
    const float* rows[kRows];
    rows_of_edges(weights, edges, first, i, n, rows);
    Floats<kWidth> sums[kRows];
    std::memset(sums, 0, sizeof sums);
    for (int64_t d = 0; d < wide; d += kWidth) {
      Floats<kWidth> q;
      std::memcpy(&q, x + d, sizeof q);
      for (int j = 0; j < kRows; ++j) {
        Floats<kWidth> w;
        std::memcpy(&w, rows[j] + d, sizeof w);
        sums[j] = sums[j] + w * q;
      }
    }
    float rest[kRows];
    for (int j = 0; j < kRows; ++j) rest[j] = rows[j][row.n] * row.bias;
    for (int64_t d = wide; d < row.n; ++d) {
      for (int j = 0; j < kRows; ++j) rest[j] += rows[j][d] * x[d];
    }
    for (int j = 0; j < kRows && i + j < n; ++j) {
      float parts[kWidth];
      std::memcpy(parts, &sums[j], sizeof parts);
      out[i + j] = (((parts[0] + parts[4]) + (parts[1] + parts[5])) +
                    ((parts[2] + parts[6]) + (parts[3] + parts[7]))) +
                   rest[j];
    }
  }
}

void score_sparse(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges, int64_t first,
                  int64_t n, float* SYLVAN_RESTRICT out) {
  const int64_t intercept = weights.shape.n_weights - 1;
  for (int64_t i = 0; i < n; i += kRows) {
    const float* rows[kRows];
    rows_of_edges(weights, edges, first, i, n, rows);
    float sums[kRows];
    for (int j = 0; j < kRows; ++j) sums[j] = rows[j][intercept] * row.bias;
    for (int64_t d = 0; d < row.n; ++d) {
      const int32_t feature = row.indices[d];
      const float value = row.values[d];
      for (int j = 0; j < kRows; ++j) sums[j] += rows[j][feature] * value;
    }
    for (int j = 0; j < kRows && i + j < n; ++j) out[i + j] = sums[j];
  }
}

// exp by a power of two and a polynomial of the remainder, which compiles to vector code.
SYLVAN_INLINE float power_of_e(float x) {
  x = x > kMinExponent ? x : kMinExponent;  // a NaN too, so that what follows is defined
  x = x < kMaxExponent ? x : kMaxExponent;
  const float scaled = x * 1.44269504f;
  const auto whole = static_cast<int32_t>(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
  const auto n = static_cast<float>(whole);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = (whole + 127) << 23;
  float two;
  std::memcpy(&two, &bits, sizeof two);
  return p * two;
}

SYLVAN_CLONES void exponentiate(float* SYLVAN_RESTRICT scores, int64_t n, float shift) {
  for (int64_t i = 0; i < n; ++i) scores[i] = power_of_e(scores[i] - shift);
}

SYLVAN_CLONES double total(const float* SYLVAN_RESTRICT values, int64_t n) {
  double sum = 0.0;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t m = std::min(kBlock, n - first), wide = m - m % kWidth;
    Floats<kWidth> sums;
    std::memset(&sums, 0, sizeof sums);
    for (int64_t i = 0; i < wide; i += kWidth) {
      Floats<kWidth> v;
      std::memcpy(&v, values + first + i, sizeof v);
      sums = sums + v;
    }
    float parts[kWidth];
    std::memcpy(parts, &sums, sizeof parts);
    for (int64_t i = wide; i < m; ++i) parts[i - wide] += values[first + i];
    for (int j = 0; j < kWidth; ++j) sum += static_cast<double>(parts[j]);
  }
  return sum;
}

SYLVAN_CLONES float largest_of(const float* SYLVAN_RESTRICT values, int64_t n) {
  float lanes[kWidth];
  for (int j = 0; j < kWidth; ++j) lanes[j] = values[0];
  const int64_t wide = n - n % kWidth;
  for (int64_t i = 0; i < wide; i += kWidth) {
    for (int j = 0; j < kWidth; ++j) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  for (int64_t i = wide; i < n; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  float most = lanes[0];
  for (int j = 1; j < kWidth; ++j) most = lanes[j] > most ? lanes[j] : most;
  return most;
}

SYLVAN_CLONES void descend_dense(float* SYLVAN_RESTRICT weights, const float* SYLVAN_RESTRICT x, int64_t n,
                                 float rate, float coefficient) {
  const float scale = rate * coefficient;
  for (int64_t d = 0; d < n; ++d) weights[d] -= scale * x[d];
}

SYLVAN_CLONES void descend_dense_with_decay(float* SYLVAN_RESTRICT weights, const float* SYLVAN_RESTRICT x,
                                            int64_t n, float rate, float coefficient, float decay) {
  for (int64_t d = 0; d < n; ++d) {
    const float own = x[d] != 0.0f ? decay : 0.0f;
    weights[d] -= rate * (coefficient * x[d] + own * weights[d]);
  }
}

SYLVAN_CLONES void descend_dense_averaged(float* SYLVAN_RESTRICT weights, float* SYLVAN_RESTRICT delays,
                                          const float* SYLVAN_RESTRICT x, int64_t n, float rate,
                                          float coefficient, float decay, float past) {
  for (int64_t d = 0; d < n; ++d) {
    const float own = x[d] != 0.0f ? decay : 0.0f;
    const float change = rate * (coefficient * x[d] + own * weights[d]);
    weights[d] -= change;
    delays[d] -= past * change;
  }
}

SYLVAN_CLONES void adapt_dense(float* SYLVAN_RESTRICT weights, float* SYLVAN_RESTRICT squares,
                               const float* SYLVAN_RESTRICT x, int64_t n, float rate, float coefficient,
                               float decay) {
  for (int64_t d = 0; d < n; ++d) {
    const float own = x[d] != 0.0f ? decay : 0.0f;
    const float gradient = coefficient * x[d] + own * weights[d];
    const float square = squares[d] + gradient * gradient;
    squares[d] = square;
    weights[d] -= rate * gradient / (std::sqrt(square) + kEpsilon);
  }
}

SYLVAN_INLINE void adapt(float& weight, float& square, float gradient, float rate) {
  square += gradient * gradient;
  weight -= rate * gradient / (std::sqrt(square) + kEpsilon);
}

void step_sparse(const EdgeStep& step, const ClassRow& row, float* SYLVAN_RESTRICT weights,
                 float* SYLVAN_RESTRICT squares, float* SYLVAN_RESTRICT delays, float coefficient) {
  if (squares == nullptr) {
    for (int64_t d = 0; d < row.n; ++d) {
      const int32_t feature = row.indices[d];
      const float change = step.rate * (coefficient * row.values[d] + step.decay * weights[feature]);
      weights[feature] -= change;
      if (delays) delays[feature] -= step.past * change;
    }
    return;
  }
  for (int64_t d = 0; d < row.n; ++d) {
    const int32_t feature = row.indices[d];
    const float gradient = coefficient * row.values[d] + step.decay * weights[feature];
    adapt(weights[feature], squares[feature], gradient, step.rate);
  }
}

void step_edge(const EdgeStep& step, const ClassRow& row, int64_t edge, float coefficient) {
  float* weights = step.weights + edge * step.shape.n_weights;
  float* squares = step.squares ? step.squares + edge * step.shape.n_weights : nullptr;
  float* delays = step.delays ? step.delays + edge * step.shape.n_weights : nullptr;
  if (row.indices) {
    step_sparse(step, row, weights, squares, delays, coefficient);
  } else if (squares) {
    adapt_dense(weights, squares, row.values, row.n, step.rate, coefficient, step.decay);
  } else if (delays) {
    descend_dense_averaged(weights, delays, row.values, row.n, step.rate, coefficient, step.decay, step.past);
  } else if (step.decay != 0.0f) {
    descend_dense_with_decay(weights, row.values, row.n, step.rate, coefficient, step.decay);
  } else {
    descend_dense(weights, row.values, row.n, step.rate, coefficient);
  }
  const int64_t last = step.shape.n_weights - 1;
  const float gradient = coefficient * row.bias;
  if (squares) {
    adapt(weights[last], squares[last], gradient, step.rate);
  } else {
    weights[last] -= step.rate * gradient;
    if (delays) delays[last] -= step.past * (step.rate * gradient);
  }
}

}  // namespace

void score_edges(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges, int64_t first,
                 int64_t n, float* out) {
  if (weights.shape.by_feature) {
    score_by_feature(weights, row, edges, first, n, out);
  } else if (row.indices) {
    score_sparse(weights, row, edges, first, n, out);
  } else {
    score_dense(weights, row, edges, first, n, out);
  }
}

double exponentials(float* scores, int64_t n, float shift) {
  exponentiate(scores, n, shift);
  return total(scores, n);
}

float largest(const float* values, int64_t n) { return largest_of(values, n); }

void step_edges(const EdgeStep& step, const ClassRow& row, const int32_t* edges, int64_t first, int64_t n,
                const float* coefficients) {
  if (step.shape.by_feature) {
    step_by_feature(step, row, edges, first, n, coefficients);
    return;
  }
  for (int64_t i = 0; i < n; ++i) step_edge(step, row, edges ? edges[i] : first + i, coefficients[i]);
}

}  // namespace sylvan
