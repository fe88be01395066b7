// Scores of one cluster's children for sparse queries: finding the rows of a query's features, adding them
// up.
#pragma once

#include <cstdint>
#include <vector>

#include "layer.hpp"

namespace sylvan {

// A found row: where its entries begin (or, unpacked, its line of sums), how many they are, and the query's
// value.
struct Hit {
  int64_t entry;
  uint32_t length;
  float value;
};

// What an unpacked cluster knows of a feature: nothing (length 0), a row's entries, or a dense line.
struct Place {
  uint32_t entry;  // within the cluster; of a dense line, its number
  uint32_t length;
  bool dense() const { return length == UINT32_MAX; }
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
  std::vector<Place> places_;      // by feature; kept zeroed between clusters
  std::vector<int32_t> features_;  // those to zero again
  std::vector<float> lines_;       // dense rows, padded to whole groups of 16 children
  std::vector<Hit> hits_, dense_hits_;
  std::vector<float> sums_;  // 256 at least: any 8-bit child number is in range
};

}  // namespace sylvan
