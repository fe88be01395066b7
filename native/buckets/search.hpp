// Candidate labels from the buckets that a query probes: counted, ordered, cut to a limit.
#pragma once

#include <cstdint>
#include <vector>

namespace sylvan {

// R partitions of the labels as inverted lists; each contains a label once.
struct BucketView {
  int64_t n_labels;
  int64_t n_repetitions;
  int64_t n_buckets;
  int64_t n_members;       // of each repetition
  const int64_t* offsets;  // (n_repetitions, n_buckets + 1), into the repetition's own members
  const int32_t* members;  // (n_repetitions, n_members)
  bool sorted;             // whether the members of every bucket are ascending
};

// The buckets that queries probe; -1 is none, and one repeated in a repetition counts once.
struct Probes {
  int64_t n_queries;
  int64_t n_probes;
  const int32_t* chosen;       // (n_queries, n_repetitions, n_probes)
  const float* probabilities;  // of each
};

struct Selection {
  uint32_t min_votes;
  bool by_votes;  // votes, then the sum of probabilities, then the lower label; else the sum, then the label
  int64_t limit;  // how many to return, in that order
  bool sorted;    // best first; else in the cheapest order, which is still deterministic
};

struct BucketCandidates {
  std::vector<int64_t> counts;   // of each query
  std::vector<int64_t> touched;  // increments of each query
  std::vector<int32_t> labels;
  std::vector<int32_t> votes;
  std::vector<float> scores;
};

// The workspace of counting, reused between calls: all counters are 0 between queries.
class BucketCounters {
 public:
  BucketCounters(int64_t n_labels, int64_t n_buckets, int64_t n_repetitions);

  int64_t n_labels() const { return static_cast<int64_t>(cells_.size()); }
  int64_t n_buckets() const { return static_cast<int64_t>(stamps_.size()); }
  int64_t n_repetitions() const { return static_cast<int64_t>(vote_bins_.size()) - 1; }

  // Appends the candidates of the queries. Returns -1, or the first query with a bucket out of range or a
  // probability that isn't finite and at least 0; throws std::bad_alloc.
  int64_t find(const BucketView& buckets, const Probes& probes, const Selection& asked,
               BucketCandidates& found);

 private:
  struct Cell {
    float sum;
    float votes;  // a float, so that it is added together with the sum
  };
  struct Item {
    uint32_t votes;
    uint32_t score;  // the sum's bits, in the order of sums
    int32_t label;
  };
  // The members of a probed bucket that aren't counted yet.
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
  void cut_to_limit(int64_t limit, const std::vector<int32_t>& bins, Bin bin);
  template <typename Better>
  void order(const Selection& selection, const Better& better);

  static bool better_score(const Item& a, const Item& b) {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  }
  static void fill(Item* item, const Cell& cell, int64_t label);

  std::vector<Cell> cells_;   // one a label
  std::vector<Cell> block_;   // of the labels of a block
  std::vector<uint8_t> hit_;  // for each chunk of a block, whether a cell may be among the first
  std::vector<Run> runs_;
  std::vector<int64_t> stamps_;  // one a bucket: when it was last probed
  int64_t now_ = 0;
  std::vector<int32_t> touched_;
  std::vector<Item> items_;
  int64_t n_items_ = 0;
  std::vector<int32_t> vote_bins_;
  std::vector<int32_t> score_bins_;
};

}  // namespace sylvan
