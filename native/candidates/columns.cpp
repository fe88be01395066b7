#include "candidates/columns.hpp"

#include <algorithm>
#include <vector>

namespace sylvan {

namespace {

// Numbers from 0 for ids of one row, in the order in which they come.
class RowNumbers {
 public:
  // Forgets all ids, and makes room for n.
  void clear(int64_t n) {
    size_t size = 16;
    shift_ = 28;
    while (size < 2 * static_cast<size_t>(n)) size *= 2, --shift_;
    ids_.assign(size, -1);
    numbers_.resize(size);
    n_ = 0;
  }

  int32_t add(int32_t id) {
    const size_t at = slot(id);
    if (ids_[at] < 0) {
      ids_[at] = id;
      numbers_[at] = n_++;
    }
    return numbers_[at];
  }

  void set(int32_t id, int32_t number) {
    const size_t at = slot(id);
    ids_[at] = id;
    numbers_[at] = number;
  }

  // -1 for an id that isn't there, as none below 0 is.
  int32_t find(int32_t id) const {
    const size_t at = slot(id);
    return ids_[at] < 0 ? -1 : numbers_[at];
  }

  int32_t count() const { return n_; }

 private:
  size_t slot(int32_t id) const {
    size_t at = (static_cast<uint32_t>(id) * 2654435769u) >> shift_;  // Fibonacci hashing
    while (ids_[at] >= 0 && ids_[at] != id) at = (at + 1) & (ids_.size() - 1);
    return at;
  }

  std::vector<int32_t> ids_, numbers_;
  int shift_ = 28;
  int32_t n_ = 0;
};

// The places of a row's candidates.
void take_row(const CandidateRows& rows, int64_t row, RowNumbers& places) {
  const int32_t* labels = rows.labels + row * rows.k;
  places.clear(rows.k);
  for (int64_t place = 0; place < rows.k; ++place) {
    if (labels[place] >= 0) places.set(labels[place], static_cast<int32_t>(place));
  }
}

}  // namespace

void member_columns(const CandidateRows& rows, const MemberAnswers& answers, int64_t width, float* out) {
  RowNumbers places;
  for (int64_t row = 0; row < rows.n; ++row) {
    take_row(rows, row, places);
    float* of_row = out + row * rows.k * width;
    for (int64_t member = 0; member < answers.n_members; ++member) {
      const int64_t from = row * answers.width + answers.bounds[member];
      const int64_t n = answers.bounds[member + 1] - answers.bounds[member];
      const float best = n > 0 && answers.labels[from] >= 0 ? answers.scores[from] : 0;
      for (int64_t at = 0; at < n; ++at) {
        const int32_t place = places.find(answers.labels[from + at]);
        if (place < 0) continue;
        const float score = answers.scores[from + at];
        float* own = of_row + place * width + 3 * member;
        float* of_all = of_row + place * width + 3 * answers.n_members;
        own[0] = score;
        own[1] = 1 / static_cast<float>(at + 1);
        own[2] = best > 0 ? score / best : 0;
        of_all[0] += 1;
        of_all[1] = std::max(of_all[1], score);
      }
    }
  }
}

bool together_columns(const CandidateRows& rows, const IdLists& together, const int64_t* counts,
                      int64_t n_leaders, int64_t width, float* out) {
  RowNumbers places;
  const auto share = [counts](float both, int32_t label) {
    return static_cast<float>(both / static_cast<double>(std::max<int64_t>(counts[label], 1)));
  };
  for (int64_t row = 0; row < rows.n; ++row) {
    const int32_t* labels = rows.labels + row * rows.k;
    const float* means = rows.means + row * rows.k;
    take_row(rows, row, places);
    for (int64_t at = 0; at < std::min(n_leaders, rows.k); ++at) {
      const int32_t leader = labels[at];
      if (leader < 0) continue;
      if (!together.holds(leader)) return false;
      for (int64_t entry = together.offsets[leader]; entry < together.offsets[leader + 1]; ++entry) {
        const int32_t label = together.ids[entry];
        const int32_t place = places.find(label);
        if (place < 0) continue;
        const float given = share(together.values[entry], leader);
        float* columns = out + (row * rows.k + place) * width;
        if (at == 0) {
          columns[0] = given;
          if (!together.holds(label)) return false;
          columns[1] = share(together.values[entry], label);
        }
        columns[2] += given * means[at];
        columns[3] = std::max(columns[3], given * means[at]);
      }
    }
  }
  return true;
}

bool neighbor_columns(const CandidateRows& rows, const int32_t* neighbors, const float* similarities,
                      int64_t n_each, const IdLists& labels_of, int64_t width, float* out) {
  RowNumbers places;
  for (int64_t row = 0; row < rows.n; ++row) {
    take_row(rows, row, places);
    for (int64_t at = 0; at < n_each; ++at) {
      const int32_t neighbor = neighbors[row * n_each + at];
      if (neighbor < 0) continue;
      if (!labels_of.holds(neighbor)) return false;
      for (int64_t entry = labels_of.offsets[neighbor]; entry < labels_of.offsets[neighbor + 1]; ++entry) {
        const int32_t place = places.find(labels_of.ids[entry]);
        if (place < 0) continue;
        float* columns = out + (row * rows.k + place) * width;
        if (columns[2] == 0) {
          columns[0] = similarities[row * n_each + at];
          columns[1] = 1 / static_cast<float>(at + 1);
        }
        columns[2] += 1;
      }
    }
  }
  return true;
}

bool shared_columns(const CandidateRows& rows, const IdLists& items, const uint8_t* kinds, int64_t n_items,
                    int64_t width, float* out) {
  RowNumbers numbers;
  std::vector<int32_t> of_entry;
  std::vector<double> sums, of_candidate(width);
  for (int64_t row = 0; row < rows.n; ++row) {
    const int32_t* labels = rows.labels + row * rows.k;
    const float* means = rows.means + row * rows.k;
    int64_t n_entries = 0;
    for (int64_t at = 0; at < rows.k; ++at) {
      if (labels[at] < 0) continue;
      if (!items.holds(labels[at])) return false;
      n_entries += items.offsets[labels[at] + 1] - items.offsets[labels[at]];
    }
    if (n_entries == 0) continue;
    numbers.clear(n_entries);
    of_entry.clear();
    sums.clear();
    for (int64_t at = 0; at < rows.k; ++at) {  // what all candidates have of each item
      if (labels[at] < 0) continue;
      for (int64_t entry = items.offsets[labels[at]]; entry < items.offsets[labels[at] + 1]; ++entry) {
        if (items.ids[entry] < 0 || items.ids[entry] >= n_items) return false;
        of_entry.push_back(numbers.add(items.ids[entry]));
        sums.resize(numbers.count());
        sums[of_entry.back()] += static_cast<double>(items.values[entry]) * means[at];
      }
    }
    size_t next = 0;
    for (int64_t at = 0; at < rows.k; ++at) {  // and the others, without its own part
      if (labels[at] < 0) continue;
      std::fill(of_candidate.begin(), of_candidate.end(), 0.0);
      for (int64_t entry = items.offsets[labels[at]]; entry < items.offsets[labels[at] + 1]; ++entry) {
        const double value = items.values[entry];
        const double others = sums[of_entry[next++]] - value * means[at];
        const uint8_t kind = kinds[items.ids[entry]];
        if (kind >= width) return false;
        of_candidate[kind] += value * std::max(others, 0.0);  // below 0 by rounding alone
      }
      float* columns = out + (row * rows.k + at) * width;
      for (int64_t kind = 0; kind < width; ++kind) columns[kind] += static_cast<float>(of_candidate[kind]);
    }
  }
  return true;
}

bool tied_columns(const CandidateRows& rows, const IdLists& ties, int64_t n_labels, const uint8_t* kinds,
                  int64_t n_kinds, int64_t width, float* out) {
  RowNumbers places;
  std::vector<double> of_candidate(width);
  for (int64_t row = 0; row < rows.n; ++row) {
    const int32_t* labels = rows.labels + row * rows.k;
    take_row(rows, row, places);
    for (int64_t at = 0; at < rows.k; ++at) {
      if (labels[at] < 0) continue;
      if (!ties.holds(labels[at])) return false;
      if (ties.offsets[labels[at]] == ties.offsets[labels[at] + 1]) continue;
      std::fill(of_candidate.begin(), of_candidate.end(), 0.0);
      for (int64_t entry = ties.offsets[labels[at]]; entry < ties.offsets[labels[at] + 1]; ++entry) {
        const int64_t tie = ties.ids[entry];
        if (tie < 0 || tie / n_labels >= n_kinds || kinds[tie / n_labels] >= width) return false;
        const int32_t place = places.find(static_cast<int32_t>(tie % n_labels));
        if (place >= 0) of_candidate[kinds[tie / n_labels]] += rows.means[row * rows.k + place];
      }
      float* columns = out + (row * rows.k + at) * width;
      for (int64_t kind = 0; kind < width; ++kind) columns[kind] += static_cast<float>(of_candidate[kind]);
    }
  }
  return true;
}

}  // namespace sylvan
