#include "text/ngrams.hpp"

#include "text/word_forms.hpp"

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
  selector_ = look_up(last_selector) & ~code_point_mask;
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
  seen_ = 0;
  if (settings_.analyzer != Analyzer::word) {
    starts_.clear();
    ends_.clear();
  }
  if (text.ascii && settings_.analyzer == Analyzer::word) {
    scan_ascii_words(static_cast<const char*>(text.data), text.length);
  } else if (text.ascii) {
    scan_units<uint8_t>(text);
  } else {
    scan_units<uint32_t>(text);
  }
}

template <typename Unit>
void TextScanner::scan_units(const TextView& text) {
  reserve(text.length * 4 + block);  // a character takes at most 4 bytes, and there is a space at each end
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
  finish_words();
}

// Finds what each word is counted as, a word that the table doesn't have as itself; the bytes of all, with a
// space behind each.
int64_t TextScanner::find_forms() {
  const WordForms& forms = *settings_.forms;
  if (sources_.size() < static_cast<size_t>(n_words_)) sources_.resize(starts_.size());
  int64_t total = 0;
  for (int64_t i = 0; i < n_words_; ++i) {
    const char* word = low_.get() + starts_[i];
    const int64_t id = forms.words.find(make_gram(word, ends_[i] - starts_[i]));
    if (id >= 0) {
      word = forms.bytes + forms.offsets[id];
      ends_[i] = starts_[i] + (forms.offsets[id + 1] - forms.offsets[id]);
    }
    sources_[i] = word;
    total += ends_[i] - starts_[i] + 1;
  }
  return total;
}

// Word n-grams are slices only when exactly one space lies between the words, and other forms lie elsewhere.
void TextScanner::finish_words() {
  const bool replaces = settings_.forms != nullptr;
  if (settings_.max_n == 1 && !replaces) return;
  const int64_t n_words = n_words_;
  int64_t total = 0;
  if (replaces) {
    total = find_forms();
  } else {
    for (int64_t i = 0; i < n_words; ++i) total += ends_[i] - starts_[i] + 1;
  }
  reserve_joined(total + slice_padding);
  char* out = joined_.get();
  int64_t at = 0;
  for (int64_t i = 0; i < n_words; ++i) {
    const int64_t length = ends_[i] - starts_[i];
    const char* source = replaces ? sources_[i] : low_.get() + starts_[i];
    std::memcpy(out + at, source, static_cast<size_t>(length));
    starts_[i] = at;
    ends_[i] = at + length;
    out[at + length] = ' ';
    at += length + 1;
  }
  slices_ = out;
}

SYLVAN_INLINE void store_two(char* out, uint32_t bytes) {
  const unsigned char both[2] = {static_cast<unsigned char>(bytes), static_cast<unsigned char>(bytes >> 8)};
  std::memcpy(out, both, 2);
}

// Writes a character as UTF-8 (and some bytes beyond it) and returns where it ends. There is no branch below
// 0x800, the range of most scripts with spaces.
SYLVAN_INLINE char* put(char* out, uint32_t c) {
  if (c < 0x800) {
    const uint32_t two = c >= 0x80;
    const uint32_t wide = 0xc0 | c >> 6 | (0x80 | (c & 0x3f)) << 8, mask = 0 - two;
    store_two(out, (c & ~mask) | (wide & mask));
    return out + 1 + two;
  }
  if (c < 0x10000) {
    out[0] = static_cast<char>(0xe0 | c >> 12);
    out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out[2] = static_cast<char>(0x80 | (c & 0x3f));
    return out + 3;
  }
  out[0] = static_cast<char>(0xf0 | (c >> 18 & 0x07));
  out[1] = static_cast<char>(0x80 | (c >> 12 & 0x3f));
  out[2] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
  out[3] = static_cast<char>(0x80 | (c & 0x3f));
  return out + 4;
}

template <typename Unit>
SYLVAN_INLINE bool all_ascii(const Unit* text) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < block; ++i) bits |= text[i];
  return bits < 0x80;
}

// Lower-cases everything, notes where runs of word characters (and of scripts without spaces, when they are
// split) begin and end, and makes words of the runs. Ends of runs are unpredictable, so there is no branch on
// them.
template <typename Unit>
void TextScanner::scan_words(const Unit* text, int64_t length) {
  Run kind = Run::none;
  int64_t start = 0, first = 0, written = 0;  // bytes, and characters as they are counted
  char* const low = low_.get();
  char* out = low;
  for (int64_t from = 0; from < length; from += block) {
    const int64_t base = out - low;
    int64_t n = length - from < block ? length - from : block;
    uint32_t edges[block];  // of each edge its byte (from bit 8), its character (6 bits) and the run after it
    int64_t n_edges = 0;
    if (kind != Run::unspaced && n == block && all_ascii(text + from)) {
      char narrow[block];
      for (int64_t i = 0; i < block; ++i) narrow[i] = static_cast<char>(text[from + i]);
      uint64_t mask;
      lower_ascii(narrow, 1, lowers_ ? 32 : 0, out, &mask);
      for (uint64_t left = mask ^ (mask << 1 | static_cast<uint64_t>(kind)); left != 0; left &= left - 1) {
        const uint32_t i = static_cast<uint32_t>(lowest_bit(left));
        edges[n_edges++] = i << 8 | i << 2 | static_cast<uint32_t>(mask >> i & 1);
      }
      out += block;
    } else {
      out = mark_runs(text + from, n, kind, out, edges, n_edges, n);
    }
    for (int64_t e = 0; e < n_edges; ++e) {
      const int64_t place = base + (edges[e] >> 8), character = written + (edges[e] >> 2 & 0x3f);
      end_run(kind, start, place, character - first);
      kind = static_cast<Run>(edges[e] & 3);
      start = place;
      first = character;
    }
    written += n;
  }
  end_run(kind, start, out - low, written - first);
  finish_words();
}

// Writes up to `block` characters in lower case, without those that aren't seen, and an edge wherever the
// kind of run changes. A mark is of the run before it.
template <typename Unit>
SYLVAN_INLINE char* TextScanner::mark_runs(const Unit* text, int64_t n, Run kind, char* out, uint32_t* edges,
                                           int64_t& n_edges, int64_t& n_characters) {
  const uint32_t split = settings_.cjk != Cjk::word;
  uint32_t before = static_cast<uint32_t>(kind), seen = 0, count = 0;
  char* at = out;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t entry = look_up(text[i]);
    const uint32_t is_word = entry >> 31, is_mark = 0 - (entry >> 29 & 1);
    const uint32_t here = (is_word + (is_word & split & entry >> 30)) | (before & is_mark);
    edges[n_edges] = static_cast<uint32_t>(at - out) << 8 | count << 2 | here;
    n_edges += here != before;
    before = here;
    seen |= entry;
    if (entry & unseen_bit) continue;
    at = put(at, entry & code_point_mask);
    ++count;
  }
  seen_ |= seen;
  n_characters = count;
  return at;
}

// Makes words of a run of `n_characters` whose bytes are [start, end).
void TextScanner::end_run(Run kind, int64_t start, int64_t end, int64_t n_characters) {
  if (kind == Run::word) {
    reserve_words(n_words_ + 1);
    starts_[n_words_] = start;
    ends_[n_words_] = end;
    n_words_ += n_characters >= settings_.min_token_length;
  } else if (kind == Run::unspaced) {
    split_unspaced(start, end, n_characters);
  }
}

// Whether the character at byte `at`, which is none of ASCII, is a mark.
bool TextScanner::is_mark(int64_t at) const {
  const auto byte = [this, at](int64_t i) { return static_cast<uint32_t>(low_[at + i]) & 0x3f; };
  const uint32_t first = static_cast<unsigned char>(low_[at]);
  const uint32_t code = first < 0xe0   ? (first & 0x1f) << 6 | byte(1)
                        : first < 0xf0 ? (first & 0x0f) << 12 | byte(1) << 6 | byte(2)
                                       : (first & 0x07) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3);
  return (look_up(code) & mark_bit) != 0;
}

// A run of a script without spaces as single characters, each with its marks, or overlapping pairs of them.
void TextScanner::split_unspaced(int64_t start, int64_t end, int64_t n_characters) {
  const bool marks = (seen_ & mark_bit) != 0;
  const auto after = [this, end, marks](int64_t at) {  // where the character that begins at `at` ends
    do {
      do ++at;
      while (at < end && (low_[at] & 0xc0) == 0x80);
    } while (marks && at < end && is_mark(at));
    return at;
  };
  reserve_words(n_words_ + n_characters);
  int64_t stop = start;
  if (settings_.cjk == Cjk::bigrams) {
    stop = after(start);
    if (stop == end) stop = start;  // a single one
  }
  while (stop < end) {
    stop = after(stop);
    starts_[n_words_] = start;
    ends_[n_words_++] = stop;
    start = after(start);
  }
}

void TextScanner::write(uint32_t code_point) { used_ = put(low_.get() + used_, code_point) - low_.get(); }

// Two or more spaces in a row become one ' '; a single one stays what it is.
template <typename Unit>
void TextScanner::scan_chars(const Unit* text, int64_t length) {
  const auto next = [this, text, length](int64_t i) {  // the place of the next character that is seen
    while (i < length && (look_up(text[i]) & unseen_bit)) ++i;
    return i;
  };
  int64_t i = next(0);
  while (i < length) {
    const uint32_t entry = look_up(text[i]);
    starts_.push_back(used_);
    i = next(i + 1);
    if ((entry & space_bit) && i < length && (look_up(text[i]) & space_bit)) {
      while (i < length && (look_up(text[i]) & space_bit)) i = next(i + 1);
      write(' ');
    } else {
      write(entry & code_point_mask);
    }
  }
  starts_.push_back(used_);
}

// " one two three ": neighbours share the space between them.
template <typename Unit>
void TextScanner::scan_padded_words(const Unit* text, int64_t length) {
  starts_.push_back(used_);
  write(' ');
  int64_t i = 0;
  while (i < length) {
    uint32_t entry = look_up(text[i]);
    if (entry & (space_bit | unseen_bit)) {
      ++i;
      continue;
    }
    ends_.push_back(static_cast<int64_t>(starts_.size()) - 1);
    do {
      if ((entry & unseen_bit) == 0) {
        starts_.push_back(used_);
        write(entry & code_point_mask);
      }
      if (++i == length) break;
      entry = look_up(text[i]);
    } while (!(entry & space_bit));
    starts_.push_back(used_);
    write(' ');
    ends_.push_back(static_cast<int64_t>(starts_.size()));
  }
  starts_.push_back(used_);
}

}  // namespace sylvan
