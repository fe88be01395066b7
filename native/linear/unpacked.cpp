#include "linear/unpacked.hpp"

#include <algorithm>
#include <cstring>

#include "base/lanes.hpp"
#include "base/platform.hpp"
#include "base/top_k.hpp"
#include "linear/adding.hpp"
#include "linear/choice.hpp"
#include "linear/entries.hpp"
#include "linear/rows.hpp"

namespace sylvan {
namespace {

constexpr uint32_t kLine = 1u << 31;
constexpr int64_t kWidest = 128;  // children of a line

// A hit is a place, and above it the query's value: so it is written at once.
SYLVAN_INLINE int64_t place_of(uint64_t hit) { return static_cast<int64_t>(hit & (kLine - 1)); }
SYLVAN_INLINE float value_of(uint64_t hit) {
  const uint32_t bits = static_cast<uint32_t>(hit >> 32);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The sums of `start` and lines of 8 * V children (see lanes.hpp).
template <int V>
SYLVAN_CLONES void add_lines(const uint64_t* hits, int64_t n_hits, const float* lines, const float* start,
                             float* sums) {
  Floats<8> total[V];
  std::memcpy(total, start, sizeof(total));
  for (int64_t h = 0; h < n_hits; ++h) {
    const float* line = lines + place_of(hits[h]) * (8 * V);
    const float value = value_of(hits[h]);
    for (int v = 0; v < V; ++v) {
      Floats<8> part;
      std::memcpy(&part, line + 8 * v, sizeof(part));
      total[v] = total[v] + value * part;
    }
  }
  std::memcpy(sums, total, sizeof(total));
}

using AddLines = void (*)(const uint64_t*, int64_t, const float*, const float*, float*);
const AddLines kAddLines[16] = {add_lines<1>,  add_lines<2>,  add_lines<3>,  add_lines<4>,
                                add_lines<5>,  add_lines<6>,  add_lines<7>,  add_lines<8>,
                                add_lines<9>,  add_lines<10>, add_lines<11>, add_lines<12>,
                                add_lines<13>, add_lines<14>, add_lines<15>, add_lines<16>};

// Adds the parts of short rows to the sums, entry after entry: fused as in add_entries.
SYLVAN_CLONES void add_short(const uint64_t* hits, int64_t n_hits, const Unpacked::Part* parts, float* sums) {
  for (int64_t h = 0; h < n_hits; ++h) {
    const float value = value_of(hits[h]);
    const Unpacked::Part* part = parts + place_of(hits[h]);
    while (true) {
      sums[part->children[0]] += value * part->weights[0];
      sums[part->children[1]] += value * part->weights[1];
      sums[part->children[2]] += value * part->weights[2];
      sums[part->children[3]] += value * part->weights[3];
      if (part->more == 0) break;
      ++part;
    }
  }
}

// A vector grows by a quarter: by itself it would double.
template <typename T>
void make_room(std::vector<T>& values, size_t n) {
  if (values.size() >= n) return;
  values.reserve(n + n / 4);
  values.resize(values.capacity());
}

}  // namespace

FeatureRanks::FeatureRanks(const SparseRows& query, int64_t n_features)
    : first_(query.indptr[0]), ranks_(static_cast<size_t>(n_features), 0) {
  const int64_t n = query.indptr[query.n_rows] - first_;
  const int32_t* indices = query.indices + first_;
  for (int64_t i = 0; i < n; ++i) ++ranks_[indices[i]];
  // Sorted by the number of bits of the counts, as the exact order matters little.
  constexpr int kSizes = 32;
  int64_t next[kSizes + 1] = {};
  const auto size = [](int32_t n_entries) {
    int bits = 0;
    while (n_entries >> bits) ++bits;
    return kSizes - 1 - bits;
  };
  for (const int32_t n_entries : ranks_)
    if (n_entries > 0) ++next[size(n_entries) + 1];
  for (int s = 0; s < kSizes; ++s) next[s + 1] += next[s];
  count_ = next[kSizes];
  for (int32_t& rank : ranks_) rank = rank > 0 ? static_cast<int32_t>(next[size(rank)]++) : -1;
  entries_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) entries_[i] = ranks_[indices[i]];
}

bool Unpacked::pays(int64_t cluster, int64_t query_entries) const {
  const int64_t n_rows = layer_.row_offsets[cluster + 1] - layer_.row_offsets[cluster];
  const int64_t n_entries = layer_.entry_offsets[cluster + 1] - layer_.entry_offsets[cluster];
  const int64_t n_children = layer_.child_offsets[cluster + 1] - layer_.child_offsets[cluster];
  const bool fits = n_children > 0 && n_children <= UINT16_MAX && n_rows + n_entries < kLine;
  const int64_t cost = n_rows + layer_.n_blocks;
  if (!fits || query_entries <= cost) return false;
  // At twice as many it always pays, before only where the lines and parts can't take much memory.
  constexpr int64_t kLittle = int64_t{5} << 19, kPartBytes = sizeof(Part);
  const int64_t dense = dense_length(layer_, cluster), line = padded(n_children) * int64_t{sizeof(float)};
  const int64_t most = (n_rows + n_entries / kPart) * kPartBytes + (dense > 0 ? n_entries / dense * line : 0);
  return query_entries > 2 * cost || most <= kLittle;
}

void Unpacked::unpack(int64_t cluster) {
  close();
  const int64_t first_child = layer_.child_offsets[cluster];
  n_children_ = layer_.child_offsets[cluster + 1] - first_child;
  dense_ = dense_length(layer_, cluster);
  if (n_children_ < 8) dense_ = 1;  // all rows are lines, in the order of features
  width_ = padded(n_children_);
  n_lines_ = 0;
  n_parts_ = 1;
  const int64_t first_entry = layer_.entry_offsets[cluster];
  most_parts_ = 1 + layer_.row_offsets[cluster + 1] - layer_.row_offsets[cluster] +
                (layer_.entry_offsets[cluster + 1] - first_entry) / kPart;
  blank_ = {};
  for (int64_t i = 0; i < std::min<int64_t>(kPart, n_children_); ++i)
    blank_.children[i] = static_cast<uint16_t>(i);
  start_.assign(static_cast<size_t>(width_), kMinusInfinity);
  std::transform(layer_.intercepts + first_child, layer_.intercepts + first_child + n_children_,
                 start_.begin(), [](float intercept) { return intercept + 0.0F; });  // as in Lookup
  with_entries(layer_, cluster, [&](const auto& entries) {
    with_types(layer_, [&](auto key, auto length) {
      visit_rows<decltype(key), decltype(length)>(
          layer_, cluster, [&](int64_t feature, int64_t entry, int64_t n) {
            const int64_t rank = ranks_.rank(feature);
            if (rank < 0) return;
            placed_.push_back(static_cast<int32_t>(rank));
            places_[rank] = dense_ != 0 && n >= dense_ ? place_line(entries, first_entry + entry, n)
                                                       : place_short(entries, first_entry + entry, n);
          });
    });
  });
}

// Writes a row as a line of all children.
template <typename Entries>
uint32_t Unpacked::place_line(const Entries& entries, int64_t entry, int64_t length) {
  const size_t begin = static_cast<size_t>(n_lines_ * width_), end = begin + static_cast<size_t>(width_);
  make_room(lines_, end);
  float* line = lines_.data() + begin;
  std::fill_n(line, width_, 0.0f);
  entries.visit(entry, length, [&](uint32_t child, float weight) { line[child] += weight; });
  return static_cast<uint32_t>(n_lines_++) | kLine;
}

// Writes a row as parts.
template <typename Entries>
uint32_t Unpacked::place_short(const Entries& entries, int64_t entry, int64_t length) {
  const size_t end = static_cast<size_t>(n_parts_ + length / kPart + 1);
  if (n_parts_ + length / kPart > most_parts_) return 0;  // rows of a damaged file may share their entries
  make_room(parts_, end);
  const int64_t first = n_parts_++;
  Part* part = parts_.data() + first;
  *part = blank_;
  int n = 0;
  entries.visit(entry, length, [&](uint32_t child, float weight) {
    if (n == kPart) {
      part->more = 1;
      *++part = blank_;
      ++n_parts_;
      n = 0;
    }
    part->children[n] = static_cast<uint16_t>(child);
    part->weights[n++] = weight;
  });
  return static_cast<uint32_t>(first);
}

void Unpacked::close() {
  for (const int32_t rank : placed_) places_[rank] = 0;
  placed_.clear();
}

void Unpacked::score(const int32_t* entries, const float* values, int64_t n, float* out) {
  if (static_cast<int64_t>(hits_.size()) < n + 1) {
    hits_.resize(static_cast<size_t>(n + 1));
    line_hits_.resize(static_cast<size_t>(n + 1));
  }
  uint64_t *hits = hits_.data(), *line_hits = line_hits_.data();
  int64_t n_hits = 0, n_lines = 0;
  for (int64_t t = 0; t < n; ++t) {  // without branches: hits are unpredictable
    const uint32_t place = places_[entries[t]];
    uint32_t value;
    std::memcpy(&value, values + t, sizeof(value));
    const uint64_t hit = static_cast<uint64_t>(value) << 32 | place;
    hits[n_hits] = line_hits[n_lines] = hit;
    n_hits += static_cast<int32_t>(place) > 0;
    n_lines += place >> 31;
  }
  if (width_ <= kWidest) {
    kAddLines[width_ / 8 - 1](line_hits, n_lines, lines_.data(), start_.data(), out);
  } else {
    std::copy(start_.begin(), start_.end(), out);
  }
  if (n_hits > 0) add_short(hits, n_hits, parts_.data(), out);
}

}  // namespace sylvan
