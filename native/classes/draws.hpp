// Noise classes for training. The random numbers depend on the seed and on the number of the step only.
#pragma once

#include <cstdint>

namespace sylvan {

// A distribution over classes; uniform without `sums`.
struct ClassNoise {
  int64_t n_classes;
  const double* probabilities;  // (n_classes), of sum 1
  const double* sums;           // (n_classes) running sums of them
  const int32_t* guide;         // (n_classes) where the search for a uniform from i / n_classes on begins
};

// The lower bound of a noise class's log-probability.
constexpr double kLowestLogQ = -80.0;

double noise_probability(const ClassNoise& noise, int64_t name);

// The class of a uniform from 0 to below 1, by inversion; never one of probability 0.
int32_t noise_at(const ClassNoise& noise, double uniform);

// The random numbers of one step, from splitmix64.
class UniformStream {
 public:
  UniformStream(uint64_t seed, uint64_t step) : state_(mix(mix(seed) + kStride * (step + 1))) {}

  // Uniform from 0 to below 1, 53 bits.
  double next() {
    state_ += kStride;
    return static_cast<double>(mix(state_) >> 11) * 0x1p-53;
  }

 private:
  static constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;

  // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace sylvan
