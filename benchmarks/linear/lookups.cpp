// The data structures of PECOS's Table 1 for a layer's weights, beside Sylvan's own, on the same entries.
// benchmarks/linear/lookups.py compiles it together with native/linear/{lookup,adding}.cpp.
//
// All but the label-indexed one differ in one thing alone: how the row of a feature is found in a cluster.
// What was found is added by the kernels' own code.
#include "linear/lookup.hpp"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "base/platform.hpp"
#include "linear/adding.hpp"
#include "linear/choice.hpp"
#include "linear/rows.hpp"

namespace {

using sylvan::Hit;
using sylvan::LayerView;

enum Structure : int { kBlocks, kLabels, kFeatures, kSearch, kHash, kHashAhead };

struct Slot {
  int32_t feature;
  uint32_t entry, length;
};

// One layer in every structure.
struct Layer {
  LayerView view;
  std::unique_ptr<sylvan::Lookup> blocks;
  std::vector<int64_t> label_offsets;  // label-indexed: features and weights of each node
  std::vector<int32_t> label_features;
  std::vector<float> label_weights;
  std::vector<uint32_t> feature_entries;  // feature-indexed: (n_clusters, n_features + 1)
  std::vector<int64_t> row_offsets;  // binary search: the features with a row, and where its entries begin
  std::vector<int32_t> row_features;
  std::vector<uint32_t> row_entries;   // of a cluster one more than rows
  std::vector<int64_t> table_offsets;  // hash tables, at most half full
  std::vector<Slot> table;
};

uint32_t hashed(int32_t feature, int64_t size) {
  return (static_cast<uint32_t>(feature) * 2654435761u >> 7) & static_cast<uint32_t>(size - 1);
}

void build(Layer& layer) {
  const LayerView& view = layer.view;
  const auto* children = static_cast<const uint8_t*>(view.children);
  const auto* weights = static_cast<const float*>(view.weights);
  layer.blocks = std::make_unique<sylvan::Lookup>(layer.view);
  std::vector<std::vector<std::pair<int32_t, float>>> of_node(static_cast<size_t>(view.n_nodes));
  layer.row_offsets = layer.table_offsets = {0};
  layer.feature_entries.assign(static_cast<size_t>(view.n_clusters * (view.n_features + 1)), 0);
  for (int64_t c = 0; c < view.n_clusters; ++c) {
    const int64_t first = layer.row_offsets.back(), node = view.child_offsets[c],
                  entries = view.entry_offsets[c];
    std::vector<Slot> rows;
    const auto add = [&](int64_t feature, int64_t entry, int64_t length) {
      rows.push_back(
          {static_cast<int32_t>(feature), static_cast<uint32_t>(entry), static_cast<uint32_t>(length)});
      for (int64_t e = entries + entry; e < entries + entry + length; ++e)
        of_node[static_cast<size_t>(node + children[e])].push_back(
            {static_cast<int32_t>(feature), weights[e]});
    };
    if (view.wide_keys)
      sylvan::visit_rows<uint16_t, uint8_t>(view, c, add);
    else
      sylvan::visit_rows<uint8_t, uint8_t>(view, c, add);
    int64_t size = 2;
    while (size < 2 * static_cast<int64_t>(rows.size())) size *= 2;
    layer.table_offsets.push_back(layer.table_offsets.back() + size);
    layer.table.resize(static_cast<size_t>(layer.table_offsets.back()), Slot{-1, 0, 0});
    Slot* table = layer.table.data() + layer.table_offsets[static_cast<size_t>(c)];
    uint32_t* ends = layer.feature_entries.data() + c * (view.n_features + 1);
    for (const Slot& row : rows) {
      layer.row_features.push_back(row.feature);
      layer.row_entries.push_back(row.entry);
      ends[row.feature + 1] = row.length;
      uint32_t at = hashed(row.feature, size);
      while (table[at].feature >= 0) at = (at + 1) & static_cast<uint32_t>(size - 1);
      table[at] = row;
    }
    layer.row_entries.push_back(static_cast<uint32_t>(view.entry_offsets[c + 1] - entries));
    layer.row_offsets.push_back(first + static_cast<int64_t>(rows.size()));
    for (int64_t f = 0; f < view.n_features; ++f) ends[f + 1] += ends[f];
  }
  layer.label_offsets = {0};
  for (const auto& pairs : of_node) {
    for (const auto& [feature, weight] : pairs) {
      layer.label_features.push_back(feature);
      layer.label_weights.push_back(weight);
    }
    layer.label_offsets.push_back(static_cast<int64_t>(layer.label_features.size()));
  }
}

struct Query {
  const int32_t* features;
  const float* values;
  int64_t n;
};

// Rows of the query's features in a cluster.
int64_t find(const Layer& layer, Structure structure, int64_t c, const Query& query, Hit* hits) {
  const int64_t entries = layer.view.entry_offsets[c];
  int64_t n_hits = 0;
  if (structure == kFeatures) {
    const uint32_t* ends = layer.feature_entries.data() + c * (layer.view.n_features + 1);
    for (int64_t t = 0; t < query.n; ++t) {
      const uint32_t first = ends[query.features[t]], length = ends[query.features[t] + 1] - first;
      if (length) hits[n_hits++] = {entries + first, length, query.values[t]};
    }
  } else if (structure == kSearch) {
    const int32_t* rows = layer.row_features.data() + layer.row_offsets[static_cast<size_t>(c)];
    const int32_t* end = layer.row_features.data() + layer.row_offsets[static_cast<size_t>(c) + 1];
    const uint32_t* starts = layer.row_entries.data() + layer.row_offsets[static_cast<size_t>(c)] + c;
    for (int64_t t = 0; t < query.n; ++t) {
      const int32_t* found = std::lower_bound(rows, end, query.features[t]);
      if (found == end || *found != query.features[t]) continue;
      const int64_t row = found - rows;
      hits[n_hits++] = {entries + starts[row], starts[row + 1] - starts[row], query.values[t]};
    }
  } else {
    const Slot* table = layer.table.data() + layer.table_offsets[static_cast<size_t>(c)];
    const int64_t size =
        layer.table_offsets[static_cast<size_t>(c) + 1] - layer.table_offsets[static_cast<size_t>(c)];
    for (int64_t t = 0; t < query.n; ++t) {
      uint32_t at = hashed(query.features[t], size);
      while (table[at].feature >= 0 && table[at].feature != query.features[t])
        at = (at + 1) & static_cast<uint32_t>(size - 1);
      if (table[at].feature >= 0)
        hits[n_hits++] = {entries + table[at].entry, table[at].length, query.values[t]};
    }
  }
  return n_hits;
}

struct Scratch {
  std::vector<float> dense, sums;  // a query with all features, for the label-indexed structure
  std::vector<float> groups;        // scores in groups of sixteen
  std::vector<Hit> hits;
};

// The scores of the children of a query's clusters, one cluster after the other.
void score(Layer& layer, Structure structure, const int32_t* clusters, int64_t n_clusters, const Query& query,
           Scratch& scratch, float* out) {
  const LayerView& view = layer.view;
  if (structure == kBlocks) {
    layer.blocks->score_clusters(clusters, n_clusters, query.features, query.values, query.n,
                                 scratch.groups.data());
    const float* group = scratch.groups.data();
    for (int64_t k = 0; k < n_clusters; ++k) {
      const int64_t n = view.child_offsets[clusters[k] + 1] - view.child_offsets[clusters[k]];
      out = std::copy(group, group + n, out);
      group += sylvan::padded(n);
    }
    return;
  }
  if (structure == kHashAhead) {
    for (int64_t k = 0; k < n_clusters; ++k) {
      const int64_t first = layer.table_offsets[static_cast<size_t>(clusters[k])];
      const int64_t size = layer.table_offsets[static_cast<size_t>(clusters[k]) + 1] - first;
      for (int64_t t = 0; t < query.n; ++t)
        SYLVAN_PREFETCH(layer.table.data() + first + hashed(query.features[t], size));
    }
  }
  for (int64_t k = 0; k < n_clusters; ++k) {
    const int64_t c = clusters[k], first = view.child_offsets[c], n = view.child_offsets[c + 1] - first;
    if (structure == kLabels) {
      for (int64_t node = first; node < first + n; ++node) {
        float sum = view.intercepts[node];
        for (int64_t e = layer.label_offsets[static_cast<size_t>(node)];
             e < layer.label_offsets[static_cast<size_t>(node) + 1]; ++e)
          sum += layer.label_weights[static_cast<size_t>(e)] *
                 scratch.dense[static_cast<size_t>(layer.label_features[static_cast<size_t>(e)])];
        *out++ = sum;
      }
      continue;
    }
    const int64_t n_hits = find(layer, structure, c, query, scratch.hits.data());
    std::copy(view.intercepts + first, view.intercepts + first + n, scratch.sums.begin());
    sylvan::add_entries(view, c, scratch.hits.data(), n_hits, sylvan::dense_length(view, c),
                        scratch.sums.data());
    out = std::copy(scratch.sums.begin(), scratch.sums.begin() + n, out);
  }
}

template <typename T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

}  // namespace

extern "C" {

// sizes: clusters, nodes, features, blocks, rows, entries, most children, bits of a block, whether keys have
// 16 bits. Children and lengths have 8 bits, weights 32.
void* lookups_layer(const int64_t* sizes, const int64_t* child_offsets, const int64_t* row_offsets,
                    const int64_t* entry_offsets, const void* block_starts, const void* keys,
                    const void* lengths, const void* children, const void* weights, const float* intercepts) {
  auto* layer = new Layer;
  layer->view = {sizes[0],
                 sizes[1],
                 sizes[2],
                 sizes[3],
                 sizes[4],
                 sizes[5],
                 sizes[6],
                 static_cast<int>(sizes[7]),
                 sylvan::ChildType::u8,
                 sylvan::WeightType::f32,
                 0,
                 sizes[8] != 0,
                 child_offsets,
                 row_offsets,
                 entry_offsets,
                 static_cast<const sylvan::BlockStart*>(block_starts),
                 keys,
                 lengths,
                 children,
                 weights,
                 nullptr,
                 intercepts};
  build(*layer);
  return layer;
}

void lookups_free(void* layer) { delete static_cast<Layer*>(layer); }

// What a structure takes beside the entries themselves, in bytes; the label-indexed one has entries of its
// own.
int64_t lookups_bytes(void* handle, int structure) {
  const auto& layer = *static_cast<Layer*>(handle);
  const LayerView& view = layer.view;
  switch (structure) {
    case kBlocks:
      return view.n_clusters * ((view.n_blocks + 1) * 8 + 16) + view.n_rows * (view.wide_keys ? 3 : 2);
    case kLabels:
      return bytes_of(layer.label_offsets) + bytes_of(layer.label_features) - view.n_entries;
    case kFeatures:
      return bytes_of(layer.feature_entries);
    case kSearch:
      return bytes_of(layer.row_offsets) + bytes_of(layer.row_features) + bytes_of(layer.row_entries);
    default:
      return bytes_of(layer.table_offsets) + bytes_of(layer.table);
  }
}

// Scores each query's clusters of every layer, a query at a time; the CPU seconds, and in `out` all scores of
// the last layer that fit (n_out). clusters: of each layer (n_queries, beam), -1 where there are fewer.
double lookups_run(void** layers, int64_t n_layers, int structure, int64_t n_queries, const int64_t* indptr,
                   const int32_t* indices, const float* data, const int32_t* const* clusters, int64_t beam,
                   float* out, int64_t n_out) {
  Scratch scratch;
  int64_t widest = sylvan::kLeastSums;
  for (int64_t t = 0; t < n_layers; ++t)
    widest = std::max(widest, static_cast<Layer*>(layers[t])->view.max_children);
  scratch.dense.assign(static_cast<size_t>(static_cast<Layer*>(layers[0])->view.n_features), 0.0f);
  scratch.sums.resize(static_cast<size_t>(widest));
  std::vector<float> scores(static_cast<size_t>(widest * beam));
  scratch.groups.resize(static_cast<size_t>(sylvan::padded(widest) * beam));
  int64_t written = 0;
  const std::clock_t begin = std::clock();
  for (int64_t q = 0; q < n_queries; ++q) {
    const Query query{indices + indptr[q], data + indptr[q], indptr[q + 1] - indptr[q]};
    scratch.hits.resize(std::max(scratch.hits.size(), static_cast<size_t>(query.n)));
    if (structure == kLabels)
      for (int64_t t = 0; t < query.n; ++t)
        scratch.dense[static_cast<size_t>(query.features[t])] = query.values[t];
    for (int64_t t = 0; t < n_layers; ++t) {
      auto& layer = *static_cast<Layer*>(layers[t]);
      const int32_t* own = clusters[t] + q * beam;
      int64_t n = 0, total = 0;
      for (; n < beam && own[n] >= 0; ++n)
        total += layer.view.child_offsets[own[n] + 1] - layer.view.child_offsets[own[n]];
      score(layer, static_cast<Structure>(structure), own, n, query, scratch, scores.data());
      if (t == n_layers - 1 && written + total <= n_out) {
        std::copy(scores.begin(), scores.begin() + total, out + written);
        written += total;
      }
    }
    if (structure == kLabels)
      for (int64_t t = 0; t < query.n; ++t) scratch.dense[static_cast<size_t>(query.features[t])] = 0.0f;
  }
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // extern "C"
