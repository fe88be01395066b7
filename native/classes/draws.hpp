// Noise classes for training, drawn by numbers that depend on the seed and on how many came before alone.
#pragma once

#include <cstdint>

namespace sylvan {

// A distribution over classes; without `sums` the uniform one.
struct ClassNoise {
  int64_t n_classes;
  const double* probabilities;  // (n_classes), which add up to 1
  const double* sums;           // (n_classes) running sums of them
  const int32_t* guide;         // (n_classes) where to look for a coin from i / n_classes on
};

// What a noise class counts as at least.
constexpr double kLowestLogQ = -80.0;

double noise_probability(const ClassNoise& noise, int64_t name);

// The class that a coin from 0 to below 1 falls on, never one of probability 0.
int32_t noise_at(const ClassNoise& noise, double coin);

// The coins of one step.
class ClassCoins {
 public:
  ClassCoins(uint64_t seed, uint64_t step) : state_(mix(mix(seed) + kStride * (step + 1))) {}

  // From 0 to below 1, 53 bits.
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
