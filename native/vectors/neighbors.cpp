#include "vectors/neighbors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "base/platform.hpp"
#include "base/top_k.hpp"

namespace sylvan {
namespace {

constexpr float kSlack = 1e-6f;  // more than a bound loses by rounding; similarities are at most 1

// The page's rows whose bound reaches `floor`, as offsets from its first row; returns how many.
SYLVAN_CLONES int64_t promising_rows(const float* sums, const float* lengths, int64_t n, float query_length,
                                     float floor, int32_t* out) {
  float bounds[kPageRows];
  int32_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    bounds[i] = sums[i] + query_length * lengths[i] + kSlack;
    any |= bounds[i] >= floor;
  }
  if (!any) return 0;  // the usual case, and the loop above is vector code
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[found] = static_cast<int32_t>(i);
    found += bounds[i] >= floor;
  }
  return found;
}

// Searches for one query after another. A query's rare features are added through their postings. The
// contribution of its frequent features to a row is bounded by the product of both lengths (Cauchy-Schwarz),
// and computed only for rows whose bound reaches the n best so far.
class Search {
 public:
  Search(const NeighborView& index, int64_t n, const uint8_t* only)
      : index_(index),
        n_(n),
        only_(only),
        n_pages_((index.n_rows + kPageRows - 1) / kPageRows),
        sums_(static_cast<size_t>(n_pages_ * kPageRows), 0.0f),
        touched_(static_cast<size_t>(n_pages_), 0),
        frequent_(static_cast<size_t>(index.n_frequent), 0.0f),
        best_(nullptr, nullptr, n),
        seeds_(nullptr, nullptr, n),
        seed_rows_(static_cast<size_t>(std::min(n, index.n_rows))),
        seed_scores_(seed_rows_.size()) {}

  void find(const int32_t* features, const float* values, int64_t length, int32_t* out_rows, float* out) {
    best_.reset(out_rows, out);
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) squares += static_cast<double>(values[i]) * values[i];
    if (squares > 0 && std::isfinite(squares)) {
      add_up(features, values, length, 1 / std::sqrt(squares));
      const float floor = seed();
      for (int64_t page = 0; page < n_pages_; ++page) {
        if (touched_[page] ||
            (query_length_ > 0 && query_length_ * index_.page_lengths[page] + kSlack >= floor))
          look_at(page, floor);
      }
      clear();
    }
    best_.finish();
  }

 private:
  void add_up(const int32_t* features, const float* values, int64_t length, double scale) {
    const int32_t *rare = index_.rare, *frequent = index_.frequent;
    const int32_t *rare_end = rare + index_.n_rare, *frequent_end = frequent + index_.n_frequent;
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) {
      const float value = static_cast<float>(values[i] * scale);
      frequent = std::lower_bound(frequent, frequent_end, features[i]);
      if (frequent != frequent_end && *frequent == features[i]) {
        const int64_t place = frequent - index_.frequent;
        frequent_[place] = value;
        places_.push_back(place);
        squares += static_cast<double>(value) * value;
        continue;
      }
      rare = std::lower_bound(rare, rare_end, features[i]);
      if (rare != rare_end && *rare == features[i]) add_postings(rare - index_.rare, value);
    }
    query_length_ = static_cast<float>(std::sqrt(squares) * (1 + 1e-6));
  }

  void add_postings(int64_t place, float value) {
    const int64_t end = index_.posting_offsets[place + 1];
    float* SYLVAN_RESTRICT sums = sums_.data();
    uint8_t* SYLVAN_RESTRICT touched = touched_.data();
    for (int64_t j = index_.posting_offsets[place]; j < end; ++j) {
      const int32_t row = index_.posting_rows[j];
      if (static_cast<uint64_t>(static_cast<int64_t>(row)) >= static_cast<uint64_t>(index_.n_rows)) continue;
      sums[row] += value * index_.posting_values[j];
      touched[row / kPageRows] = 1;
    }
  }

  // A lower bound of the n-th best similarity: the smallest similarity of the n rows with the largest bounds.
  float seed() {
    seeds_.reset(seed_rows_.data(), seed_scores_.data());
    if (static_cast<int64_t>(seed_rows_.size()) < n_) return 0;
    for (int64_t page = 0; page < n_pages_; ++page) {
      if (!touched_[page]) continue;
      const int64_t first = page * kPageRows, found = promising(page, seeds_.threshold());
      for (int64_t i = 0; i < found; ++i) {
        const int32_t row = static_cast<int32_t>(first + rows_[i]);
        if (only_ == nullptr || only_[row])
          seeds_.offer(row, sums_[row] + query_length_ * index_.row_lengths[row]);
      }
    }
    seeds_.finish();
    float least = 1;
    for (const int32_t row : seed_rows_) least = std::min(least, row < 0 ? 0 : similarity(row));
    return least > 0 ? least : 0;
  }

  void look_at(int64_t page, float floor) {
    const int64_t first = page * kPageRows, found = promising(page, std::max(floor, best_.threshold()));
    for (int64_t i = 0; i < found; ++i) {
      const int32_t row = static_cast<int32_t>(first + rows_[i]);
      if (only_ != nullptr && !only_[row]) continue;
      const float score = similarity(row);
      if (score > 0) best_.offer(row, score);
    }
  }

  int64_t promising(int64_t page, float floor) {
    const int64_t first = page * kPageRows;
    return promising_rows(sums_.data() + first, index_.row_lengths + first,
                          std::min(kPageRows, index_.n_rows - first), query_length_, floor, rows_);
  }

  float similarity(int32_t row) const {
    double sum = sums_[row];
    if (query_length_ > 0) {
      for (int64_t j = index_.row_offsets[row]; j < index_.row_offsets[row + 1]; ++j) {
        const int32_t place = index_.row_places[j];
        if (place >= 0 && place < index_.n_frequent)
          sum += static_cast<double>(frequent_[place]) * index_.row_values[j];
      }
    }
    return std::min(static_cast<float>(sum), 1.0f);
  }

  void clear() {
    for (int64_t page = 0; page < n_pages_; ++page) {
      if (!touched_[page]) continue;
      std::memset(sums_.data() + page * kPageRows, 0, kPageRows * sizeof(float));
      touched_[page] = 0;
    }
    for (const int64_t place : places_) frequent_[place] = 0;
    places_.clear();
  }

  const NeighborView& index_;
  const int64_t n_;
  const uint8_t* only_;
  const int64_t n_pages_;
  std::vector<float> sums_;       // of each row, over the query's rare features
  std::vector<uint8_t> touched_;  // of each page, whether a posting fell into it
  std::vector<float> frequent_;   // the query's values, by index in `frequent`
  std::vector<int64_t> places_;   // the indices that aren't 0
  float query_length_ = 0;        // of the query's frequent part
  TopK best_, seeds_;
  std::vector<int32_t> seed_rows_;
  std::vector<float> seed_scores_;
  int32_t rows_[kPageRows + 1];
};

}  // namespace

bool nearest_rows(const NeighborView& index, const SparseRows& queries, int64_t n, const uint8_t* only,
                  int32_t* out_rows, float* out_similarities) {
  try {
    Search search(index, n, only);
    for (int64_t q = 0; q < queries.n_rows; ++q) {
      const int64_t begin = queries.indptr[q];
      search.find(queries.indices + begin, queries.values + begin, queries.indptr[q + 1] - begin,
                  out_rows + q * n, out_similarities + q * n);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool vote(const LabelRows& labels, int64_t n_queries, int64_t n, const int32_t* rows,
          const float* similarities, float power, LabelFilter* filter, const RowLabels* own, int64_t k,
          int32_t* out_labels, float* out_scores) {
  try {
    Marks marks = filter ? filter->marks_of(0) : Marks{};
    std::vector<double> votes(static_cast<size_t>(labels.n_labels), 0.0);
    std::vector<int32_t> voted_for;
    TopK best(nullptr, nullptr, k);
    for (int64_t q = 0; q < n_queries; ++q) {
      best.reset(out_labels + q * k, out_scores + q * k);
      double total = 0;
      for (int64_t i = q * n; i < (q + 1) * n; ++i) {
        const int32_t row = rows[i];
        if (row < 0 || row >= labels.n_rows) continue;
        // Relative to the nearest, so that no power makes all weights vanish.
        double weight = std::pow(static_cast<double>(similarities[i]) / similarities[q * n], power);
        if (labels.row_weights != nullptr) weight *= labels.row_weights[row];
        total += weight;
        for (int64_t j = labels.indptr[row]; j < labels.indptr[row + 1]; ++j) {
          const int32_t label = labels.labels[j];
          if (label < 0 || label >= labels.n_labels) continue;
          if (votes[label] == 0) voted_for.push_back(label);
          votes[label] += labels.relevance != nullptr ? weight * labels.relevance[j] : weight;
        }
      }
      if (filter && own) {
        filter->list_rows(*own, q, 1);
        marks = filter->marks_of(0);
        marks.mark_own(0, 1);
      }
      for (const int32_t label : voted_for) {
        const bool open = !filter || marks.marked[label] == marks.allowed;
        if (open && votes[label] > 0)
          best.offer(label, static_cast<float>(std::min(1.0, votes[label] / total)));
        votes[label] = 0;
      }
      if (filter && own) marks.mark_own(0, 0);
      voted_for.clear();
      best.finish();
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace sylvan
