// The terms of a corpus: a growing table while fitting, a frozen one over borrowed arrays when transforming.
#pragma once

#include <cstdint>
#include <vector>

#include "platform.hpp"
#include "tfidf_text.hpp"

namespace sylvan {

// Part of the saved format: slots found with one hash are no use with another.
SYLVAN_INLINE uint64_t hash_term(const char* bytes, int64_t length) {
  constexpr uint64_t k1 = 0x9e3779b97f4a7c15ull, k2 = 0xd6e8feb86659fd93ull;
  uint64_t h = static_cast<uint64_t>(length) * k2;
  while (length > 8) {
    h = (h ^ load_little_endian(bytes)) * k1;
    h ^= h >> 32;
    bytes += 8;
    length -= 8;
  }
  h = (h ^ first_bytes(load_little_endian(bytes), length)) * k1;
  h = (h ^ h >> 32) * k2;
  return h ^ h >> 29;
}

SYLVAN_INLINE bool same_bytes(const char* a, const char* b, int64_t length) {
  while (length > 8) {
    if (load_little_endian(a) != load_little_endian(b)) return false;
    a += 8;
    b += 8;
    length -= 8;
  }
  return first_bytes(load_little_endian(a) ^ load_little_endian(b), length) == 0;
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
    const uint64_t hash = hash_term(bytes, length);
    table_.prefetch(hash);
    bytes_[size_] = bytes;
    lengths_[size_] = length;
    hashes_[size_] = hash;
    if (++size_ == capacity) flush();
  }
  void flush() {
    for (int i = 0; i < size_; ++i) table_.prefetch_term(hashes_[i]);
    for (int i = 0; i < size_; ++i) table_.count(bytes_[i], lengths_[i], hashes_[i]);
    size_ = 0;
  }

 private:
  static constexpr int capacity = 32;
  Table& table_;
  int size_ = 0;
  const char* bytes_[capacity];
  int64_t lengths_[capacity];
  uint64_t hashes_[capacity];
};

// Numbers terms in the order they are first seen, and counts documents for each.
class TermTable {
 public:
  static constexpr int64_t max_terms = 0x7fffffff;

  TermTable();
  int64_t size() const { return static_cast<int64_t>(terms_.size()); }
  bool overflowed() const { return overflowed_; }

  // Starts the next document, whose entries go to the end of `row`.
  void start_document(Entries* row) {
    row_ = row;
    row_start_ = row->size();
    ++document_;
  }
  SYLVAN_INLINE void prefetch(uint64_t hash) const { SYLVAN_PREFETCH(&slots_[hash & mask_]); }
  SYLVAN_INLINE void prefetch_term(uint64_t hash) const {
    const uint64_t slot = slots_[hash & mask_];
    if (slot != 0) SYLVAN_PREFETCH(&terms_[static_cast<size_t>((slot & 0xffffffffu) - 1)]);
  }
  SYLVAN_INLINE void count(const char* bytes, int64_t length, uint64_t hash) {
    const int64_t id = find_or_add(bytes, length, hash);
    if (id < 0) return;
    Term& term = terms_[static_cast<size_t>(id)];
    if (term.document == document_) {
      ++(*row_)[row_start_ + term.position];
    } else {
      term.document = document_;
      term.position = static_cast<uint32_t>(row_->size() - row_start_);
      ++term.n_documents;
      row_->push_back(static_cast<uint64_t>(id) << 32 | 1);
    }
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
    uint64_t head;  // the first 8 bytes, zeros after the end
    uint64_t begin;
    uint32_t length;
    uint32_t document, position;  // last document seen in, and its place among that document's entries
    uint32_t n_documents;
  };
  SYLVAN_INLINE int64_t find_or_add(const char* bytes, int64_t length, uint64_t hash) {
    const uint64_t tag = hash & 0xffffffff00000000ull;
    const uint64_t head = first_bytes(load_little_endian(bytes), length < 8 ? length : 8);
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) return add(bytes, length, hash, head, at);
      if ((slot & 0xffffffff00000000ull) != tag) continue;
      const Term& term = terms_[static_cast<size_t>((slot & 0xffffffffu) - 1)];
      if (term.head == head && term.length == static_cast<uint64_t>(length) &&
          (length <= 8 || same_bytes(bytes + 8, bytes_.data() + term.begin + 8, length - 8))) {
        return static_cast<int64_t>((slot & 0xffffffffu) - 1);
      }
    }
  }
  int64_t add(const char* bytes, int64_t length, uint64_t hash, uint64_t head, uint64_t at);
  void grow();

  std::vector<Term> terms_;
  std::vector<char> bytes_;  // one term after the other, then slice_padding more
  std::vector<uint64_t> slots_;
  uint64_t mask_;
  uint32_t document_ = 0;
  Entries* row_ = nullptr;
  size_t row_start_ = 0;
  bool overflowed_ = false;
};

// A fitted vocabulary over borrowed, verified arrays.
struct FrozenTerms {
  const char* bytes;  // with slice_padding bytes after the last term
  const int64_t* offsets;
  const uint64_t* slots;
  uint64_t mask;  // number of slots, a power of two, minus one

  // The column of a term, -1 for one that is not in the vocabulary.
  SYLVAN_INLINE int64_t find(const char* term, int64_t length, uint64_t hash) const {
    for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
      const uint64_t slot = slots[at];
      if (slot == 0) return -1;
      if ((slot ^ hash) >> 32 != 0) continue;
      const int64_t id = static_cast<int64_t>((slot & 0xffffffffu) - 1);
      const int64_t begin = offsets[id];
      if (offsets[id + 1] - begin == length && same_bytes(term, bytes + begin, length)) return id;
    }
  }
};

// Counts the known terms of one document at a time.
class TermCounter {
 public:
  explicit TermCounter(const FrozenTerms& terms);
  void start_document(Entries* row);
  SYLVAN_INLINE void prefetch(uint64_t hash) const { SYLVAN_PREFETCH(&terms_.slots[hash & terms_.mask]); }
  SYLVAN_INLINE void prefetch_term(uint64_t hash) const {
    const uint64_t slot = terms_.slots[hash & terms_.mask];
    if (slot != 0) SYLVAN_PREFETCH(&terms_.offsets[(slot & 0xffffffffu) - 1]);
  }
  SYLVAN_INLINE void count(const char* bytes, int64_t length, uint64_t hash) {
    const int64_t id = terms_.find(bytes, length, hash);
    if (id < 0) return;
    for (uint64_t at = (static_cast<uint64_t>(id) * 0x9e3779b1u >> 4) & mask_;; at = (at + 1) & mask_) {
      if (places_[at] == 0) {
        places_[at] = static_cast<uint32_t>(row_->size() - row_start_) + 1;
        row_->push_back(static_cast<uint64_t>(id) << 32 | 1);
        if (2 * (row_->size() - row_start_) > places_.size()) grow();
        return;
      }
      uint64_t& entry = (*row_)[row_start_ + places_[at] - 1];
      if (entry >> 32 == static_cast<uint64_t>(id)) {
        ++entry;
        return;
      }
    }
  }

 private:
  void grow();

  FrozenTerms terms_;
  std::vector<uint32_t> places_;  // hash table from a column to its place in the row, plus one
  uint64_t mask_;
  Entries* row_ = nullptr;
  size_t row_start_ = 0;
};

// The least number of slots (a power of two) that `n_terms` terms are put in.
int64_t n_slots_for(int64_t n_terms);
// Puts every term into `slots`, which are zero and n_slots_for(n_terms) many.
void fill_slots(const char* bytes, const int64_t* offsets, int64_t n_terms, uint64_t* slots, int64_t n_slots);

enum class TermsFault : int {
  none = 0,
  offsets = 1,    // not strictly rising from 0 to the padding of the bytes
  order = 2,      // the terms are not in strictly rising order
  slots = 3,      // a slot names no term, or the number of full slots is not the number of terms
  slot_count = 4  // the number of slots is no power of two, or leaves none empty
};

// Verifies everything that FrozenTerms trusts; `n_bytes` includes the padding.
TermsFault check_terms(const char* bytes, int64_t n_bytes, const int64_t* offsets, int64_t n_terms,
                       const uint64_t* slots, int64_t n_slots);

}  // namespace sylvan
