#include "lexical/words.hpp"

#include <cstring>

namespace sylvan {

namespace {

constexpr size_t first_slots = 1024;

// Of bytes behind which there are eight zeros.
uint32_t hash_of(const char* bytes, size_t length) {
  uint64_t hash = 0x9e3779b97f4a7c15ull ^ length;
  for (size_t at = 0; at < length; at += 8) {
    uint64_t part;
    std::memcpy(&part, bytes + at, 8);
    hash = (hash ^ part) * 0xd6e8feb86659fd93ull;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

WordReader::WordReader(const uint32_t* table, int64_t table_size)
    : offsets(1, 0), table_(table), table_size_(table_size), word_(64), slots_(first_slots, 0) {}

inline void WordReader::write(uint32_t code) {
  if (n_bytes_ + 12 > word_.size()) word_.resize(2 * word_.size());
  char* at = word_.data() + n_bytes_;
  if (code < 0x80) {
    *at = static_cast<char>(code);
    n_bytes_ += 1;
  } else if (code < 0x800) {
    at[0] = static_cast<char>(0xc0 | code >> 6);
    at[1] = static_cast<char>(0x80 | (code & 0x3f));
    n_bytes_ += 2;
  } else if (code < 0x10000) {
    at[0] = static_cast<char>(0xe0 | code >> 12);
    at[1] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    at[2] = static_cast<char>(0x80 | (code & 0x3f));
    n_bytes_ += 3;
  } else {
    at[0] = static_cast<char>(0xf0 | code >> 18);
    at[1] = static_cast<char>(0x80 | (code >> 12 & 0x3f));
    at[2] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    at[3] = static_cast<char>(0x80 | (code & 0x3f));
    n_bytes_ += 4;
  }
}

void WordReader::grow() {
  std::vector<uint32_t> larger(2 * slots_.size(), 0);
  const size_t mask = larger.size() - 1;
  for (size_t number = 0; number < hashes_.size(); ++number) {
    size_t at = hashes_[number] & mask;
    while (larger[at] != 0) at = (at + 1) & mask;
    larger[at] = static_cast<uint32_t>(number + 1);
  }
  slots_ = std::move(larger);
}

bool WordReader::end_word(int64_t start, int64_t end, uint8_t kind) {
  std::memset(word_.data() + n_bytes_, 0, 8);
  const uint32_t hash = hash_of(word_.data(), n_bytes_);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  int64_t number = -1;
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    const size_t one = slots_[at] - 1;
    const size_t length = static_cast<size_t>(offsets[one + 1] - offsets[one]) - 1;
    if (hashes_[one] == hash && length == n_bytes_ &&
        std::memcmp(bytes.data() + offsets[one], word_.data(), length) == 0) {
      number = static_cast<int64_t>(one);
      break;
    }
  }
  if (number < 0) {
    number = static_cast<int64_t>(hashes_.size());
    if (number >= INT32_MAX) return false;
    hashes_.push_back(hash);
    bytes.insert(bytes.end(), word_.data(), word_.data() + n_bytes_);
    bytes.push_back(0);
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    slots_[at] = static_cast<uint32_t>(number + 1);
    if (2 * hashes_.size() > slots_.size()) grow();
  }
  words.push_back(static_cast<int32_t>(number));
  starts.push_back(static_cast<int32_t>(start));
  ends.push_back(static_cast<int32_t>(end));
  kinds.push_back(kind);
  n_bytes_ = 0;
  return true;
}

// A sentence ends at a stop, at a blank line, and at a period unless what follows is attached to it, or
// begins with a lower-case letter or a digit, or what precedes it is a single character, as in abbreviations
// and initials.
template <typename Unit>
bool WordReader::read_units(const Unit* text, int64_t length) {
  bool breaks = true, period = false;
  int n_lines = 0;
  int64_t last_end = -1, last_length = 0, at = 0;
  while (at < length) {
    const uint32_t entry = look_up(text[at]);
    if ((entry & word_letter_bit) == 0) {
      if ((entry & word_stop_bit) != 0) breaks = true;
      if ((entry & word_period_bit) != 0 && last_length > 1) period = true;
      if ((entry & word_line_bit) != 0 && ++n_lines == 2) breaks = true;
      ++at;
      continue;
    }
    const int64_t start = at;
    write(entry & word_code_mask);
    ++at;
    const uint32_t inside = (entry & word_single_bit) != 0 ? word_mark_bit : word_letter_bit | word_mark_bit;
    while (at < length) {
      const uint32_t next = look_up(text[at]);
      if ((next & inside) == 0 || (next & word_single_bit) != 0) break;
      write(next & word_code_mask);
      ++at;
    }
    if (period && start > last_end + 1 && (entry & word_lower_bit) == 0) breaks = true;
    const uint8_t kind = static_cast<uint8_t>(((entry & word_upper_bit) != 0 ? word_is_capital : 0) |
                                              (breaks ? word_begins_sentence : 0));
    if (!end_word(start, at, kind)) return false;
    breaks = period = false;
    n_lines = 0;
    last_end = at;
    last_length = at - start;
  }
  return true;
}

bool WordReader::read(const Characters& text) {
  const size_t more = words.size() + static_cast<size_t>(text.length / 5);  // a guess that is seldom too low
  words.reserve(more);
  starts.reserve(more);
  ends.reserve(more);
  kinds.reserve(more);
  if (text.width == 1) return read_units(static_cast<const uint8_t*>(text.data), text.length);
  if (text.width == 2) return read_units(static_cast<const uint16_t*>(text.data), text.length);
  return read_units(static_cast<const uint32_t*>(text.data), text.length);
}

}  // namespace sylvan
