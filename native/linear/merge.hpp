// Merges several rankings of the same rows into one.
#pragma once

#include <cstdint>

namespace sylvan {

// For each row the k labels of the highest sums, best first, lower label first among equals: `labels` and
// `values`, both (n_rows, width), are pairs of a label and its value there, added from left to right. Labels
// below 0 are skipped. -1 and -inf end a shorter answer. Returns false when memory runs out.
bool merge_rankings(int64_t n_rows, int64_t width, const int32_t* labels, const float* values, int64_t k,
                    int32_t* out_labels, float* out_scores);

}  // namespace sylvan
