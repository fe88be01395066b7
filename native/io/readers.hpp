// Reads and writes sparse matrices as text: lines of the XMC repository and multi-label svmlight.
#pragma once

#include <cstdint>

namespace sylvan {

// How a line is to be read: `labels features`, where labels are `1,5,7` and features `3:0.5 9:1`.
struct LineFormat {
  int64_t lowest_feature;   // 0, or 1 where features are counted from one
  int64_t highest_feature;  // the last id allowed, as written in the file
  int64_t highest_label;
  bool weighted_labels;  // labels are `1:0.5,7:2`, and the first token is always the labels
  bool svmlight;         // comments, qid:, skipped empty lines, and a line may start with its features
};

enum class LineFault : int {
  none = 0,
  bad_label = 1,             // not digits
  label_out_of_range = 2,    //
  bad_weight = 3,            // a label's weight is no number, negative, or not finite
  label_has_weight = 4,      // `1:0.5,7:2` though weights were not announced
  labels_missing = 5,        // the line starts with a feature, without the blank that says "no labels"
  bad_pair = 6,              // not `feature:value`
  feature_out_of_range = 7,  //
  bad_value = 8,             // not a number
  not_finite = 9,            // NaN, an infinity, or beyond float32 (also a sum of repeated entries)
};

// The content of a block of lines. On a fault `line` is the line (0 for the block's first), and
// [begin, end) the bytes of the token at fault.
struct LinesResult {
  int64_t rows = 0, lines = 0, features = 0, labels = 0;
  int64_t min_feature = -1, max_feature = -1, max_label = -1;
  int64_t empty_at_end = 0;    // lines without any character that end the block
  int64_t first_highest = -1;  // line where the highest feature allowed stands first
  LineFault fault = LineFault::none;
  int64_t line = -1, begin = 0, end = 0;
};

// Upper bounds for the outputs of `parse_lines`.
struct LinesBound {
  int64_t rows, features, labels;
};
LinesBound bound_lines(const uint8_t* text, int64_t size);

// Fills the arrays, each as long as `bound_lines` says (`label_weights` may be null without weights). Rows
// come out sorted, repeated features and weighted labels summed, repeated plain labels taken once.
LinesResult parse_lines(const uint8_t* text, int64_t size, const LineFormat& format, int64_t* feature_counts,
                        int32_t* features, float* values, int64_t* label_counts, int32_t* labels,
                        float* label_weights);

// Bytes that one entry may take when written.
constexpr int64_t bytes_per_entry = 32;

// Writes rows [first, last) as lines; `out` holds bytes_per_entry * (entries + rows). A null `label_weights`
// omits the weights. Returns the number of bytes written.
int64_t format_lines(int64_t first, int64_t last, const int64_t* feature_offsets, const int32_t* features,
                     const float* values, const int64_t* label_offsets, const int32_t* labels,
                     const float* label_weights, int64_t lowest_feature, uint8_t* out);

}  // namespace sylvan
