#include "classes/draws.hpp"

#include <algorithm>
#include <cmath>

namespace sylvan {

double noise_probability(const ClassNoise& noise, int64_t name) {
  return noise.probabilities ? noise.probabilities[name] : 1.0 / static_cast<double>(noise.n_classes);
}

int32_t noise_at(const ClassNoise& noise, double uniform) {
  const int64_t n = noise.n_classes;
  const int64_t slot = std::min(static_cast<int64_t>(uniform * static_cast<double>(n)), n - 1);
  if (noise.sums == nullptr) return static_cast<int32_t>(slot);
  double mark = uniform * noise.sums[n - 1];
  // Rounding may carry the mark to the total, which would be beyond the last class.
  if (!(mark < noise.sums[n - 1])) mark = std::nextafter(noise.sums[n - 1], 0.0);
  int64_t at = noise.guide[slot];
  while (at > 0 && noise.sums[at - 1] > mark) --at;
  while (at + 1 < n && noise.sums[at] <= mark) ++at;
  return static_cast<int32_t>(at);
}

}  // namespace sylvan
