#include "vectors/pifa.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/platform.hpp"

namespace sylvan {
namespace {

struct Features {
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};

struct Members {
  const int32_t* rows;
  const float* weights;
  int64_t count;

  // Rows are scattered in memory: the start of the next one is prefetched while one is added.
  void prefetch(const Features& x, int64_t m) const {
    if (m + 1 >= count) return;
    const int64_t next = x.indptr[rows[m + 1]];
    for (int64_t ahead = 0; ahead < 64; ahead += 16) {
      SYLVAN_PREFETCH(x.indices + next + ahead);
      SYLVAN_PREFETCH(x.data + next + ahead);
    }
  }
};

struct Accumulator {
  std::vector<float> sums;
  std::vector<uint8_t> seen;
  std::vector<int32_t> touched;  // columns that occur, in the order of their first occurrence
  std::vector<float> sizes;

  explicit Accumulator(int64_t n_columns)
      : sums(static_cast<size_t>(n_columns), 0.0f), seen(static_cast<size_t>(n_columns), 0) {}

  // New columns are appended without a branch: at most one is written past the end of the list.
  void add(const Features& x, const Members& members, int64_t room) {
    touched.resize(static_cast<size_t>(room + 1));
    int32_t* list = touched.data();
    int64_t n = 0;
    for (int64_t m = 0; m < members.count; ++m) {
      members.prefetch(x, m);
      const float weight = members.weights[m];
      for (int64_t k = x.indptr[members.rows[m]]; k < x.indptr[members.rows[m] + 1]; ++k) {
        const int32_t j = x.indices[k];
        list[n] = j;
        n += seen[static_cast<size_t>(j)] ^ 1;
        seen[static_cast<size_t>(j)] = 1;
        sums[static_cast<size_t>(j)] += weight * x.data[k];
      }
    }
    touched.resize(static_cast<size_t>(n));
  }

  // Sorts the columns, or collects them from the marks when there are many.
  void sort_touched() {
    if (touched.size() * 16 < seen.size()) {
      std::sort(touched.begin(), touched.end());
      return;
    }
    touched.clear();
    for (size_t j = 0; j < seen.size(); ++j) {
      if (seen[j]) touched.push_back(static_cast<int32_t>(j));
    }
  }

  // The `keep` columns of largest size, the lower column where two are equal.
  void select_largest(int64_t keep) {
    sizes.clear();
    for (const int32_t j : touched) sizes.push_back(std::fabs(sums[static_cast<size_t>(j)]));
    std::nth_element(sizes.begin(), sizes.begin() + (keep - 1), sizes.end(), std::greater<float>());
    const float cut = sizes[static_cast<size_t>(keep - 1)];
    int64_t equal = keep;
    for (int64_t i = 0; i < keep; ++i) equal -= sizes[static_cast<size_t>(i)] > cut ? 1 : 0;
    for (const int32_t j : touched) {
      if (std::fabs(sums[static_cast<size_t>(j)]) < cut) drop(j);
    }
    touched.erase(std::remove_if(touched.begin(), touched.end(),
                                 [this](int32_t j) { return !seen[static_cast<size_t>(j)]; }),
                  touched.end());
    sort_touched();
    for (const int32_t j : touched) {
      if (std::fabs(sums[static_cast<size_t>(j)]) == cut && equal-- <= 0) drop(j);
    }
  }

  float scale() const {
    double square = 0.0;
    for (const int32_t j : touched) {
      const float sum = sums[static_cast<size_t>(j)];
      square += static_cast<double>(sum) * sum;
    }
    return square > 0.0 ? static_cast<float>(1.0 / std::sqrt(square)) : 0.0f;
  }

  void drop(int32_t j) {
    sums[static_cast<size_t>(j)] = 0.0f;
    seen[static_cast<size_t>(j)] = 0;
  }
};

}  // namespace

void aggregate_features(const int64_t* x_indptr, const int32_t* x_indices, const float* x_data,
                        int64_t n_columns, const int64_t* members_indptr, const int32_t* members,
                        const float* member_weights, int64_t first, int64_t last, int64_t max_features,
                        bool of_all, int64_t* out_length, int32_t* out_indices, float* out_data) {
  const Features x{x_indptr, x_indices, x_data};
  Accumulator acc(n_columns);
  int64_t written = 0;
  for (int64_t label = first; label < last; ++label) {
    int64_t room = 0;
    for (int64_t m = members_indptr[label]; m < members_indptr[label + 1]; ++m) {
      room += x_indptr[members[m] + 1] - x_indptr[members[m]];
    }
    const Members own{members + members_indptr[label], member_weights + members_indptr[label],
                      members_indptr[label + 1] - members_indptr[label]};
    acc.add(x, own, std::min(room, n_columns));
    const int64_t n_touched = static_cast<int64_t>(acc.touched.size());
    float* sums = acc.sums.data();
    const float scale_of_all = of_all ? acc.scale() : 0.0f;
    if (max_features > 0 && n_touched > max_features) {
      acc.select_largest(max_features);
    } else {
      acc.sort_touched();
    }
    const float scale = of_all ? scale_of_all : acc.scale();
    const int64_t begin = written;
    for (const int32_t j : acc.touched) {
      if (sums[j] != 0.0f) {
        out_indices[written] = j;
        out_data[written] = sums[j] * scale;
        ++written;
      }
      acc.drop(j);
    }
    out_length[label - first] = written - begin;
  }
}

}  // namespace sylvan
