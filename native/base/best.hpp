// The best few of many, as every ranking keeps them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sylvan {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The best `width` of what it is offered, best first, lower name first among equals; a NaN is never kept.
class Best {
 public:
  Best(int32_t* names, float* scores, int64_t width) : names_(names), scores_(scores), width_(width) {}

  // What is worse than this has no place any more.
  float floor() const { return floor_; }

  void offer(int32_t name, float score) {
    if (!(score >= floor_)) return;
    const Item item{score, name};
    if (static_cast<int64_t>(heap_.size()) < width_) {
      heap_.push_back(item);
      std::push_heap(heap_.begin(), heap_.end(), better);
      if (static_cast<int64_t>(heap_.size()) == width_) floor_ = heap_.front().first;
      return;
    }
    if (!better(item, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), better);
    heap_.back() = item;
    std::push_heap(heap_.begin(), heap_.end(), better);
    floor_ = heap_.front().first;
  }

  // Writes what was kept to where it belongs; -1 and -inf fill what is left.
  void finish() {
    std::sort_heap(heap_.begin(), heap_.end(), better);
    int64_t i = 0;
    for (; i < static_cast<int64_t>(heap_.size()); ++i) {
      names_[i] = heap_[i].second;
      scores_[i] = heap_[i].first;
    }
    for (; i < width_; ++i) {
      names_[i] = -1;
      scores_[i] = kNever;
    }
  }

  void restart(int32_t* names, float* scores) {
    names_ = names;
    scores_ = scores;
    heap_.clear();
    floor_ = kNever;
  }

 private:
  using Item = std::pair<float, int32_t>;
  static bool better(const Item& a, const Item& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  }

  int32_t* names_;
  float* scores_;
  int64_t width_;
  float floor_ = kNever;
  std::vector<Item> heap_;  // worst of the kept in front
};

}  // namespace sylvan
