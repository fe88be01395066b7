#include "lookup.hpp"

#include <algorithm>
#include <cstring>

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

// Adds the found rows up. An 8-bit child number can't leave the 256 sums; a wider one is held against
// n_children.
template <typename Child, typename Weight>
SYLVAN_CLONES void add_rows(const Hit* hits, int64_t n_hits, const Child* children, const Weight* weights,
                            const float* codebook, float* sums, uint32_t n_children) {
  for (int64_t h = 0; h < n_hits; ++h) {
    if (h + 4 < n_hits) {
      SYLVAN_PREFETCH(children + hits[h + 4].entry);
      SYLVAN_PREFETCH(weights + hits[h + 4].entry);
    }
    const int64_t entry = hits[h].entry;
    const float value = hits[h].value;
    for (uint32_t e = 0; e < hits[h].length; ++e) {
      const Child child = children[entry + e];
      if (sizeof(Child) > 1 && child >= n_children) continue;
      sums[child] += value * weight_at(weights, entry + e, codebook);
    }
  }
}

template <typename Child>
void add_rows_of(const LayerView& layer, const Hit* hits, int64_t n_hits, float* sums, uint32_t n_children) {
  const Child* children = static_cast<const Child*>(layer.children);
  if (layer.weight_type == WeightType::f32) {
    add_rows(hits, n_hits, children, static_cast<const float*>(layer.weights), layer.codebook, sums,
             n_children);
  } else if (layer.weight_type == WeightType::f16) {
    add_rows(hits, n_hits, children, static_cast<const uint16_t*>(layer.weights), layer.codebook, sums,
             n_children);
  } else {
    add_rows(hits, n_hits, children, static_cast<const uint8_t*>(layer.weights), layer.codebook, sums,
             n_children);
  }
}

template <typename Key, typename Length>
void unpack_rows(const LayerView& layer, int64_t cluster, int32_t* row_of, int32_t* feature_of,
                 int64_t* row_entry) {
  const BlockStart* starts = layer.block_starts + cluster * (layer.n_blocks + 1);
  const Key* keys = static_cast<const Key*>(layer.keys) + layer.row_offsets[cluster];
  const Length* lengths = static_cast<const Length*>(layer.lengths) + layer.row_offsets[cluster];
  const int64_t n_rows = layer.row_offsets[cluster + 1] - layer.row_offsets[cluster];
  const int64_t n_entries = layer.entry_offsets[cluster + 1] - layer.entry_offsets[cluster];
  int64_t row = 0;  // each row once, though the starts of a damaged file overlap: close() zeroes one feature a row
  for (int64_t block = 0; block < layer.n_blocks; ++block) {
    int64_t entry = starts[block].entry;
    for (row = std::max<int64_t>(row, starts[block].row); row < starts[block + 1].row && row < n_rows; ++row) {
      const int64_t feature = (block << layer.block_bits) + keys[row];
      const int64_t next = entry + lengths[row] + 1;
      if (feature >= layer.n_features || next > n_entries) break;
      row_of[feature] = static_cast<int32_t>(row + 1);
      feature_of[row] = static_cast<int32_t>(feature);
      row_entry[2 * row] = layer.entry_offsets[cluster] + entry;
      row_entry[2 * row + 1] = lengths[row] + int64_t{1};
      entry = next;
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
  const int64_t n_rows = layer_.row_offsets[cluster_ + 1] - layer_.row_offsets[cluster_];
  row_of_.resize(static_cast<size_t>(layer_.n_features), 0);
  feature_of_.assign(static_cast<size_t>(n_rows), -1);
  row_entry_.assign(static_cast<size_t>(2 * n_rows), 0);
  const auto fill = [&](auto key, auto length) {
    unpack_rows<decltype(key), decltype(length)>(layer_, cluster_, row_of_.data(), feature_of_.data(),
                                                 row_entry_.data());
  };
  const auto fill_keys = [&](auto length) {
    layer_.wide_keys ? fill(uint16_t{}, length) : fill(uint8_t{}, length);
  };
  if (layer_.child_type == ChildType::u8) {
    fill_keys(uint8_t{});
  } else if (layer_.child_type == ChildType::u16) {
    fill_keys(uint16_t{});
  } else {
    fill_keys(uint32_t{});
  }
  unpacked_ = true;
}

void Lookup::close() {
  if (!unpacked_) return;
  for (const int32_t feature : feature_of_) {
    if (feature >= 0) row_of_[feature] = 0;
  }
  unpacked_ = false;
}

void Lookup::score(const int32_t* features, const float* values, int64_t n, float* out) {
  if (static_cast<int64_t>(hits_.size()) < n) hits_.resize(static_cast<size_t>(n));
  int64_t n_hits = 0;
  if (unpacked_) {
    for (int64_t t = 0; t < n; ++t) {
      const int32_t row = row_of_[features[t]];
      if (row == 0) continue;
      hits_[n_hits++] = {row_entry_[2 * (row - 1)], static_cast<uint32_t>(row_entry_[2 * (row - 1) + 1]),
                         values[t]};
    }
  } else {
    const auto find = [&](auto key, auto length) {
      n_hits =
          find_rows<decltype(key), decltype(length)>(layer_, cluster_, features, values, n, hits_.data());
    };
    const auto find_keys = [&](auto length) {
      layer_.wide_keys ? find(uint16_t{}, length) : find(uint8_t{}, length);
    };
    if (layer_.child_type == ChildType::u8) {
      find_keys(uint8_t{});
    } else if (layer_.child_type == ChildType::u16) {
      find_keys(uint16_t{});
    } else {
      find_keys(uint32_t{});
    }
  }
  const int64_t first = layer_.child_offsets[cluster_];
  std::copy(layer_.intercepts + first, layer_.intercepts + first + n_children_, sums_.begin());
  const uint32_t n_children = static_cast<uint32_t>(n_children_);
  if (layer_.child_type == ChildType::u8) {
    add_rows_of<uint8_t>(layer_, hits_.data(), n_hits, sums_.data(), n_children);
  } else if (layer_.child_type == ChildType::u16) {
    add_rows_of<uint16_t>(layer_, hits_.data(), n_hits, sums_.data(), n_children);
  } else {
    add_rows_of<uint32_t>(layer_, hits_.data(), n_hits, sums_.data(), n_children);
  }
  std::copy(sums_.begin(), sums_.begin() + n_children_, out);
}

}  // namespace sylvan
