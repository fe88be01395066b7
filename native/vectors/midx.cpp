#include "vectors/midx.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/platform.hpp"

namespace sylvan {
namespace {

struct Place {
  int64_t part;
  double rest;  // the relative position within the part, from 0 to below 1
};

constexpr double kBelowOne = 1.0 - 0x1p-53;
constexpr double kLargest = 1e38;  // within float32's range

// Inverts cumulative sums: the first sum above uniform * total, never a part of weight 0.
SYLVAN_INLINE Place invert(const double* SYLVAN_RESTRICT cumulative, int64_t n, double uniform) {
  const double total = cumulative[n - 1];
  double mark = uniform * total;
  // Rounding may carry the mark to the total, which would be beyond the last part.
  if (!(mark < total)) mark = std::nextafter(total, 0.0);
  int64_t part = 0, left = n - 1;  // the answer is at most n - 1
  while (left > 0) {
    const int64_t half = (left + 1) / 2;
    part = cumulative[part + half - 1] <= mark ? part + half : part;  // a conditional move, not a branch
    left -= half;
  }
  const double below = part > 0 ? cumulative[part - 1] : 0.0;
  const double rest = (mark - below) / (cumulative[part] - below);
  return {part, rest > 0.0 ? std::min(rest, kBelowOne) : 0.0};  // NaN becomes 0
}

// Cumulative sums of the cells of one first codeword.
SYLVAN_INLINE void fill_row(const double* SYLVAN_RESTRICT masses, const double* SYLVAN_RESTRICT second,
                            int64_t n, double* SYLVAN_RESTRICT row) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    sum += masses[i] * second[i];
    row[i] = sum;
  }
}

// The position in the order, from `begin` to `begin + count - 1`, that `rest` falls on within a cell.
SYLVAN_INLINE int64_t within(const double* in_cells, int64_t begin, int64_t count, double rest) {
  int64_t inside = 0;
  if (in_cells == nullptr) {
    inside = static_cast<int64_t>(rest * static_cast<double>(count));
  } else if (count > 0) {
    const double below = begin > 0 ? in_cells[begin - 1] : 0.0;
    const double mark = below + rest * (in_cells[begin + count - 1] - below);
    inside = std::upper_bound(in_cells + begin, in_cells + begin + count, mark) - (in_cells + begin);
  }
  return begin + std::max<int64_t>(std::min(inside, count - 1), 0);
}

}  // namespace

template <typename Id>
void midx_draw(const MidxDraw& draw, const Id* order, int64_t* ids, float* out_log_q) {
  const int64_t k = draw.n_codewords;
  std::vector<double> rows(static_cast<size_t>(k * k));
  std::vector<int64_t> filled_by(static_cast<size_t>(k), -1);  // the query whose sums a row has
  for (int64_t query = 0; query < draw.n_queries; ++query) {
    const double* cumulative = draw.cumulative + query * k;
    const double* second = draw.second + query * k;
    const float* log_first = draw.log_first + query * k;
    const float* log_second = draw.log_second + query * k;
    const double log_partition = std::log(cumulative[k - 1]);
    int64_t* query_ids = ids + query * draw.n_draws;
    float* query_log_q = out_log_q + query * draw.n_draws;
    for (int64_t i = 0; i < draw.n_draws; ++i) {
      const Place first = invert(cumulative, k, draw.uniforms[query * draw.n_draws + i]);
      double* row = rows.data() + first.part * k;
      const int64_t* offsets = draw.offsets + first.part * k;
      const double* masses = draw.masses + first.part * k;
      if (filled_by[static_cast<size_t>(first.part)] != query) {
        filled_by[static_cast<size_t>(first.part)] = query;
        fill_row(masses, second, k, row);
      }
      const Place cell = invert(row, k, first.rest);
      const int64_t begin = offsets[cell.part], count = offsets[cell.part + 1] - begin;
      query_ids[i] = std::min(within(draw.in_cells, begin, count, cell.rest), draw.n_classes - 1);
      const double log_q = static_cast<double>(log_first[first.part]) +
                           static_cast<double>(log_second[cell.part]) - log_partition;
      query_log_q[i] = static_cast<float>(std::max(std::min(log_q, kLargest), -kLargest));
    }
    // In a loop of its own, so that the cache misses of these reads overlap.
    for (int64_t i = 0; i < draw.n_draws; ++i) query_ids[i] = static_cast<int64_t>(order[query_ids[i]]);
    if (draw.own_scores == nullptr) continue;
    for (int64_t i = 0; i < draw.n_draws; ++i) {
      const int64_t id = query_ids[i];
      if (0 <= id && id < draw.n_classes) query_log_q[i] += draw.own_scores[id];
    }
  }
}

template void midx_draw(const MidxDraw&, const int32_t*, int64_t*, float*);
template void midx_draw(const MidxDraw&, const int64_t*, int64_t*, float*);

}  // namespace sylvan
