#include "lookup.hpp"

#include <algorithm>
#include <cstring>

#include "lanes.hpp"
#include "platform.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sylvan {
namespace {

// Position of `key` among n rising keys, or -1. May read 16 bytes past the end: keys are padded.
SYLVAN_INLINE int64_t find_key(const uint8_t* keys, int64_t n, uint32_t key) {
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(key));
  for (int64_t at = 0; at < n; at += 16) {
    const __m128i found =
        _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(keys + at)), wanted);
    const uint32_t bits = static_cast<uint32_t>(_mm_movemask_epi8(found));
    if (bits != 0) {
      const int64_t position = at + __builtin_ctz(bits);
      return position < n ? position : -1;
    }
  }
  return -1;
#else
  for (int64_t at = 0; at < n; ++at) {
    if (keys[at] == key) return at;
  }
  return -1;
#endif
}

SYLVAN_INLINE int64_t find_key(const uint16_t* keys, int64_t n, uint32_t key) {
  const uint16_t* end = keys + n;
  const uint16_t* found = std::lower_bound(keys, end, static_cast<uint16_t>(key));
  return found < end && *found == key ? found - keys : -1;
}

// Entries of the first n rows. Lengths are padded like keys.
SYLVAN_INLINE int64_t sum_lengths(const uint8_t* lengths, int64_t n) {
  int64_t total = n;
  int64_t at = 0;
#if defined(__SSE2__)
  alignas(16) static constexpr uint8_t kMask[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                    255, 255, 255, 255, 255, 255, 255, 255};
  for (; at < n; at += 16) {
    const int64_t left = n - at < 16 ? n - at : 16;
    const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kMask + 16 - left));
    const __m128i part = _mm_and_si128(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(lengths + at)));
    const __m128i sums = _mm_sad_epu8(part, _mm_setzero_si128());
    total += _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
  }
#else
  for (; at < n; ++at) total += lengths[at];
#endif
  return total;
}

template <typename Length>
SYLVAN_INLINE int64_t sum_lengths(const Length* lengths, int64_t n) {
  int64_t total = n;
  for (int64_t at = 0; at < n; ++at) total += lengths[at];
  return total;
}

// Finds the rows of a query's features in a cluster; returns how many were found.
template <typename Key, typename Length>
int64_t find_rows(const LayerView& layer, int64_t cluster, const int32_t* features, const float* values,
                  int64_t n, Hit* hits) {
  constexpr int64_t kAhead = 8;
  const BlockStart* starts = layer.block_starts + cluster * (layer.n_blocks + 1);
  const Key* keys = static_cast<const Key*>(layer.keys) + layer.row_offsets[cluster];
  const Length* lengths = static_cast<const Length*>(layer.lengths) + layer.row_offsets[cluster];
  const uint64_t n_rows = static_cast<uint64_t>(layer.row_offsets[cluster + 1] - layer.row_offsets[cluster]);
  const int64_t first_entry = layer.entry_offsets[cluster];
  const int64_t n_entries = layer.entry_offsets[cluster + 1] - first_entry;
  const int bits = layer.block_bits;
  const uint32_t low = (1u << bits) - 1u;
  int64_t n_hits = 0;
  for (int64_t t = 0; t < n; ++t) {
    if (t + kAhead < n) {
      const BlockStart* ahead = starts + (features[t + kAhead] >> bits);
      SYLVAN_PREFETCH(ahead);
    }
    if (t + kAhead / 2 < n) {
      const uint64_t row = starts[features[t + kAhead / 2] >> bits].row;
      SYLVAN_PREFETCH(keys + (row < n_rows ? row : 0));
      SYLVAN_PREFETCH(lengths + (row < n_rows ? row : 0));
    }
    const BlockStart* start = starts + (features[t] >> bits);
    const uint64_t row = start[0].row, end = start[1].row;
    if (row >= end || end > n_rows) continue;
    const int64_t position =
        find_key(keys + row, static_cast<int64_t>(end - row), static_cast<uint32_t>(features[t]) & low);
    if (position < 0) continue;
    const int64_t entry = start->entry + sum_lengths(lengths + row, position);
    const int64_t length = static_cast<int64_t>(lengths[row + position]) + 1;
    if (entry + length > n_entries) continue;
    hits[n_hits++] = {first_entry + entry, static_cast<uint32_t>(length), values[t]};
  }
  return n_hits;
}

SYLVAN_INLINE float half_to_float(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half & 0x7fffu) << 13;
  const uint32_t special = bits >= 0x0f800000u ? 0x7f800000u : 0u;  // infinity or NaN
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  value *= 5.192296858534828e33f;  // 2^112 moves the exponent's bias, subnormals included
  std::memcpy(&bits, &value, sizeof(value));
  bits |= special | static_cast<uint32_t>(half & 0x8000u) << 16;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

SYLVAN_INLINE float weight_at(const float* weights, int64_t at, const float*) { return weights[at]; }
SYLVAN_INLINE float weight_at(const uint16_t* weights, int64_t at, const float*) {
  return half_to_float(weights[at]);
}
SYLVAN_INLINE float weight_at(const uint8_t* weights, int64_t at, const float* codebook) {
  return codebook[weights[at]];
}

// Rows of so many entries are unpacked to a dense line of all children: adding it up takes a step for each 16
// children instead of one for each entry. 0 when no row of the cluster is.
uint32_t dense_length(int64_t n_children) {
  constexpr int64_t kMostGroups = 8;
  const int64_t groups = (n_children + 15) / 16;
  if (n_children < 8 || groups > kMostGroups) return 0;
  return static_cast<uint32_t>(groups > 2 ? groups * 3 / 2 - 1 : 2);
}

// Adds rows up, those of at least `dense` entries first when `dense` isn't 0. An 8-bit child number can't
// leave the 256 sums; a wider one is held against n_children.
template <typename Child, typename Weight>
SYLVAN_CLONES void add_rows(const Hit* hits, int64_t n_hits, uint32_t dense, const Child* children,
                            const Weight* weights, const float* codebook, float* sums, uint32_t n_children) {
  for (int pass = dense == 0 ? 1 : 0; pass < 2; ++pass) {
    for (int64_t h = 0; h < n_hits; ++h) {
      if (dense != 0 && (hits[h].length >= dense) != (pass == 0)) continue;
      const int64_t entry = hits[h].entry;
      const float value = hits[h].value;
      for (uint32_t e = 0; e < hits[h].length; ++e) {
        const Child child = children[entry + e];
        if (sizeof(Child) > 1 && child >= n_children) continue;
        sums[child] += value * weight_at(weights, entry + e, codebook);
      }
    }
  }
}

template <typename Child>
void add_rows_of(const LayerView& layer, const Hit* hits, int64_t n_hits, uint32_t dense, float* sums,
                 uint32_t n_children) {
  const Child* children = static_cast<const Child*>(layer.children);
  const auto add = [&](auto weights) {
    add_rows(hits, n_hits, dense, children, weights, layer.codebook, sums, n_children);
  };
  if (layer.weight_type == WeightType::f32) {
    add(static_cast<const float*>(layer.weights));
  } else if (layer.weight_type == WeightType::f16) {
    add(static_cast<const uint16_t*>(layer.weights));
  } else {
    add(static_cast<const uint8_t*>(layer.weights));
  }
}

// Adds dense lines of 16 * G children up.
template <int G>
SYLVAN_CLONES void add_lines(const Hit* hits, int64_t n_hits, const float* lines, float* sums) {
  Floats<16> total[G];
  std::memcpy(total, sums, sizeof(total));
  for (int64_t h = 0; h < n_hits; ++h) {
    const float* line = lines + hits[h].entry * (16 * G);
    const float value = hits[h].value;
    for (int g = 0; g < G; ++g) {
      Floats<16> part;
      std::memcpy(&part, line + 16 * g, sizeof(part));
      total[g] = total[g] + value * part;
    }
  }
  std::memcpy(sums, total, sizeof(total));
}

using AddLines = void (*)(const Hit*, int64_t, const float*, float*);
const AddLines kAddLines[8] = {add_lines<1>, add_lines<2>, add_lines<3>, add_lines<4>,
                               add_lines<5>, add_lines<6>, add_lines<7>, add_lines<8>};

// Calls visit(feature, first entry, entries) for each sound row of a cluster, entries counted within it.
template <typename Key, typename Length, typename Visit>
void visit_rows(const LayerView& layer, int64_t cluster, const Visit& visit) {
  const BlockStart* starts = layer.block_starts + cluster * (layer.n_blocks + 1);
  const Key* keys = static_cast<const Key*>(layer.keys) + layer.row_offsets[cluster];
  const Length* lengths = static_cast<const Length*>(layer.lengths) + layer.row_offsets[cluster];
  const int64_t n_rows = layer.row_offsets[cluster + 1] - layer.row_offsets[cluster];
  const int64_t n_entries = layer.entry_offsets[cluster + 1] - layer.entry_offsets[cluster];
  for (int64_t block = 0; block < layer.n_blocks; ++block) {
    int64_t entry = starts[block].entry;
    for (int64_t row = starts[block].row; row < starts[block + 1].row && row < n_rows; ++row) {
      const int64_t feature = (block << layer.block_bits) + keys[row];
      const int64_t length = static_cast<int64_t>(lengths[row]) + 1;
      if (feature >= layer.n_features || entry + length > n_entries) break;
      visit(feature, entry, length);
      entry += length;
    }
  }
}

// Calls call(key, length) with values of a layer's key and length types.
template <typename Call>
void with_types(const LayerView& layer, const Call& call) {
  const auto with_length = [&](auto length) {
    layer.wide_keys ? call(uint16_t{}, length) : call(uint8_t{}, length);
  };
  if (layer.child_type == ChildType::u8) {
    with_length(uint8_t{});
  } else if (layer.child_type == ChildType::u16) {
    with_length(uint16_t{});
  } else {
    with_length(uint32_t{});
  }
}

// One row's weights at their children's places of a dense line (8-bit child numbers only).
void fill_line(const LayerView& layer, int64_t entry, int64_t length, float* line, int64_t n_children) {
  const uint8_t* children = static_cast<const uint8_t*>(layer.children) + entry;
  for (int64_t e = 0; e < length; ++e) {
    if (children[e] >= n_children) continue;
    float& place = line[children[e]];
    if (layer.weight_type == WeightType::code) {
      place += layer.codebook[static_cast<const uint8_t*>(layer.weights)[entry + e]];
    } else if (layer.weight_type == WeightType::f16) {
      place += half_to_float(static_cast<const uint16_t*>(layer.weights)[entry + e]);
    } else {
      place += static_cast<const float*>(layer.weights)[entry + e];
    }
  }
}

}  // namespace

void Lookup::open(int64_t cluster, int64_t query_entries) {
  if (cluster == cluster_) return;
  close();
  cluster_ = cluster;
  n_children_ = layer_.child_offsets[cluster + 1] - layer_.child_offsets[cluster];
  if (static_cast<int64_t>(sums_.size()) < std::max<int64_t>(n_children_, 256)) {
    sums_.resize(static_cast<size_t>(std::max<int64_t>(n_children_, 256)));
  }
  // Unpacking costs a few steps a row and a block; it saves most of a lookup for each entry of the queries.
  const int64_t n_rows = layer_.row_offsets[cluster + 1] - layer_.row_offsets[cluster];
  if (query_entries > 2 * n_rows + layer_.n_blocks && query_entries * 8 > layer_.n_features) unpack();
}

void Lookup::unpack() {
  const uint32_t dense = layer_.child_type == ChildType::u8 ? dense_length(n_children_) : 0;
  const int64_t width = (n_children_ + 15) / 16 * 16;
  places_.resize(static_cast<size_t>(layer_.n_features), Place{0, 0});
  features_.clear();
  lines_.clear();
  uint32_t n_lines = 0;
  with_types(layer_, [&](auto key, auto length_type) {
    visit_rows<decltype(key), decltype(length_type)>(
        layer_, cluster_, [&](int64_t feature, int64_t entry, int64_t length) {
          features_.push_back(static_cast<int32_t>(feature));
          if (dense == 0 || length < dense) {
            places_[feature] = {static_cast<uint32_t>(entry), static_cast<uint32_t>(length)};
            return;
          }
          lines_.resize(lines_.size() + static_cast<size_t>(width), 0.0f);
          fill_line(layer_, layer_.entry_offsets[cluster_] + entry, length, lines_.data() + n_lines * width,
                    n_children_);
          places_[feature] = {n_lines++, UINT32_MAX};
        });
  });
  unpacked_ = true;
}

void Lookup::close() {
  if (!unpacked_) return;
  for (const int32_t feature : features_) places_[feature] = {0, 0};
  unpacked_ = false;
}

void Lookup::score(const int32_t* features, const float* values, int64_t n, float* out) {
  if (static_cast<int64_t>(hits_.size()) < n) {
    hits_.resize(static_cast<size_t>(n));
    dense_hits_.resize(static_cast<size_t>(n));
  }
  const int64_t first = layer_.child_offsets[cluster_];
  std::copy(layer_.intercepts + first, layer_.intercepts + first + n_children_, sums_.begin());
  uint32_t dense = layer_.child_type == ChildType::u8 ? dense_length(n_children_) : 0;
  int64_t n_hits = 0;
  if (unpacked_) {
    int64_t n_dense = 0;
    const int64_t first_entry = layer_.entry_offsets[cluster_];
    for (int64_t t = 0; t < n; ++t) {  // no branches: whether a feature is found can't be foreseen
      const Place place = places_[features[t]];
      hits_[n_hits] = {first_entry + place.entry, place.length, values[t]};
      dense_hits_[n_dense] = {place.entry, 0, values[t]};
      n_hits += place.length != 0 && !place.dense();
      n_dense += place.dense();
    }
    if (n_dense > 0)
      kAddLines[(n_children_ + 15) / 16 - 1](dense_hits_.data(), n_dense, lines_.data(), sums_.data());
    dense = 0;  // what is left is short
  } else {
    with_types(layer_, [&](auto key, auto length) {
      n_hits =
          find_rows<decltype(key), decltype(length)>(layer_, cluster_, features, values, n, hits_.data());
    });
  }
  const uint32_t n_children = static_cast<uint32_t>(n_children_);
  if (layer_.child_type == ChildType::u8) {
    add_rows_of<uint8_t>(layer_, hits_.data(), n_hits, dense, sums_.data(), n_children);
  } else if (layer_.child_type == ChildType::u16) {
    add_rows_of<uint16_t>(layer_, hits_.data(), n_hits, dense, sums_.data(), n_children);
  } else {
    add_rows_of<uint32_t>(layer_, hits_.data(), n_hits, dense, sums_.data(), n_children);
  }
  std::copy(sums_.begin(), sums_.begin() + n_children_, out);
}

}  // namespace sylvan
