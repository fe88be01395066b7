// Scores of one cluster's children for sparse queries: finding the rows of a query's features, adding them
// up.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/layer.hpp"

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

// A block of a cluster that may hold the row of a query's feature.
struct Probe {
  int64_t row;     // of the block's first row
  int64_t entry;   // of its first entry
  int64_t end;     // entries of the cluster end here
  uint32_t count;  // rows of the block
  uint32_t key;
  float value;
  int32_t cluster;  // its number in the call
};

class Lookup {
 public:
  explicit Lookup(const LayerView& layer) : layer_(layer) {}

  // Whether unpacking a cluster pays off for queries of so many entries in all: it costs a few steps a row
  // and a block, and saves most of a lookup for each entry.
  bool worth_unpacking(int64_t cluster, int64_t query_entries) const;

  // Turns to a cluster and unpacks it, for score_unpacked.
  void unpack(int64_t cluster);

  // The scores of the unpacked cluster's children, into out. The query's features rise. Long rows are added
  // before short ones, here as in score_clusters, so that every bit of the answer is the same either way.
  void score_unpacked(const int32_t* features, const float* values, int64_t n, float* out);

  // The scores of the children of several clusters for one query, cluster after cluster, into out. All
  // clusters' lookups go through each stage together, so that their cache misses overlap.
  void score_clusters(const int32_t* clusters, int64_t n_clusters, const int32_t* features,
                      const float* values, int64_t n, float* out);

 private:
  void close();
  float* start_sums(int64_t cluster);
  void add(const Hit* hits, int64_t n_hits, uint32_t dense, int64_t n_children);

  const LayerView& layer_;
  int64_t cluster_ = -1;           // the unpacked one
  std::vector<Place> places_;      // by feature; kept zeroed between clusters
  std::vector<int32_t> features_;  // those to zero again
  std::vector<float> lines_;       // dense rows, padded to whole groups of 16 children
  std::vector<Probe> probes_;
  std::vector<Hit> hits_, dense_hits_;
  std::vector<int64_t> hits_end_;  // by cluster
  std::vector<float> sums_;        // 256 at least: any 8-bit child number is in range
};

}  // namespace sylvan
