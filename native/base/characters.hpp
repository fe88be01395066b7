// What a table says of each character, to whoever reads texts.
#pragma once

#include <cstdint>

namespace sylvan {

// table[c] is the code point that c becomes (low 21 bits) and what that one is (the bits below); code points
// beyond the table stay as they are and are of no kind, but for variation selectors, which are what those in
// the table are. The first two bits are for whoever prepares a document.
constexpr uint32_t code_point_mask = 0x1fffffu;
constexpr uint32_t composes_bit = 1u << 24;  // its document may have to be composed (NFC)
constexpr uint32_t lowers_bit = 1u << 25;    // its lower case depends on neighbours, or is two characters
constexpr uint32_t unseen_bit = 1u << 26;    // no part of a term
constexpr uint32_t space_bit = 1u << 28;
constexpr uint32_t mark_bit = 1u << 29;      // continues a word
constexpr uint32_t unspaced_bit = 1u << 30;  // of a script without spaces between words
constexpr uint32_t word_bit = 1u << 31;
constexpr uint32_t last_selector = 0xfe0f, more_selectors = 0xe0100, n_more_selectors = 0xf0;

}  // namespace sylvan
