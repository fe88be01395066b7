#include "base/best_columns.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <vector>

#include "base/platform.hpp"
#include "base/reaching.hpp"

namespace sylvan {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// Falls as a value falls, and with the column where values are equal; a NaN stands below everything.
uint64_t falling_key(float value, int64_t column) {
  const float plain = value + 0.0f;  // -0 and 0 are one
  uint32_t bits;
  std::memcpy(&bits, &plain, sizeof bits);
  bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  if (value != value) bits = 0;
  return static_cast<uint64_t>(bits) << 32 | ~static_cast<uint32_t>(column);
}

// The largest of the columns i, i + n_lanes, i + 2 n_lanes, ... for each i; a NaN is passed over.
SYLVAN_CLONES void lane_maxima(const float* SYLVAN_RESTRICT row, int64_t n_columns, int64_t n_lanes,
                               float* SYLVAN_RESTRICT maxima) {
  std::fill(maxima, maxima + n_lanes, kLeast);
  for (int64_t first = 0; first < n_columns; first += n_lanes) {
    const int64_t n = std::min(n_lanes, n_columns - first);
    for (int64_t i = 0; i < n; ++i) {
      maxima[i] = row[first + i] > maxima[i] ? row[first + i] : maxima[i];
    }
  }
}

}  // namespace

// Of more lanes than are wanted, the k-th largest maximum is reached by at least k columns, and by few more.
bool best_columns(const float* values, int64_t n_rows, int64_t n_columns, int64_t k, int32_t* out_columns,
                  float* out_values) try {
  const int64_t n_lanes = (std::max<int64_t>(2 * k, kReaching) + kReaching - 1) / kReaching * kReaching;
  const bool by_lanes = 2 * n_lanes <= n_columns;
  std::vector<float> maxima(static_cast<size_t>(by_lanes ? n_lanes : 0));
  std::vector<uint64_t> keys(static_cast<size_t>(n_columns));
  int32_t places[kReaching];
  for (int64_t row = 0; row < n_rows; ++row) {
    const float* own = values + row * n_columns;
    float floor = kLeast;
    if (by_lanes) {
      lane_maxima(own, n_columns, n_lanes, maxima.data());
      std::nth_element(maxima.begin(), maxima.begin() + (k - 1), maxima.end(), std::greater<float>());
      floor = maxima[static_cast<size_t>(k - 1)];
    }
    int64_t found = 0;
    if (floor == kLeast) {
      for (int64_t i = 0; i < n_columns; ++i) keys[found++] = falling_key(own[i], i);
    } else {
      for (int64_t first = 0; first < n_columns; first += kReaching) {
        const int64_t n = reaching(own + first, std::min(kReaching, n_columns - first), floor, places);
        for (int64_t i = 0; i < n; ++i) {
          keys[found++] = falling_key(own[first + places[i]], first + places[i]);
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
