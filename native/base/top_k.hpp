// The k best of a stream of scores: the heap behind every ranking.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sylvan {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The best `width` of the offered items, best first, lower name first among equals; a NaN is ignored.
class TopK {
 public:
  TopK(int32_t* names, float* scores, int64_t width) : names_(names), scores_(scores), width_(width) {}

  // A score below this can't be among the best any more.
  float threshold() const { return threshold_; }

  void offer(int32_t name, float score) {
    if (!(score >= threshold_)) return;
    const Item item{score, name};
    if (static_cast<int64_t>(heap_.size()) < width_) {
      heap_.push_back(item);
      std::push_heap(heap_.begin(), heap_.end(), Better());
      if (static_cast<int64_t>(heap_.size()) == width_) threshold_ = heap_.front().first;
      return;
    }
    if (!Better()(item, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), Better());
    heap_.back() = item;
    std::push_heap(heap_.begin(), heap_.end(), Better());
    threshold_ = heap_.front().first;
  }

  // Writes the best in order; -1 and -inf fill the places that remain.
  void finish() {
    std::sort_heap(heap_.begin(), heap_.end(), Better());
    int64_t i = 0;
    for (; i < static_cast<int64_t>(heap_.size()); ++i) {
      names_[i] = heap_[i].second;
      scores_[i] = heap_[i].first;
    }
    for (; i < width_; ++i) {
      names_[i] = -1;
      scores_[i] = kMinusInfinity;
    }
  }

  void reset(int32_t* names, float* scores) {
    names_ = names;
    scores_ = scores;
    heap_.clear();
    threshold_ = kMinusInfinity;
  }

 private:
  using Item = std::pair<float, int32_t>;
  struct Better {  // a type rather than a function, so that it is inlined
    bool operator()(const Item& a, const Item& b) const {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    }
  };

  int32_t* names_;
  float* scores_;
  int64_t width_;
  float threshold_ = kMinusInfinity;
  std::vector<Item> heap_;  // the worst in front
};

}  // namespace sylvan
