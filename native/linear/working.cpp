#include "linear/working.hpp"

#include <algorithm>

namespace sylvan {
namespace {

constexpr int64_t kRowFloats = sizeof(Row) / sizeof(float);

int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

int lanes_for(int64_t n_children) { return n_children <= 8 ? 8 : 16; }

int64_t solution_floats(int64_t n_rows, int64_t n_features, int n_lanes) {
  return aligned(n_features * n_lanes) + aligned(n_rows * n_lanes) + aligned(kMaxLanes);
}

int64_t solver_scratch_floats(int64_t n_rows, int64_t n_features, int n_lanes, int n_folds,
                              int64_t n_held_out) {
  const int64_t solution = solution_floats(n_rows, n_features, n_lanes) * (n_folds > 1 ? 2 : 1);
  return 16 + solution + aligned(n_rows * n_lanes) + aligned(n_held_out * n_lanes) + aligned(n_rows) +
         aligned(n_rows * kRowFloats);
}

Work carve(float* scratch, int64_t n_rows, int64_t n_features, int n_lanes, bool weighted, int n_folds,
           int64_t n_held_out) {
  const uintptr_t address = (reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64;
  float* next = reinterpret_cast<float*>(address);
  Work work{};
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += aligned(floats);
    return taken;
  };
  work.weights = take(n_features * n_lanes);  // these three are contiguous, as solution_floats expects
  work.alpha = take(n_rows * n_lanes);
  work.intercept = take(kMaxLanes);
  work.all_rows = n_folds > 1 ? take(solution_floats(n_rows, n_features, n_lanes)) : nullptr;
  work.scores = take(n_held_out * n_lanes);
  work.cost = weighted ? take(n_rows * n_lanes) : nullptr;
  work.active = reinterpret_cast<int32_t*>(take(n_rows));
  work.rows = reinterpret_cast<Row*>(take(n_rows * kRowFloats));
  return work;
}

void prepare_rows(const ClusterRows& rows, const Positives& positives, int32_t first_node, int n_children,
                  const SolverOptions& options, int n_lanes, const Work& work) {
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    const int64_t row = rows.rows[i];
    const float weight = options.sample_weight ? options.sample_weight[row] : 1.0f;
    float* cost = work.cost ? work.cost + i * n_lanes : nullptr;
    if (cost) std::fill(cost, cost + n_lanes, options.negative_cost * weight);
    uint32_t bits = 0;
    const int32_t* begin = positives.nodes + positives.indptr[row];
    const int32_t* end = positives.nodes + positives.indptr[row + 1];
    const int32_t* node = end - begin > 32 ? std::lower_bound(begin, end, first_node) : begin;
    for (; node < end && *node < first_node + n_children; ++node) {
      if (*node < first_node) continue;
      const int lane = *node - first_node;
      bits |= 1u << lane;
      if (cost) {
        const float relevance = positives.relevance ? positives.relevance[node - positives.nodes] : 1.0f;
        cost[lane] = options.positive_cost * weight * relevance;
      }
    }
    work.rows[i] = {rows.features + rows.begin[i],
                    rows.values + rows.indptr[row],
                    static_cast<int32_t>(rows.indptr[row + 1] - rows.indptr[row]),
                    rows.squared_norms[row] + options.bias * options.bias,
                    (1u << n_children) - 1u,
                    bits};
    work.active[i] = static_cast<int32_t>(i);
  }
}

}  // namespace sylvan
