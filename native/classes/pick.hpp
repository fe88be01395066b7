// The best few of what a beam has opened.
#pragma once

#include <cstdint>
#include <vector>

namespace sylvan {

// Edges and the scores of their ends; reported by their numbers or, where there are names, by these.
struct ClassItems {
  const float* scores;   // (n)
  const int32_t* edges;  // (n)
  int64_t n;
  const int32_t* names;  // of the edges from first_named on; null for none
  int64_t first_named;
};

// A picker's memory; of one thread at a time.
class ClassPicker {
 public:
  // The best `width` of the items, best first, lower name first among equals, and how many there were; a
  // score that is no number is never among them.
  int64_t pick(const ClassItems& items, int64_t width, int32_t* names, float* scores);

  // The same, with -1 and -inf in the places that are left.
  void pick_all(const ClassItems& items, int64_t width, int32_t* names, float* scores);

 private:
  float floor_of(const float* scores, int64_t n, int64_t width);

  std::vector<float> maxima_;
  std::vector<uint64_t> keys_;  // scores above names
};

}  // namespace sylvan
