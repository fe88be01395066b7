#include "trees/boosting.hpp"

namespace sylvan {

bool add_histograms(const uint8_t* bins, const int32_t* nodes, const double* first, const double* second,
                    int64_t n_rows, int64_t n_features, int64_t n_nodes, int64_t n_bins, double* sums) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const int32_t node = nodes[row];
    if (node < 0) continue;
    if (node >= n_nodes) return false;
    const uint8_t* of_row = bins + row * n_features;
    double* of_feature = sums + 2 * n_bins * n_features * node;
    const double values[2] = {first[row], second[row]};
    for (int64_t feature = 0; feature < n_features; ++feature, of_feature += 2 * n_bins) {
      const int64_t bin = of_row[feature];
      if (bin >= n_bins) return false;
      double* pair = of_feature + 2 * bin;
      const double both[2] = {pair[0] + values[0], pair[1] + values[1]};  // read and written as one vector
      pair[0] = both[0];
      pair[1] = both[1];
    }
  }
  return true;
}

namespace {

constexpr int64_t kRows =
    16;  // whose ways down a tree are followed side by side: each step waits for the one before

template <bool kAll>
void score_rows(const Forest& forest, const float* rows, int64_t n_rows, int64_t n_features, float base,
                float* out) {
  const int64_t n_splits = (int64_t{1} << forest.depth) - 1;
  const int64_t n = kAll ? kRows : n_rows;
  float totals[kRows];
  for (int64_t row = 0; row < n; ++row) totals[row] = base;
  for (int64_t tree = 0; tree < forest.n_trees; ++tree) {
    const int32_t* features = forest.features + tree * n_splits;
    const float* thresholds = forest.thresholds + tree * n_splits;
    const float* leaves = forest.leaves + tree * (n_splits + 1);
    int64_t nodes[kRows] = {};
    for (int layer = 0; layer < forest.depth; ++layer) {
      for (int64_t row = 0; row < n; ++row) {
        const int64_t node = nodes[row];
        nodes[row] = 2 * node + 1 + (rows[row * n_features + features[node]] > thresholds[node] ? 1 : 0);
      }
    }
    for (int64_t row = 0; row < n; ++row) totals[row] += leaves[nodes[row] - n_splits];
  }
  for (int64_t row = 0; row < n; ++row) out[row] = totals[row];
}

}  // namespace

void score_forest(const Forest& forest, const float* rows, int64_t n_rows, int64_t n_features, float base,
                  float* out) {
  for (int64_t row = 0; row < n_rows; row += kRows) {
    const int64_t left = n_rows - row;
    const float* values = rows + row * n_features;
    if (left >= kRows) {
      score_rows<true>(forest, values, kRows, n_features, base, out + row);
    } else {
      score_rows<false>(forest, values, left, n_features, base, out + row);
    }
  }
}

}  // namespace sylvan
