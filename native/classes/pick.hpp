// The best of the edges that a beam has opened.
#pragma once

#include <cstdint>
#include <vector>

namespace sylvan {

// Edges and their path scores; reported by number or, where there are names, by name.
struct ClassItems {
  const float* scores;   // (n)
  const int32_t* edges;  // (n)
  int64_t n;
  const int32_t* names;  // of the edges from first_named on; null for none
  int64_t first_named;
};

// Has a workspace: not thread-safe.
class ClassPicker {
 public:
  // The best `width` of the items, best first, lower name first among equals; a NaN is ignored. Returns how
  // many there are.
  int64_t pick(const ClassItems& items, int64_t width, int32_t* names, float* scores);

  // The same, with -1 and -inf in the remaining places.
  void pick_all(const ClassItems& items, int64_t width, int32_t* names, float* scores);

 private:
  float threshold_for(const float* scores, int64_t n, int64_t width);

  std::vector<float> maxima_;
  std::vector<uint64_t> keys_;  // the score in the high half, the name in the low one
};

}  // namespace sylvan
