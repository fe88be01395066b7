#include "tfidf_text.hpp"

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace sylvan {
namespace {

constexpr int64_t block = 64;

SYLVAN_INLINE int lowest_bit(uint64_t value) {
#if defined(_MSC_VER)
  unsigned long index;
  _BitScanForward64(&index, value);
  return static_cast<int>(index);
#else
  return __builtin_ctzll(value);
#endif
}

// Lower-cases n_blocks blocks of ASCII and marks in one bit a character which are letters, digits or '_'.
SYLVAN_CLONES
void lower_ascii(const char* SYLVAN_RESTRICT text, int64_t n_blocks, uint8_t add, char* SYLVAN_RESTRICT low,
                 uint64_t* SYLVAN_RESTRICT masks) {
  for (int64_t b = 0; b < n_blocks; ++b) {
    uint8_t is_word[block];
    const uint8_t* in = reinterpret_cast<const uint8_t*>(text) + b * block;
    char* out = low + b * block;
    for (int64_t i = 0; i < block; ++i) {
      const uint8_t c = in[i];
      const uint8_t folded = static_cast<uint8_t>(c | 32);
      const uint8_t upper = static_cast<uint8_t>(static_cast<uint8_t>(c - 'A') < 26);
      const uint8_t letter = static_cast<uint8_t>(static_cast<uint8_t>(folded - 'a') < 26);
      const uint8_t digit = static_cast<uint8_t>(static_cast<uint8_t>(c - '0') < 10);
      out[i] = static_cast<char>(c + (upper ? add : 0));
      is_word[i] = static_cast<uint8_t>(letter | digit | static_cast<uint8_t>(c == '_'));
    }
    uint64_t mask = 0;
    for (int64_t i = 0; i < block; i += 8) {
      // Eight bytes of 0 or 1 into eight bits: the product brings byte k to bit 56 + k.
      const uint64_t bytes = load_little_endian(reinterpret_cast<const char*>(is_word + i));
      mask |= ((bytes * 0x0102040810204080ull) >> 56) << i;
    }
    masks[b] = mask;
  }
}

}  // namespace

TextScanner::TextScanner(const TextSettings& settings) : settings_(settings) {
  lowers_ = (look_up('A') & code_point_mask) == 'a';
  reserve(1 << 12);
  slices_ = low_.get();
}

void TextScanner::reserve(int64_t bytes) {
  if (bytes <= capacity_) return;
  const int64_t wanted = bytes + bytes / 2;
  low_.reset(new char[static_cast<size_t>(wanted + slice_padding)]);
  capacity_ = wanted;
}

void TextScanner::reserve_joined(int64_t bytes) {
  if (bytes <= joined_capacity_) return;
  const int64_t wanted = bytes + bytes / 2;
  joined_.reset(new char[static_cast<size_t>(wanted + slice_padding)]);
  joined_capacity_ = wanted;
}

void TextScanner::reserve_words(int64_t n) {
  if (n <= static_cast<int64_t>(starts_.size())) return;
  starts_.resize(static_cast<size_t>(n + n / 2));
  ends_.resize(static_cast<size_t>(n + n / 2));
}

void TextScanner::scan(const TextView& text) {
  used_ = 0;
  n_words_ = 0;
  if (settings_.analyzer != Analyzer::word) {
    starts_.clear();
    ends_.clear();
  }
  if (text.ascii && settings_.analyzer == Analyzer::word) {
    scan_ascii_words(static_cast<const char*>(text.data), text.length);
  } else if (text.width == 1) {
    scan_units<uint8_t>(text);
  } else if (text.width == 2) {
    scan_units<uint16_t>(text);
  } else {
    scan_units<uint32_t>(text);
  }
}

template <typename Unit>
void TextScanner::scan_units(const TextView& text) {
  // A character takes at most 4 bytes; as part of two CJK bigrams, 8 and a space.
  reserve(text.length * 9 + block);
  slices_ = low_.get();
  const Unit* units = static_cast<const Unit*>(text.data);
  if (settings_.analyzer == Analyzer::word) {
    scan_words(units, text.length);
  } else if (settings_.analyzer == Analyzer::chars) {
    scan_chars(units, text.length);
  } else {
    scan_padded_words(units, text.length);
  }
}

void TextScanner::scan_ascii_words(const char* text, int64_t length) {
  constexpr int64_t blocks_at_once = 32;
  reserve(length + block);
  slices_ = low_.get();
  char* low = low_.get();
  const int64_t min_length = settings_.min_token_length;
  int64_t n_words = 0, start = 0;
  bool inside = false;
  uint64_t masks[blocks_at_once];
  for (int64_t from = 0; from <= length; from += blocks_at_once * block) {
    const int64_t left = length - from;
    int64_t n_blocks = left / block < blocks_at_once ? left / block : blocks_at_once;
    lower_ascii(text + from, n_blocks, lowers_ ? 32 : 0, low + from, masks);
    if (n_blocks < blocks_at_once) {  // the tail, with zeros after it, which end the last word
      char tail[block] = {};
      const int64_t done = from + n_blocks * block;
      std::memcpy(tail, text + done, static_cast<size_t>(length - done));
      lower_ascii(tail, 1, lowers_ ? 32 : 0, low + done, masks + n_blocks);
      ++n_blocks;
    }
    reserve_words(n_words + n_blocks * (block / 2) + 1);
    int64_t* const starts = starts_.data();
    int64_t* const ends = ends_.data();
    for (int64_t b = 0; b < n_blocks; ++b) {
      uint64_t edges = masks[b] ^ (masks[b] << 1 | static_cast<uint64_t>(inside));
      const int64_t base = from + b * block;
      if (edges != 0 && inside) {
        const int64_t end = base + lowest_bit(edges);
        edges &= edges - 1;
        starts[n_words] = start;
        ends[n_words] = end;
        n_words += end - start >= min_length;
      }
      while (edges != 0) {
        start = base + lowest_bit(edges);
        edges &= edges - 1;
        if (edges == 0) break;
        const int64_t end = base + lowest_bit(edges);
        edges &= edges - 1;
        starts[n_words] = start;
        ends[n_words] = end;
        n_words += end - start >= min_length;
      }
      inside = masks[b] >> 63 != 0;
    }
  }
  n_words_ = n_words;
  if (settings_.max_n > 1) join_ascii_words();
}

// Word n-grams are slices only when exactly one space lies between the words.
void TextScanner::join_ascii_words() {
  const int64_t n_words = n_words_;
  int64_t total = 0;
  for (int64_t i = 0; i < n_words; ++i) total += ends_[i] - starts_[i] + 1;
  reserve_joined(total + slice_padding);
  char* out = joined_.get();
  int64_t at = 0;
  for (int64_t i = 0; i < n_words; ++i) {
    const int64_t length = ends_[i] - starts_[i];
    std::memcpy(out + at, low_.get() + starts_[i], static_cast<size_t>(length));
    starts_[i] = at;
    ends_[i] = at + length;
    out[at + length] = ' ';
    at += length + 1;
  }
  slices_ = out;
}

SYLVAN_INLINE void TextScanner::put(uint32_t c) {
  char* out = low_.get() + used_;
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    used_ += 1;
  } else if (c < 0x800) {
    out[0] = static_cast<char>(0xc0 | c >> 6);
    out[1] = static_cast<char>(0x80 | (c & 0x3f));
    used_ += 2;
  } else if (c < 0x10000) {
    out[0] = static_cast<char>(0xe0 | c >> 12);
    out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out[2] = static_cast<char>(0x80 | (c & 0x3f));
    used_ += 3;
  } else {
    out[0] = static_cast<char>(0xf0 | (c >> 18 & 0x07));
    out[1] = static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out[2] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out[3] = static_cast<char>(0x80 | (c & 0x3f));
    used_ += 4;
  }
}

SYLVAN_INLINE void TextScanner::end_token(int64_t start) {
  reserve_words(n_words_ + 1);
  starts_[n_words_] = start;
  ends_[n_words_++] = used_;
  low_[used_++] = ' ';
}

template <typename Unit>
void TextScanner::scan_words(const Unit* text, int64_t length) {
  const bool split = settings_.cjk != Cjk::word;
  const uint32_t stop = split ? cjk_bit : 0;
  int64_t i = 0;
  while (i < length) {
    uint32_t entry = look_up(text[i]);
    if (!(entry & word_bit)) {
      ++i;
    } else if (entry & stop) {
      i = split_cjk(text, i, length);
    } else {
      const int64_t start = used_, first = i;
      do {
        put(entry & code_point_mask);
        if (++i == length) break;
        entry = look_up(text[i]);
      } while ((entry & word_bit) && !(entry & stop));
      if (i - first >= settings_.min_token_length) {
        end_token(start);
      } else {
        used_ = start;
      }
    }
  }
}

// A run of CJK characters from `from` on, as single characters or overlapping pairs; returns where it ends.
template <typename Unit>
int64_t TextScanner::split_cjk(const Unit* text, int64_t from, int64_t length) {
  constexpr uint32_t both = cjk_bit | word_bit;
  int64_t end = from;
  while (end < length && (look_up(text[end]) & both) == both) ++end;
  const int64_t size = settings_.cjk == Cjk::chars || end - from == 1 ? 1 : 2;
  for (int64_t i = from; i + size <= end; ++i) {
    const int64_t start = used_;
    for (int64_t j = i; j < i + size; ++j) put(look_up(text[j]) & code_point_mask);
    end_token(start);
  }
  return end;
}

// Two or more spaces in a row become one ' '; a single one stays what it is.
template <typename Unit>
void TextScanner::scan_chars(const Unit* text, int64_t length) {
  int64_t i = 0;
  while (i < length) {
    const uint32_t entry = look_up(text[i]);
    starts_.push_back(used_);
    ++i;
    if ((entry & space_bit) && i < length && (look_up(text[i]) & space_bit)) {
      while (i < length && (look_up(text[i]) & space_bit)) ++i;
      put(' ');
    } else {
      put(entry & code_point_mask);
    }
  }
  starts_.push_back(used_);
}

// " one two three ": neighbours share the space between them.
template <typename Unit>
void TextScanner::scan_padded_words(const Unit* text, int64_t length) {
  starts_.push_back(used_);
  put(' ');
  int64_t i = 0;
  while (i < length) {
    uint32_t entry = look_up(text[i]);
    if (entry & space_bit) {
      ++i;
      continue;
    }
    ends_.push_back(static_cast<int64_t>(starts_.size()) - 1);
    do {
      starts_.push_back(used_);
      put(entry & code_point_mask);
      if (++i == length) break;
      entry = look_up(text[i]);
    } while (!(entry & space_bit));
    starts_.push_back(used_);
    put(' ');
    ends_.push_back(static_cast<int64_t>(starts_.size()));
  }
  starts_.push_back(used_);
}

}  // namespace sylvan
