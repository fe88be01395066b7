#include "linear/adding.hpp"

#include "base/platform.hpp"
#include "linear/entries.hpp"

namespace sylvan {
namespace {

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

}  // namespace sylvan
