// From the characters of a document to its words, in order: lower-cased, with where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/characters.hpp"

namespace sylvan {

// One document: `length` code points of `width` (1, 2 or 4) bytes each.
struct Characters {
  const void* data;
  int64_t length;
  int width;
};

// table[c] is the code point that c becomes (low 21 bits) and what kind c is; code points beyond the table
// are of no kind, but for variation selectors, which are what those in the table are. Letters, marks and
// single characters are those of base/characters.hpp, by the same bits.
constexpr uint32_t word_code_mask = 0x1fffffu;
constexpr uint32_t word_stop_bit = 1u << 24;    // ends a sentence
constexpr uint32_t word_period_bit = 1u << 25;  // may end one
constexpr uint32_t word_line_bit = 1u << 26;    // a line's end; two of them end a sentence
constexpr uint32_t word_lower_bit = 1u << 27;   // a lower-case letter, or a digit
constexpr uint32_t word_upper_bit = 1u << 28;   // a capital
constexpr uint32_t word_mark_bit = 1u << 29;    // part of the word that it stands in
constexpr uint32_t word_single_bit = 1u << 30;  // a word by itself, with its marks
constexpr uint32_t word_letter_bit = 1u << 31;

// What is known of one place of a word.
constexpr uint8_t word_is_capital = 1;  // it begins with a capital
constexpr uint8_t word_begins_sentence = 2;

// The words of documents: numbers of distinct words, and each distinct word once.
class WordReader {
 public:
  WordReader(const uint32_t* table, int64_t table_size);

  // Appends the words of one document; false when there are more distinct words than an int32 counts.
  bool read(const Characters& text);

  std::vector<int32_t> words;   // the number of a distinct word, a place
  std::vector<int32_t> starts;  // its first code point in its document
  std::vector<int32_t> ends;    // the one behind its last
  std::vector<uint8_t> kinds;   // word_is_capital, word_begins_sentence
  std::vector<uint8_t>
      bytes;  // the distinct words in UTF-8, each with a zero behind it, in the order of first mention
  std::vector<int64_t> offsets;  // where each begins, and where the last one's zero is behind

 private:
  template <typename Unit>
  bool read_units(const Unit* text, int64_t length);
  template <typename Unit>
  uint32_t look_up(Unit unit) const {
    if (sizeof(Unit) < 4) return table_[unit];
    if (static_cast<int64_t>(unit) < table_size_) return table_[unit];
    const uint32_t code = unit;
    const bool selects = code - more_selectors < n_more_selectors;
    return (selects ? table_[last_selector] & ~word_code_mask : 0) | (code & word_code_mask);
  }
  bool end_word(int64_t start, int64_t end, uint8_t kind);
  void write(uint32_t code_point);
  void grow();

  const uint32_t* table_;
  int64_t table_size_;
  std::vector<char> word_;  // the one being read: n_bytes_ of these
  size_t n_bytes_ = 0;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> hashes_;
};

}  // namespace sylvan
