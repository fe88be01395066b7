#include "classes/features.hpp"

#include <algorithm>
#include <cmath>

#include "base/platform.hpp"

namespace sylvan {
namespace {

constexpr float kEpsilon = 1e-10f;  // what AdaGrad adds to the square root
constexpr int64_t kAhead = 4;       // features whose weights are prefetched

SYLVAN_CLONES void add_run(const float* SYLVAN_RESTRICT weights, int64_t n, float value,
                           float* SYLVAN_RESTRICT out) {
  for (int64_t i = 0; i < n; ++i) out[i] += weights[i] * value;
}

void add_listed(const float* SYLVAN_RESTRICT weights, const int32_t* SYLVAN_RESTRICT edges, int64_t n,
                float value, float* SYLVAN_RESTRICT out) {
  for (int64_t i = 0; i < n; ++i) out[i] += weights[edges[i]] * value;
}

SYLVAN_CLONES void descend_run(float* SYLVAN_RESTRICT weights, const float* SYLVAN_RESTRICT coefficients,
                               int64_t n, float value, float rate, float decay) {
  for (int64_t i = 0; i < n; ++i) weights[i] -= rate * (coefficients[i] * value + decay * weights[i]);
}

SYLVAN_CLONES void descend_run_averaged(float* SYLVAN_RESTRICT weights, float* SYLVAN_RESTRICT delays,
                                        const float* SYLVAN_RESTRICT coefficients, int64_t n, float value,
                                        float rate, float decay, float past) {
  for (int64_t i = 0; i < n; ++i) {
    const float change = rate * (coefficients[i] * value + decay * weights[i]);
    weights[i] -= change;
    delays[i] -= past * change;
  }
}

SYLVAN_CLONES void adapt_run(float* SYLVAN_RESTRICT weights, float* SYLVAN_RESTRICT squares,
                             const float* SYLVAN_RESTRICT coefficients, int64_t n, float value, float rate,
                             float decay) {
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = coefficients[i] * value + decay * weights[i];
    const float square = squares[i] + gradient * gradient;
    squares[i] = square;
    weights[i] -= rate * gradient / (std::sqrt(square) + kEpsilon);
  }
}

// The step of one feature, whose arrays begin at `at`.
void step_feature(const EdgeStep& step, int64_t at, const int32_t* edges, int64_t first, int64_t n,
                  const float* coefficients, float value, float decay) {
  float* SYLVAN_RESTRICT weights = step.weights + at;
  float* SYLVAN_RESTRICT squares = step.squares ? step.squares + at : nullptr;
  float* SYLVAN_RESTRICT delays = step.delays ? step.delays + at : nullptr;
  const float rate = step.rate;
  if (edges == nullptr) {
    if (squares) {
      adapt_run(weights + first, squares + first, coefficients, n, value, rate, decay);
    } else if (delays) {
      descend_run_averaged(weights + first, delays + first, coefficients, n, value, rate, decay, step.past);
    } else {
      descend_run(weights + first, coefficients, n, value, rate, decay);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    float& weight = weights[edges[i]];
    const float gradient = coefficients[i] * value + decay * weight;
    if (squares) {
      float& square = squares[edges[i]];
      square += gradient * gradient;
      weight -= rate * gradient / (std::sqrt(square) + kEpsilon);
    } else {
      weight -= rate * gradient;
      if (delays) delays[edges[i]] -= step.past * (rate * gradient);
    }
  }
}

}  // namespace

void score_by_feature(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges, int64_t first,
                      int64_t n, float* out) {
  const int64_t n_edges = weights.shape.n_edges;
  const auto add = [&](int64_t feature, float value) {
    const float* own = weights.values + feature * n_edges;
    if (edges) {
      add_listed(own, edges, n, value, out);
    } else {
      add_run(own + first, n, value, out);
    }
  };
  std::fill(out, out + n, 0.0f);
  if (row.bias != 0.0f) add(weights.shape.n_weights - 1, row.bias);
  for (int64_t d = 0; d < row.n; ++d) {
    if (row.indices && edges && d + kAhead < row.n) {
      const float* next = weights.values + row.indices[d + kAhead] * n_edges;
      for (int64_t i = 0; i < n; i += 8) SYLVAN_PREFETCH(next + edges[i]);
    }
    if (row.values[d] != 0.0f) add(row.indices ? row.indices[d] : d, row.values[d]);
  }
}

void step_by_feature(const EdgeStep& step, const ClassRow& row, const int32_t* edges, int64_t first,
                     int64_t n, const float* coefficients) {
  const auto move = [&](int64_t feature, float value, float decay) {
    step_feature(step, feature * step.shape.n_edges, edges, first, n, coefficients, value, decay);
  };
  for (int64_t d = 0; d < row.n; ++d) {
    if (row.values[d] != 0.0f) move(row.indices ? row.indices[d] : d, row.values[d], step.decay);
  }
  if (row.bias != 0.0f) move(step.shape.n_weights - 1, row.bias, 0.0f);
}

}  // namespace sylvan
