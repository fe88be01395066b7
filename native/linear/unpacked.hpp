// A cluster unpacked for the queries of a block: what many queries read once is decoded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sparse_rows.hpp"
#include "linear/layer.hpp"

namespace sylvan {

// The features of a block of queries, numbered by how many entries they have there: what is looked up most
// lies together, and what no query has needs no place at all.
class FeatureRanks {
 public:
  FeatureRanks(const SparseRows& query, int64_t n_features);

  int64_t count() const { return count_; }
  int64_t rank(int64_t feature) const { return ranks_[feature]; }  // -1 where no query has it
  const int32_t* entries(int64_t begin) const { return entries_.data() + (begin - first_); }

 private:
  int64_t count_ = 0, first_;
  std::vector<int32_t> ranks_;    // (n_features)
  std::vector<int32_t> entries_;  // the rank of each entry of the queries
};

class Unpacked {
 public:
  Unpacked(const LayerView& layer, const FeatureRanks& ranks)
      : layer_(layer), ranks_(ranks), places_(static_cast<size_t>(ranks.count()), 0) {}

  // Whether unpacking a cluster pays off for queries with so many entries in all: it costs a few steps per
  // row and block, and saves most of a lookup per entry.
  bool pays(int64_t cluster, int64_t query_entries) const;

  // Unpacks a cluster, in place of the one before.
  void unpack(int64_t cluster);

  // The scores of the cluster's children for the query whose entries have these ranks. As in add_entries,
  // long rows are added before short ones, so that both give the same bits. `out` has room for
  // padded(children), and -inf in the rest.
  void score(const int32_t* entries, const float* values, int64_t n, float* out);

  static constexpr int kPart = 4;

  // Four entries of a short row; those that it lacks have weight 0.
  struct Part {
    float weights[kPart];
    uint16_t children[kPart];
    uint32_t more;  // whether the row goes on in the next
  };

 private:
  void close();
  template <typename Entries>
  uint32_t place_line(const Entries& entries, int64_t entry, int64_t length);
  template <typename Entries>
  uint32_t place_short(const Entries& entries, int64_t entry, int64_t length);

  const LayerView& layer_;
  const FeatureRanks& ranks_;
  int64_t n_children_ = 0, width_ = 0, n_lines_ = 0, n_parts_ = 0, most_parts_ = 0;
  uint32_t dense_ = 0;            // entries from which on a row becomes a line
  std::vector<uint32_t> places_;  // by rank: 0 is nowhere, a line has kLine set; zero between clusters
  std::vector<int32_t> placed_;   // whose places must be zeroed again
  std::vector<float> lines_;      // (n, width_) weights of all children
  std::vector<Part> parts_;       // of short rows; the first isn't used
  Part blank_;
  std::vector<float> start_;                // the intercepts, padded
  std::vector<uint64_t> hits_, line_hits_;  // a place, and above it the query's value
};

}  // namespace sylvan
