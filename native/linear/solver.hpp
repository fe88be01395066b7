// Dual coordinate descent for all children of a cluster at once (PECOS Section 2.3.2, Eq. 10).
#pragma once

#include <cstdint>

namespace sylvan {

constexpr int kMaxLanes = 16;

enum class Loss : int { squared_hinge = 0, hinge = 1, logistic = 2 };

// The rows of one cluster with their features renumbered from 0 to n_features - 1.
struct ClusterRows {
  int64_t n_rows;
  const int32_t* rows;   // (n_rows) row ids in the training matrix
  const int64_t* begin;  // (n_rows) where a row's entries begin in `features`
  const int32_t* features;
  const int64_t* indptr;  // by row id: where its entries begin in `values`
  const float* values;
  const float* squared_norms;  // by row id: sum of squared values, without bias
  int64_t n_features;
};

// The children of which each row is a positive instance: node ids by row id, sorted within a row.
struct Positives {
  const int64_t* indptr;
  const int32_t* nodes;
  const float* relevance;  // may be null: every positive counts 1
};

struct SolverOptions {
  Loss loss;
  float positive_cost, negative_cost;
  const float* sample_weight;  // by row id; may be null
  float bias;                  // value of the constant feature; 0 for none
  float tolerance;
  int max_iterations;
  float threshold;      // weights below it in magnitude are dropped
  int64_t max_weights;  // per child, the largest; negative for no limit
  uint64_t seed;
};

// Where the dual variables of a solution stay, (n_rows, n_children) in the order of the cluster's rows.
struct Multipliers {
  float* values;  // null: the descent starts from nothing, and they aren't asked for
  bool start;     // the descent starts from them
  int rounds;     // after so many, children that start from some are done, without rows at rest being visited
                  // once more; 0 for a descent like any other's
};

// Rows of the calibration holdout, whose scores are also asked for as they would be had the cluster been
// solved without the rows of their fold.
struct Folds {
  const uint8_t* of_row;  // by row id: 1 to n_folds, 0 for rows outside the holdout; null when n_folds is 0
  int n_folds;
};

// The weights that are stored.
struct Weights {
  int32_t* feature;  // triples in the order of features, then children; room for n_features * n_children
  int32_t* child;
  float* weight;
  float* intercept;  // (n_children)
  int64_t count;     // triples
};

// What the scores of held-out rows would change by without the rows of their fold: triples of a row id, a
// child of the group and the change, of each row in the order of its children. There is room for every
// held-out row of the cluster and every child; changes that are next to nothing aren't among them.
struct Changes {
  int32_t* row;
  int32_t* child;
  float* change;
  int64_t count;  // triples
};

// Floats of scratch memory that solve_group needs for a cluster, alignment included; `n_held_out` of its rows
// are in a fold.
int64_t solver_scratch_floats(int64_t n_rows, int64_t n_features, int n_lanes, int n_folds,
                              int64_t n_held_out);

// The lanes used for a number of children: 8 or 16.
int lanes_for(int64_t n_children);

// Solves children first_node .. first_node + n_children - 1 (at most kMaxLanes). Returns how many rows were
// visited.
int64_t solve_group(const ClusterRows& rows, const Positives& positives, int32_t first_node, int n_children,
                    const SolverOptions& options, const Folds& folds, const Multipliers& multipliers,
                    float* scratch, Weights* out, Changes* changes);

}  // namespace sylvan
