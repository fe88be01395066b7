#include "linear/beam.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/platform.hpp"
#include "base/top_k.hpp"
#include "linear/choice.hpp"
#include "linear/lookup.hpp"
#include "linear/unpacked.hpp"

namespace sylvan {
namespace {

// A query and a cluster that it opens.
struct Pair {
  int32_t query;
  int32_t cluster;
  float score;
  int64_t at;  // where the scores of its children begin, padded to groups of sixteen by -inf
};

int64_t children_of(const LayerView& layer, int64_t cluster) {
  return layer.child_offsets[cluster + 1] - layer.child_offsets[cluster];
}

// Adds each child's transformed score to that of its parent.
SYLVAN_CLONES void combine_hinge(float* SYLVAN_RESTRICT scores, int64_t n, float parent, float power) {
  if (power == 3.0f) {
    for (int64_t i = 0; i < n; ++i) {
      const float slack = scores[i] < 1.0f ? 1.0f - scores[i] : 0.0f;
      scores[i] = parent - slack * slack * slack;
    }
    return;
  }
  if (power == 2.0f) {
    for (int64_t i = 0; i < n; ++i) {
      const float slack = scores[i] < 1.0f ? 1.0f - scores[i] : 0.0f;
      scores[i] = parent - slack * slack;
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const float slack = scores[i] < 1.0f ? 1.0f - scores[i] : 0.0f;
    scores[i] = parent - std::pow(slack, power);
  }
}

void combine_scores(float* scores, int64_t n, float above, const Rule& rule) {
  float parent = rule.share * above;
  if (rule.combine == Combine::nested) parent = -std::pow(std::max(0.0f, 1.0f - std::exp(above)), rule.power);
  if (rule.combine == Combine::hinge || rule.combine == Combine::nested) {
    combine_hinge(scores, n, parent, rule.power);
  } else if (rule.combine == Combine::sigmoid) {
    for (int64_t i = 0; i < n; ++i) {
      const float s = scores[i];  // log sigmoid, without overflow on either side
      scores[i] = parent + (s < 0 ? s - std::log1p(std::exp(s)) : -std::log1p(std::exp(-s)));
    }
  }
}

// Offers the allowed ones of a cluster's children, by name or by node number.
void offer_allowed(TopK& best, const float* scores, int64_t n, int64_t first_node, const int32_t* names,
                   const Marks& marks) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(scores[i] >= best.threshold())) continue;
    const int32_t name = names ? names[first_node + i] : static_cast<int32_t>(first_node + i);
    if (marks.marked[name] == marks.allowed) best.offer(name, scores[i]);
  }
}

// Adds the changes of a row's scores to those of a cluster's children.
void apply_changes(float* scores, int64_t first_node, int64_t n, const RowChanges& changes, int64_t row) {
  const int32_t* end = changes.nodes + changes.offsets[row + 1];
  const int32_t* node = std::lower_bound(changes.nodes + changes.offsets[row], end, first_node);
  for (; node < end && *node < first_node + n; ++node) {
    if (*node >= first_node) scores[*node - first_node] += changes.changes[node - changes.nodes];
  }
}

// The pairs of a block of queries, query by query; returns how many scores their children have in all.
int64_t list_pairs(const LayerView& layer, const Beam& from, int64_t first, int64_t last,
                   std::vector<Pair>& pairs) {
  int64_t at = 0;
  pairs.clear();
  for (int64_t q = first; q < last; ++q) {
    for (int64_t b = 0; b < from.width; ++b) {
      const int32_t cluster = from.nodes[q * from.width + b];
      if (cluster < 0 || cluster >= layer.n_clusters) continue;
      pairs.push_back({static_cast<int32_t>(q), cluster, from.scores[q * from.width + b], at});
      at += padded(children_of(layer, cluster));
    }
  }
  return at;
}

// Scores of all pairs. With many pairs per cluster, each cluster is unpacked once for all queries that open
// it; otherwise each query's clusters are looked up together.
class PairScorer {
 public:
  PairScorer(const LayerView& layer, const SparseRows& query, const FeatureRanks* ranks)
      : layer_(layer), query_(query), ranks_(ranks), lookup_(layer) {
    if (ranks) unpacked_.emplace(layer, *ranks);
  }

  void score(const std::vector<Pair>& pairs, float* scores) {
    const int64_t n = static_cast<int64_t>(pairs.size());
    if (ranks_ && n > 4 * layer_.n_clusters) {
      by_cluster(pairs, scores);
      return;
    }
    for (int64_t i = 0; i < n;) {
      int64_t end = i;
      clusters_.clear();
      while (end < n && pairs[end].query == pairs[i].query) clusters_.push_back(pairs[end++].cluster);
      look_up(pairs[i], scores);
      i = end;
    }
  }

 private:
  // One query's pairs: those from `first` on, with the clusters in clusters_.
  void look_up(const Pair& first, float* scores) {
    const int64_t begin = query_.indptr[first.query];
    lookup_.score_clusters(clusters_.data(), static_cast<int64_t>(clusters_.size()), query_.indices + begin,
                           query_.values + begin, query_.indptr[first.query + 1] - begin, scores + first.at);
  }

  void by_cluster(const std::vector<Pair>& pairs, float* scores) {
    const int64_t n = static_cast<int64_t>(pairs.size());
    first_.assign(static_cast<size_t>(layer_.n_clusters + 1), 0);
    order_.resize(static_cast<size_t>(n));
    for (const Pair& pair : pairs) ++first_[pair.cluster + 1];
    for (int64_t c = 0; c < layer_.n_clusters; ++c) first_[c + 1] += first_[c];
    next_ = first_;
    for (int64_t i = 0; i < n; ++i) order_[next_[pairs[i].cluster]++] = static_cast<int32_t>(i);
    for (int64_t c = 0; c < layer_.n_clusters; ++c) {
      int64_t entries = 0;
      for (int64_t j = first_[c]; j < first_[c + 1]; ++j) {
        const int32_t q = pairs[order_[j]].query;
        entries += query_.indptr[q + 1] - query_.indptr[q];
      }
      const bool unpacked = unpacked_->pays(c, entries);
      if (unpacked) unpacked_->unpack(c);
      clusters_.assign(1, static_cast<int32_t>(c));
      for (int64_t j = first_[c]; j < first_[c + 1]; ++j) {
        const Pair& pair = pairs[order_[j]];
        const int64_t begin = query_.indptr[pair.query];
        if (!unpacked) {
          look_up(pair, scores);
        } else {
          unpacked_->score(ranks_->entries(begin), query_.values + begin,
                           query_.indptr[pair.query + 1] - begin, scores + pair.at);
        }
      }
    }
  }

  const LayerView& layer_;
  const SparseRows& query_;
  const FeatureRanks* ranks_;
  Lookup lookup_;
  std::optional<Unpacked> unpacked_;
  std::vector<int32_t> clusters_, order_;
  std::vector<int64_t> first_, next_;
};

// What a search needs in each layer.
struct Workspace {
  std::vector<Pair> pairs;
  std::unique_ptr<float[]> scores;
  int64_t n_scores = 0;
  Choice choice;

  float* room_for(int64_t n) {
    if (n > n_scores) {
      scores.reset();
      scores.reset(new float[static_cast<size_t>(n)]);
      n_scores = n;
    }
    return scores.get();
  }
};

// The best children of a block's queries, from the scores of their pairs.
void choose(const LayerView& layer, const Rule& rule, const int32_t* names, const Marks* marks,
            const RowChanges* changes, int64_t first, int64_t last, Workspace& space, const Beam& to) {
  TopK best(nullptr, nullptr, to.width);
  const Pair *pair = space.pairs.data(), *end = pair + space.pairs.size();
  for (int64_t q = first; q < last; ++q) {
    int32_t* nodes = to.nodes + q * to.width;
    float* best_scores = to.scores + q * to.width;
    if (marks) {
      best.reset(nodes, best_scores);
      marks->mark_own(q, 1);
    }
    for (; pair < end && pair->query == q; ++pair) {
      const int64_t first_child = layer.child_offsets[pair->cluster];
      const int64_t n_children = children_of(layer, pair->cluster);
      float* scores = space.scores.get() + pair->at;
      if (changes) apply_changes(scores, first_child, n_children, *changes, q);
      combine_scores(scores, padded(n_children), pair->score, rule);
      if (marks) {
        offer_allowed(best, scores, n_children, first_child, names, *marks);
      } else {
        space.choice.add(scores, n_children, first_child);
      }
    }
    if (marks) {
      marks->mark_own(q, 0);
      best.finish();
    } else {
      space.choice.finish(names, to.width, nodes, best_scores);
    }
  }
}

void search_ranked(const LayerView& layer, const SparseRows& query, const FeatureRanks* ranks,
                   const Beam& from, const Rule& rule, const int32_t* names, const Marks* marks,
                   const RowChanges* changes, Workspace& space, const Beam& to) {
  // Queries are processed in blocks, so that the candidates' scores take a few megabytes; of layers with very
  // many clusters they take up to 32, so that many queries of a block still share a cluster.
  constexpr int64_t kLeast = int64_t{1} << 20, kMost = int64_t{1} << 23, kShared = 512;
  const int64_t children = padded(layer.max_children);
  const int64_t floats = std::clamp(kShared * layer.n_clusters * layer.max_children, kLeast, kMost);
  const int64_t block = std::max<int64_t>(1, floats / (children * std::min(from.width, layer.n_clusters)));
  PairScorer scorer(layer, query, ranks);
  for (int64_t first = 0; first < query.n_rows; first += block) {
    const int64_t last = std::min(query.n_rows, first + block);
    float* scores = space.room_for(list_pairs(layer, from, first, last, space.pairs));
    scorer.score(space.pairs, scores);
    choose(layer, rule, names, marks, changes, first, last, space, to);
  }
}

// The ranks of features, where there are enough entries for their cost.
const FeatureRanks* ranked(const SparseRows& query, int64_t n_features, std::optional<FeatureRanks>& ranks) {
  const int64_t n = query.n_rows > 1 ? query.indptr[query.n_rows] - query.indptr[0] : 0;
  if (n * 8 <= n_features) return nullptr;
  return &ranks.emplace(query, n_features);
}

}  // namespace

bool search_layer(const LayerView& layer, const SparseRows& query, const Beam& from, const Rule& rule,
                  const RowChanges* changes, const Beam& to) {
  try {
    std::optional<FeatureRanks> ranks;
    Workspace space;
    search_ranked(layer, query, ranked(query, layer.n_features, ranks), from, rule, nullptr, nullptr, changes,
                  space, to);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void distinct_labels(const Beam& found, int64_t n_rows, int64_t n_copies, bool exponentiate, int64_t k,
                     int32_t* out_labels, float* out_scores) {
  for (int64_t q = 0; q < n_rows; ++q) {
    const int32_t* names = found.nodes + q * found.width;
    const float* scores = found.scores + q * found.width;
    int32_t* labels = out_labels + q * k;
    float* out = out_scores + q * k;
    int64_t n_written = 0;
    for (int64_t i = 0; i < found.width && names[i] >= 0 && n_written < k; ++i) {
      bool seen = false;
      // With one leaf per label nothing repeats, and the quadratic check is skipped.
      for (int64_t j = 0; n_copies > 1 && j < n_written && !seen; ++j) seen = labels[j] == names[i];
      if (seen) continue;
      labels[n_written] = names[i];
      out[n_written++] = exponentiate ? std::exp(scores[i]) : scores[i];
    }
    for (; n_written < k; ++n_written) {
      labels[n_written] = -1;
      out[n_written] = kMinusInfinity;
    }
  }
}

namespace {

// Searches all layers, from the root to the labels.
void rank_some(const TreeSearch& search, const SparseRows& query, LabelFilter* filter, int64_t first) {
  std::vector<int32_t> nodes(static_cast<size_t>(query.n_rows), 0), next_nodes;
  std::vector<float> scores(static_cast<size_t>(query.n_rows), 0.0f), next_scores;
  int64_t width = 1, n_features = 0;
  for (const LayerView* layer : search.layers) n_features = std::max(n_features, layer->n_features);
  std::optional<FeatureRanks> ranks;
  ranked(query, n_features, ranks);
  Workspace space;
  for (size_t t = 0; t < search.layers.size(); ++t) {
    const bool last = t + 1 == search.layers.size();
    const int64_t wanted = last ? search.k * search.n_copies : search.beam;
    const int64_t next_width = std::min(wanted, search.layers[t]->n_nodes);
    next_nodes.resize(static_cast<size_t>(query.n_rows * next_width));
    next_scores.resize(next_nodes.size());
    const Marks marks = filter ? filter->marks_of(t) : Marks{};
    search_ranked(*search.layers[t], query, ranks ? &*ranks : nullptr, {width, nodes.data(), scores.data()},
                  search.rules[t], last ? search.leaf_labels : nullptr, filter ? &marks : nullptr, nullptr,
                  space, {next_width, next_nodes.data(), next_scores.data()});
    nodes.swap(next_nodes);
    scores.swap(next_scores);
    width = next_width;
  }
  distinct_labels({width, nodes.data(), scores.data()}, query.n_rows, search.n_copies, search.exponentiate,
                  search.k, search.out_labels + first * search.k, search.out_scores + first * search.k);
}

}  // namespace

bool rank_rows(const TreeSearch& search, const SparseRows& query, LabelFilter* filter, const RowLabels* own) {
  // Rows are processed in blocks, so that their lists take a few megabytes at most.
  constexpr int64_t kListed = 1 << 20;
  try {
    if (!filter || !own) {
      rank_some(search, query, filter, 0);
      return true;
    }
    for (int64_t first = 0, last = 0; first < query.n_rows; first = last) {
      while (last < query.n_rows &&
             (last == first || own->offsets[last + 1] - own->offsets[first] <= kListed)) {
        ++last;
      }
      filter->list_rows(*own, first, last - first);
      const SparseRows part{last - first, query.indptr + first, query.indices, query.values};
      rank_some(search, part, filter, first);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace sylvan
