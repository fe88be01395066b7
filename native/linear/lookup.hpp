// Scores of a cluster's children for sparse queries: finds the rows of a query's features and adds them.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/adding.hpp"
#include "linear/layer.hpp"

namespace sylvan {

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

  // The scores of the children of several clusters for one query, cluster after cluster. The lookups of all
  // clusters go through each stage together, so that their cache misses overlap. Each cluster's scores are
  // padded to groups of sixteen by -inf.
  void score_clusters(const int32_t* clusters, int64_t n_clusters, const int32_t* features,
                      const float* values, int64_t n, float* out);

 private:
  float* start_sums(int64_t cluster);

  const LayerView& layer_;
  std::vector<Probe> probes_;
  std::vector<Hit> hits_;
  std::vector<int64_t> hits_end_;  // by cluster
  std::vector<float> sums_;        // at least kLeastSums
};

}  // namespace sylvan
