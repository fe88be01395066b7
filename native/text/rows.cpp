#include "text/rows.hpp"

#include <algorithm>
#include <cmath>

namespace sylvan {
namespace {

template <typename Table>
void scan_documents(const std::vector<TextView>& texts, const TextSettings& settings, Table& table,
                    Entries& entries, int64_t* ends) {
  TextScanner scanner(settings);
  Batch<Table> batch(table);
  for (size_t i = 0; i < texts.size(); ++i) {
    scanner.scan(texts[i]);
    table.start_document();
    scanner.ngrams(batch);
    batch.flush();
    table.end_document(entries);
    ends[i] = static_cast<int64_t>(entries.size());
  }
}

bool rows_in_range(const int64_t* indptr, int64_t n_rows, int64_t n_entries) {
  if (indptr[0] != 0 || indptr[n_rows] != n_entries) return false;
  for (int64_t r = 0; r < n_rows; ++r) {
    if (indptr[r + 1] < indptr[r]) return false;
  }
  return true;
}

// 1 + log(count), tabulated for small counts, which are the most frequent.
class Logarithms {
 public:
  Logarithms() {
    for (int i = 1; i < size; ++i) values_[i] = 1.0 + std::log(static_cast<double>(i));
  }
  double operator()(uint32_t count) const {
    return count < size ? values_[count] : 1.0 + std::log(static_cast<double>(count));
  }

 private:
  static constexpr int size = 64;
  double values_[size] = {};
};

}  // namespace

void count_documents(const std::vector<TextView>& texts, const TextSettings& settings, TermTable& table,
                     Entries& entries, int64_t* ends) {
  scan_documents(texts, settings, table, entries, ends);
}

void look_up_documents(const std::vector<TextView>& texts, const TextSettings& settings,
                       const FrozenTerms& terms, int64_t n_terms, Entries& entries, int64_t* ends) {
  TermCounter counter(terms, n_terms);
  scan_documents(texts, settings, counter, entries, ends);
}

bool add_totals(const uint64_t* entries, int64_t n_entries, int64_t* totals, int64_t n_terms) {
  for (int64_t i = 0; i < n_entries; ++i) {
    const int64_t term = static_cast<int64_t>(entries[i] >> 32);
    if (term >= n_terms) return false;
    totals[term] += static_cast<int64_t>(entries[i] & 0xffffffffu);
  }
  return true;
}

bool select_columns(uint64_t* entries, int64_t n_entries, int64_t* indptr, int64_t n_rows,
                    const int32_t* column_of, int64_t n_terms) {
  if (!rows_in_range(indptr, n_rows, n_entries)) return false;
  int32_t n_columns = 0;
  for (int64_t i = 0; i < n_terms; ++i) n_columns = std::max(n_columns, column_of[i]);
  const int n_bits = bits_below(int64_t{n_columns} + 1);
  Entries spare;
  int64_t n_written = 0, from = 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t start = n_written, to = indptr[r + 1];
    for (int64_t i = from; i < to; ++i) {
      const uint64_t entry = entries[i];
      const int64_t term = static_cast<int64_t>(entry >> 32);
      if (term >= n_terms) return false;
      const int32_t column = column_of[term];
      entries[n_written] = static_cast<uint64_t>(static_cast<uint32_t>(column)) << 32 | (entry & 0xffffffffu);
      n_written += column >= 0;
    }
    sort_by_bits(entries + start, static_cast<size_t>(n_written - start), 32, n_bits, spare);
    from = to;
    indptr[r + 1] = n_written;
  }
  return true;
}

bool weigh_rows(const uint64_t* entries, int64_t n_entries, const int64_t* indptr, int64_t n_rows,
                int64_t n_columns, const Weighting& weighting, int32_t* indices, float* data) {
  if (!rows_in_range(indptr, n_rows, n_entries)) return false;
  const Logarithms logarithm;
  std::vector<double> row;
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t start = indptr[r], size = indptr[r + 1] - start;
    row.resize(static_cast<size_t>(size));
    double total = 0.0;
    for (int64_t i = 0; i < size; ++i) {
      const uint64_t entry = entries[start + i];
      const int64_t column = static_cast<int64_t>(entry >> 32);
      const uint32_t count = static_cast<uint32_t>(entry);
      if (column >= n_columns) return false;
      double value = weighting.sublinear ? logarithm(count) : static_cast<double>(count);
      if (weighting.idf != nullptr) value *= static_cast<double>(weighting.idf[column]);
      total += weighting.norm == Norm::l2 ? value * value : std::fabs(value);
      row[static_cast<size_t>(i)] = value;
      indices[start + i] = static_cast<int32_t>(column);
    }
    if (weighting.norm == Norm::l2) total = std::sqrt(total);
    const double scale = weighting.norm == Norm::none || total == 0.0 ? 1.0 : total;
    for (int64_t i = 0; i < size; ++i) {
      data[start + i] = static_cast<float>(row[static_cast<size_t>(i)] / scale);
    }
  }
  return true;
}

}  // namespace sylvan
