// Entries of a layer's rows, whatever their types.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/platform.hpp"
#include "linear/layer.hpp"
#include "linear/rows.hpp"

namespace sylvan {

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

// Calls visit(child, weight) for the entries of a row whose children there are.
template <typename Child, typename Weight>
struct PlainEntries {
  const Child* children;
  const Weight* weights;
  const float* codebook;
  uint32_t n_children;
  template <typename Visit>
  SYLVAN_INLINE void visit(int64_t entry, int64_t length, const Visit& call) const {
    for (int64_t e = entry; e < entry + length; ++e) {
      if (children[e] < n_children) call(static_cast<uint32_t>(children[e]), weight_at(weights, e, codebook));
    }
  }
};

// The same of packed entries: those of one child that follow each other are one.
struct PackedEntries {
  const uint8_t* stream;
  int bits;
  const float* book;
  uint32_t n_children;
  template <typename Visit>
  SYLVAN_INLINE void visit(int64_t entry, int64_t length, const Visit& call) const {
    Entries entries(stream, entry, bits, book);
    while (length > 0) {
      const uint32_t child = entries.child();
      float weight = entries.weight();
      for (--length, entries.next(); length > 0 && entries.child() == child; --length, entries.next())
        weight += entries.weight();
      if (child < n_children) call(child, weight);
    }
  }
};

// Calls call(entries) with a cluster's entries of the layer's types.
template <typename Call>
void with_entries(const LayerView& layer, int64_t cluster, const Call& call) {
  const uint32_t n = static_cast<uint32_t>(layer.child_offsets[cluster + 1] - layer.child_offsets[cluster]);
  const auto with_child = [&](auto* children) {
    const auto with_weight = [&](auto* weights) {
      using Child = std::remove_reference_t<decltype(*children)>;
      using Weight = std::remove_reference_t<decltype(*weights)>;
      call(PlainEntries<std::remove_const_t<Child>, std::remove_const_t<Weight>>{children, weights,
                                                                                 layer.codebook, n});
    };
    if (layer.weight_type == WeightType::f32) {
      with_weight(static_cast<const float*>(layer.weights));
    } else if (layer.weight_type == WeightType::f16) {
      with_weight(static_cast<const uint16_t*>(layer.weights));
    } else {
      with_weight(static_cast<const uint8_t*>(layer.weights));
    }
  };
  if (layer.child_type == ChildType::packed) {
    call(PackedEntries{static_cast<const uint8_t*>(layer.weights), layer.entry_bits,
                       layer.codebook + cluster * kBook, n});
  } else if (layer.child_type == ChildType::u8) {
    with_child(static_cast<const uint8_t*>(layer.children));
  } else if (layer.child_type == ChildType::u16) {
    with_child(static_cast<const uint16_t*>(layer.children));
  } else {
    with_child(static_cast<const uint32_t*>(layer.children));
  }
}

}  // namespace sylvan
