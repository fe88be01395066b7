// From the characters of a document to the byte slices of its tokens or n-grams.
//
// A scanner lower-cases one document into its own buffer as UTF-8 (lone surrogates as three bytes each) and
// leaves there what has to be counted, laid out so that every n-gram is one contiguous slice: words with one
// space between them, characters as they come, words padded with spaces for char_wb.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/characters.hpp"
#include "base/platform.hpp"

namespace sylvan {

// One document: `length` characters, a byte each when all are below 128 (`ascii`), otherwise code points of
// four.
struct TextView {
  const void* data;
  int64_t length;
  bool ascii;
};

enum class Analyzer : int { word = 0, chars = 1, char_wb = 2 };
enum class Cjk : int { word = 0, bigrams = 1, chars = 2 };

struct WordForms;

struct TextSettings {
  const uint32_t* table;
  int64_t table_size;
  Analyzer analyzer;
  Cjk cjk;
  int32_t min_n, max_n;
  int64_t min_token_length;
  const WordForms* forms;  // what words are counted as (of Analyzer::word); null for themselves
};

// Every buffer that slices point into can be read this many bytes past a slice's end.
constexpr int64_t slice_padding = 16;

inline uint64_t load_little_endian(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

// The first `length` bytes of a load (none for 0 or less, all for 8 or more), the others zero.
inline uint64_t first_bytes(uint64_t value, int64_t length) {
  constexpr uint64_t masks[9] = {
      0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, ~uint64_t{0}};
  const int64_t n = length < 8 ? length : 8;
  return value & masks[n > 0 ? n : 0];
}

class TextScanner {
 public:
  explicit TextScanner(const TextSettings& settings);

  // Prepares `text` for ngrams(); the document itself is not needed afterwards.
  void scan(const TextView& text);

  // Calls sink(bytes, length) for every n-gram of the document scanned last.
  template <typename Sink>
  void ngrams(Sink& sink) const {
    if (settings_.analyzer == Analyzer::word) {
      word_ngrams(sink);
    } else if (settings_.analyzer == Analyzer::chars) {
      char_ngrams(0, static_cast<int64_t>(starts_.size()) - 1, sink);
    } else {
      for (size_t w = 0; w + 1 < ends_.size(); w += 2) padded_ngrams(ends_[w], ends_[w + 1], sink);
    }
  }

 private:
  template <typename Sink>
  void word_ngrams(Sink& sink) const {
    const int64_t n_words = n_words_;
    const char* bytes = slices_;
    if (settings_.max_n == 1) {
      for (int64_t i = 0; i < n_words; ++i) sink(bytes + starts_[i], ends_[i] - starts_[i]);
      return;
    }
    for (int64_t i = 0; i < n_words; ++i) {
      const int64_t longest = settings_.max_n < n_words - i ? settings_.max_n : n_words - i;
      for (int64_t n = settings_.min_n; n <= longest; ++n) {
        sink(bytes + starts_[i], ends_[i + n - 1] - starts_[i]);
      }
    }
  }

  // Characters first .. last - 1, whose byte offsets are in starts_ (one more than there are characters).
  template <typename Sink>
  void char_ngrams(int64_t first, int64_t last, Sink& sink) const {
    for (int64_t i = first; i < last; ++i) {
      const int64_t longest = settings_.max_n < last - i ? settings_.max_n : last - i;
      for (int64_t n = settings_.min_n; n <= longest; ++n) {
        sink(slices_ + starts_[i], starts_[i + n] - starts_[i]);
      }
    }
  }

  // A padded word not longer than an n-gram counts once, as it is.
  template <typename Sink>
  void padded_ngrams(int64_t first, int64_t last, Sink& sink) const {
    if (last - first <= settings_.min_n) {
      sink(slices_ + starts_[first], starts_[last] - starts_[first]);
    } else {
      char_ngrams(first, last, sink);
    }
  }

  void scan_ascii_words(const char* text, int64_t length);
  void finish_words();
  int64_t find_forms();
  template <typename Unit>
  void scan_words(const Unit* text, int64_t length);
  template <typename Unit>
  void scan_chars(const Unit* text, int64_t length);
  template <typename Unit>
  void scan_padded_words(const Unit* text, int64_t length);
  template <typename Unit>
  void scan_units(const TextView& text);
  uint32_t look_up(uint32_t code_point) const {
    if (static_cast<int64_t>(code_point) < settings_.table_size) return settings_.table[code_point];
    const bool selects = code_point - more_selectors < n_more_selectors;
    return (selects ? selector_ : 0) | (code_point & code_point_mask);
  }
  enum class Run : uint32_t { none = 0, word = 1, unspaced = 2 };
  template <typename Unit>
  char* mark_runs(const Unit* text, int64_t n, Run kind, char* out, uint32_t* edges, int64_t& n_edges,
                  int64_t& n_characters);
  void end_run(Run kind, int64_t start, int64_t end, int64_t n_characters);
  void split_unspaced(int64_t start, int64_t end, int64_t n_characters);
  bool is_mark(int64_t at) const;
  void write(uint32_t code_point);
  void reserve(int64_t bytes);
  void reserve_joined(int64_t bytes);
  void reserve_words(int64_t n);

  TextSettings settings_;
  bool lowers_;                  // whether 'A' becomes 'a': the table's word for ASCII text
  uint32_t selector_;            // what variation selectors beyond the table are
  uint32_t seen_ = 0;            // the bits of all characters of the document so far
  std::unique_ptr<char[]> low_;  // capacity_ bytes and slice_padding more
  std::unique_ptr<char[]> joined_;
  int64_t capacity_ = 0, joined_capacity_ = 0;
  int64_t used_ = 0, n_words_ = 0;
  const char* slices_ = nullptr;
  // word: byte range of each of n_words_ words; the vectors never shrink. chars, char_wb: starts_ has the
  // byte offset of each character and of the end, ends_ (char_wb) the first character of each padded word and
  // the one past its last, in turns.
  std::vector<int64_t> starts_, ends_;
  std::vector<const char*> sources_;  // where the bytes lie that each word is counted as
};

}  // namespace sylvan
