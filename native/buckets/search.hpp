// The labels of the buckets that a query chose in every repetition: counted, ordered, the best of them kept.
#pragma once

#include <cstdint>
#include <vector>

namespace sylvan {

// R partitions of labels as inverted lists; a label stands once in each.
struct BucketView {
  int64_t n_labels;
  int64_t n_repetitions;
  int64_t n_buckets;
  int64_t n_members;       // of each repetition
  const int64_t* offsets;  // (n_repetitions, n_buckets + 1), into the repetition's own members
  const int32_t* members;  // (n_repetitions, n_members)
  bool rising;             // whether the members of every bucket rise
};

// The buckets that queries look into; -1 is none, and one named twice in a repetition counts once.
struct Probes {
  int64_t n_queries;
  int64_t n_probes;
  const int32_t* chosen;       // (n_queries, n_repetitions, n_probes)
  const float* probabilities;  // of each
};

struct Selection {
  uint32_t min_votes;
  bool by_votes;  // votes, then the sum of probabilities, then the lower label; else the sum, then the label
  int64_t limit;  // the first so many in that order
  bool sorted;    // best first; else whichever order comes cheapest, which is the same every time
};

struct FoundLabels {
  std::vector<int64_t> counts;   // of each query
  std::vector<int64_t> touched;  // increments of each query
  std::vector<int32_t> labels;
  std::vector<int32_t> votes;
  std::vector<float> scores;
};

// What counting needs, kept from call to call: all counters are 0 between queries.
class BucketCounters {
 public:
  BucketCounters(int64_t n_labels, int64_t n_buckets, int64_t n_repetitions);

  int64_t n_labels() const { return static_cast<int64_t>(cells_.size()); }
  int64_t n_buckets() const { return static_cast<int64_t>(stamps_.size()); }
  int64_t n_repetitions() const { return static_cast<int64_t>(vote_bins_.size()) - 1; }

  // Appends what the queries find. Returns -1, or the first query that names a bucket out of range or holds a
  // probability that is no number from 0; throws std::bad_alloc.
  int64_t find(const BucketView& buckets, const Probes& probes, const Selection& asked, FoundLabels& found);

 private:
  struct Cell {
    float sum;
    float votes;  // a float, to be added up together with the sum
  };
  struct Item {
    uint32_t votes;
    uint32_t score;  // the sum's bits, rising with it
    int32_t label;
  };
  // The labels of a chosen bucket that aren't counted yet.
  struct Run {
    const int32_t* at;
    const int32_t* end;
    float probability;
  };

  bool sound(const BucketView& buckets, const Probes& probes, int64_t query) const;
  int64_t list_runs(const BucketView& buckets, const Probes& probes, int64_t query);
  int64_t count();
  template <typename Bin>
  void count_and_collect(bool in_blocks, const Selection& selection, std::vector<int32_t>& bins, Bin bin);
  template <typename Bin>
  void collect(int64_t n_touched, const Selection& selection, std::vector<int32_t>& bins, Bin bin);
  template <typename Bin>
  void count_in_blocks(const Selection& selection, std::vector<int32_t>& bins, Bin bin);
  template <typename Bin>
  void collect_block(int64_t first, int64_t n_cells, const Selection& selection, uint32_t least,
                     std::vector<int32_t>& bins, Bin bin);
  template <typename Bin>
  void keep_first(int64_t limit, const std::vector<int32_t>& bins, Bin bin);
  template <typename Better>
  void order(const Selection& selection, const Better& better);

  static bool better_score(const Item& a, const Item& b) {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  }
  static void fill(Item* item, const Cell& cell, int64_t label);

  std::vector<Cell> cells_;   // one a label
  std::vector<Cell> block_;   // of the labels of a block
  std::vector<uint8_t> hit_;  // for some cells of a block, whether one of them may be among the first
  std::vector<Run> runs_;
  std::vector<int64_t> stamps_;  // one a bucket: when it was last looked into
  int64_t now_ = 0;
  std::vector<int32_t> touched_;
  std::vector<Item> items_;
  int64_t n_items_ = 0;
  std::vector<int32_t> vote_bins_;
  std::vector<int32_t> score_bins_;
};

}  // namespace sylvan
