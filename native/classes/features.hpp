// The arithmetic of edges whose weights are stored feature by feature: siblings' weights are adjacent, so
// that a compressed row reads a few cache lines per feature rather than one per edge.
#pragma once

#include <cstdint>

#include "classes/edges.hpp"

namespace sylvan {

// As score_edges and step_edges, for weights stored by feature.
void score_by_feature(const EdgeWeights& weights, const ClassRow& row, const int32_t* edges, int64_t first,
                      int64_t n, float* out);
void step_by_feature(const EdgeStep& step, const ClassRow& row, const int32_t* edges, int64_t first,
                     int64_t n, const float* coefficients);

}  // namespace sylvan
