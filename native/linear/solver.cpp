#include "linear/solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "linear/row_steps.hpp"
#include "linear/stored.hpp"
#include "linear/working.hpp"

namespace sylvan {
namespace {

// Rows of this cost or less are ignored: their term of the curvature, 1 / (2 cost), would overflow.
constexpr float kMinCost = 1e-30f;
// After a fold was removed from a solution, each remaining row is visited once, or more often where all rows
// were solved precisely: once for so many rounds, and at most so often. A step is this much longer than to
// the row's own optimum: all rows of a lane have to grow together, and the usual step would need more passes.
constexpr int kRoundsAFoldRound = 20, kFoldRounds = 5;
constexpr float kFoldStep = 1.3f;
// Smaller changes of scores are left out. Of titles with rare labels scores lie that near to each other that
// 0.05 would leave a row's own labels an advantage.
constexpr float kLeastChange = 0.01f;
// Rounds in which rows that have come to a solution are visited alone.
constexpr int kNewRounds = 2;
// A row whose projected gradient is within kRest times the tolerance rests until all rows are visited again,
// at the latest when kLastRounds of the rounds are over. A row that counts for more than kEasy, its cost
// times its squared length, never rests: such problems converge slowly, and would not within a few rounds.
constexpr float kRest = 0.05f, kEasy = 4.0f, kLastRounds = 0.8f;
// A lane that doesn't come within the tolerance, because it converges slowly or floats can't, starts again
// with every row after so many rounds and whenever their number has doubled: some rows were shrunk away too
// early. With a tolerance of kFine or more that is beyond the usual number of rounds.
constexpr int kRounds = 512, kFineRounds = 16;
constexpr float kFine = 1e-4f;
// How far ahead rows are prefetched: what a visit begins with, and its entries.
constexpr int64_t kAhead = 4, kNext = 2;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A small seedable generator, good enough for shuffling.
struct Random {
  uint64_t state;
  SYLVAN_INLINE uint32_t below(uint32_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(((state >> 32) * bound) >> 32);
  }
};

// kFoldStep of the way, within the open interval.
inline float longer_step(float from, float to, float cost) {
  const float edge = 1e-7f * cost;
  return std::min(std::max(from + kFoldStep * (to - from), edge), cost - edge);
}

// The state before the first round, from given dual variables or all zeros.
template <int N>
SYLVAN_CLONES void begin(const ClusterRows& rows, int n_children, const SolverOptions& options,
                         const Multipliers& multipliers, const Work& work) {
  float* weights = work.weights;
  std::memset(work.weights, 0, sizeof(float) * static_cast<size_t>(rows.n_features) * N);
  std::memset(work.alpha, 0, sizeof(float) * static_cast<size_t>(rows.n_rows) * N);
  std::fill(work.intercept, work.intercept + kMaxLanes, 0.0f);
  if (options.loss != Loss::logistic && !multipliers.start) return;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    const auto [features, values, length, norm, lanes_left, positives] = work.rows[i];
    alignas(64) float step[N];
    bool any = false;
    for (int l = 0; l < N; ++l) {
      const bool positive = positives >> l & 1u;
      const float cost = work.cost  ? work.cost[i * N + l]
                         : positive ? options.positive_cost
                                    : options.negative_cost;
      const float given = multipliers.start && l < n_children ? multipliers.values[i * n_children + l] : 0.0f;
      const float alpha = cost > kMinCost ? first_alpha(options.loss, cost, given) : 0.0f;
      work.alpha[i * N + l] = alpha;
      step[l] = l >= n_children ? 0.0f : positive ? alpha : -alpha;
      any |= step[l] != 0.0f;
      work.intercept[l] += options.bias * step[l];
    }
    if (any) SYLVAN_ROW_UPDATE(N, step);
  }
}

// Removes the rows of a fold from a solution; the others' dual variables are a good start for solving without
// them. Returns the lanes that this changes; the other lanes are at their minimum with and without these
// rows.
template <int N>
SYLVAN_CLONES uint32_t remove_fold(const ClusterRows& rows, int n_children, const SolverOptions& options,
                                   const Folds& folds, int fold, const Work& work, int64_t* n_active) {
  float* weights = work.weights;
  const uint32_t all_lanes = (1u << n_children) - 1u;
  uint32_t changed = 0;
  *n_active = 0;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    if (folds.of_row[rows.rows[i]] != fold) {
      work.rows[i].lanes_left = all_lanes;
      work.active[(*n_active)++] = static_cast<int32_t>(i);
      continue;
    }
    work.rows[i].lanes_left = 0;
    float* alpha = work.alpha + i * N;
    alignas(64) float step[N];
    uint32_t nonzero = 0;
    for (int l = 0; l < N; ++l) {
      nonzero |= (l < n_children && alpha[l] != 0.0f) ? 1u << l : 0u;
      step[l] = l >= n_children ? 0.0f : work.rows[i].positive >> l & 1u ? -alpha[l] : alpha[l];
      alpha[l] = 0.0f;
      work.intercept[l] += options.bias * step[l];
    }
    if (nonzero == 0) continue;
    changed |= nonzero;
    const auto [features, values, length, norm, lanes_left, positives] = work.rows[i];
    SYLVAN_ROW_UPDATE(N, step);
  }
  return changed;
}

// What a descent starts with: without the rows of `fold` (unless that is 0), the first n_active of
// work.active and the lanes that are `live`.
struct Start {
  int fold;
  int64_t n_active;
  uint32_t live;
  bool warm;      // near a solution: rows may rest from the first round on
  bool thorough;  // every row is visited once more at the end
  uint32_t cold;  // of a warm start, lanes that start from nothing: they are always solved thoroughly
  int rounds;     // after which all other lanes are done; 0 for no such limit
};

// The rounds of coordinate descent from the solution in `work`. Returns how many rows were visited.
template <int N, Loss kLoss>
SYLVAN_CLONES int64_t descend(const ClusterRows& rows, int n_children, const SolverOptions& options,
                              const Folds& folds, const Start& start, const Work& work, int max_rounds,
                              Random& random) {
  constexpr bool kSquared = kLoss == Loss::squared_hinge;
  // A row of cost 0 is off in a lane: its diagonal would give 0 times infinity.
  const auto diagonal_of = [](float cost) { return kSquared && cost > kMinCost ? 0.5f / cost : 0.0f; };
  const float of_positive = diagonal_of(options.positive_cost),
              of_negative = diagonal_of(options.negative_cost);
  alignas(64) float intercept[N], costs[N], diagonals[N], largest[N], smallest[N], largest_old[N],
      smallest_old[N];
  std::copy(work.intercept, work.intercept + N, intercept);
  std::fill(largest_old, largest_old + N, kInfinity);
  std::fill(smallest_old, smallest_old + N, -kInfinity);
  float* weights = work.weights;
  const int fold = start.fold;
  const float step_length = fold == 0 ? 1.0f : kFoldStep;
  int64_t n_active = start.n_active;
  uint32_t live = start.live;
  uint32_t shrunken = 0;               // lanes in which rows rest or were shrunk away
  uint32_t waiting = 0;                // lanes that have converged on the rows that remained to them
  uint32_t everywhere = ~uint32_t{0};  // lanes of which this round visits every row
  int64_t visits = 0;

  for (int round = 0; round < max_rounds && live != 0 && n_active > 0; ++round) {
    for (int64_t s = 0; s < n_active; ++s) {
      const int64_t other = s + random.below(static_cast<uint32_t>(n_active - s));
      std::swap(work.active[s], work.active[other]);
    }
    std::fill(largest, largest + N, -kInfinity);
    std::fill(smallest, smallest + N, kInfinity);
    int64_t n_remaining = 0;
    const float rest = start.warm || round > 0 ? kRest * options.tolerance : 0.0f;
    for (int64_t s = 0; s < n_active; ++s) {
      if (s + kAhead < n_active) SYLVAN_PREFETCH(work.rows + work.active[s + kAhead]);
      if (s + kNext < n_active) {  // the next rows are prefetched while this one is computed
        const int64_t ahead = work.active[s + kNext];
        const Row& next = work.rows[ahead];
        // Most rows are short, and a loop of one turn or of two would be mispredicted. What lies behind a
        // row's end may be prefetched as well.
        SYLVAN_PREFETCH(next.features);
        SYLVAN_PREFETCH(next.values);
        SYLVAN_PREFETCH(next.features + 16);
        SYLVAN_PREFETCH(next.values + 16);
        for (int32_t t = 32; t < next.length; t += 16) {
          SYLVAN_PREFETCH(next.features + t);
          SYLVAN_PREFETCH(next.values + t);
        }
        SYLVAN_PREFETCH(work.alpha + ahead * N);
      }
      const int32_t i = work.active[s];
      Row& row = work.rows[i];
      const uint32_t lanes = row.lanes_left & live;
      if (lanes == 0) continue;
      const int32_t* features = row.features;
      const float* values = row.values;
      const int32_t length = row.length;
      ++visits;
      alignas(64) float score[N], step[N];
      SYLVAN_ROW_SCORES(N, options.bias, intercept, score);
      float* SYLVAN_RESTRICT alpha = work.alpha + static_cast<int64_t>(i) * N;
      const float* cost = work.cost ? work.cost + static_cast<int64_t>(i) * N : nullptr;
      const float norm = row.norm;
      const int32_t positive = static_cast<int32_t>(row.positive), lanes_now = static_cast<int32_t>(lanes);
      for (int l = 0; l < N; ++l) {
        costs[l] = cost ? cost[l] : ((positive >> l) & 1) ? options.positive_cost : options.negative_cost;
        diagonals[l] = cost ? diagonal_of(cost[l]) : ((positive >> l) & 1) ? of_positive : of_negative;
      }
      int32_t left = 0, changed = 0;
      if (kLoss == Loss::logistic) {
        for (int l = 0; l < N; ++l) {
          const float y = ((positive >> l) & 1) ? 1.0f : -1.0f;
          step[l] = 0.0f;
          if (!((lanes_now >> l) & 1)) continue;
          if (!(costs[l] > kMinCost)) continue;
          float next = logistic_step(alpha[l], costs[l], norm, y * score[l]);
          if (fold != 0) next = longer_step(alpha[l], next, costs[l]);
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
          const int counts = costs[l] > kMinCost;
          const float diagonal = diagonals[l];
          const float upper = kSquared ? kInfinity : costs[l];
          const float a = alpha[l];
          const float gradient = y * score[l] - 1.0f + a * diagonal;
          const int at_zero = a <= 0.0f, at_upper = a >= upper;
          // Shrinking: a dual variable at its bound whose gradient points outwards beyond the last round's
          // extremes isn't visited again.
          const int shrunk =
              (at_zero & (gradient > largest_old[l])) | (at_upper & (gradient < smallest_old[l]));
          const int blocked = (at_zero & (gradient > 0.0f)) | (at_upper & (gradient < 0.0f));
          const int on = ((lanes_now >> l) & 1) & (shrunk ^ 1) & counts;
          const float projected = blocked ? 0.0f : gradient;
          largest[l] = (on & (projected > largest[l])) ? projected : largest[l];
          smallest[l] = (on & (projected < smallest[l])) ? projected : smallest[l];
          const float curvature = norm + diagonal;  // 0 for an empty row under the hinge without a bias
          float next = a - step_length * projected / (curvature > 0.0f ? curvature : 1.0f);
          next = next < 0.0f ? 0.0f : next;
          next = next > upper ? upper : next;
          const float change = on ? next - a : 0.0f;
          alpha[l] = a + change;
          step[l] = y * change;
          changed |= change != 0.0f;
          const int rests =
              (projected <= rest) & (projected >= -rest) & (rest > 0.0f) & (costs[l] * norm <= kEasy);
          left |= (on & (rests ^ 1)) << l;
        }
      }
      if (changed) {
        SYLVAN_ROW_UPDATE(N, step);
        for (int l = 0; l < N; ++l) intercept[l] += options.bias * step[l];
      }
      shrunken |= lanes & ~static_cast<uint32_t>(left);
      row.lanes_left = static_cast<uint32_t>(left);
      if (left != 0) work.active[n_remaining++] = i;
    }
    n_active = n_remaining;
    for (int lane = 0; lane < n_children; ++lane) {
      const uint32_t bit = 1u << lane;
      if (!(live & bit)) continue;
      if (std::max(largest[lane], 0.0f) - std::min(smallest[lane], 0.0f) > options.tolerance) {
        largest_old[lane] = largest[lane] > 0 ? largest[lane] : kInfinity;
        smallest_old[lane] = smallest[lane] < 0 ? smallest[lane] : -kInfinity;
      } else {
        live &= ~bit;
        if ((start.thorough || (start.cold & bit)) && shrunken & ~everywhere & bit) waiting |= bit;
      }
    }
    if (start.rounds != 0 && round + 1 >= start.rounds) live &= start.cold;
    // Every row is visited once more, by all lanes that wait for it together: a row's features are read once
    // for them.
    const uint32_t woken =
        live == 0 || static_cast<float>(round + 1) >= kLastRounds * static_cast<float>(max_rounds) ? waiting
                                                                                                   : 0;
    live |= woken;
    waiting &= ~woken;
    everywhere = woken;
    for (int lane = 0; lane < n_children; ++lane) {
      if (!(woken >> lane & 1u)) continue;
      largest_old[lane] = kInfinity;
      smallest_old[lane] = -kInfinity;
    }
    if (woken != 0) {
      shrunken &= ~woken;
      n_active = 0;
      for (int64_t i = 0; i < rows.n_rows; ++i) {
        if (fold != 0 && folds.of_row[rows.rows[i]] == fold) continue;
        work.rows[i].lanes_left |= woken;
        if (work.rows[i].lanes_left & live) work.active[n_active++] = static_cast<int32_t>(i);
      }
    }
  }
  std::copy(intercept, intercept + N, work.intercept);
  return visits;
}

int64_t count_fold(const ClusterRows& rows, const Folds& folds, int fold) {
  int64_t n = 0;
  for (int64_t i = 0; i < rows.n_rows; ++i) n += folds.of_row[rows.rows[i]] == fold;
  return n;
}

// Adds the scores of a fold's rows by the stored weights, times `sign`, to `scores`, row after row.
template <int N>
SYLVAN_CLONES void add_scores(const ClusterRows& rows, const SolverOptions& options, const Folds& folds,
                              int fold, const Work& work, const float* least, float sign, float* scores) {
  // Magnitudes are compared by their bits, whose order is the same: float comparisons wouldn't be vectorised.
  alignas(64) int32_t lowest[N];
  std::memcpy(lowest, least, sizeof(lowest));
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    if (folds.of_row[rows.rows[i]] != fold) continue;
    const auto [features, values, length, norm, lanes_left, positives] = work.rows[i];
    alignas(64) float score[N], stored[N];
    for (int l = 0; l < N; ++l) score[l] = options.bias * work.intercept[l];
    for (int32_t t = 0; t < length; ++t) {
      alignas(64) int32_t bits[N];
      std::memcpy(bits, work.weights + static_cast<int64_t>(features[t]) * N, sizeof(bits));
      for (int l = 0; l < N; ++l) bits[l] &= -static_cast<int32_t>((bits[l] & INT32_MAX) >= lowest[l]);
      std::memcpy(stored, bits, sizeof(stored));
      for (int l = 0; l < N; ++l) score[l] += stored[l] * values[t];
    }
    for (int l = 0; l < N; ++l) scores[l] += sign * score[l];
    scores += N;
  }
}

// Solves without the rows of a fold, from the solution with all rows, and lists what that changes in their
// scores.
template <int N, Loss kLoss>
int64_t leave_out(const ClusterRows& rows, int n_children, const SolverOptions& options, const Folds& folds,
                  int fold, const Work& work, const float* least, Changes* changes) {
  const int64_t n_held_out = count_fold(rows, folds, fold);
  if (n_held_out == 0) return 0;
  std::fill(work.scores, work.scores + n_held_out * N, 0.0f);
  add_scores<N>(rows, options, folds, fold, work, least, -1.0f, work.scores);
  int64_t n_left = 0, visits = 0;
  const uint32_t changed = remove_fold<N>(rows, n_children, options, folds, fold, work, &n_left);
  if (n_left != 0) {
    Random own{options.seed +
               0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(fold)};  // independent of the other folds
    visits =
        descend<N, kLoss>(rows, n_children, options, folds, {fold, n_left, changed, false, true, 0, 0}, work,
                          std::clamp(options.max_iterations / kRoundsAFoldRound, 1, kFoldRounds), own);
    add_scores<N>(rows, options, folds, fold, work, least, 1.0f, work.scores);
  } else {  // no training rows: the score of a node that is always wrong
    for (int64_t i = 0; i < n_held_out * N; ++i) work.scores[i] -= 1.0f;
  }
  const float* score = work.scores;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    if (folds.of_row[rows.rows[i]] != fold) continue;
    for (int lane = 0; lane < n_children; ++lane) {
      if (std::fabs(score[lane]) < kLeastChange) continue;
      changes->row[changes->count] = rows.rows[i];
      changes->child[changes->count] = lane;
      changes->change[changes->count++] = score[lane];
    }
    score += N;
  }
  return visits;
}

void take_every_row(const ClusterRows& rows, uint32_t lanes, const Work& work) {
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    work.active[i] = static_cast<int32_t>(i);
    work.rows[i].lanes_left = lanes;
  }
}

// Where rows have come to a solution, they alone are visited first: those that no lane's weights depend on
// yet.
template <int N, Loss kLoss>
int64_t settle_new(const ClusterRows& rows, int n_children, const SolverOptions& options, const Folds& folds,
                   const Work& work, Random& random) {
  const uint32_t all_lanes = (1u << n_children) - 1u;
  int64_t n_new = 0;
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    const float* alpha = work.alpha + i * N;
    bool any = false;
    for (int l = 0; l < n_children; ++l) any |= alpha[l] != 0.0f;
    if (!any) work.active[n_new++] = static_cast<int32_t>(i);
  }
  int64_t visits = 0;
  if (n_new != 0 && n_new < rows.n_rows) {
    const Start start{0, n_new, all_lanes, true, false, 0, 0};
    visits = descend<N, kLoss>(rows, n_children, options, folds, start, work,
                               std::min(options.max_iterations, kNewRounds), random);
  }
  take_every_row(rows, all_lanes, work);
  return visits;
}

template <int N, Loss kLoss>
int64_t solve_lanes(const ClusterRows& rows, int n_children, const SolverOptions& options, const Folds& folds,
                    const Multipliers& multipliers, const Work& work, Weights* out, Changes* changes) {
  Random random{options.seed};
  begin<N>(rows, n_children, options, multipliers, work);
  const bool thorough = multipliers.rounds == 0 || !multipliers.start;
  const uint32_t all_lanes = (1u << n_children) - 1u;
  int64_t visits = 0;
  if (multipliers.start) visits += settle_new<N, kLoss>(rows, n_children, options, folds, work, random);
  uint32_t cold = multipliers.start ? all_lanes : 0;
  for (int64_t i = 0; multipliers.start && i < rows.n_rows * n_children; ++i) {
    if (multipliers.values[i] > 0.0f) cold &= ~(1u << i % n_children);
  }
  const Start start{0, rows.n_rows, all_lanes, multipliers.start, thorough, cold, multipliers.rounds};
  const int first = !thorough ? options.max_iterations : options.tolerance < kFine ? kFineRounds : kRounds;
  for (int done = 0; done < options.max_iterations;) {
    if (done > 0) take_every_row(rows, all_lanes, work);
    const int rounds = std::min(std::max(done, first), options.max_iterations - done);
    const int64_t visited = descend<N, kLoss>(rows, n_children, options, folds, start, work, rounds, random);
    visits += visited;
    done += rounds;
    if (visited <= rows.n_rows) break;  // one round, in which nothing was left to do
  }
  if (multipliers.values) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      std::copy(work.alpha + i * N, work.alpha + i * N + n_children, multipliers.values + i * n_children);
    }
  }
  alignas(64) float least[kMaxLanes] = {};
  // There is room for every weight of the group, so for those of one lane.
  find_least(work.weights, rows.n_features, N, n_children, options, out->weight, least);
  emit(work.weights, rows.n_features, N, n_children, least, out);
  for (int lane = 0; lane < n_children; ++lane) out->intercept[lane] = work.intercept[lane] * options.bias;
  const size_t n_bytes =
      sizeof(float) * static_cast<size_t>(solution_floats(rows.n_rows, rows.n_features, N));
  if (folds.n_folds > 1) std::memcpy(work.all_rows, work.weights, n_bytes);
  for (int fold = 1; fold <= folds.n_folds; ++fold) {
    if (fold > 1) std::memcpy(work.weights, work.all_rows, n_bytes);
    visits += leave_out<N, kLoss>(rows, n_children, options, folds, fold, work, least, changes);
  }
  return visits;
}

}  // namespace

int64_t solve_group(const ClusterRows& rows, const Positives& positives, int32_t first_node, int n_children,
                    const SolverOptions& options, const Folds& folds, const Multipliers& multipliers,
                    float* scratch, Weights* out, Changes* changes) {
  const int n_lanes = lanes_for(n_children);
  const bool weighted = options.sample_weight != nullptr || positives.relevance != nullptr;
  const int64_t n_held_out = folds.n_folds ? rows.n_rows - count_fold(rows, folds, 0) : 0;
  const Work work =
      carve(scratch, rows.n_rows, rows.n_features, n_lanes, weighted, folds.n_folds, n_held_out);
  prepare_rows(rows, positives, first_node, n_children, options, n_lanes, work);
  changes->count = 0;
  using Solve = int64_t (*)(const ClusterRows&, int, const SolverOptions&, const Folds&, const Multipliers&,
                            const Work&, Weights*, Changes*);
  static const Solve table[3][2] = {
      {solve_lanes<8, Loss::squared_hinge>, solve_lanes<16, Loss::squared_hinge>},
      {solve_lanes<8, Loss::hinge>, solve_lanes<16, Loss::hinge>},
      {solve_lanes<8, Loss::logistic>, solve_lanes<16, Loss::logistic>}};
  return table[static_cast<int>(options.loss)][n_lanes == 16](rows, n_children, options, folds, multipliers,
                                                              work, out, changes);
}

}  // namespace sylvan
