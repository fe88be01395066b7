#include "io/readers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/platform.hpp"
#include "io/decimal.hpp"

namespace sylvan {
namespace {

SYLVAN_INLINE bool is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

SYLVAN_INLINE const uint8_t* token_end(const uint8_t* at, const uint8_t* end) {
  while (at < end && !is_blank(*at)) ++at;
  return at;
}

// Reads digits into `value`, which saturates; returns where they end.
SYLVAN_INLINE const uint8_t* read_id(const uint8_t* at, const uint8_t* end, int64_t* value) {
  int64_t id = 0;
  for (; at < end; ++at) {
    const unsigned digit = static_cast<unsigned>(*at) - '0';
    if (digit > 9) break;
    if (id < (int64_t{1} << 40)) id = id * 10 + digit;
  }
  *value = id;
  return at;
}

struct Entry {
  int32_t id;
  float value;
};

// Sorts a row's entries and merges repeated ids: values, if any, are summed in double precision. False when a
// sum is beyond float32.
bool sort_and_merge(std::vector<Entry>& scratch, int64_t* count, int32_t* ids, float* values, bool sum) {
  scratch.resize(static_cast<size_t>(*count));
  for (int64_t i = 0; i < *count; ++i) scratch[i] = {ids[i], values ? values[i] : 1.0f};
  std::stable_sort(scratch.begin(), scratch.end(),
                   [](const Entry& a, const Entry& b) { return a.id < b.id; });
  int64_t n_written = 0;
  for (size_t i = 0; i < scratch.size();) {
    double total = scratch[i].value;
    size_t next = i + 1;
    for (; next < scratch.size() && scratch[next].id == scratch[i].id; ++next) {
      if (sum) total += scratch[next].value;
    }
    ids[n_written] = scratch[i].id;
    if (values) values[n_written] = static_cast<float>(total);
    if (!std::isfinite(static_cast<float>(total))) return false;
    ++n_written;
    i = next;
  }
  *count = n_written;
  return true;
}

// Reads one block; a class so that the functions for a line share the block's outputs.
class BlockReader {
 public:
  BlockReader(const uint8_t* text, const LineFormat& format, int64_t* feature_counts, int32_t* features,
              float* values, int64_t* label_counts, int32_t* labels, float* label_weights)
      : text_(text),
        format_(format),
        feature_counts_(feature_counts),
        features_(features),
        values_(values),
        label_counts_(label_counts),
        labels_(labels),
        label_weights_(label_weights) {}

  LinesResult read(int64_t size) {
    const uint8_t* at = text_;
    const uint8_t* const end = text_ + size;
    while (at < end) {
      const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
      const uint8_t* const stop = newline ? static_cast<const uint8_t*>(newline) : end;
      if (!read_line(at, stop)) {
        result_.line = result_.lines;
        return result_;
      }
      ++result_.lines;
      at = stop + (newline != nullptr);
    }
    return result_;
  }

 private:
  bool fail(LineFault fault, const uint8_t* begin, const uint8_t* end) {
    result_.fault = fault;
    result_.begin = begin - text_;
    result_.end = end - text_;
    return false;
  }

  bool read_line(const uint8_t* at, const uint8_t* end) {
    if (end > at && end[-1] == '\r') --end;
    if (format_.svmlight && end > at) {
      const void* comment = std::memchr(at, '#', static_cast<size_t>(end - at));
      if (comment) end = static_cast<const uint8_t*>(comment);
    }
    if (at == end) {
      if (format_.svmlight) return true;
      ++result_.empty_at_end;
    } else {
      result_.empty_at_end = 0;
    }
    int64_t n_labels = 0, n_features = 0;
    if (at < end && !is_blank(*at) && !read_labels(&at, end, &n_labels)) return false;
    if (!read_features(at, end, &n_features)) return false;
    label_counts_[result_.rows] = n_labels;
    feature_counts_[result_.rows] = n_features;
    result_.labels += n_labels;
    result_.features += n_features;
    ++result_.rows;
    return true;
  }

  // The first token, unless it turns out to be a feature of a line without labels.
  bool read_labels(const uint8_t** start, const uint8_t* line_end, int64_t* count) {
    const uint8_t* at = *start;
    const uint8_t* const end = token_end(at, line_end);
    int32_t* const ids = labels_ + result_.labels;
    float* const weights = label_weights_ ? label_weights_ + result_.labels : nullptr;
    int64_t previous = -1;
    bool sorted = true;
    for (;;) {
      const uint8_t* const item = at;
      const uint8_t* const item_end = std::find(at, end, static_cast<uint8_t>(','));
      int64_t label = 0;
      at = read_id(at, item_end, &label);
      if (at < item_end && *at == ':' && at > item && !format_.weighted_labels) {
        if (*count > 0 || item_end != end) return fail(LineFault::label_has_weight, *start, end);
        return format_.svmlight ? true : fail(LineFault::labels_missing, *start, end);
      }
      const bool weighted = format_.weighted_labels && at < item_end && *at == ':';
      if (at == item || (at != item_end && !weighted)) {
        if (*count == 0 && format_.svmlight && end - *start > 4 && std::memcmp(*start, "qid:", 4) == 0)
          return true;
        return fail(LineFault::bad_label, item, item_end);
      }
      if (label > format_.highest_label) return fail(LineFault::label_out_of_range, item, item_end);
      if (format_.weighted_labels) {
        float weight = 1.0f;
        if (weighted && (read_float(at + 1, item_end, &weight) != DecimalFault::none || weight < 0.0f)) {
          return fail(LineFault::bad_weight, item, item_end);
        }
        weights[*count] = weight;
      }
      ids[*count] = static_cast<int32_t>(label);
      ++*count;
      sorted = sorted && label > previous;
      previous = label;
      result_.max_label = std::max(result_.max_label, label);
      at = item_end;
      if (at == end) break;
      ++at;
    }
    if (!sorted && !sort_and_merge(scratch_, count, ids, weights, true)) {
      return fail(LineFault::bad_weight, *start, end);
    }
    *start = end;
    return true;
  }

  bool read_features(const uint8_t* at, const uint8_t* end, int64_t* count) {
    int32_t* const ids = features_ + result_.features;
    float* const values = values_ + result_.features;
    const int64_t lowest = format_.lowest_feature, highest = format_.highest_feature;
    int64_t previous = -1, n = 0, low = result_.min_feature, high = result_.max_feature;
    bool sorted = true;
    for (;;) {
      while (at < end && is_blank(*at)) ++at;
      if (at == end) break;
      const uint8_t* const token = at;
      int64_t id = 0;
      at = read_id(at, end, &id);
      if (at == token || at == end || *at != ':') {
        const uint8_t* const stop = token_end(token, end);
        if (format_.svmlight && stop - token > 4 && std::memcmp(token, "qid:", 4) == 0) {
          at = stop;
          continue;
        }
        return fail(LineFault::bad_pair, token, stop);
      }
      if (id < lowest || id > highest) {
        return fail(LineFault::feature_out_of_range, token, token_end(token, end));
      }
      const uint8_t* const number = at + 1;
      at = token_end(number, end);
      float value = 0.0f;
      const DecimalFault fault = read_float(number, at, &value);
      if (fault != DecimalFault::none) {
        return fail(fault == DecimalFault::not_finite ? LineFault::not_finite : LineFault::bad_value, token,
                    at);
      }
      if (id == highest && result_.first_highest < 0) result_.first_highest = result_.lines;
      low = low < 0 || id < low ? id : low;
      high = id > high ? id : high;
      ids[n] = static_cast<int32_t>(id - lowest);
      values[n] = value;
      sorted = sorted && id > previous;
      previous = id;
      ++n;
    }
    result_.min_feature = low;
    result_.max_feature = high;
    *count = n;
    if (sorted) return true;
    return sort_and_merge(scratch_, count, ids, values, true) || fail(LineFault::not_finite, end, end);
  }

  const uint8_t* text_;
  const LineFormat& format_;
  int64_t* feature_counts_;
  int32_t* features_;
  float* values_;
  int64_t* label_counts_;
  int32_t* labels_;
  float* label_weights_;
  LinesResult result_;
  std::vector<Entry> scratch_;
};

}  // namespace

LinesBound bound_lines(const uint8_t* text, int64_t size) {
  int64_t newlines = 0, colons = 0, commas = 0;
  for (int64_t start = 0; start < size; start += 128) {
    // Counters of one byte, so that the compiler compares and adds whole registers of characters.
    const int64_t stop = std::min<int64_t>(start + 128, size);
    uint8_t n = 0, c = 0, s = 0;
    for (int64_t i = start; i < stop; ++i) {
      n = static_cast<uint8_t>(n + (text[i] == '\n'));
      c = static_cast<uint8_t>(c + (text[i] == ':'));
      s = static_cast<uint8_t>(s + (text[i] == ','));
    }
    newlines += n;
    colons += c;
    commas += s;
  }
  return {newlines + 1, colons, commas + newlines + 1};
}

LinesResult parse_lines(const uint8_t* text, int64_t size, const LineFormat& format, int64_t* feature_counts,
                        int32_t* features, float* values, int64_t* label_counts, int32_t* labels,
                        float* label_weights) {
  BlockReader reader(text, format, feature_counts, features, values, label_counts, labels, label_weights);
  return reader.read(size);
}

int64_t format_lines(int64_t first, int64_t last, const int64_t* feature_offsets, const int32_t* features,
                     const float* values, const int64_t* label_offsets, const int32_t* labels,
                     const float* label_weights, int64_t lowest_feature, uint8_t* out) {
  uint8_t* at = out;
  for (int64_t row = first; row < last; ++row) {
    for (int64_t i = label_offsets[row]; i < label_offsets[row + 1]; ++i) {
      if (i > label_offsets[row]) *at++ = ',';
      at = write_int(labels[i], at);
      if (label_weights) {
        *at++ = ':';
        at = write_float(label_weights[i], at);
      }
    }
    // The blank is written even without features: a line that starts with one is a row without labels.
    if (feature_offsets[row] == feature_offsets[row + 1]) *at++ = ' ';
    for (int64_t i = feature_offsets[row]; i < feature_offsets[row + 1]; ++i) {
      *at++ = ' ';
      at = write_int(features[i] + lowest_feature, at);
      *at++ = ':';
      at = write_float(values[i], at);
    }
    *at++ = '\n';
  }
  return at - out;
}

}  // namespace sylvan
