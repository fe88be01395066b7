// The nearest of some or all vectors, by exact distance. The distance of a pair has the same bits in either
// search.
#pragma once

#include <cstdint>

namespace sylvan {

enum class Metric : int {
  euclidean = 0,
  angular = 1,  // 1 - inner product, at least 0: both sides have length one
  inner_product = 2
};

struct Vectors {
  int64_t n;
  int64_t dim;
  const float* values;  // (n, dim)
};

// The k nearest of each query's own candidates, nearest first, lower id first among equals; -1 and an
// infinite distance fill the remaining places. Query i has ids[offsets[i]] to ids[offsets[i + 1] - 1], all
// below base.n. Returns false when memory runs out.
bool nearest_candidates(const Vectors& queries, const Vectors& base, const int64_t* offsets,
                        const int32_t* ids, int64_t k, Metric metric, int32_t* out_ids, float* out_distances);

// The same among all of base, except the row that `exclude` (unless null) has for a query.
bool nearest_vectors(const Vectors& queries, const Vectors& base, const int32_t* exclude, int64_t k,
                     Metric metric, int32_t* out_ids, float* out_distances);

}  // namespace sylvan
