// Scores of a cluster's children for sparse queries: finds the rows of a query's features and adds them.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/adding.hpp"
#include "linear/layer.hpp"

namespace sylvan {

// Where an unpacked cluster has a feature: nowhere (length 0), in a row's entries, or in a dense line.
struct Place {
  uint32_t entry;  // within the cluster; of a dense line, its number
  uint32_t length;
  bool dense() const { return length == UINT32_MAX; }
};

// A block of a cluster that may contain the row of a query's feature.
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

  // Whether unpacking a cluster pays off for queries with so many entries in all: it costs a few steps per
  // row and block, and saves most of a lookup per entry.
  bool unpacking_pays(int64_t cluster, int64_t query_entries) const;

  // Unpacks a cluster for score_unpacked, in place of the one before.
  void unpack(int64_t cluster);

  // The scores of the unpacked cluster's children. The query's features are ascending. As in score_clusters,
  // long rows are added before short ones, so that both give the same bits.
  void score_unpacked(const int32_t* features, const float* values, int64_t n, float* out);

  // The scores of the children of several clusters for one query, cluster after cluster. The lookups of all
  // clusters go through each stage together, so that their cache misses overlap.
  void score_clusters(const int32_t* clusters, int64_t n_clusters, const int32_t* features,
                      const float* values, int64_t n, float* out);

 private:
  void close();
  float* start_sums(int64_t cluster);

  const LayerView& layer_;
  int64_t cluster_ = -1;           // the unpacked one
  std::vector<Place> places_;      // by feature; zero between clusters
  std::vector<int32_t> features_;  // whose places must be zeroed again
  std::vector<float> lines_;       // dense rows, padded to whole groups of 16 children
  std::vector<Probe> probes_;
  std::vector<Hit> hits_, dense_hits_;
  std::vector<int64_t> hits_end_;  // by cluster
  std::vector<float> sums_;        // at least kLeastSums
};

}  // namespace sylvan
