#include "linear/lookup.hpp"

#include <algorithm>
#include <cstring>

#include "base/lanes.hpp"
#include "base/platform.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sylvan {
namespace {

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

// The blocks that may contain a query's features, for all its clusters: first every block's start is
// prefetched, then it is read and its keys are prefetched.
template <typename Key, typename Length>
int64_t find_blocks(const LayerView& layer, const int32_t* clusters, int64_t n_clusters,
                    const int32_t* features, const float* values, int64_t n, Probe* probes) {
  const int bits = layer.block_bits;
  const Key* keys = static_cast<const Key*>(layer.keys);
  const Lengths<Length> lengths(layer);
  for (int64_t c = 0; c < n_clusters; ++c) {
    const BlockStart* starts = layer.block_starts + clusters[c] * (layer.n_blocks + 1);
    for (int64_t t = 0; t < n; ++t) SYLVAN_PREFETCH(starts + (features[t] >> bits));
  }
  const uint32_t low = (1u << bits) - 1u;
  int64_t n_probes = 0;
  for (int64_t c = 0; c < n_clusters; ++c) {
    const int64_t cluster = clusters[c];
    const BlockStart* starts = layer.block_starts + cluster * (layer.n_blocks + 1);
    const int64_t first_row = layer.row_offsets[cluster], end_entry = layer.entry_offsets[cluster + 1];
    const int64_t first_entry = layer.entry_offsets[cluster];
    const int64_t n_rows = layer.row_offsets[cluster + 1] - first_row;
    for (int64_t t = 0; t < n; ++t) {
      const BlockStart* start = starts + (features[t] >> bits);
      const int64_t row = start[0].row, end = start[1].row;
      if (row >= end || end > n_rows) continue;
      SYLVAN_PREFETCH(keys + first_row + row);
      SYLVAN_PREFETCH(lengths.address(first_row + row));
      probes[n_probes++] = {first_row + row,
                            first_entry + start->entry,
                            end_entry,
                            static_cast<uint32_t>(end - row),
                            static_cast<uint32_t>(features[t]) & low,
                            values[t],
                            static_cast<int32_t>(c)};
    }
  }
  return n_probes;
}

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

SYLVAN_INLINE void prefetch_entry(const LayerView& layer, int64_t entry) {
  const char* weights = static_cast<const char*>(layer.weights);
  if (layer.weight_type == WeightType::packed) {
    SYLVAN_PREFETCH(weights + ((entry * layer.entry_bits) >> 3));
    return;
  }
  const int child_shift = layer.child_type == ChildType::u32 ? 2 : layer.child_type == ChildType::u16 ? 1 : 0;
  const int weight_shift = layer.weight_type == WeightType::f32   ? 2
                           : layer.weight_type == WeightType::f16 ? 1
                                                                  : 0;
  SYLVAN_PREFETCH(static_cast<const char*>(layer.children) + (entry << child_shift));
  SYLVAN_PREFETCH(weights + (entry << weight_shift));
}

// The rows found in those blocks, cluster after cluster; hits_end[c] says where cluster c's end.
template <typename Key, typename Length>
void find_rows(const LayerView& layer, const Probe* probes, int64_t n_probes, int64_t n_clusters, Hit* hits,
               int64_t* hits_end) {
  const Key* keys = static_cast<const Key*>(layer.keys);
  const Lengths<Length> lengths(layer);
  int64_t n_hits = 0, cluster = 0;
  for (int64_t p = 0; p < n_probes; ++p) {
    const Probe& probe = probes[p];
    for (; cluster < probe.cluster; ++cluster) hits_end[cluster] = n_hits;
    const int64_t position = find_key(keys + probe.row, static_cast<int64_t>(probe.count), probe.key);
    if (position < 0) continue;
    const int64_t entry = probe.entry + lengths.sum(probe.row, position);
    const int64_t length = whole_length(keys + probe.row, lengths, probe.row, position, probe.count);
    if (entry + length > probe.end) continue;
    prefetch_entry(layer, entry);
    hits[n_hits++] = {entry, static_cast<uint32_t>(length), probe.value};
  }
  for (; cluster < n_clusters; ++cluster) hits_end[cluster] = n_hits;
}

SYLVAN_INLINE float half_to_float(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half & 0x7fffu) << 13;
  const uint32_t special = bits >= 0x0f800000u ? 0x7f800000u : 0u;  // infinity or NaN
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  value *= 5.192296858534828e33f;  // 2^112 corrects the exponent's bias, for subnormals too
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

// Rows of at least so many entries are unpacked to a dense line of all children: adding it takes one step per
// 16 children instead of one per entry. 0 when no row of the cluster is unpacked so.
uint32_t dense_length(int64_t n_children) {
  constexpr int64_t kMaxGroups = 8;
  const int64_t groups = (n_children + 15) / 16;
  if (n_children < 8 || groups > kMaxGroups) return 0;
  return static_cast<uint32_t>(groups > 2 ? groups * 3 / 2 - 1 : 2);
}

// Adds rows, those of at least `dense` entries first when `dense` isn't 0. An 8-bit child number is always
// within the 256 sums; a wider one is checked against n_children.
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

// Packed entries one after another: as many as a 64-bit number is sure to hold are read at once.
class Entries {
 public:
  SYLVAN_INLINE Entries(const uint8_t* stream, int64_t first, int bits, const float* book)
      : stream_(stream),
        book_(book),
        bits_(bits),
        bit_(static_cast<uint64_t>(first) * bits),
        mask_((1u << (bits - kCodeBits)) - 1) {
    read();
  }
  SYLVAN_INLINE uint32_t child() const { return static_cast<uint32_t>(word_ >> kCodeBits) & mask_; }
  SYLVAN_INLINE float weight() const { return book_[word_ & (kBook - 1)]; }
  SYLVAN_INLINE void next() {
    bit_ += bits_;
    left_ -= bits_;
    if (left_ < bits_) {
      read();
    } else {
      word_ >>= bits_;
    }
  }

 private:
  SYLVAN_INLINE void read() {
    word_ = load_64(stream_ + (bit_ >> 3)) >> (bit_ & 7);
    left_ = 57;
  }
  const uint8_t* stream_;
  const float* book_;
  int bits_, left_;
  uint64_t bit_, word_;
  uint32_t mask_;
};

// As add_rows, of packed entries: each weight, which may be a sum, is added once. Without `checked` child
// numbers have at most 8 bits.
template <bool checked>
SYLVAN_CLONES void add_packed_rows(const Hit* hits, int64_t n_hits, uint32_t dense, const uint8_t* stream,
                                   int bits, const float* book, float* sums, uint32_t n_children) {
  for (int pass = dense == 0 ? 1 : 0; pass < 2; ++pass) {
    for (int64_t h = 0; h < n_hits; ++h) {
      if (dense != 0 && (hits[h].length >= dense) != (pass == 0)) continue;
      const float value = hits[h].value;
      Entries entries(stream, hits[h].entry, bits, book);
      uint32_t child = entries.child();
      float weight = entries.weight();
      for (uint32_t left = hits[h].length - 1; left > 0; --left) {
        entries.next();
        const uint32_t other = entries.child();
        if (other == child) {
          weight += entries.weight();
          continue;
        }
        if (!checked || child < n_children) sums[child] += value * weight;
        child = other;
        weight = entries.weight();
      }
      if (!checked || child < n_children) sums[child] += value * weight;
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

// Adds dense lines of 16 * G children, eight at a time (see lanes.hpp).
template <int G>
SYLVAN_CLONES void add_lines(const Hit* hits, int64_t n_hits, const float* lines, float* sums) {
  Floats<8> total[2 * G];
  std::memcpy(total, sums, sizeof(total));
  for (int64_t h = 0; h < n_hits; ++h) {
    const float* line = lines + hits[h].entry * (16 * G);
    const float value = hits[h].value;
    for (int g = 0; g < 2 * G; ++g) {
      Floats<8> part;
      std::memcpy(&part, line + 8 * g, sizeof(part));
      total[g] = total[g] + value * part;
    }
  }
  std::memcpy(sums, total, sizeof(total));
}

using AddLines = void (*)(const Hit*, int64_t, const float*, float*);
const AddLines kAddLines[8] = {add_lines<1>, add_lines<2>, add_lines<3>, add_lines<4>,
                               add_lines<5>, add_lines<6>, add_lines<7>, add_lines<8>};

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

// As fill_line, of packed entries.
void fill_packed_line(const LayerView& layer, int64_t cluster, int64_t entry, int64_t length, float* line,
                      int64_t n_children) {
  const uint8_t* stream = static_cast<const uint8_t*>(layer.weights);
  const float* book = layer.codebook + cluster * kBook;
  Entries entries(stream, entry, layer.entry_bits, book);
  for (int64_t e = 0; e < length; ++e) {
    if (entries.child() < n_children) line[entries.child()] += entries.weight();
    entries.next();
  }
}

// Adds one row's weights to a dense line, each at its child (8-bit child numbers only).
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

// Whether child numbers have at most 8 bits: any is then within the 256 sums, and rows may become lines.
bool narrow_children(const LayerView& layer) {
  return layer.child_type == ChildType::packed ? layer.entry_bits <= kCodeBits + 8
                                               : layer.child_type == ChildType::u8;
}

}  // namespace

bool Lookup::unpacking_pays(int64_t cluster, int64_t query_entries) const {
  const int64_t n_rows = layer_.row_offsets[cluster + 1] - layer_.row_offsets[cluster];
  return query_entries > 2 * n_rows + layer_.n_blocks && query_entries * 8 > layer_.n_features;
}

void Lookup::unpack(int64_t cluster) {
  close();
  cluster_ = cluster;
  const int64_t n_children = layer_.child_offsets[cluster + 1] - layer_.child_offsets[cluster];
  const int64_t first_entry = layer_.entry_offsets[cluster];
  const uint32_t dense = narrow_children(layer_) ? dense_length(n_children) : 0;
  const int64_t width = (n_children + 15) / 16 * 16;
  places_.resize(static_cast<size_t>(layer_.n_features), Place{0, 0});
  lines_.clear();
  uint32_t n_lines = 0;
  const auto place_row = [&](int64_t feature, int64_t entry, int64_t length) {
    features_.push_back(static_cast<int32_t>(feature));
    if (dense == 0 || length < dense) {
      places_[feature] = {static_cast<uint32_t>(entry), static_cast<uint32_t>(length)};
      return;
    }
    lines_.resize(lines_.size() + static_cast<size_t>(width), 0.0f);
    float* line = lines_.data() + n_lines * width;
    if (layer_.weight_type == WeightType::packed) {
      fill_packed_line(layer_, cluster, first_entry + entry, length, line, n_children);
    } else {
      fill_line(layer_, first_entry + entry, length, line, n_children);
    }
    places_[feature] = {n_lines++, UINT32_MAX};
  };
  with_types(layer_, [&](auto key, auto length) {
    visit_rows<decltype(key), decltype(length)>(layer_, cluster, place_row);
  });
}

void Lookup::close() {
  for (const int32_t feature : features_) places_[feature] = {0, 0};
  features_.clear();
}

float* Lookup::start_sums(int64_t cluster) {
  const int64_t first = layer_.child_offsets[cluster], n = layer_.child_offsets[cluster + 1] - first;
  if (static_cast<int64_t>(sums_.size()) < std::max<int64_t>(n, 256)) {
    sums_.resize(static_cast<size_t>(std::max<int64_t>(n, 256)));
  }
  std::copy(layer_.intercepts + first, layer_.intercepts + first + n, sums_.begin());
  return sums_.data();
}

void Lookup::add(int64_t cluster, const Hit* hits, int64_t n_hits, uint32_t dense) {
  const uint32_t n = static_cast<uint32_t>(layer_.child_offsets[cluster + 1] - layer_.child_offsets[cluster]);
  if (layer_.child_type == ChildType::packed) {
    const uint8_t* stream = static_cast<const uint8_t*>(layer_.weights);
    const float* book = layer_.codebook + cluster * kBook;
    const auto add_packed = narrow_children(layer_) ? add_packed_rows<false> : add_packed_rows<true>;
    add_packed(hits, n_hits, dense, stream, layer_.entry_bits, book, sums_.data(), n);
  } else if (layer_.child_type == ChildType::u8) {
    add_rows_of<uint8_t>(layer_, hits, n_hits, dense, sums_.data(), n);
  } else if (layer_.child_type == ChildType::u16) {
    add_rows_of<uint16_t>(layer_, hits, n_hits, dense, sums_.data(), n);
  } else {
    add_rows_of<uint32_t>(layer_, hits, n_hits, dense, sums_.data(), n);
  }
}

void Lookup::score_unpacked(const int32_t* features, const float* values, int64_t n, float* out) {
  if (static_cast<int64_t>(dense_hits_.size()) < n) dense_hits_.resize(static_cast<size_t>(n));
  if (static_cast<int64_t>(hits_.size()) < n) hits_.resize(static_cast<size_t>(n));
  const int64_t n_children = layer_.child_offsets[cluster_ + 1] - layer_.child_offsets[cluster_];
  const int64_t first_entry = layer_.entry_offsets[cluster_];
  float* sums = start_sums(cluster_);
  int64_t n_hits = 0, n_dense = 0;
  for (int64_t t = 0; t < n; ++t) {  // without branches: hits are unpredictable
    const Place place = places_[features[t]];
    hits_[n_hits] = {first_entry + place.entry, place.length, values[t]};
    dense_hits_[n_dense] = {place.entry, 0, values[t]};
    n_hits += place.length != 0 && !place.dense();
    n_dense += place.dense();
  }
  if (n_dense > 0) kAddLines[(n_children + 15) / 16 - 1](dense_hits_.data(), n_dense, lines_.data(), sums);
  add(cluster_, hits_.data(), n_hits, 0);
  std::copy(sums, sums + n_children, out);
}

void Lookup::score_clusters(const int32_t* clusters, int64_t n_clusters, const int32_t* features,
                            const float* values, int64_t n, float* out) {
  const size_t most = static_cast<size_t>(n_clusters * n);
  if (probes_.size() < most) probes_.resize(most);
  if (hits_.size() < most) hits_.resize(most);
  if (static_cast<int64_t>(hits_end_.size()) < n_clusters) hits_end_.resize(static_cast<size_t>(n_clusters));
  with_types(layer_, [&](auto key, auto length) {
    using Key = decltype(key);
    using Length = decltype(length);
    const int64_t n_probes =
        find_blocks<Key, Length>(layer_, clusters, n_clusters, features, values, n, probes_.data());
    find_rows<Key, Length>(layer_, probes_.data(), n_probes, n_clusters, hits_.data(), hits_end_.data());
  });
  int64_t begin = 0;
  for (int64_t c = 0; c < n_clusters; ++c) {
    const int64_t n_children = layer_.child_offsets[clusters[c] + 1] - layer_.child_offsets[clusters[c]];
    const uint32_t dense = narrow_children(layer_) ? dense_length(n_children) : 0;
    const float* sums = start_sums(clusters[c]);
    add(clusters[c], hits_.data() + begin, hits_end_[c] - begin, dense);
    out = std::copy(sums, sums + n_children, out);
    begin = hits_end_[c];
  }
}

}  // namespace sylvan
