#include "text/terms.hpp"

#include <algorithm>
#include <cstring>

namespace sylvan {
namespace {

constexpr size_t first_slots = 1 << 12;

uint64_t big_endian(uint64_t value) {
  value = (value & 0x00ff00ff00ff00ffull) << 8 | (value >> 8 & 0x00ff00ff00ff00ffull);
  value = (value & 0x0000ffff0000ffffull) << 16 | (value >> 16 & 0x0000ffff0000ffffull);
  return value << 32 | value >> 32;
}

int compare(const char* a, int64_t a_length, const char* b, int64_t b_length) {
  const int64_t both = std::min(a_length, b_length);
  const int order = std::memcmp(a, b, static_cast<size_t>(both));
  return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

// No early exit in these two: the arrays are long and nearly always valid.
SYLVAN_CLONES
bool strictly_increasing(const int64_t* offsets, int64_t n) {
  int64_t falls = 0;
  for (int64_t i = 0; i < n; ++i) falls += offsets[i + 1] <= offsets[i];
  return falls == 0;
}

SYLVAN_CLONES
bool slots_name_terms(const uint64_t* slots, int64_t n_slots, int64_t n_terms) {
  const uint64_t most = static_cast<uint64_t>(n_terms);
  uint64_t n_full = 0, n_wrong = 0;
  for (int64_t i = 0; i < n_slots; ++i) {
    const uint64_t full = slots[i] != 0, place = (slots[i] & 0xffffffffu) - 1;  // all ones for no place
    n_full += full;
    n_wrong += full & static_cast<uint64_t>(place >= most);
  }
  return n_wrong == 0 && n_full == most;
}

}  // namespace

TermTable::TermTable() : bytes_(slice_padding), slots_(first_slots), mask_(first_slots - 1) {}

int64_t TermTable::add(const Gram& gram, uint64_t at) {
  if (size() >= max_terms) {
    overflowed_ = true;
    return -1;
  }
  const uint64_t id = terms_.size();
  const size_t begin = bytes_.size() - slice_padding;
  terms_.push_back(Term{gram.head, gram.next, begin, static_cast<uint32_t>(gram.length), 0, 0, 0});
  bytes_.resize(bytes_.size() + static_cast<size_t>(gram.length));
  std::memcpy(bytes_.data() + begin, gram.bytes, static_cast<size_t>(gram.length));
  slots_[at] = make_slot(gram.hash, id);
  if (terms_.size() * 4 > slots_.size() * 3) grow();
  return static_cast<int64_t>(id);
}

void TermTable::grow() {
  // The low half of a hash isn't stored, so it is computed again; terms are visited in the order of their
  // bytes.
  std::vector<uint64_t> slots(slots_.size() * 2);
  mask_ = slots.size() - 1;
  for (size_t id = 0; id < terms_.size(); ++id) {
    const Term& term = terms_[id];
    const uint64_t hash = make_gram(bytes_.data() + term.begin, term.length).hash;
    uint64_t at = hash & mask_;
    while (slots[at] != 0) at = (at + 1) & mask_;
    slots[at] = make_slot(hash, id);
  }
  slots_.swap(slots);
}

void TermTable::absorb(const TermTable& other, int32_t* map) {
  constexpr size_t ahead = 16;
  Gram grams[ahead];
  for (size_t from = 0; from < other.terms_.size(); from += ahead) {
    const size_t n = std::min(ahead, other.terms_.size() - from);
    for (size_t i = 0; i < n; ++i) {
      const Term& term = other.terms_[from + i];
      grams[i] = make_gram(other.bytes_.data() + term.begin, term.length);
      prefetch(grams[i].hash);
    }
    for (size_t i = 0; i < n; ++i) {
      const int64_t id = find_or_add(grams[i]);
      map[from + i] = static_cast<int32_t>(id);
      if (id >= 0) terms_[static_cast<size_t>(id)].n_documents += other.terms_[from + i].n_documents;
    }
  }
}

void TermTable::document_frequencies(int32_t* n_documents) const {
  for (size_t i = 0; i < terms_.size(); ++i) n_documents[i] = static_cast<int32_t>(terms_[i].n_documents);
}

void TermTable::sort(int32_t* ids, int64_t n) const {
  struct Key {
    uint64_t head;
    int32_t id;
  };
  std::vector<Key> keys(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    keys[static_cast<size_t>(i)] = Key{big_endian(terms_[static_cast<size_t>(ids[i])].head), ids[i]};
  }
  std::sort(keys.begin(), keys.end(), [this](const Key& a, const Key& b) {
    if (a.head != b.head) return a.head < b.head;
    const Term& s = terms_[static_cast<size_t>(a.id)];
    const Term& t = terms_[static_cast<size_t>(b.id)];
    return compare(bytes_.data() + s.begin, s.length, bytes_.data() + t.begin, t.length) < 0;
  });
  for (int64_t i = 0; i < n; ++i) ids[i] = keys[static_cast<size_t>(i)].id;
}

void TermTable::measure(const int32_t* ids, int64_t n, int64_t* offsets) const {
  offsets[0] = 0;
  for (int64_t i = 0; i < n; ++i) {
    offsets[i + 1] = offsets[i] + static_cast<int64_t>(terms_[static_cast<size_t>(ids[i])].length);
  }
}

void TermTable::copy_bytes(const int32_t* ids, int64_t n, const int64_t* offsets, char* bytes) const {
  for (int64_t i = 0; i < n; ++i) {
    const Term& term = terms_[static_cast<size_t>(ids[i])];
    std::memcpy(bytes + offsets[i], bytes_.data() + term.begin, term.length);
  }
}

template <typename Value>
void sort_by_bits(Value* values, size_t n, int shift, int n_bits, std::vector<Value>& spare) {
  constexpr int most_digits = 4;
  if (n < 48 || n_bits > 8 * most_digits) {
    std::sort(values, values + n);
    return;
  }
  if (spare.size() < n) spare.resize(n + n / 2);
  const int n_digits = (n_bits + 7) / 8, digit = (n_bits + n_digits - 1) / n_digits;
  const Value mask = (Value{1} << digit) - 1;
  uint32_t starts[most_digits][256] = {};
  for (size_t i = 0; i < n; ++i) {
    for (int d = 0; d < n_digits; ++d) ++starts[d][values[i] >> (shift + d * digit) & mask];
  }
  Value* from = values;
  Value* to = spare.data();
  for (int d = 0; d < n_digits; ++d) {
    uint32_t sum = 0;
    for (int i = 0; i <= static_cast<int>(mask); ++i) {
      const uint32_t here = starts[d][i];
      starts[d][i] = sum;
      sum += here;
    }
    for (size_t i = 0; i < n; ++i) to[starts[d][from[i] >> (shift + d * digit) & mask]++] = from[i];
    std::swap(from, to);
  }
  if (from != values) std::memcpy(values, from, n * sizeof(Value));
}

template void sort_by_bits(uint32_t*, size_t, int, int, std::vector<uint32_t>&);
template void sort_by_bits(uint64_t*, size_t, int, int, std::vector<uint64_t>&);

int bits_below(int64_t n) {
  int bits = 1;
  while (bits < 63 && n > int64_t{1} << bits) ++bits;
  return bits;
}

TermCounter::TermCounter(const FrozenTerms& terms, int64_t n_terms)
    : terms_(terms), n_bits_(bits_below(n_terms)) {}

void TermCounter::end_document(Entries& entries) {
  sort_by_bits(columns_.data(), size_, 0, n_bits_, spare_);
  for (size_t i = 0; i < size_;) {
    const uint64_t column = columns_[i];
    size_t end = i + 1;
    while (end < size_ && columns_[end] == column) ++end;
    entries.push_back(column << 32 | static_cast<uint64_t>(end - i));
    i = end;
  }
}

int64_t n_slots_for(int64_t n_terms) {
  int64_t n_slots = 8;
  while (n_slots * 3 < n_terms * 4) n_slots *= 2;
  return n_slots;
}

void fill_slots(const char* bytes, const int64_t* offsets, int64_t n_terms, uint64_t* slots,
                int64_t n_slots) {
  const uint64_t mask = static_cast<uint64_t>(n_slots) - 1;
  for (int64_t i = 0; i < n_terms; ++i) {
    const uint64_t hash = make_gram(bytes + offsets[i], offsets[i + 1] - offsets[i]).hash;
    uint64_t at = hash & mask;
    while (slots[at] != 0) at = (at + 1) & mask;
    slots[at] = make_slot(hash, static_cast<uint64_t>(i));
  }
}

TermsFault check_terms(const char* bytes, int64_t n_bytes, const int64_t* offsets, int64_t n_terms,
                       const uint64_t* slots, int64_t n_slots, const int64_t* runs, int64_t n_runs) {
  if (n_slots <= n_terms || (n_slots & (n_slots - 1)) != 0) return TermsFault::slot_count;
  if (offsets[0] != 0 || offsets[n_terms] != n_bytes - slice_padding) return TermsFault::offsets;
  if (!strictly_increasing(offsets, n_terms)) return TermsFault::offsets;
  uint64_t before = 0;
  int64_t run = 0;
  for (int64_t i = 0; i < n_terms; ++i) {
    const int64_t begin = offsets[i], length = offsets[i + 1] - begin;
    const uint64_t head = big_endian(first_bytes(load_little_endian(bytes + begin), length));
    const bool first = i == 0 || (run < n_runs && runs[run] == i);
    if (first && i > 0) ++run;
    if (!first && head < before) return TermsFault::order;
    if (!first && head == before) {  // the same first 8 bytes, or one of them ends before the eighth
      const int64_t last = offsets[i - 1];
      if (compare(bytes + last, begin - last, bytes + begin, length) >= 0) return TermsFault::order;
    }
    before = head;
  }
  return slots_name_terms(slots, n_slots, n_terms) ? TermsFault::none : TermsFault::slots;
}

}  // namespace sylvan
