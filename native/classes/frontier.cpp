#include "classes/frontier.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "classes/edges.hpp"

namespace sylvan {

double log_sum(const float* scores, int64_t n, float* scratch) {
  const float most = largest(scores, n);
  if (scratch != scores) std::memcpy(scratch, scores, static_cast<size_t>(n) * sizeof *scores);
  return static_cast<double>(most) + std::log(exponentials(scratch, n, most));
}

const std::vector<int32_t>& ClassFrontier::list(const int32_t* nodes, int64_t n) {
  edges_.clear();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t node = static_cast<int64_t>(nodes[i]) + 1;
    const int64_t first = tree_.first_child(node), n_children = tree_.first_child(node + 1) - first;
    const size_t at = edges_.size();
    edges_.resize(at + static_cast<size_t>(n_children));
    int32_t* to = edges_.data() + at;
    for (int64_t j = 0; j < n_children; ++j) to[j] = static_cast<int32_t>(first + j);
  }
  return edges_;
}

void ClassFrontier::add_up(const int32_t* nodes, const float* above, int64_t n, float* sums) {
  if (score_ == NodeScore::own) return;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t node = static_cast<int64_t>(nodes[i]) + 1;
    const int64_t n_children = tree_.first_child(node + 1) - tree_.first_child(node);
    float log_total = 0.0f;
    if (score_ == NodeScore::log_probability && n_children > 0) {
      scratch_.resize(static_cast<size_t>(n_children));
      log_total = static_cast<float>(log_sum(sums, n_children, scratch_.data()));
    }
    for (int64_t j = 0; j < n_children; ++j) sums[j] = above[i] + (sums[j] - log_total);
    sums += n_children;
  }
}

int64_t ClassFrontier::narrow(const float* sums, int32_t* nodes, float* above) {
  if (listed() > beam_) return picker_.pick({sums, edges_.data(), listed(), nullptr, 0}, beam_, nodes, above);
  std::copy(edges_.begin(), edges_.end(), nodes);
  std::copy(sums, sums + listed(), above);
  return listed();
}

void ClassFrontier::finish(const float* sums, int64_t k, int32_t* classes, float* scores) {
  picker_.pick_all({sums, edges_.data(), listed(), tree_.leaf_classes(), tree_.first_leaf()}, k, classes,
                   scores);
}

float ClassFrontier::log_sum_of_reached(const float* sums, float best) {
  scratch_.assign(sums, sums + listed());
  const double found = static_cast<double>(best) + std::log(exponentials(scratch_.data(), listed(), best));
  return std::isfinite(found) ? static_cast<float>(found) : 0.0f;
}

}  // namespace sylvan
