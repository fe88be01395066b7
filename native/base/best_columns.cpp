#include "base/best_columns.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <vector>

#include "base/platform.hpp"
#include "base/select.hpp"

namespace sylvan {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Sorts by descending value, then by ascending column; a NaN comes last.
uint64_t descending_key(float value, int64_t column) {
  const float plain = value + 0.0f;  // makes -0 equal to 0
  uint32_t bits;
  std::memcpy(&bits, &plain, sizeof bits);
  bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  if (value != value) bits = 0;
  return static_cast<uint64_t>(bits) << 32 | ~static_cast<uint32_t>(column);
}

// For each lane i the largest of the columns i, i + n_lanes, i + 2 n_lanes, ...; a NaN is skipped.
SYLVAN_CLONES void lane_maxima(const float* SYLVAN_RESTRICT row, int64_t n_columns, int64_t n_lanes,
                               float* SYLVAN_RESTRICT maxima) {
  std::fill(maxima, maxima + n_lanes, kMinusInfinity);
  for (int64_t first = 0; first < n_columns; first += n_lanes) {
    const int64_t n = std::min(n_lanes, n_columns - first);
    for (int64_t i = 0; i < n; ++i) {
      maxima[i] = row[first + i] > maxima[i] ? row[first + i] : maxima[i];
    }
  }
}

}  // namespace

// With more than k lanes, at least k columns, and few more, reach the k-th largest of the lanes' maxima.
bool best_columns(const float* values, int64_t n_rows, int64_t n_columns, int64_t k, int32_t* out_columns,
                  float* out_values) try {
  const int64_t n_lanes =
      (std::max<int64_t>(2 * k, kSelectBlock) + kSelectBlock - 1) / kSelectBlock * kSelectBlock;
  const bool by_lanes = 2 * n_lanes <= n_columns;
  std::vector<float> maxima(static_cast<size_t>(by_lanes ? n_lanes : 0));
  std::vector<uint64_t> keys(static_cast<size_t>(n_columns));
  int32_t places[kSelectBlock];
  for (int64_t row = 0; row < n_rows; ++row) {
    const float* own = values + row * n_columns;
    float threshold = kMinusInfinity;
    if (by_lanes) {
      lane_maxima(own, n_columns, n_lanes, maxima.data());
      std::nth_element(maxima.begin(), maxima.begin() + (k - 1), maxima.end(), std::greater<float>());
      threshold = maxima[static_cast<size_t>(k - 1)];
    }
    int64_t found = 0;
    if (threshold == kMinusInfinity) {
      for (int64_t i = 0; i < n_columns; ++i) keys[found++] = descending_key(own[i], i);
    } else {
      for (int64_t first = 0; first < n_columns; first += kSelectBlock) {
        const int64_t n =
            select_at_least(own + first, std::min(kSelectBlock, n_columns - first), threshold, places);
        for (int64_t i = 0; i < n; ++i) {
          keys[found++] = descending_key(own[first + places[i]], first + places[i]);
        }
      }
    }
    std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.begin() + found, std::greater<uint64_t>());
    std::sort(keys.begin(), keys.begin() + k, std::greater<uint64_t>());
    for (int64_t i = 0; i < k; ++i) {
      const auto column = static_cast<int32_t>(~static_cast<uint32_t>(keys[i]));
      out_columns[row * k + i] = column;
      out_values[row * k + i] = own[column];
    }
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace sylvan
