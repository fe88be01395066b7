#include "linear/lookup.hpp"

#include <algorithm>

#include "base/platform.hpp"
#include "base/top_k.hpp"
#include "linear/adding.hpp"
#include "linear/rows.hpp"

namespace sylvan {
namespace {

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
      SYLVAN_PREFETCH(keys + first_row + row);
      SYLVAN_PREFETCH(lengths.address(first_row + row));
      probes[n_probes] = {first_row + row,
                          first_entry + start->entry,
                          end_entry,
                          static_cast<uint32_t>(end - row),
                          static_cast<uint32_t>(features[t]) & low,
                          values[t],
                          static_cast<int32_t>(c)};
      n_probes += row < end && end <= n_rows;  // without a branch, as this is hard to predict
    }
  }
  return n_probes;
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
    const Row row =
        find_row(keys + probe.row, lengths, probe.row, static_cast<int64_t>(probe.count), probe.key);
    const int64_t entry = probe.entry + row.before;
    prefetch_entry(layer, entry);
    hits[n_hits] = {entry, static_cast<uint32_t>(row.length), probe.value};
    n_hits += row.found & (entry + row.length <= probe.end);
  }
  for (; cluster < n_clusters; ++cluster) hits_end[cluster] = n_hits;
}

}  // namespace

float* Lookup::start_sums(int64_t cluster) {
  const int64_t first = layer_.child_offsets[cluster], n = layer_.child_offsets[cluster + 1] - first;
  if (static_cast<int64_t>(sums_.size()) < std::max(n, kLeastSums)) {
    sums_.resize(static_cast<size_t>(std::max(n, kLeastSums)));
  }
  // An intercept of -0 becomes 0: a sum is then the same however many zeros are added to it.
  std::transform(layer_.intercepts + first, layer_.intercepts + first + n, sums_.begin(),
                 [](float intercept) { return intercept + 0.0F; });
  return sums_.data();
}

void Lookup::score_clusters(const int32_t* clusters, int64_t n_clusters, const int32_t* features,
                            const float* values, int64_t n, float* out) {
  const size_t most = static_cast<size_t>(n_clusters * n + 1);  // one more is written than counted
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
    float* sums = start_sums(clusters[c]);
    add_entries(layer_, clusters[c], hits_.data() + begin, hits_end_[c] - begin,
                dense_length(layer_, clusters[c]), sums);
    out = std::copy(sums, sums + n_children, out);
    for (int64_t i = n_children; i % 16 != 0; ++i) *out++ = kMinusInfinity;
    begin = hits_end_[c];
  }
}

}  // namespace sylvan
