// What the solver works on, in scratch memory: the rows of a cluster, and a solution for a group of its
// children.
#pragma once

#include <cstdint>

#include "linear/solver.hpp"

namespace sylvan {

// What a visit to a row begins with, together: rows are visited in random order, and each array of its own
// would be another line that isn't in the nearest cache.
struct Row {
  const int32_t* features;
  const float* values;
  int32_t length;
  float norm;           // squared, with the bias
  uint32_t lanes_left;  // in which the row isn't shrunk away
  uint32_t positive;    // lanes of which the row is a positive instance
};

struct Work {
  float* weights;    // (n_features, N), one line a feature: reading a row's lines serves all lanes
  float* alpha;      // (n_rows, N) dual variables
  float* cost;       // (n_rows, N), only when costs differ by row
  int32_t* active;   // rows that aren't shrunk away, in this round's order
  Row* rows;         // (n_rows)
  float* intercept;  // (kMaxLanes)
  float* all_rows;   // the solution with all rows, when several folds start from it
  float* scores;     // (n_held_out, N)
};

// Floats of a solution: weights, dual variables and intercepts.
int64_t solution_floats(int64_t n_rows, int64_t n_features, int n_lanes);

// Divides the scratch memory, of solver_scratch_floats.
Work carve(float* scratch, int64_t n_rows, int64_t n_features, int n_lanes, bool weighted, int n_folds,
           int64_t n_held_out);

// Fills the rows' positive lanes and, when costs differ by row, their costs.
void prepare_rows(const ClusterRows& rows, const Positives& positives, int32_t first_node, int n_children,
                  const SolverOptions& options, int n_lanes, const Work& work);

}  // namespace sylvan
