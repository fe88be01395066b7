#include "bucket_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform.hpp"

namespace sylvan {
namespace {

constexpr int kCoarse = 19;  // the bits of a score that its first bin leaves out: 13 are left
constexpr int kFine = 6;     // and those that its second bin leaves out
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
    : cells_(static_cast<size_t>(n_labels), Cell{0.0f, 0}),
      stamps_(static_cast<size_t>(n_buckets), 0),
      vote_bins_(static_cast<size_t>(n_repetitions) + 1, 0),
      score_bins_(kBins, 0),
      finer_bins_(kBins, 0) {}

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
      const float weight = probes.probabilities[i];
      const int64_t end = offsets[bucket + 1];
      for (int64_t j = offsets[bucket]; j < end; ++j) {
        const int32_t label = members[j];
        Cell& cell = cells[label];
        touched[n_touched] =
            label;  // kept only where the counter was 0: a branch here would be guessed wrongly
        n_touched += cell.votes == 0;
        ++cell.votes;
        cell.sum += weight;
      }
      *increments += end - offsets[bucket];
    }
  }
  return n_touched;
}

// What was touched as items; all counters are 0 again.
void BucketCounters::collect(int64_t n_touched, uint32_t min_votes) {
  n_items_ = 0;
  for (int64_t i = 0; i < n_touched; ++i) {
    const int32_t label = touched_[i];
    Cell& cell = cells_[label];
    items_[n_items_] = {cell.votes, rising_bits(cell.sum), label};
    n_items_ += cell.votes >= min_votes;
    cell = {0.0f, 0};
  }
}

// Leaves out what two coarse looks at the order show to be beyond the limit; the items are more than that.
template <typename First, typename Second>
void BucketCounters::drop(int64_t limit, std::vector<int32_t>& first_bins, First first, Second second) {
  Item* items = items_.data();
  std::fill(first_bins.begin(), first_bins.end(), 0);
  for (int64_t i = 0; i < n_items_; ++i) ++first_bins[first(items[i])];
  int64_t above = 0;
  auto least = static_cast<uint32_t>(first_bins.size() - 1);
  while (above + first_bins[least] < limit) above += first_bins[least--];
  uint32_t finer = 0;
  if (above + first_bins[least] > limit) {
    std::fill(finer_bins_.begin(), finer_bins_.end(), 0);
    for (int64_t i = 0; i < n_items_; ++i) finer_bins_[second(items[i])] += first(items[i]) == least;
    finer = kBins - 1;
    while (above + finer_bins_[finer] < limit) above += finer_bins_[finer--];
  }
  int64_t kept = 0;
  for (int64_t i = 0; i < n_items_; ++i) {
    const Item item = items[i];
    items[kept] = item;
    const uint32_t bin = first(item);
    kept += (bin > least) | ((bin == least) & (second(item) >= finer));
  }
  n_items_ = kept;
}

void BucketCounters::select(const Selection& selection) {
  const auto coarse = [](const Item& item) { return item.score >> kCoarse; };
  const auto fine = [](const Item& item) { return (item.score >> kFine) & (kBins - 1); };
  const auto most =
      static_cast<uint32_t>(vote_bins_.size() - 1);  // more only in lists that name a label twice
  const auto votes = [most](const Item& item) { return std::min(item.votes, most); };
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
  if (n_items_ > selection.limit) {
    if (selection.by_votes) {
      drop(selection.limit, vote_bins_, votes, coarse);
    } else {
      drop(selection.limit, score_bins_, coarse, fine);
    }
  }
  if (selection.by_votes) {
    order(by_votes);
  } else {
    order(by_score);
  }
}

int64_t BucketCounters::find(const BucketView& buckets, const Probes& probes, const Selection& selection,
                             FoundLabels& found) {
  for (int64_t query = 0; query < probes.n_queries; ++query) {
    if (!sound(buckets, probes, query)) return query;
    const auto room = static_cast<size_t>(bound(buckets, probes, query) + 1);
    if (touched_.size() < room) touched_.resize(room);  // before a counter is touched: memory may run out
    if (items_.size() < room) items_.resize(room);
    int64_t increments = 0;
    collect(count(buckets, probes, query, &increments), selection.min_votes);
    select(selection);
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
