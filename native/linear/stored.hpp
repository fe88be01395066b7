// Which weights of a solved group of children are stored.
#pragma once

#include <cstdint>

#include "linear/solver.hpp"

namespace sylvan {

// Fills `least`, by lane, with the magnitude from which on weights are stored: the threshold, or more where
// at most max_weights of a lane remain. `weights` is (n_features, n_lanes); `buffer` has room for one lane.
void find_least(const float* weights, int64_t n_features, int n_lanes, int n_children,
                const SolverOptions& options, float* buffer, float* least);

// Writes the weights that are stored to out.
void emit(const float* weights, int64_t n_features, int n_lanes, int n_children, const float* least,
          Weights* out);

}  // namespace sylvan
