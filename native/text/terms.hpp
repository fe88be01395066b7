// The terms of a corpus: a growing table while fitting, a frozen one over borrowed arrays when transforming.
#pragma once

#include <cstdint>
#include <vector>

#include "base/platform.hpp"
#include "text/ngrams.hpp"

namespace sylvan {

// An n-gram, with what is read of it once: its first 16 bytes (zeros after the end) and its hash.
struct Gram {
  const char* bytes;
  int64_t length;
  uint64_t head, next;
  uint64_t hash;
};

// The hash is part of the saved format: slots filled with one hash are useless with another.
SYLVAN_INLINE Gram make_gram(const char* bytes, int64_t length) {
  constexpr uint64_t k1 = 0x9e3779b97f4a7c15ull, k2 = 0xd6e8feb86659fd93ull, k3 = 0xc2b2ae3d27d4eb4full;
  const uint64_t head = first_bytes(load_little_endian(bytes), length);
  const uint64_t next = first_bytes(load_little_endian(bytes + 8), length - 8);
  uint64_t h = head * k1 ^ (next + static_cast<uint64_t>(length)) * k2;
  for (int64_t at = 16; at < length; at += 8) {
    h = (h ^ h >> 32) * k3;
    h ^= first_bytes(load_little_endian(bytes + at), length - at);
  }
  h = (h ^ h >> 32) * k3;
  return Gram{bytes, length, head, next, h ^ h >> 29};
}

// Whether the bytes from 16 on are the same.
SYLVAN_INLINE bool same_rest(const char* a, const char* b, int64_t length) {
  for (int64_t at = 16; at < length; at += 8) {
    const uint64_t differ = load_little_endian(a + at) ^ load_little_endian(b + at);
    if (first_bytes(differ, length - at) != 0) return false;
  }
  return true;
}

// A slot holds the high half of a term's hash and the term's number plus one; an empty slot is 0.
SYLVAN_INLINE uint64_t make_slot(uint64_t hash, uint64_t term) {
  return (hash & 0xffffffff00000000ull) | (term + 1);
}

// A row is a list of entries: a term's number in the high half, how often it occurs in the low half.
using Entries = std::vector<uint64_t>;

// Hashes n-grams a few at a time, so that the slots of later ones arrive while earlier ones are counted.
template <typename Table>
class Batch {
 public:
  explicit Batch(Table& table) : table_(table) {}
  SYLVAN_INLINE void operator()(const char* bytes, int64_t length) {
    grams_[size_] = make_gram(bytes, length);
    table_.prefetch(grams_[size_].hash);
    if (++size_ == batch_size) flush();
  }
  void flush() {
    table_.reserve_row(size_);
    for (int i = 0; i < size_; ++i) table_.prefetch_term(grams_[i].hash);
    for (int i = 0; i < size_; ++i) table_.count(grams_[i]);
    size_ = 0;
  }

 private:
  static constexpr int batch_size = 32;
  Table& table_;
  int size_ = 0;
  Gram grams_[batch_size];
};

// Numbers terms in the order they are first seen, and counts documents for each.
class TermTable {
 public:
  static constexpr int64_t max_terms = 0x7fffffff;

  TermTable();
  int64_t size() const { return static_cast<int64_t>(terms_.size()); }
  bool overflowed() const { return overflowed_; }

  void start_document() {
    row_size_ = 0;
    ++document_;
  }
  // Makes room for `n` more entries of the document.
  void reserve_row(int64_t n) {
    if (row_size_ + static_cast<uint64_t>(n) > row_.size())
      row_.resize(2 * row_.size() + static_cast<size_t>(n));
  }
  SYLVAN_INLINE void prefetch(uint64_t hash) const { SYLVAN_PREFETCH(&slots_[hash & mask_]); }
  SYLVAN_INLINE void prefetch_term(uint64_t hash) const {
    const uint64_t slot = slots_[hash & mask_];
    if (slot != 0) SYLVAN_PREFETCH(&terms_[static_cast<size_t>((slot & 0xffffffffu) - 1)]);
  }
  // Whether a term is new to the document is unpredictable, so it is a mask and not a branch.
  SYLVAN_INLINE void count(const Gram& gram) {
    const int64_t id = find_or_add(gram);
    if (id < 0) return;
    Term& term = terms_[static_cast<size_t>(id)];
    const uint64_t fresh = term.document != document_, mask = 0 - fresh;
    const uint64_t place = (row_size_ & mask) | (term.place & ~mask);
    row_[place] = ((static_cast<uint64_t>(id) << 32 & mask) | (row_[place] & ~mask)) + 1;
    row_size_ += fresh;
    term.document = document_;
    term.place = static_cast<uint32_t>(place);
    term.n_documents += static_cast<uint32_t>(fresh);
  }
  void end_document(Entries& entries) const {
    entries.insert(entries.end(), row_.data(), row_.data() + row_size_);
  }

  // Adds the terms of `other`; map[i] becomes the number here of its term i (-1 after an overflow).
  void absorb(const TermTable& other, int32_t* map);
  // n_documents[i] becomes the number of documents with term i.
  void document_frequencies(int32_t* n_documents) const;
  // Sorts `n` term numbers, each below size(), by the terms' bytes, which is the order of their code points.
  void sort(int32_t* ids, int64_t n) const;
  // offsets[i] is where the bytes of term ids[i] begin; offsets[n] where the last end.
  void measure(const int32_t* ids, int64_t n, int64_t* offsets) const;
  void copy_bytes(const int32_t* ids, int64_t n, const int64_t* offsets, char* bytes) const;

 private:
  struct Term {
    uint64_t head, next;  // the first 16 bytes, zeros after the end
    uint64_t begin;
    uint32_t length;
    uint32_t document, place;  // last document seen in, and its place among that document's entries
    uint32_t n_documents;
  };
  SYLVAN_INLINE int64_t find_or_add(const Gram& gram) {
    for (uint64_t at = gram.hash & mask_;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) return add(gram, at);
      if ((slot ^ gram.hash) >> 32 != 0) continue;
      const Term& term = terms_[static_cast<size_t>((slot & 0xffffffffu) - 1)];
      const uint64_t differ = (term.head ^ gram.head) | (term.next ^ gram.next) |
                              (static_cast<uint64_t>(gram.length) ^ term.length);
      if (differ == 0 && same_rest(gram.bytes, bytes_.data() + term.begin, gram.length)) {
        return static_cast<int64_t>((slot & 0xffffffffu) - 1);
      }
    }
  }
  int64_t add(const Gram& gram, uint64_t at);
  void grow();

  std::vector<Term> terms_;
  std::vector<char> bytes_;  // one term after the other, then slice_padding more
  std::vector<uint64_t> slots_;
  uint64_t mask_;
  uint32_t document_ = 0;
  Entries row_;  // the entries of this document, and room for more
  uint64_t row_size_ = 0;
  bool overflowed_ = false;
};

// A fitted vocabulary over borrowed, verified arrays.
struct FrozenTerms {
  const char* bytes;  // with slice_padding bytes after the last term
  const int64_t* offsets;
  const uint64_t* slots;
  uint64_t mask;  // number of slots, a power of two, minus one

  // The column of a term, -1 for one that is not in the vocabulary.
  SYLVAN_INLINE int64_t find(const Gram& gram) const {
    for (uint64_t at = gram.hash & mask;; at = (at + 1) & mask) {
      const uint64_t slot = slots[at];
      if (slot == 0) return -1;
      if ((slot ^ gram.hash) >> 32 != 0) continue;
      const int64_t id = static_cast<int64_t>((slot & 0xffffffffu) - 1);
      const int64_t begin = offsets[id];
      if (offsets[id + 1] - begin != gram.length) continue;
      const uint64_t head = first_bytes(load_little_endian(bytes + begin), gram.length);
      const uint64_t next = first_bytes(load_little_endian(bytes + begin + 8), gram.length - 8);
      const uint64_t differ = (head ^ gram.head) | (next ^ gram.next);
      if (differ == 0 && same_rest(gram.bytes, bytes + begin, gram.length)) return id;
    }
  }
};

// Sorts by the bits from `shift` on, of which `n_bits` may be set; `spare` is scratch.
template <typename Value>
void sort_by_bits(Value* values, size_t n, int shift, int n_bits, std::vector<Value>& spare);

// Counts the known terms of one document at a time.
class TermCounter {
 public:
  TermCounter(const FrozenTerms& terms, int64_t n_terms);
  void start_document() { size_ = 0; }
  void reserve_row(int64_t n) {
    if (size_ + static_cast<size_t>(n) > columns_.size())
      columns_.resize(2 * columns_.size() + static_cast<size_t>(n));
  }
  SYLVAN_INLINE void prefetch(uint64_t hash) const { SYLVAN_PREFETCH(&terms_.slots[hash & terms_.mask]); }
  SYLVAN_INLINE void prefetch_term(uint64_t hash) const {
    const uint64_t slot = terms_.slots[hash & terms_.mask];
    if (slot != 0) SYLVAN_PREFETCH(&terms_.offsets[(slot & 0xffffffffu) - 1]);
  }
  SYLVAN_INLINE void count(const Gram& gram) {
    const int64_t id = terms_.find(gram);
    columns_[size_] = static_cast<uint32_t>(id);
    size_ += id >= 0;
  }
  // Sorts the columns found and appends an entry for each different one.
  void end_document(Entries& entries);

 private:
  FrozenTerms terms_;
  int n_bits_;
  std::vector<uint32_t> columns_, spare_;  // a column for every known n-gram, in the order of the text
  size_t size_ = 0;
};

// The least number of slots (a power of two) that `n_terms` terms are put in.
int64_t n_slots_for(int64_t n_terms);
// How many bits the numbers below `n` have.
int bits_below(int64_t n);
// Puts every term into `slots`, which are zero and n_slots_for(n_terms) many.
void fill_slots(const char* bytes, const int64_t* offsets, int64_t n_terms, uint64_t* slots, int64_t n_slots);

enum class TermsFault : int {
  none = 0,
  offsets = 1,    // not strictly increasing from 0 to the padding of the bytes
  order = 2,      // the terms are not in strictly ascending order
  slots = 3,      // a slot names no term, or the number of full slots is not the number of terms
  slot_count = 4  // the number of slots is no power of two, or leaves none empty
};

// Verifies everything that FrozenTerms trusts; `n_bytes` includes the padding. Terms rise from the first on,
// and again from each of `runs` on, rising places where terms were added.
TermsFault check_terms(const char* bytes, int64_t n_bytes, const int64_t* offsets, int64_t n_terms,
                       const uint64_t* slots, int64_t n_slots, const int64_t* runs, int64_t n_runs);

}  // namespace sylvan
