#include "vectors/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "base/lanes.hpp"
#include "base/select.hpp"
#include "base/top_k.hpp"

namespace sylvan {
namespace {

constexpr int kWidth = 8;
constexpr int kHalf = 4;
constexpr int kRows = 8;  // rows compared with a query at once, which hides the latency of additions
constexpr int64_t kPrefetched =
    256;  // first floats of a row that are prefetched; the hardware prefetcher does the rest
constexpr int64_t kTile = 256;  // rows that stay in the cache for all queries

// The similarity of each row to the query: the negated distance, or the inner product. Rows are those in
// `ids` or, where that is null, the first n of base. An incomplete group of eight repeats its last row, so
// that sums don't depend on the group.
SYLVAN_CLONES void measure(const float* SYLVAN_RESTRICT query, const float* SYLVAN_RESTRICT base, int64_t dim,
                           Metric metric, const int32_t* ids, int64_t n, float* SYLVAN_RESTRICT out) {
  const int64_t wide = dim - dim % kWidth;
  const int64_t half = dim - dim % kHalf;
  for (int64_t i = 0; i < n; i += kRows) {
    const float* rows[kRows];
    for (int j = 0; j < kRows; ++j) {
      const int64_t at = i + j < n ? i + j : n - 1;
      rows[j] = base + (ids ? static_cast<int64_t>(ids[at]) : at) * dim;
    }
    if (ids) {
      for (int64_t at = i + kRows; at < std::min(n, i + 2 * kRows); ++at) {
        const float* next = base + static_cast<int64_t>(ids[at]) * dim;
        for (int64_t d = 0; d < std::min(dim, kPrefetched); d += 16) SYLVAN_PREFETCH(next + d);
      }
    }
    Floats<kWidth> sums[kRows];
    Floats<kHalf> quarters[kRows];
    std::memset(sums, 0, sizeof sums);
    std::memset(quarters, 0, sizeof quarters);
    float parts[kRows][kHalf];
    float rest[kRows] = {};
    if (metric == Metric::euclidean) {
      for (int64_t d = 0; d < wide; d += kWidth) {
        Floats<kWidth> q;
        std::memcpy(&q, query + d, sizeof q);
        for (int j = 0; j < kRows; ++j) {
          Floats<kWidth> x;
          std::memcpy(&x, rows[j] + d, sizeof x);
          x = x - q;
          sums[j] = sums[j] + x * x;
        }
      }
      if (wide < half) {
        Floats<kHalf> q;
        std::memcpy(&q, query + wide, sizeof q);
        for (int j = 0; j < kRows; ++j) {
          Floats<kHalf> x;
          std::memcpy(&x, rows[j] + wide, sizeof x);
          x = x - q;
          quarters[j] = x * x;
        }
      }
      for (int64_t d = half; d < dim; ++d) {
        for (int j = 0; j < kRows; ++j) {
          const float difference = rows[j][d] - query[d];
          rest[j] += difference * difference;
        }
      }
    } else {
      for (int64_t d = 0; d < wide; d += kWidth) {
        Floats<kWidth> q;
        std::memcpy(&q, query + d, sizeof q);
        for (int j = 0; j < kRows; ++j) {
          Floats<kWidth> x;
          std::memcpy(&x, rows[j] + d, sizeof x);
          sums[j] = sums[j] + x * q;
        }
      }
      if (wide < half) {
        Floats<kHalf> q;
        std::memcpy(&q, query + wide, sizeof q);
        for (int j = 0; j < kRows; ++j) {
          Floats<kHalf> x;
          std::memcpy(&x, rows[j] + wide, sizeof x);
          quarters[j] = x * q;
        }
      }
      for (int64_t d = half; d < dim; ++d) {
        for (int j = 0; j < kRows; ++j) rest[j] += rows[j][d] * query[d];
      }
    }
    for (int j = 0; j < kRows; ++j) {
      Floats<kHalf> halves[2];
      std::memcpy(halves, &sums[j], sizeof halves);
      const Floats<kHalf> both = halves[0] + halves[1] + quarters[j];
      std::memcpy(parts[j], &both, sizeof both);
    }
    for (int j = 0; j < kRows && i + j < n; ++j) {
      out[i + j] = ((parts[j][0] + parts[j][1]) + (parts[j][2] + parts[j][3])) + rest[j];
    }
  }
  if (metric == Metric::euclidean) {
    for (int64_t i = 0; i < n; ++i) out[i] = -std::sqrt(out[i]);
  } else if (metric == Metric::angular) {
    for (int64_t i = 0; i < n; ++i) {
      const float distance = 1.0f - out[i];
      out[i] = distance < 0.0f ? 0.0f : -distance;
    }
  }
}

template <typename Name>
void offer(TopK& best, const float* scores, int64_t n, Name name) {
  int32_t places[kSelectBlock];
  for (int64_t first = 0; first < n; first += kSelectBlock) {
    const int64_t n_near =
        select_at_least(scores + first, std::min(kSelectBlock, n - first), best.threshold(), places);
    for (int64_t i = 0; i < n_near; ++i) best.offer(name(first + places[i]), scores[first + places[i]]);
  }
}

// Turns scores into distances in place; +inf where there are no more rows.
void finish(TopK& best, Metric metric, int64_t k, float* scores) {
  best.finish();
  if (metric == Metric::inner_product) return;
  for (int64_t i = 0; i < k; ++i) scores[i] = 0.0f - scores[i];
}

}  // namespace

bool nearest_candidates(const Vectors& queries, const Vectors& base, const int64_t* offsets,
                        const int32_t* ids, int64_t k, Metric metric, int32_t* out_ids,
                        float* out_distances) try {
  TopK best(out_ids, out_distances, k);
  float scores[kTile];
  for (int64_t query = 0; query < queries.n; ++query) {
    best.reset(out_ids + query * k, out_distances + query * k);
    for (int64_t first = offsets[query]; first < offsets[query + 1]; first += kTile) {
      const int64_t n = std::min(kTile, offsets[query + 1] - first);
      measure(queries.values + query * queries.dim, base.values, base.dim, metric, ids + first, n, scores);
      offer(best, scores, n, [&](int64_t i) { return ids[first + i]; });
    }
    finish(best, metric, k, out_distances + query * k);
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool nearest_vectors(const Vectors& queries, const Vectors& base, const int32_t* exclude, int64_t k,
                     Metric metric, int32_t* out_ids, float* out_distances) try {
  std::vector<TopK> best;
  best.reserve(static_cast<size_t>(queries.n));
  for (int64_t query = 0; query < queries.n; ++query) {
    best.emplace_back(out_ids + query * k, out_distances + query * k, k);
  }
  float scores[kTile];
  for (int64_t first = 0; first < base.n; first += kTile) {
    const int64_t n = std::min(kTile, base.n - first);
    for (int64_t query = 0; query < queries.n; ++query) {
      measure(queries.values + query * queries.dim, base.values + first * base.dim, base.dim, metric, nullptr,
              n, scores);
      const int64_t own = exclude ? exclude[query] - first : -1;
      if (own >= 0 && own < n) scores[own] = std::numeric_limits<float>::quiet_NaN();
      offer(best[query], scores, n, [&](int64_t i) { return static_cast<int32_t>(first + i); });
    }
  }
  for (int64_t query = 0; query < queries.n; ++query) {
    finish(best[query], metric, k, out_distances + query * k);
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace sylvan
