#include "classes/draws.hpp"

#include <algorithm>
#include <cmath>

namespace sylvan {

double noise_probability(const ClassNoise& noise, int64_t name) {
  return noise.probabilities ? noise.probabilities[name] : 1.0 / static_cast<double>(noise.n_classes);
}

int32_t noise_at(const ClassNoise& noise, double coin) {
  const int64_t n = noise.n_classes;
  const int64_t slot = std::min(static_cast<int64_t>(coin * static_cast<double>(n)), n - 1);
  if (noise.sums == nullptr) return static_cast<int32_t>(slot);
  double mark = coin * noise.sums[n - 1];
  // Strictly below the total: a coin that rounding carries to it would fall off the end.
  if (!(mark < noise.sums[n - 1])) mark = std::nextafter(noise.sums[n - 1], 0.0);
  int64_t at = noise.guide[slot];
  while (at > 0 && noise.sums[at - 1] > mark) --at;
  while (at + 1 < n && noise.sums[at] <= mark) ++at;
  return static_cast<int32_t>(at);
}

}  // namespace sylvan
