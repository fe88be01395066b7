// What a visit to a row computes: its scores in all lanes, a step of a dual variable, and the steps' sum with
// the weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/lanes.hpp"
#include "linear/solver.hpp"

namespace sylvan {

// The weights of a feature, eight lanes at a time: wider vectors would be spilled where registers have eight
// floats. Macros for the reason given in lanes.hpp.
#define SYLVAN_EIGHT(N, feature, half) \
  (*reinterpret_cast<Floats<8>*>(weights + static_cast<int64_t>(feature) * (N) + 8 * (half)))
// Scores of a row in all lanes, written to the array `score`. Four accumulators for each eight lanes, so that
// the additions of neighbouring features don't wait for each other.
#define SYLVAN_ROW_SCORES(N, bias, intercept, score)                               \
  do {                                                                             \
    Floats<8> a{}, b{}, c{}, d{}, a2{}, b2{}, c2{}, d2{};                          \
    int32_t t = 0;                                                                 \
    for (; t + 4 <= length; t += 4) {                                              \
      a = a + values[t] * SYLVAN_EIGHT(N, features[t], 0);                         \
      if (N == 16) a2 = a2 + values[t] * SYLVAN_EIGHT(N, features[t], 1);          \
      b = b + values[t + 1] * SYLVAN_EIGHT(N, features[t + 1], 0);                 \
      if (N == 16) b2 = b2 + values[t + 1] * SYLVAN_EIGHT(N, features[t + 1], 1);  \
      c = c + values[t + 2] * SYLVAN_EIGHT(N, features[t + 2], 0);                 \
      if (N == 16) c2 = c2 + values[t + 2] * SYLVAN_EIGHT(N, features[t + 2], 1);  \
      d = d + values[t + 3] * SYLVAN_EIGHT(N, features[t + 3], 0);                 \
      if (N == 16) d2 = d2 + values[t + 3] * SYLVAN_EIGHT(N, features[t + 3], 1);  \
    }                                                                              \
    for (; t < length; ++t) {                                                      \
      a = a + values[t] * SYLVAN_EIGHT(N, features[t], 0);                         \
      if (N == 16) a2 = a2 + values[t] * SYLVAN_EIGHT(N, features[t], 1);          \
    }                                                                              \
    a = (a + b) + (c + d);                                                         \
    a = a + (bias) * *reinterpret_cast<const Floats<8>*>(intercept);               \
    std::memcpy(score, &a, sizeof(a));                                             \
    if (N == 16) {                                                                 \
      a2 = (a2 + b2) + (c2 + d2);                                                  \
      a2 = a2 + (bias) * *reinterpret_cast<const Floats<8>*>((intercept) + N - 8); \
      std::memcpy((score) + N - 8, &a2, sizeof(a2));                               \
    }                                                                              \
  } while (0)
// Adds the row times the steps of all lanes, an array, to the weights.
#define SYLVAN_ROW_UPDATE(N, steps)                                 \
  do {                                                              \
    Floats<8> low, high;                                            \
    std::memcpy(&low, steps, sizeof(low));                          \
    std::memcpy(&high, (steps) + N - 8, sizeof(high));              \
    for (int32_t t = 0; t < length; ++t) {                          \
      Floats<8>& line = SYLVAN_EIGHT(N, features[t], 0);            \
      line = line + values[t] * low;                                \
      if (N == 16) {                                                \
        Floats<8>& line2 = SYLVAN_EIGHT(N, features[t], N / 8 - 1); \
        line2 = line2 + values[t] * high;                           \
      }                                                             \
    }                                                               \
  } while (0)

// One lane's Newton steps on the logistic dual (Yu, Huang & Lin 2011, Algorithm 5 in outline): minimise
// a log a + (c - a) log(c - a) + (q / 2)(a - a0)^2 + g (a - a0) over 0 < a < c.
inline float logistic_step(float alpha, float cost, float curvature, float gradient) {
  const double c = cost, q = curvature, a0 = alpha, g = gradient;
  double low = 0.0, high = c, a = a0;
  for (int step = 0; step < 30; ++step) {
    const double slope = q * (a - a0) + g + std::log(a / (c - a));
    if (std::fabs(slope) < 1e-5) break;
    if (slope > 0) {
      high = a;
    } else {
      low = a;
    }
    double next = a - slope / (q + c / (a * (c - a)));
    if (!(next > low && next < high)) next = 0.5 * (low + high);  // Newton left the bracket: bisect
    a = next;
  }
  const double edge = 1e-7 * c;
  return static_cast<float>(std::min(std::max(a, edge), c - edge));
}

// The dual variable that a row has before the first round: a given one within its bounds, or 0. With the
// logistic loss it must be inside an open interval.
inline float first_alpha(Loss loss, float cost, float given) {
  if (!(given > 0.0f)) return loss == Loss::logistic ? 0.001f * cost : 0.0f;
  if (loss == Loss::squared_hinge) return std::min(given, std::numeric_limits<float>::max());
  return loss == Loss::hinge ? std::min(given, cost) : std::min(given, cost - 1e-7f * cost);
}

}  // namespace sylvan
