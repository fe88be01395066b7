#include "linear/adding.hpp"

#include <cstring>

#include "base/lanes.hpp"
#include "base/platform.hpp"
#include "linear/rows.hpp"

namespace sylvan {
namespace {

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
SYLVAN_CLONES void add_groups(const Hit* hits, int64_t n_hits, const float* lines, float* sums) {
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
const AddLines kAddLines[8] = {add_groups<1>, add_groups<2>, add_groups<3>, add_groups<4>,
                               add_groups<5>, add_groups<6>, add_groups<7>, add_groups<8>};

void fill_packed_line(const LayerView& layer, int64_t cluster, int64_t entry, int64_t length, float* line,
                      int64_t n_children) {
  const uint8_t* stream = static_cast<const uint8_t*>(layer.weights);
  Entries entries(stream, entry, layer.entry_bits, layer.codebook + cluster * kBook);
  for (int64_t e = 0; e < length; ++e) {
    if (entries.child() < n_children) line[entries.child()] += entries.weight();
    entries.next();
  }
}

// Of 8-bit child numbers.
void fill_plain_line(const LayerView& layer, int64_t entry, int64_t length, float* line, int64_t n_children) {
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

int64_t children_of(const LayerView& layer, int64_t cluster) {
  return layer.child_offsets[cluster + 1] - layer.child_offsets[cluster];
}

// Whether child numbers have at most 8 bits: any is then within the 256 sums, and rows may become lines.
bool narrow_children(const LayerView& layer) {
  return layer.child_type == ChildType::packed ? layer.entry_bits <= kCodeBits + 8
                                               : layer.child_type == ChildType::u8;
}

}  // namespace

uint32_t dense_length(const LayerView& layer, int64_t cluster) {
  constexpr int64_t kMaxGroups = 8;
  const int64_t n_children = children_of(layer, cluster), groups = (n_children + 15) / 16;
  if (!narrow_children(layer) || n_children < 8 || groups > kMaxGroups) return 0;
  return static_cast<uint32_t>(groups > 2 ? groups * 3 / 2 - 1 : 2);
}

void add_entries(const LayerView& layer, int64_t cluster, const Hit* hits, int64_t n_hits, uint32_t dense,
                 float* sums) {
  const uint32_t n = static_cast<uint32_t>(children_of(layer, cluster));
  if (layer.child_type == ChildType::packed) {
    const uint8_t* stream = static_cast<const uint8_t*>(layer.weights);
    const auto add_packed = narrow_children(layer) ? add_packed_rows<false> : add_packed_rows<true>;
    add_packed(hits, n_hits, dense, stream, layer.entry_bits, layer.codebook + cluster * kBook, sums, n);
  } else if (layer.child_type == ChildType::u8) {
    add_rows_of<uint8_t>(layer, hits, n_hits, dense, sums, n);
  } else if (layer.child_type == ChildType::u16) {
    add_rows_of<uint16_t>(layer, hits, n_hits, dense, sums, n);
  } else {
    add_rows_of<uint32_t>(layer, hits, n_hits, dense, sums, n);
  }
}

void fill_line(const LayerView& layer, int64_t cluster, int64_t entry, int64_t length, float* line) {
  const int64_t n_children = children_of(layer, cluster);
  if (layer.weight_type == WeightType::packed) {
    fill_packed_line(layer, cluster, entry, length, line, n_children);
  } else {
    fill_plain_line(layer, entry, length, line, n_children);
  }
}

void add_lines(const Hit* hits, int64_t n_hits, const float* lines, int64_t width, float* sums) {
  kAddLines[width / 16 - 1](hits, n_hits, lines, sums);
}

}  // namespace sylvan
