#include "buckets/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/lanes.hpp"

namespace sylvan {
namespace {

constexpr int kCoarse = 19;     // low bits of a score that its bin ignores: 13 remain
constexpr int64_t kAhead = 24;  // labels whose counters are prefetched
constexpr uint32_t kBins = 1u << (32 - kCoarse);
constexpr int64_t kBlock = 1 << 13;  // labels whose counters are 64 KiB
constexpr size_t kRunsAhead = 6;     // lists whose next labels are prefetched
constexpr int64_t kChunk = 8;        // cells of a block that are examined together
constexpr int64_t kSparse = 8;       // counting in blocks pays when one label in so many is touched

uint32_t ordered_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

float value_of(uint32_t ordered) {
  const uint32_t bits = (ordered >> 31) != 0 ? ordered & 0x7fffffffu : ~ordered;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The bin of the limit-th item from the top; there are at least `limit` items.
uint32_t bin_reaching(const std::vector<int32_t>& bins, int64_t limit) {
  int64_t above = 0;
  auto lowest = static_cast<uint32_t>(bins.size() - 1);
  while (lowest > 0 && above + bins[lowest] < limit) above += bins[lowest--];
  return lowest;
}

// What a bucket adds to the cell of each member: its probability and one vote.
Floats<2> one_vote(float probability) {
  const float vote[2] = {probability, 1.0f};
  Floats<2> once;
  std::memcpy(&once, vote, sizeof once);
  return once;
}

// Adds to the two floats of a cell at once.
template <typename Cell>
void add_to(Cell* cell, const Floats<2>& once) {
  Floats<2> both;
  std::memcpy(&both, static_cast<const void*>(cell), sizeof both);
  both = both + once;
  std::memcpy(static_cast<void*>(cell), &both, sizeof both);
}

// For every chunk of cells, whether some sum and some votes are above the floors.
SYLVAN_CLONES void above(const float* SYLVAN_RESTRICT cells, int64_t n_chunks, const float* floors,
                         uint8_t* SYLVAN_RESTRICT hit) {
  constexpr int kFloats = 8;
  float floor[kFloats];
  for (int k = 0; k < kFloats; ++k) floor[k] = floors[k % 2];
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
    const float* own = cells + chunk * 2 * kChunk;
    int32_t reached[kFloats] = {};
    for (int64_t i = 0; i < 2 * kChunk; i += kFloats) {
      for (int k = 0; k < kFloats; ++k) reached[k] |= own[i + k] > floor[k];
    }
    int32_t sums = 0;
    int32_t votes = 0;
    for (int k = 0; k < kFloats; k += 2) {
      sums |= reached[k];
      votes |= reached[k + 1];
    }
    hit[chunk] = static_cast<uint8_t>(sums & votes);
  }
}

}  // namespace

// Field by field: copying a whole item would stall on store forwarding.
inline void BucketCounters::fill(Item* item, const Cell& cell, int64_t label) {
  item->votes = static_cast<uint32_t>(cell.votes);
  item->score = ordered_bits(cell.sum);
  item->label = static_cast<int32_t>(label);
}

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

// Lists the chosen buckets, each once a repetition; returns how many members they have in all.
int64_t BucketCounters::list_runs(const BucketView& buckets, const Probes& probes, int64_t query) {
  int64_t total = 0;
  runs_.clear();
  for (int64_t r = 0; r < buckets.n_repetitions; ++r) {
    const int64_t* offsets = buckets.offsets + r * (buckets.n_buckets + 1);
    const int32_t* members = buckets.members + r * buckets.n_members;
    const int64_t first = (query * buckets.n_repetitions + r) * probes.n_probes;
    ++now_;
    for (int64_t i = first; i < first + probes.n_probes; ++i) {
      const int32_t bucket = probes.chosen[i];
      if (bucket < 0 || stamps_[bucket] == now_) continue;
      stamps_[bucket] = now_;
      runs_.push_back({members + offsets[bucket], members + offsets[bucket + 1], probes.probabilities[i]});
      total += offsets[bucket + 1] - offsets[bucket];
    }
  }
  return total;
}

// Counts votes and probabilities; touched_ has room for one more than the labels that can be touched.
int64_t BucketCounters::count() {
  Cell* cells = cells_.data();
  int32_t* touched = touched_.data();
  int64_t n_touched = 0;
  for (const Run& run : runs_) {
    const Floats<2> once = one_vote(run.probability);
    // A label is recorded only if its counter was 0, without a branch, which would be mispredicted.
    const auto add = [&](int32_t label) {
      Cell& cell = cells[label];
      uint32_t votes;
      std::memcpy(&votes, &cell.votes, sizeof votes);  // the bits of 0 are 0
      touched[n_touched] = label;
      n_touched += votes == 0;
      add_to(&cell, once);
    };
    const int32_t* at = run.at;
    for (; at + kAhead < run.end; ++at) {
      SYLVAN_PREFETCH(cells + at[kAhead]);
      add(*at);
    }
    for (; at < run.end; ++at) add(*at);
  }
  return n_touched;
}

// Collects the items that can be among the first `limit`: the touched labels, without those that coarse bins
// of the order rule out. Resets all counters to 0.
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
    Item& item = items[n];
    fill(&item, cell, label);
    const bool counts = item.votes >= selection.min_votes;
    if (cut) bins[bin(item)] += counts;
    n += counts;
    cell = {0.0f, 0.0f};
  }
  n_items_ = n;
  if (n > selection.limit) cut_to_limit(selection.limit, bins, bin);
}

// Drops the items whose bins lie beyond the limit; `bins` has the bins' sizes, and there are more items.
template <typename Bin>
void BucketCounters::cut_to_limit(int64_t limit, const std::vector<int32_t>& bins, Bin bin) {
  const uint32_t lowest = bin_reaching(bins, limit);
  Item* items = items_.data();
  int64_t n_selected = 0;
  for (int64_t i = 0; i < n_items_; ++i) {
    const Item item = items[i];
    items[n_selected] = item;
    n_selected += bin(item) >= lowest;
  }
  n_items_ = n_selected;
}

// Counts a block of labels at a time, whose counters stay in the cache. When a good part of all labels is
// touched, this is faster than counters for all labels and a list of the touched ones.
template <typename Bin>
void BucketCounters::count_in_blocks(const Selection& selection, std::vector<int32_t>& bins, Bin bin) {
  const auto room = static_cast<size_t>((std::min(n_labels(), kBlock) + kChunk - 1) / kChunk * kChunk);
  if (block_.size() < room) {
    hit_.resize(room / kChunk);
    block_.resize(room, Cell{0.0f, 0.0f});
  }
  std::fill(bins.begin(), bins.end(), 0);
  n_items_ = 0;
  uint32_t lowest = 0;   // no item below this bin is among the first
  int64_t n_parted = 0;  // items when that was last updated
  for (int64_t first = 0; first < n_labels(); first += kBlock) {
    const int64_t end = std::min(first + kBlock, n_labels());
    Cell* cells = block_.data();
    for (size_t number = 0; number < runs_.size(); ++number) {
      if (number + kRunsAhead < runs_.size()) {
        const int32_t* next = runs_[number + kRunsAhead].at;
        for (int64_t line = 0; line < 4; ++line) SYLVAN_PREFETCH(next + line * 16);
      }
      Run& run = runs_[number];
      const Floats<2> once = one_vote(run.probability);
      const int32_t* at = run.at;
      for (; at < run.end && *at < end; ++at) add_to(cells + (*at - first), once);
      run.at = at;
    }
    collect_block(first, end - first, selection, lowest, bins, bin);
    if (n_items_ - n_parted > selection.limit / 2 && n_items_ > selection.limit) {
      n_parted = n_items_;
      lowest = bin_reaching(bins, selection.limit);
    }
  }
  if (n_items_ > selection.limit) cut_to_limit(selection.limit, bins, bin);
}

// Collects the cells of a block that may be among the first; resets the block's counters to 0.
template <typename Bin>
void BucketCounters::collect_block(int64_t first, int64_t n_cells, const Selection& selection,
                                   uint32_t lowest, std::vector<int32_t>& bins, Bin bin) {
  const int64_t n_chunks = (n_cells + kChunk - 1) / kChunk;
  float floors[2] = {
      -1.0f, static_cast<float>(selection.min_votes) - 0.5f};  // the sum and the votes must be above these
  if (selection.by_votes) {
    floors[1] = std::max(floors[1], static_cast<float>(lowest) - 0.5f);
  } else if (lowest > 0) {
    floors[0] = value_of((lowest << kCoarse) - 1);
  }
  above(&block_[0].sum, n_chunks, floors, hit_.data());
  const Cell* cells = block_.data();
  Item* items = items_.data();
  int64_t n = n_items_;
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
    if (!hit_[static_cast<size_t>(chunk)]) continue;
    for (int64_t i = chunk * kChunk; i < (chunk + 1) * kChunk; ++i) {
      Item& item = items[n];
      fill(&item, cells[i], first + i);
      const uint32_t own = bin(item);
      const int32_t counts =
          static_cast<int32_t>(own >= lowest) & static_cast<int32_t>(item.votes >= selection.min_votes);
      bins[own] += counts;
      n += counts;
    }
  }
  n_items_ = n;
  std::memset(static_cast<void*>(block_.data()), 0, sizeof(Cell) * static_cast<size_t>(n_chunks * kChunk));
}

// Leaves the candidates in items_, perhaps more than the limit.
template <typename Bin>
void BucketCounters::count_and_collect(bool in_blocks, const Selection& selection, std::vector<int32_t>& bins,
                                       Bin bin) {
  if (in_blocks) {
    count_in_blocks(selection, bins, bin);
  } else {
    collect(count(), selection, bins, bin);
  }
}

// Cuts items_ to the first `limit`, sorted if that is requested.
template <typename Better>
void BucketCounters::order(const Selection& selection, const Better& better) {
  const auto begin = items_.begin();
  if (n_items_ > selection.limit) {
    std::nth_element(begin, begin + selection.limit, begin + n_items_, better);
    n_items_ = selection.limit;
  }
  if (selection.sorted) std::sort(begin, begin + n_items_, better);
}

int64_t BucketCounters::find(const BucketView& buckets, const Probes& probes, const Selection& asked,
                             BucketCandidates& found) {
  Selection selection = asked;
  selection.min_votes = std::max<uint32_t>(asked.min_votes, 1);  // untouched labels are no candidates
  for (int64_t query = 0; query < probes.n_queries; ++query) {
    if (!sound(buckets, probes, query)) return query;
    const int64_t increments = list_runs(buckets, probes, query);
    // Before a counter is touched, as memory may run out: room for every candidate and one chunk more.
    const auto room = static_cast<size_t>(std::min(increments, n_labels()) + kChunk + 1);
    if (items_.size() < room) items_.resize(room);
    const bool in_blocks = buckets.sorted && increments >= n_labels() / kSparse;
    if (!in_blocks && touched_.size() < room) touched_.resize(room);
    if (selection.by_votes) {
      // More votes than repetitions occur only if a list repeats a label.
      const auto most = static_cast<uint32_t>(vote_bins_.size() - 1);
      count_and_collect(in_blocks, selection, vote_bins_,
                        [most](const Item& item) { return std::min(item.votes, most); });
      order(selection, [](const Item& a, const Item& b) {
        return a.votes != b.votes ? a.votes > b.votes : better_score(a, b);
      });
    } else {
      count_and_collect(in_blocks, selection, score_bins_,
                        [](const Item& item) { return item.score >> kCoarse; });
      order(selection, [](const Item& a, const Item& b) { return better_score(a, b); });
    }
    found.touched.push_back(increments);
    found.counts.push_back(n_items_);
    for (int64_t i = 0; i < n_items_; ++i) {
      const Item item = items_[static_cast<size_t>(i)];
      found.labels.push_back(item.label);
      found.votes.push_back(static_cast<int32_t>(item.votes));
      found.scores.push_back(value_of(item.score));
    }
  }
  return -1;
}

}  // namespace sylvan
