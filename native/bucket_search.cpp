#include "bucket_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.hpp"

namespace sylvan {
namespace {

constexpr int kCoarse = 19;     // the bits of a score that its bin leaves out: 13 are left
constexpr int64_t kAhead = 24;  // labels whose counters are fetched before their turn
constexpr uint32_t kBins = 1u << (32 - kCoarse);

uint32_t rising_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

float value_of(uint32_t rising) {
  const uint32_t bits = (rising >> 31) != 0 ? rising & 0x7fffffffu : ~rising;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

BucketCounters::BucketCounters(int64_t n_labels, int64_t n_buckets, int64_t n_repetitions)
    : cells_(static_cast<size_t>(n_labels), Cell{0.0f, 0.0f}),
      stamps_(static_cast<size_t>(n_buckets), 0),
      vote_bins_(static_cast<size_t>(n_repetitions) + 1, 0),
      score_bins_(kBins, 0) {}

bool BucketCounters::sound(const BucketView& buckets, const Probes& probes, int64_t query) const {
  const int64_t width = buckets.n_repetitions * probes.n_probes;
  bool good = true;
  for (int64_t i = query * width; i < (query + 1) * width; ++i) {
    good &= probes.chosen[i] >= -1 && probes.chosen[i] < buckets.n_buckets &&
            probes.probabilities[i] >= 0.0f && std::isfinite(probes.probabilities[i]);
  }
  return good;
}

// No more labels than this can be found.
int64_t BucketCounters::bound(const BucketView& buckets, const Probes& probes, int64_t query) const {
  int64_t total = 0;
  for (int64_t r = 0; r < buckets.n_repetitions; ++r) {
    const int64_t* offsets = buckets.offsets + r * (buckets.n_buckets + 1);
    const int32_t* chosen = probes.chosen + (query * buckets.n_repetitions + r) * probes.n_probes;
    for (int64_t i = 0; i < probes.n_probes; ++i) {
      if (chosen[i] >= 0) total += offsets[chosen[i] + 1] - offsets[chosen[i]];
    }
  }
  return std::min(total, buckets.n_labels);
}

// Adds up votes and probabilities; touched_ has one place more than labels can be found.
int64_t BucketCounters::count(const BucketView& buckets, const Probes& probes, int64_t query,
                              int64_t* increments) {
  Cell* cells = cells_.data();
  int32_t* touched = touched_.data();
  int64_t n_touched = 0;
  for (int64_t r = 0; r < buckets.n_repetitions; ++r) {
    const int64_t* offsets = buckets.offsets + r * (buckets.n_buckets + 1);
    const int32_t* members = buckets.members + r * buckets.n_members;
    const int64_t first = (query * buckets.n_repetitions + r) * probes.n_probes;
    ++now_;
    for (int64_t i = first; i < first + probes.n_probes; ++i) {
      const int32_t bucket = probes.chosen[i];
      if (bucket < 0 || stamps_[bucket] == now_) continue;
      stamps_[bucket] = now_;
      const float vote[2] = {probes.probabilities[i], 1.0f};
      Floats<2> once;
      std::memcpy(&once, vote, sizeof once);
      const int64_t end = offsets[bucket + 1];
      // A label is kept only where its counter was 0: a branch there would be guessed wrongly.
      const auto add = [&](int32_t label) {
        Cell& cell = cells[label];
        uint32_t votes;
        std::memcpy(&votes, &cell.votes, sizeof votes);  // the bits of 0 are 0
        touched[n_touched] = label;
        n_touched += votes == 0;
        Floats<2> both;
        std::memcpy(&both, &cell, sizeof both);
        both = both + once;
        std::memcpy(&cell, &both, sizeof both);
      };
      int64_t j = offsets[bucket];
      for (; j + kAhead < end; ++j) {
        SYLVAN_PREFETCH(cells + members[j + kAhead]);
        add(members[j]);
      }
      for (; j < end; ++j) add(members[j]);
      *increments += end - offsets[bucket];
    }
  }
  return n_touched;
}

// The items that can be among the first `limit`: what is touched, but for what coarse bins of the order show
// to be beyond. All counters are 0 again.
template <typename Bin>
void BucketCounters::collect(int64_t n_touched, const Selection& selection, std::vector<int32_t>& bins,
                             Bin bin) {
  const bool cut = n_touched > selection.limit;
  if (cut) std::fill(bins.begin(), bins.end(), 0);
  Item* items = items_.data();
  int64_t n = 0;
  for (int64_t i = 0; i < n_touched; ++i) {
    const int32_t label = touched_[i];
    if (i + kAhead < n_touched) SYLVAN_PREFETCH(&cells_[touched_[i + kAhead]]);
    Cell& cell = cells_[label];
    const Item item{static_cast<uint32_t>(cell.votes), rising_bits(cell.sum), label};
    const bool counts = item.votes >= selection.min_votes;
    if (cut) bins[bin(item)] += counts;
    items[n] = item;
    n += counts;
    cell = {0.0f, 0.0f};
  }
  n_items_ = n;
  if (n > selection.limit) keep_first(selection.limit, bins, bin);
}

// Leaves out the items of the bins beyond the limit, of which bins holds the sizes; there are more items.
template <typename Bin>
void BucketCounters::keep_first(int64_t limit, const std::vector<int32_t>& bins, Bin bin) {
  int64_t above = 0;
  auto least = static_cast<uint32_t>(bins.size() - 1);
  while (above + bins[least] < limit) above += bins[least--];
  Item* items = items_.data();
  int64_t kept = 0;
  for (int64_t i = 0; i < n_items_; ++i) {
    const Item item = items[i];
    items[kept] = item;
    kept += bin(item) >= least;
  }
  n_items_ = kept;
}

void BucketCounters::select(int64_t n_touched, const Selection& selection) {
  const auto by_score = [](const Item& a, const Item& b) {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  };
  const auto by_votes = [by_score](const Item& a, const Item& b) {
    return a.votes != b.votes ? a.votes > b.votes : by_score(a, b);
  };
  const auto order = [&](const auto& better) {
    const auto begin = items_.begin();
    if (n_items_ > selection.limit) {
      std::nth_element(begin, begin + selection.limit, begin + n_items_, better);
      n_items_ = selection.limit;
    }
    if (selection.sorted) std::sort(begin, begin + n_items_, better);
  };
  const auto score_bin = [](const Item& item) { return item.score >> kCoarse; };
  if (!selection.by_votes) {
    collect(n_touched, selection, score_bins_, score_bin);
    order(by_score);
    return;
  }
  // More votes than there are repetitions: only in lists that name a label twice.
  const auto most = static_cast<uint32_t>(vote_bins_.size() - 1);
  const auto vote_bin = [most](const Item& item) { return std::min(item.votes, most); };
  collect(n_touched, selection, vote_bins_, vote_bin);
  order(by_votes);
}

int64_t BucketCounters::find(const BucketView& buckets, const Probes& probes, const Selection& selection,
                             FoundLabels& found) {
  for (int64_t query = 0; query < probes.n_queries; ++query) {
    if (!sound(buckets, probes, query)) return query;
    const auto room = static_cast<size_t>(bound(buckets, probes, query) + 1);
    if (touched_.size() < room) touched_.resize(room);  // before a counter is touched: memory may run out
    if (items_.size() < room) items_.resize(room);
    int64_t increments = 0;
    select(count(buckets, probes, query, &increments), selection);
    found.touched.push_back(increments);
    found.counts.push_back(n_items_);
    for (int64_t i = 0; i < n_items_; ++i) {
      const Item item = items_[i];
      found.labels.push_back(item.label);
      found.votes.push_back(static_cast<int32_t>(item.votes));
      found.scores.push_back(value_of(item.score));
    }
  }
  return -1;
}

}  // namespace sylvan
