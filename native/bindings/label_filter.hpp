// Labels that are allowed or denied, as Python hands them to the kernels.
#pragma once

#include <optional>
#include <vector>

#include "base/label_filter.hpp"
#include "bindings/bindings.hpp"

// A tree's paths, verified once; owns references to the arrays that kernels borrow.
struct Paths {
  std::vector<In<int32_t>> arrays;
  In<int64_t> offsets;
  In<int32_t> leaf_labels;
  sylvan::LabelPaths view{};
};

// What a call restricts its answers to: labels listed for every row, and for single rows in addition.
struct Listed {
  bool allowed;
  In<int32_t> shared;
  std::optional<In<int64_t>> row_offsets;
  In<int32_t> row_labels;

  // The rows' own lists from row `first` on; only where there are row_offsets.
  sylvan::RowLabels rows(int64_t first) const { return {row_offsets->data() + first, row_labels.data()}; }
};

// Whether the lists of rows first to last - 1 may be trusted.
void need_listed(const Listed& listed, int64_t n_labels, int64_t first, int64_t last);
