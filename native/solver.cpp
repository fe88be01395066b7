#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lanes.hpp"

namespace sylvan {
namespace {

// Rows of this cost or less teach nothing: their part of the curvature, one half over it, would overflow.
constexpr float kLeastCost = 1e-30f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Small and seedable; quality needs are those of a shuffle.
struct Random {
  uint64_t state;
  SYLVAN_INLINE uint32_t below(uint32_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(((state >> 32) * bound) >> 32);
  }
};

struct Work {
  float* weights;        // (n_features, N), one line a feature: a row's gather serves all lanes
  float* alpha;          // (n_rows, N) dual variables
  float* cost;           // (n_rows, N), only when costs differ by row
  int32_t* active;       // rows not yet dropped, in this round's order
  uint32_t* lanes_left;  // (n_rows) lanes of a row that haven't shrunk
  uint32_t* positive;    // (n_rows) lanes of which the row is a positive
};

int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

Work carve(float* scratch, int64_t n_rows, int64_t n_features, int n_lanes, bool weighted) {
  const uintptr_t address = (reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64;
  float* next = reinterpret_cast<float*>(address);
  Work work{};
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += aligned(floats);
    return taken;
  };
  work.weights = take(n_features * n_lanes);
  work.alpha = take(n_rows * n_lanes);
  work.cost = weighted ? take(n_rows * n_lanes) : nullptr;
  work.active = reinterpret_cast<int32_t*>(take(n_rows));
  work.lanes_left = reinterpret_cast<uint32_t*>(take(n_rows));
  work.positive = reinterpret_cast<uint32_t*>(take(n_rows));
  return work;
}

// Fills the rows' positive lanes and, when costs differ by row, their costs.
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
    work.positive[i] = bits;
    work.active[i] = static_cast<int32_t>(i);
    work.lanes_left[i] = (1u << n_children) - 1u;
  }
}

// Scores of a row under all lanes, into `scores`. Four accumulators: the additions of neighbouring features
// don't wait for each other. A macro for the reason given in lanes.hpp.
#define SYLVAN_LINE(N, feature) (*reinterpret_cast<Floats<N>*>(weights + static_cast<int64_t>(feature) * (N)))
#define SYLVAN_ROW_SCORES(N, scores)                                         \
  do {                                                                       \
    Floats<N> a{}, b{}, c{}, d{};                                            \
    int32_t t = 0;                                                           \
    for (; t + 4 <= length; t += 4) {                                        \
      a = a + values[t] * SYLVAN_LINE(N, features[t]);                       \
      b = b + values[t + 1] * SYLVAN_LINE(N, features[t + 1]);               \
      c = c + values[t + 2] * SYLVAN_LINE(N, features[t + 2]);               \
      d = d + values[t + 3] * SYLVAN_LINE(N, features[t + 3]);               \
    }                                                                        \
    for (; t < length; ++t) a = a + values[t] * SYLVAN_LINE(N, features[t]); \
    (scores) = (a + b) + (c + d);                                            \
  } while (0)
#define SYLVAN_ROW_UPDATE(N, step)                   \
  do {                                               \
    for (int32_t t = 0; t < length; ++t) {           \
      Floats<N>& line = SYLVAN_LINE(N, features[t]); \
      line = line + values[t] * (step);              \
    }                                                \
  } while (0)

// One lane's Newton steps on the logistic dual (Yu, Huang & Lin 2011, Algorithm 5 in outline): minimise
// a log a + (c - a) log(c - a) + (q / 2)(a - a0)^2 + g (a - a0) over 0 < a < c.
inline float logistic_step(float alpha, float cost, float curvature, float gradient) {
  const double c = cost, q = curvature, a0 = alpha, g = gradient;
  double low = 0.0, high = c, a = a0;
  for (int step = 0; step < 30; ++step) {
    const double slope = q * (a - a0) + g + std::log(a / (c - a));
    if (std::fabs(slope) < 1e-5) break;
    if (slope > 0) {
      high = a;
    } else {
      low = a;
    }
    double next = a - slope / (q + c / (a * (c - a)));
    if (!(next > low && next < high)) next = 0.5 * (low + high);  // Newton left the bracket: halve it
    a = next;
  }
  const double edge = 1e-7 * c;
  return static_cast<float>(std::min(std::max(a, edge), c - edge));
}

// The rounds of coordinate descent. Returns how many rows were visited.
template <int N, Loss kLoss>
SYLVAN_CLONES int64_t descend(const ClusterRows& rows, int n_children, const SolverOptions& options,
                              const Work& work, float* out_intercept) {
  constexpr bool kSquared = kLoss == Loss::squared_hinge;
  alignas(64) float intercept[N] = {}, costs[N], largest[N], smallest[N], largest_old[N], smallest_old[N];
  std::fill(largest_old, largest_old + N, kInfinity);
  std::fill(smallest_old, smallest_old + N, -kInfinity);
  float* weights = work.weights;
  std::memset(work.weights, 0, sizeof(float) * static_cast<size_t>(rows.n_features) * N);
  std::memset(work.alpha, 0, sizeof(float) * static_cast<size_t>(rows.n_rows) * N);
  const uint32_t all_lanes = (1u << n_children) - 1u;
  uint32_t live = all_lanes;  // lanes not yet converged
  uint32_t shrunken = 0;      // lanes that have left rows behind
  int64_t n_active = rows.n_rows, visits = 0;
  Random random{options.seed};

  if (kLoss == Loss::logistic) {  // the dual starts inside its open interval, and the weights with it
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const int32_t* features = rows.features + rows.begin[i];
      const float* values = rows.values + rows.value_begin[i];
      const int32_t length = rows.length[i];
      alignas(64) float step[N];
      for (int l = 0; l < N; ++l) {
        const bool positive = work.positive[i] >> l & 1u;
        const float cost = work.cost  ? work.cost[i * N + l]
                           : positive ? options.positive_cost
                                      : options.negative_cost;
        work.alpha[i * N + l] = 0.001f * cost;
        step[l] = l >= n_children ? 0.0f : positive ? 0.001f * cost : -0.001f * cost;
        intercept[l] += options.bias * step[l];
      }
      Floats<N> steps;
      std::memcpy(&steps, step, sizeof(step));
      SYLVAN_ROW_UPDATE(N, steps);
    }
  }

  for (int round = 0; round < options.max_iterations && live != 0 && n_active > 0; ++round) {
    for (int64_t s = 0; s < n_active; ++s) {
      const int64_t other = s + random.below(static_cast<uint32_t>(n_active - s));
      std::swap(work.active[s], work.active[other]);
    }
    std::fill(largest, largest + N, -kInfinity);
    std::fill(smallest, smallest + N, kInfinity);
    int64_t kept = 0;
    for (int64_t s = 0; s < n_active; ++s) {
      if (s + 1 < n_active) {  // the next row's entries are on their way while this one is computed
        const int64_t ahead = work.active[s + 1];
        const int32_t* next_features = rows.features + rows.begin[ahead];
        const float* next_values = rows.values + rows.value_begin[ahead];
        for (int32_t t = 0; t < rows.length[ahead]; t += 16) {
          SYLVAN_PREFETCH(next_features + t);
          SYLVAN_PREFETCH(next_values + t);
        }
        SYLVAN_PREFETCH(work.alpha + ahead * N);
      }
      const int32_t i = work.active[s];
      const uint32_t lanes = work.lanes_left[i] & live;
      if (lanes == 0) continue;
      const int32_t* features = rows.features + rows.begin[i];
      const float* values = rows.values + rows.value_begin[i];
      const int32_t length = rows.length[i];
      ++visits;
      Floats<N> scores;
      SYLVAN_ROW_SCORES(N, scores);
      scores = scores + options.bias * *reinterpret_cast<const Floats<N>*>(intercept);
      alignas(64) float score[N], step[N];
      std::memcpy(score, &scores, sizeof(score));
      float* SYLVAN_RESTRICT alpha = work.alpha + static_cast<int64_t>(i) * N;
      const float* cost = work.cost ? work.cost + static_cast<int64_t>(i) * N : nullptr;
      const float norm = rows.squared_norms[rows.rows[i]] + options.bias * options.bias;
      const int32_t positive = static_cast<int32_t>(work.positive[i]),
                    lanes_now = static_cast<int32_t>(lanes);
      for (int l = 0; l < N; ++l) {
        costs[l] = cost ? cost[l] : ((positive >> l) & 1) ? options.positive_cost : options.negative_cost;
      }
      int32_t left = 0, changed = 0;
      if (kLoss == Loss::logistic) {
        for (int l = 0; l < N; ++l) {
          const float y = ((positive >> l) & 1) ? 1.0f : -1.0f;
          step[l] = 0.0f;
          if (!((lanes_now >> l) & 1)) continue;
          if (!(costs[l] > kLeastCost)) continue;
          const float next = logistic_step(alpha[l], costs[l], norm, y * score[l]);
          const float change = next - alpha[l], violation = change * norm;
          largest[l] = violation > largest[l] ? violation : largest[l];
          smallest[l] = violation < smallest[l] ? violation : smallest[l];
          alpha[l] = next;
          step[l] = y * change;
        }
        left = lanes_now;
        changed = 1;
      } else {
        for (int l = 0; l < N; ++l) {
          const float y = ((positive >> l) & 1) ? 1.0f : -1.0f;
          // A row of weight 0 teaches nothing: its lane is off. Its diagonal would make 0 times infinity.
          const int teaches = costs[l] > kLeastCost;
          const float diagonal = kSquared & teaches ? 0.5f / costs[l] : 0.0f;
          const float upper = kSquared ? kInfinity : costs[l];
          const float a = alpha[l];
          const float gradient = y * score[l] - 1.0f + a * diagonal;
          const int at_zero = a <= 0.0f, at_upper = a >= upper;
          // A dual variable at its bound whose gradient points outwards beyond last round's extremes isn't
          // visited again (shrinking).
          const int shrunk =
              (at_zero & (gradient > largest_old[l])) | (at_upper & (gradient < smallest_old[l]));
          const int blocked = (at_zero & (gradient > 0.0f)) | (at_upper & (gradient < 0.0f));
          const int on = ((lanes_now >> l) & 1) & (shrunk ^ 1) & teaches;
          const float projected = blocked ? 0.0f : gradient;
          largest[l] = (on & (projected > largest[l])) ? projected : largest[l];
          smallest[l] = (on & (projected < smallest[l])) ? projected : smallest[l];
          const float curvature = norm + diagonal;  // 0 for an empty row under the hinge without a bias
          float next = a - projected / (curvature > 0.0f ? curvature : 1.0f);
          next = next < 0.0f ? 0.0f : next;
          next = next > upper ? upper : next;
          const float change = on ? next - a : 0.0f;
          alpha[l] = a + change;
          step[l] = y * change;
          changed |= change != 0.0f;
          left |= on << l;
        }
      }
      if (changed) {
        Floats<N> steps;
        std::memcpy(&steps, step, sizeof(step));
        SYLVAN_ROW_UPDATE(N, steps);
        for (int l = 0; l < N; ++l) intercept[l] += options.bias * step[l];
      }
      shrunken |= lanes & ~static_cast<uint32_t>(left);
      work.lanes_left[i] = static_cast<uint32_t>(left);
      if (left != 0) work.active[kept++] = i;
    }
    n_active = kept;
    uint32_t woken = 0;
    for (int lane = 0; lane < n_children; ++lane) {
      if (!(live >> lane & 1u)) continue;
      if (largest[lane] - smallest[lane] > options.tolerance) {
        largest_old[lane] = largest[lane] > 0 ? largest[lane] : kInfinity;
        smallest_old[lane] = smallest[lane] < 0 ? smallest[lane] : -kInfinity;
      } else if (shrunken >> lane & 1u) {  // converged on what is left: look at every row once more
        woken |= 1u << lane;
        largest_old[lane] = kInfinity;
        smallest_old[lane] = -kInfinity;
      } else {
        live &= ~(1u << lane);
      }
    }
    if (woken != 0) {
      shrunken &= ~woken;
      n_active = 0;
      for (int64_t i = 0; i < rows.n_rows; ++i) {
        work.lanes_left[i] |= woken;
        if (work.lanes_left[i] & live) work.active[n_active++] = static_cast<int32_t>(i);
      }
    }
  }
  for (int lane = 0; lane < n_children; ++lane) out_intercept[lane] = intercept[lane] * options.bias;
  return visits;
}

// The least magnitude that keeps at most max_weights of a lane's weights; ties at it are all dropped.
float lane_threshold(const float* weights, int64_t n_features, int n_lanes, int lane, float threshold,
                     int64_t max_weights, float* buffer) {
  int64_t n = 0;
  for (int64_t f = 0; f < n_features; ++f) {
    const float magnitude = std::fabs(weights[f * n_lanes + lane]);
    if (magnitude > 0 && magnitude >= threshold) buffer[n++] = magnitude;
  }
  if (n <= max_weights) return threshold;
  if (max_weights == 0) return kInfinity;
  std::nth_element(buffer, buffer + max_weights, buffer + n, [](float a, float b) { return a > b; });
  return std::nextafter(buffer[max_weights], kInfinity);
}

int64_t emit(const ClusterRows& rows, const Work& work, int n_children, int n_lanes,
             const SolverOptions& options, int32_t* out_feature, int32_t* out_child, float* out_weight) {
  float least[kMaxLanes];
  for (int lane = 0; lane < n_children; ++lane) {
    // out_weight has room for every weight of the group, so it can hold one lane's while we look for its cut.
    least[lane] = options.max_weights < 0
                      ? options.threshold
                      : lane_threshold(work.weights, rows.n_features, n_lanes, lane, options.threshold,
                                       options.max_weights, out_weight);
  }
  int64_t n = 0;
  for (int64_t f = 0; f < rows.n_features; ++f) {
    const float* line = work.weights + f * n_lanes;
    for (int lane = 0; lane < n_children; ++lane) {
      const float magnitude = std::fabs(line[lane]);
      if (magnitude >= least[lane] && magnitude > 0) {
        out_feature[n] = static_cast<int32_t>(f);
        out_child[n] = lane;
        out_weight[n] = line[lane];
        ++n;
      }
    }
  }
  return n;
}

}  // namespace

int lanes_for(int64_t n_children) { return n_children <= 8 ? 8 : 16; }

int64_t solver_scratch_floats(int64_t n_rows, int64_t n_features, int n_lanes) {
  return 16 + aligned(n_features * n_lanes) + 2 * aligned(n_rows * n_lanes) + 3 * aligned(n_rows);
}

int64_t solve_group(const ClusterRows& rows, const Positives& positives, int32_t first_node, int n_children,
                    const SolverOptions& options, float* scratch, int32_t* out_feature, int32_t* out_child,
                    float* out_weight, float* out_intercept, int64_t* out_row_visits) {
  const int n_lanes = lanes_for(n_children);
  const bool weighted = options.sample_weight != nullptr || positives.relevance != nullptr;
  const Work work = carve(scratch, rows.n_rows, rows.n_features, n_lanes, weighted);
  prepare_rows(rows, positives, first_node, n_children, options, n_lanes, work);
  using Descend = int64_t (*)(const ClusterRows&, int, const SolverOptions&, const Work&, float*);
  static const Descend table[3][2] = {{descend<8, Loss::squared_hinge>, descend<16, Loss::squared_hinge>},
                                      {descend<8, Loss::hinge>, descend<16, Loss::hinge>},
                                      {descend<8, Loss::logistic>, descend<16, Loss::logistic>}};
  *out_row_visits =
      table[static_cast<int>(options.loss)][n_lanes == 16](rows, n_children, options, work, out_intercept);
  return emit(rows, work, n_children, n_lanes, options, out_feature, out_child, out_weight);
}

}  // namespace sylvan
