// Scores of one cluster's children for sparse queries: finding the rows of a query's features, adding them
// up.
#pragma once

#include <cstdint>
#include <vector>

#include "layer.hpp"

namespace sylvan {

// A found row: its entries and the query's value at its feature.
struct Hit {
  int64_t entry;
  uint32_t length;
  float value;
};

class Lookup {
 public:
  explicit Lookup(const LayerView& layer) : layer_(layer) {}

  // Turns to a cluster that queries of so many entries in all are about to be scored against. When they are
  // many, the cluster is unpacked once; otherwise each feature is looked up where it lies.
  void open(int64_t cluster, int64_t query_entries);

  // out (n_children): the children's scores. The features rise; the order of additions, and so every bit of
  // the answer, is the same whether or not the cluster was unpacked.
  void score(const int32_t* features, const float* values, int64_t n, float* out);

 private:
  void close();
  void unpack();

  const LayerView& layer_;
  int64_t cluster_ = -1, n_children_ = 0;
  bool unpacked_ = false;
  std::vector<int32_t> row_of_;      // by feature: row within the cluster plus one, 0 for none; kept zeroed
  std::vector<int32_t> feature_of_;  // by row, to zero row_of_ again
  std::vector<int64_t> row_entry_;   // by row: where its entries begin, and how many they are
  std::vector<Hit> hits_;
  std::vector<float> sums_;  // 256 at least: any 8-bit child number is in range
};

}  // namespace sylvan
