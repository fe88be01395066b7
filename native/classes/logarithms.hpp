// Sums and sigmoids in log space.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "classes/draws.hpp"

namespace sylvan {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

inline double log_add(double a, double b) {
  const double most = std::max(a, b);
  if (most == kLogZero) return most;
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

inline double sigmoid(double x) {
  const double small = std::exp(-std::fabs(x));
  return (x >= 0.0 ? 1.0 : small) / (1.0 + small);
}

// log(sum(exp)) of all values except the one at `without`.
template <typename Value>
inline double log_sum_exp(const Value* values, size_t n, size_t without = SIZE_MAX) {
  double most = kLogZero, sum = 0.0;
  for (size_t i = 0; i < n; ++i) {
    if (i != without) most = std::max(most, static_cast<double>(values[i]));
  }
  if (most == kLogZero) return most;
  for (size_t i = 0; i < n; ++i) {
    if (i != without) sum += std::exp(static_cast<double>(values[i]) - most);
  }
  return most + std::log(sum);
}

inline double bounded_log(double probability) {
  return probability > 0.0 ? std::max(std::log(probability), kLowestLogQ) : kLowestLogQ;
}

}  // namespace sylvan
