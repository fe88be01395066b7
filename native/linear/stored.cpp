#include "linear/stored.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sylvan {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The magnitude from which on at most max_weights of a lane's weights remain; ties at the cut are all
// dropped.
float lane_threshold(const float* weights, int64_t n_features, int n_lanes, int lane, float threshold,
                     int64_t max_weights, float* buffer) {
  int64_t n = 0;
  for (int64_t f = 0; f < n_features; ++f) {
    const float magnitude = std::fabs(weights[f * n_lanes + lane]);
    if (magnitude > 0 && magnitude >= threshold) buffer[n++] = magnitude;
  }
  if (n <= max_weights) return threshold;
  if (max_weights == 0) return kInfinity;
  std::nth_element(buffer, buffer + max_weights, buffer + n, [](float a, float b) { return a > b; });
  return std::nextafter(buffer[max_weights], kInfinity);
}

}  // namespace

void find_least(const float* weights, int64_t n_features, int n_lanes, int n_children,
                const SolverOptions& options, float* buffer, float* least) {
  for (int lane = 0; lane < n_children; ++lane) {
    least[lane] = options.max_weights < 0 ? options.threshold
                                          : lane_threshold(weights, n_features, n_lanes, lane,
                                                           options.threshold, options.max_weights, buffer);
  }
}

void emit(const float* weights, int64_t n_features, int n_lanes, int n_children, const float* least,
          Weights* out) {
  int64_t n = 0;
  for (int64_t f = 0; f < n_features; ++f) {
    const float* line = weights + f * n_lanes;
    for (int lane = 0; lane < n_children; ++lane) {
      const float magnitude = std::fabs(line[lane]);
      if (magnitude >= least[lane] && magnitude > 0) {
        out->feature[n] = static_cast<int32_t>(f);
        out->child[n] = lane;
        out->weight[n] = line[lane];
        ++n;
      }
    }
  }
  out->count = n;
}

}  // namespace sylvan
