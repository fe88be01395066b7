// Balanced k-means of PECOS, Algorithm 1: a node's rows are halved by 2-means with sides of a fixed size
// (sort by how much nearer a row is to one centre, cut at the quota), and the halves are halved again until
// each child has its share. Splits continue inside a cluster down to groups of 16 rows, so that neighbours in
// a cluster are alike. The result depends on the data, the seed and the position of the node only.
#include "vectors/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/platform.hpp"

namespace sylvan {
namespace {

constexpr int64_t kGroup = 16;

// A key that sorts by descending score, then by ascending row. Every bit pattern has its place in the order,
// NaN included, so that no value can confuse the selection.
uint64_t rank_key(double score, int32_t row) {
  const float narrow = static_cast<float>(score) + 0.0f;  // makes -0 equal to 0
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  bits = (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffU;
  return static_cast<uint64_t>(bits) << 32 | static_cast<uint32_t>(row);
}

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The two centres are interleaved, so that one cache line serves both.
SYLVAN_CLONES void sparse_products(const Rows& rows, const int32_t* order, int64_t n, const float* centres,
                                   float* products) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + 2 < n) SYLVAN_PREFETCH(rows.indices + rows.indptr[order[i + 2]]);
    if (i + 2 < n) SYLVAN_PREFETCH(rows.data + rows.indptr[order[i + 2]]);
    int64_t k = rows.indptr[order[i]];
    const int64_t end = rows.indptr[order[i] + 1];
    float left[2] = {0.0f, 0.0f};
    float right[2] = {0.0f, 0.0f};
    for (; k + 1 < end; k += 2) {
      const float* a = centres + 2 * static_cast<int64_t>(rows.indices[k]);
      const float* b = centres + 2 * static_cast<int64_t>(rows.indices[k + 1]);
      left[0] += rows.data[k] * a[0];
      right[0] += rows.data[k] * a[1];
      left[1] += rows.data[k + 1] * b[0];
      right[1] += rows.data[k + 1] * b[1];
    }
    if (k < end) {
      const float* a = centres + 2 * static_cast<int64_t>(rows.indices[k]);
      left[0] += rows.data[k] * a[0];
      right[0] += rows.data[k] * a[1];
    }
    products[2 * i] = left[0] + left[1];
    products[2 * i + 1] = right[0] + right[1];
  }
}

// Dense centres are stored one after the other: a row is read once for both, 16 columns at a time.
SYLVAN_CLONES void dense_products(const Rows& rows, const int32_t* order, int64_t n, const float* centres,
                                  float* products) {
  const int64_t width = rows.n_columns;
  const float* first = centres;
  const float* second = centres + width;
  for (int64_t i = 0; i < n; ++i) {
    const float* row = rows.data + static_cast<int64_t>(order[i]) * width;
    float left[16] = {};
    float right[16] = {};
    int64_t k = 0;
    for (; k + 16 <= width; k += 16) {
      for (int64_t j = 0; j < 16; ++j) {
        left[j] += row[k + j] * first[k + j];
        right[j] += row[k + j] * second[k + j];
      }
    }
    for (; k < width; ++k) {
      left[0] += row[k] * first[k];
      right[0] += row[k] * second[k];
    }
    float left_sum = 0.0f, right_sum = 0.0f;
    for (int64_t j = 0; j < 16; ++j) {
      left_sum += left[j];
      right_sum += right[j];
    }
    products[2 * i] = left_sum;
    products[2 * i + 1] = right_sum;
  }
}

class Splitter {
 public:
  Splitter(const Rows& rows, const TreeShape& shape, const SplitSettings& settings, int32_t* order,
           int64_t base)
      : rows_(rows), shape_(shape), settings_(settings), order_(order), base_(base) {
    centres_.assign(static_cast<size_t>(2 * rows.n_columns), 0.0f);
  }

  void split(int64_t layer, int64_t first, int64_t last, int64_t steps) {
    const bool leaves = layer == shape_.n_layers - 1;
    if (last - first == 1 && !leaves) {
      const int64_t* below = offsets(layer + 1);
      split(layer + 1, below[first], below[first + 1], steps);
      return;
    }
    if (steps == 0 || last - first < 2 || (leaves && last - first <= kGroup)) return;
    const int64_t groups = (last - first + kGroup - 1) / kGroup;
    const int64_t middle = leaves ? first + (groups + 1) / 2 * kGroup : first + (last - first) / 2;
    const int64_t begin = leaf_position(shape_, layer, first);
    halve(begin, leaf_position(shape_, layer, middle) - begin, leaf_position(shape_, layer, last) - begin);
    split(layer, first, middle, steps - 1);
    split(layer, middle, last, steps - 1);
  }

 private:
  const int64_t* offsets(int64_t layer) const { return shape_.offsets + shape_.layer_start[layer]; }

  // Rows order[begin .. begin + n): the `quota` that belong together come first.
  void halve(int64_t begin, int64_t quota, int64_t n) {
    int32_t* order = order_ + (begin - base_);
    uint64_t state = mix(mix(settings_.seed ^ mix(static_cast<uint64_t>(begin))) + static_cast<uint64_t>(n));
    const bool sampled = settings_.sample > 0 && n > 2 * settings_.sample;
    const int64_t m = sampled ? settings_.sample : n;
    if (sampled) {
      for (int64_t i = 0; i < m; ++i) std::swap(order[i], order[i + draw(state, n - i)]);
    }
    const int64_t a = draw(state, m);
    const int64_t b = (a + 1 + draw(state, m - 1)) % m;
    add(order[a], 0, 1.0f);
    add(order[b], 1, 1.0f);
    const int64_t share = sampled ? std::min(m - 1, std::max<int64_t>(1, quota * m / n)) : quota;
    Sides sides{order, m, share};
    side_.assign(static_cast<size_t>(n), 2);
    iterate(sides, settings_.max_iterations, sampled, a, b);
    if (sampled) {
      // The rows are in the order of the sample's last cut, so the sides of its rows are known.
      std::fill(side_.begin() + m, side_.end(), uint8_t{2});
      sides.n = n;
      sides.quota = quota;
      iterate(sides, 1, false, -1, -1);
    }
    clear(order, n);
  }

  struct Sides {
    int32_t* order;
    int64_t n;
    int64_t quota;
  };

  // side_ is the centre that a row belongs to (2: neither); every pass assigns all rows, then moves those
  // that changed sides. After the last pass the centres are updated only if they are used further.
  void iterate(Sides& sides, int64_t max_iterations, bool keep_centres, int64_t seed_a, int64_t seed_b) {
    const int64_t n = sides.n;
    int32_t* order = sides.order;
    products_.resize(static_cast<size_t>(2 * n));
    keys_.resize(static_cast<size_t>(n));
    if (seed_a >= 0) side_[static_cast<size_t>(seed_a)] = 0;
    if (seed_b >= 0) side_[static_cast<size_t>(seed_b)] = 1;
    for (int64_t pass = 0; pass < max_iterations; ++pass) {
      if (rows_.indptr != nullptr) {
        sparse_products(rows_, order, n, centres_.data(), products_.data());
      } else {
        dense_products(rows_, order, n, centres_.data(), products_.data());
      }
      scale(n);
      for (int64_t i = 0; i < n; ++i) {
        keys_[i] = rank_key(products_[2 * i] * scale_[0] - products_[2 * i + 1] * scale_[1], order[i]);
      }
      ranked_ = keys_;
      std::nth_element(ranked_.begin(), ranked_.begin() + sides.quota, ranked_.end());
      const uint64_t cut = ranked_[static_cast<size_t>(sides.quota)];
      int64_t moved = 0;
      for (int64_t i = 0; i < n; ++i) {
        const uint8_t side = keys_[i] < cut ? 0 : 1;
        if (side == side_[i]) continue;
        if (keep_centres || pass + 1 < max_iterations) {
          if (side_[i] < 2) add(order[i], side_[i], -1.0f);
          add(order[i], side, 1.0f);
        }
        side_[i] = side;
        ++moved;
      }
      if (moved * 200 <= n) break;
    }
    partition(order, n);
  }

  // What a product with a centre's sum is multiplied by: one over its count, or over its length.
  void scale(int64_t n) {
    double count[2] = {0.0, 0.0}, square[2] = {0.0, 0.0};
    for (int64_t i = 0; i < n; ++i) {
      if (side_[i] > 1) continue;
      count[side_[i]] += 1.0;
      square[side_[i]] += products_[2 * i + side_[i]];
    }
    for (int side = 0; side < 2; ++side) {
      const double size = settings_.spherical ? std::sqrt(std::max(square[side], 0.0)) : count[side];
      scale_[side] = size > 0.0 ? 1.0 / size : 0.0;
    }
  }

  // Moves rows of side 0 to the front; each side keeps its order.
  void partition(int32_t* order, int64_t n) {
    updated_.clear();
    int64_t front = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (side_[i] == 0) {
        order[front++] = order[i];
      } else {
        updated_.push_back(order[i]);
      }
    }
    std::copy(updated_.begin(), updated_.end(), order + front);
    std::fill(side_.begin(), side_.begin() + front, uint8_t{0});
    std::fill(side_.begin() + front, side_.begin() + n, uint8_t{1});
  }

  void add(int32_t row, int side, float sign) {
    if (rows_.indptr != nullptr) {
      for (int64_t k = rows_.indptr[row]; k < rows_.indptr[row + 1]; ++k) {
        centres_[2 * static_cast<size_t>(rows_.indices[k]) + side] += sign * rows_.data[k];
      }
    } else {
      float* SYLVAN_RESTRICT centre = centres_.data() + side * rows_.n_columns;
      const float* SYLVAN_RESTRICT from = rows_.data + row * rows_.n_columns;
      for (int64_t k = 0; k < rows_.n_columns; ++k) centre[k] += sign * from[k];
    }
  }

  void clear(const int32_t* order, int64_t n) {
    if (rows_.indptr == nullptr || n * 32 > rows_.n_columns) {
      std::fill(centres_.begin(), centres_.end(), 0.0f);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = rows_.indptr[order[i]]; k < rows_.indptr[order[i] + 1]; ++k) {
        centres_[2 * static_cast<size_t>(rows_.indices[k])] = 0.0f;
        centres_[2 * static_cast<size_t>(rows_.indices[k]) + 1] = 0.0f;
      }
    }
  }

  static int64_t draw(uint64_t& state, int64_t below) {
    state += 0x9e3779b97f4a7c15ULL;
    return static_cast<int64_t>(mix(state) % static_cast<uint64_t>(below));
  }

  const Rows& rows_;
  const TreeShape& shape_;
  const SplitSettings& settings_;
  int32_t* order_;
  int64_t base_;  // leaf position of order_[0]
  std::vector<float> centres_, products_;
  std::vector<uint64_t> keys_, ranked_;
  std::vector<uint8_t> side_;
  std::vector<int32_t> updated_;
  double scale_[2] = {1.0, 1.0};
};

}  // namespace

int64_t leaf_position(const TreeShape& shape, int64_t layer, int64_t node) {
  for (int64_t t = layer + 1; t < shape.n_layers; ++t) node = shape.offsets[shape.layer_start[t] + node];
  return node;
}

void split_rows(const Rows& rows, const TreeShape& shape, int64_t layer, int64_t first, int64_t last,
                const SplitSettings& settings, int32_t* order) {
  Splitter(rows, shape, settings, order, leaf_position(shape, layer, first))
      .split(layer, first, last, settings.max_steps);
}

}  // namespace sylvan
