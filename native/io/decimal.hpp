// Decimal text to float32 and back: correctly rounded, independent of the locale, fast for usual numbers.
#pragma once

#include <cstdint>

namespace sylvan {

enum class DecimalFault : int { none = 0, not_a_number = 1, not_finite = 2 };

// Reads all of [begin, end) as one number `[+-]digits[.digits][e[+-]digits]`, rounded to the nearest float32,
// ties to even. `nan`, `inf`, `infinity` and numbers beyond float32 are `not_finite`.
DecimalFault read_float(const uint8_t* begin, const uint8_t* end, float* value);

// The shortest text that reads back as `value` (finite); at most 16 bytes. Returns its end.
uint8_t* write_float(float value, uint8_t* out);

uint8_t* write_int(int64_t value, uint8_t* out);

}  // namespace sylvan
