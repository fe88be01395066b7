// The rows of a layer: finding one by its feature's key, and the numbers of entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/platform.hpp"
#include "linear/layer.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sylvan {

// Position of `key` among n ascending keys, or -1. May read 16 bytes past the end: keys are padded.
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

#if defined(__SSE2__)
// Entries of the first n rows, at most 16.
SYLVAN_INLINE int64_t sum_first(const uint8_t* lengths, int64_t n) {
  alignas(16) static constexpr uint8_t kMask[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                    255, 255, 255, 255, 255, 255, 255, 255};
  const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kMask + 16 - n));
  const __m128i part = _mm_and_si128(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(lengths)));
  const __m128i sums = _mm_sad_epu8(part, _mm_setzero_si128());
  return n + _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
}
#endif

// Entries of the first n rows. Lengths are padded like keys.
SYLVAN_INLINE int64_t sum_lengths(const uint8_t* lengths, int64_t n) {
  int64_t total = 0;
  int64_t at = 0;
#if defined(__SSE2__)
  for (; at < n; at += 16) total += sum_first(lengths + at, n - at < 16 ? n - at : 16);
#else
  total = n;
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

SYLVAN_INLINE uint64_t load_64(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The lengths of rows.
template <typename Length>
struct Lengths {
  static constexpr bool continued = false;  // whether a row may go on in the next, with the same key
  const Length* first;
  explicit Lengths(const LayerView& layer) : first(static_cast<const Length*>(layer.lengths)) {}
  const void* address(int64_t row) const { return first + row; }
  int64_t at(int64_t row) const { return static_cast<int64_t>(first[row]) + 1; }
  int64_t sum(int64_t row, int64_t n) const { return sum_lengths(first + row, n); }
};

struct Nibble {};

template <>
struct Lengths<Nibble> {
  static constexpr bool continued = true;
  const uint8_t* first;
  explicit Lengths(const LayerView& layer) : first(static_cast<const uint8_t*>(layer.lengths)) {}
  const void* address(int64_t row) const { return first + (row >> 1); }
  int64_t at(int64_t row) const { return ((first[row >> 1] >> (4 * (row & 1))) & 15) + 1; }
  int64_t sum(int64_t row, int64_t n) const {
    constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0fu;
    int64_t total = n;
    for (int64_t left = n; left > 0; row += 15, left -= 15) {
      uint64_t word = load_64(first + (row >> 1)) >> (4 * (row & 1));
      word &= (uint64_t{1} << (4 * (left < 15 ? left : 15))) - 1;
      total += static_cast<int64_t>((((word & kLow) + ((word >> 4) & kLow)) * 0x0101010101010101u) >> 56);
    }
    return total;
  }
};

// Entries of the row at `position` of a block's `count` rows, which begin at row `first`, and of those that
// continue it.
template <typename Key, typename Length>
SYLVAN_INLINE int64_t whole_length(const Key* keys, const Lengths<Length>& lengths, int64_t first,
                                   int64_t position, int64_t count) {
  int64_t length = lengths.at(first + position);
  if (Lengths<Length>::continued) {
    for (int64_t next = position + 1; next < count && keys[next] == keys[position]; ++next)
      length += lengths.at(first + next);
  }
  return length;
}

// The row of a key among a block's rows, and those that continue it.
struct Row {
  bool found;
  int64_t before;  // entries of the block's rows before it
  int64_t length;
};

template <typename Key, typename Length>
SYLVAN_INLINE Row find_row(const Key* keys, const Lengths<Length>& lengths, int64_t first, int64_t count,
                           uint32_t key) {
  const int64_t position = find_key(keys, count, key);
  if (position < 0) return {false, 0, 0};
  return {true, lengths.sum(first, position), whole_length(keys, lengths, first, position, count)};
}

#if defined(__SSE2__)
// Without branches in blocks of up to 16 rows: whether there is such a row can't be predicted.
SYLVAN_INLINE Row find_row(const uint8_t* keys, const Lengths<uint8_t>& lengths, int64_t first, int64_t count,
                           uint32_t key) {
  if (count > 16) return find_row<uint8_t, uint8_t>(keys, lengths, first, count, key);
  const __m128i same = _mm_cmpeq_epi8(_mm_set1_epi8(static_cast<char>(key)),
                                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys)));
  const uint32_t bits = static_cast<uint32_t>(_mm_movemask_epi8(same)) & ((1u << count) - 1u);
  const int64_t position = __builtin_ctz(bits | 1u << 16);
  return {bits != 0, sum_first(lengths.first + first, position), lengths.at(first + position)};
}
#endif

// Calls visit(feature, first entry, entries) for each valid row of a cluster; entries count from its first.
template <typename Key, typename Length, typename Visit>
void visit_rows(const LayerView& layer, int64_t cluster, const Visit& visit) {
  const BlockStart* starts = layer.block_starts + cluster * (layer.n_blocks + 1);
  const Key* keys = static_cast<const Key*>(layer.keys) + layer.row_offsets[cluster];
  const Lengths<Length> lengths(layer);
  const int64_t first_row = layer.row_offsets[cluster];
  const int64_t n_rows = layer.row_offsets[cluster + 1] - layer.row_offsets[cluster];
  const int64_t n_entries = layer.entry_offsets[cluster + 1] - layer.entry_offsets[cluster];
  int64_t seen = 0;  // blocks of a damaged file may overlap: no row is visited twice
  for (int64_t block = 0; block < layer.n_blocks; ++block) {
    int64_t entry = starts[block].entry;
    if (starts[block].row < seen) continue;
    const int64_t end = std::min<int64_t>(starts[block + 1].row, n_rows);
    for (int64_t row = starts[block].row; row < end; row = seen) {
      const int64_t feature = (block << layer.block_bits) + keys[row];
      const int64_t length = whole_length(keys, lengths, first_row, row, end);
      if (feature >= layer.n_features || entry + length > n_entries) break;
      visit(feature, entry, length);
      entry += length;
      seen = row + 1;
      while (Lengths<Length>::continued && seen < end && keys[seen] == keys[row]) ++seen;
    }
  }
}

// Calls call(key, length) with values of a layer's key and length types.
template <typename Call>
void with_types(const LayerView& layer, const Call& call) {
  const auto with_length = [&](auto length) {
    layer.wide_keys ? call(uint16_t{}, length) : call(uint8_t{}, length);
  };
  if (layer.child_type == ChildType::packed) {
    with_length(Nibble{});
  } else if (layer.child_type == ChildType::u8) {
    with_length(uint8_t{});
  } else if (layer.child_type == ChildType::u16) {
    with_length(uint16_t{});
  } else {
    with_length(uint32_t{});
  }
}

}  // namespace sylvan
