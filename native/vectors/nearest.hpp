// The nearest of some or of all vectors, by true distance. A pair of vectors has the same distance, to the
// last bit, whichever way it is met.
#pragma once

#include <cstdint>

namespace sylvan {

enum class Metric : int {
  euclidean = 0,
  angular = 1,  // 1 - inner product, not below 0: both sides have length one
  inner_product = 2
};

struct Vectors {
  int64_t n;
  int64_t dim;
  const float* values;  // (n, dim)
};

// The k nearest of each query's own candidates, nearest first, lower id first among equals; -1 and an
// infinite distance fill what is left. Query i has ids[offsets[i]] to ids[offsets[i + 1] - 1], all below
// base.n. Returns false when memory could not be had.
bool nearest_candidates(const Vectors& queries, const Vectors& base, const int64_t* offsets,
                        const int32_t* ids, int64_t k, Metric metric, int32_t* out_ids, float* out_distances);

// The same of all of base, but for the row that leave_out (unless null) names for a query.
bool nearest_vectors(const Vectors& queries, const Vectors& base, const int32_t* leave_out, int64_t k,
                     Metric metric, int32_t* out_ids, float* out_distances);

}  // namespace sylvan
