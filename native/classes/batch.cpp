#include "classes/batch.hpp"

#include <algorithm>
#include <cstring>

#include "base/lanes.hpp"

namespace sylvan {
namespace {

constexpr int kWidth = 8;
constexpr int kRows = 2;               // scored together with
constexpr int kEdges = 5;              // so many edges: their sums stay in registers
constexpr int64_t kMaxRows = 1024;     // their features stay in the L2 cache
constexpr int64_t kMaxSums = 1 << 18;  // a megabyte

// The scores of the n edges from `first` on for each pair's row, written where the pair says. The sums have
// the order of score_edges, so that the bits are the same.
SYLVAN_CLONES void score_node(const EdgeWeights& weights, const ClassRows& rows, int64_t first, int64_t n,
                              const int64_t* pair_rows, const int64_t* pair_at, int64_t n_pairs,
                              float* SYLVAN_RESTRICT sums) {
  const int64_t n_features = rows.n_features, wide = n_features - n_features % kWidth;
  for (int64_t p = 0; p < n_pairs; p += kRows) {
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = rows.dense + pair_rows[p + r < n_pairs ? p + r : p] * n_features;
    for (int64_t i = 0; i < n; i += kEdges) {
      const float* edges[kEdges];
      for (int j = 0; j < kEdges; ++j) {
        edges[j] = weights.values + (first + (i + j < n ? i + j : n - 1)) * weights.shape.n_weights;
      }
      Floats<kWidth> lanes[kRows][kEdges];
      std::memset(lanes, 0, sizeof lanes);
      for (int64_t d = 0; d < wide; d += kWidth) {
        Floats<kWidth> q[kRows], w[kEdges];
        for (int r = 0; r < kRows; ++r) std::memcpy(&q[r], x[r] + d, sizeof q[r]);
        for (int j = 0; j < kEdges; ++j) std::memcpy(&w[j], edges[j] + d, sizeof w[j]);
        for (int j = 0; j < kEdges; ++j) {
          for (int r = 0; r < kRows; ++r) lanes[r][j] = lanes[r][j] + w[j] * q[r];
        }
      }
      for (int r = 0; r < kRows && p + r < n_pairs; ++r) {
        float rest[kEdges];
        for (int j = 0; j < kEdges; ++j) rest[j] = edges[j][n_features] * rows.bias;
        for (int64_t d = wide; d < n_features; ++d) {
          for (int j = 0; j < kEdges; ++j) rest[j] += edges[j][d] * x[r][d];
        }
        float* out = sums + pair_at[p + r] + i;
        for (int j = 0; j < kEdges && i + j < n; ++j) {
          Floats<kWidth / 2> halves[2];
          std::memcpy(halves, &lanes[r][j], sizeof halves);
          halves[0] = halves[0] + halves[1];
          float parts[kWidth / 2];
          std::memcpy(parts, halves, sizeof parts);
          out[j] = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + rest[j];
        }
      }
    }
  }
}

int64_t max_children(const ClassTree& tree) {
  int64_t most = 1;
  for (int64_t node = 0; node <= tree.first_leaf(); ++node) {
    most = std::max(most, tree.first_child(node + 1) - tree.first_child(node));
  }
  return most;
}

}  // namespace

ClassBatchSearch::ClassBatchSearch(const ClassTree& tree, int64_t beam, NodeScore score)
    : tree_(tree), beam_(1), frontier_(tree, beam, score) {
  for (int64_t layer = 0; layer + 1 < tree.n_layers(); ++layer) {
    beam_ = std::max(beam_, std::min(beam, tree.layer_start(layer + 1) - tree.layer_start(layer)));
  }
  block_rows_ = std::clamp<int64_t>(kMaxSums / (beam_ * max_children(tree)), 1, kMaxRows);
}

// Starts every row at the root.
void ClassBatchSearch::start(int64_t n_rows) {
  n_rows_ = n_rows;
  const auto n = static_cast<size_t>(n_rows);
  nodes_.assign(n * static_cast<size_t>(beam_), -1);
  above_.assign(n * static_cast<size_t>(beam_), 0.0f);
  n_nodes_.assign(n, 1);
  row_at_.resize(n);
}

// Scores all edges below the rows' nodes, which are in one layer.
void ClassBatchSearch::score_layer(const EdgeWeights& weights, const ClassRows& rows, int64_t first,
                                   int64_t layer) {
  const int64_t before = layer == 0 ? -1 : tree_.layer_start(layer - 1);
  const int64_t n_nodes = tree_.layer_start(layer) - (layer == 0 ? -1 : before);
  pair_ends_.assign(static_cast<size_t>(n_nodes) + 1, 0);
  int64_t n_pairs = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    for (int64_t i = 0; i < n_nodes_[row]; ++i) ++pair_ends_[nodes_[row * beam_ + i] - before + 1];
    n_pairs += n_nodes_[row];
  }
  for (int64_t node = 0; node < n_nodes; ++node) pair_ends_[node + 1] += pair_ends_[node];
  pair_rows_.resize(static_cast<size_t>(n_pairs));
  pair_at_.resize(static_cast<size_t>(n_pairs));
  int64_t at = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    row_at_[row] = at;
    for (int64_t i = 0; i < n_nodes_[row]; ++i) {
      const int64_t edge = nodes_[row * beam_ + i];
      const int64_t pair = pair_ends_[edge - before]++;  // counts up from its first
      pair_rows_[pair] = first + row;
      pair_at_[pair] = at;
      at += tree_.first_child(edge + 2) - tree_.first_child(edge + 1);
    }
  }
  sums_.resize(static_cast<size_t>(at));
  int64_t begin = 0;
  for (int64_t node = 0; node < n_nodes; ++node) {
    const int64_t end = pair_ends_[node], child = tree_.first_child(before + node + 1);
    score_node(weights, rows, child, tree_.first_child(before + node + 2) - child, pair_rows_.data() + begin,
               pair_at_.data() + begin, end - begin, sums_.data());
    begin = end;
  }
}

void ClassBatchSearch::find(const EdgeWeights& weights, const ClassRows& rows, int64_t first, int64_t last,
                            const ClassAnswers& answers) {
  for (; first < last; first += n_rows_) {
    start(std::min(block_rows_, last - first));
    for (int64_t layer = 0; layer < tree_.n_layers(); ++layer) {
      score_layer(weights, rows, first, layer);
      for (int64_t row = 0; row < n_rows_; ++row) {
        int32_t* nodes = nodes_.data() + row * beam_;
        float *above = above_.data() + row * beam_, *sums = sums_.data() + row_at_[row];
        frontier_.list(nodes, n_nodes_[row]);
        frontier_.add_up(nodes, above, n_nodes_[row], sums);
        if (layer + 1 < tree_.n_layers()) {
          n_nodes_[row] = frontier_.narrow(sums, nodes, above);
          continue;
        }
        float* scores = answers.scores + (first + row) * answers.k;
        frontier_.finish(sums, answers.k, answers.classes + (first + row) * answers.k, scores);
        if (answers.log_sums) answers.log_sums[first + row] = frontier_.log_sum_of_reached(sums, scores[0]);
      }
    }
  }
}

}  // namespace sylvan
