#include "linear/merge.hpp"

#include <cstddef>
#include <new>
#include <vector>

#include "base/top_k.hpp"

namespace sylvan {

namespace {

// Fibonacci hashing: the high bits of the product spread even consecutive labels.
inline size_t slot_of(int32_t label, int shift) {
  return static_cast<size_t>((static_cast<uint32_t>(label) * 2654435769u) >> shift);
}

}  // namespace

bool merge_rankings(int64_t n_rows, int64_t width, const int32_t* labels, const float* values, int64_t k,
                    int32_t* out_labels, float* out_scores) {
  try {
    int bits = 4;
    while ((int64_t{1} << bits) < 2 * width && bits < 32) ++bits;
    const int shift = 32 - bits;
    const size_t mask = (size_t{1} << bits) - 1;
    std::vector<int32_t> table(mask + 1, -1);  // index into `distinct`, or -1
    std::vector<int32_t> distinct;
    std::vector<double> sums;
    std::vector<size_t> used;
    TopK best(nullptr, nullptr, k);
    for (int64_t row = 0; row < n_rows; ++row) {
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        if (labels[i] < 0) continue;
        size_t slot = slot_of(labels[i], shift);
        while (table[slot] >= 0 && distinct[table[slot]] != labels[i]) slot = (slot + 1) & mask;
        if (table[slot] < 0) {
          table[slot] = static_cast<int32_t>(distinct.size());
          used.push_back(slot);
          distinct.push_back(labels[i]);
          sums.push_back(0.0);
        }
        sums[table[slot]] += values[i];
      }
      best.reset(out_labels + row * k, out_scores + row * k);
      for (size_t i = 0; i < distinct.size(); ++i) best.offer(distinct[i], static_cast<float>(sums[i]));
      best.finish();
      for (const size_t slot : used) table[slot] = -1;
      distinct.clear();
      sums.clear();
      used.clear();
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace sylvan
