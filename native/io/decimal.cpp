#include "io/decimal.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#if !defined(__cpp_lib_to_chars)
#include <cstdlib>
#include <locale>
#include <sstream>
#endif

#include "base/platform.hpp"

namespace sylvan {
namespace {

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

SYLVAN_INLINE bool is_digit(uint8_t c) { return static_cast<uint8_t>(c - '0') < 10; }

bool is_word(const uint8_t* begin, const uint8_t* end, const char* word) {
  if (static_cast<size_t>(end - begin) != std::strlen(word)) return false;
  for (; begin < end; ++begin, ++word) {
    if ((*begin | 0x20) != *word) return false;
  }
  return true;
}

// The exact but slow conversion, for the few numbers too near to the middle of two floats, and for unusual
// ones. [begin, end) is a number without a sign whose first nonzero digit is at 10^leading.
DecimalFault read_exactly(const uint8_t* begin, const uint8_t* end, int64_t leading, float* value) {
  if (leading < -46) {
    *value = 0.0f;
    return DecimalFault::none;
  }
  if (leading > 38) return DecimalFault::not_finite;
#if defined(__cpp_lib_to_chars)
  const char* const first = reinterpret_cast<const char*>(begin);
  const char* const last = reinterpret_cast<const char*>(end);
  if (std::from_chars(first, last, *value).ec != std::errc()) {
    // Beyond float32, or too small: some libraries also refuse numbers below the smallest normal one.
    double wide = 0.0;
    std::from_chars(first, last, wide);
    *value = static_cast<float>(wide);
    if (leading > 0) return DecimalFault::not_finite;
  }
#else
  std::istringstream stream(std::string(begin, end));
  stream.imbue(std::locale::classic());
  stream >> *value;  // underflow sets failbit, but the value is right
  if (stream.fail() && leading > 0) return DecimalFault::not_finite;
#endif
  return *value <= std::numeric_limits<float>::max() ? DecimalFault::none : DecimalFault::not_finite;
}

}  // namespace

DecimalFault read_float(const uint8_t* begin, const uint8_t* end, float* value) {
  const uint8_t* at = begin;
  const bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) ++at;
  const uint8_t* const unsigned_begin = at;

  // The first n_digits digits are collected in an integer; the rest only shift the exponent.
  uint64_t digits = 0;
  int64_t n_digits = 0, exponent = 0;
  bool any = false;
  const auto take = [&](uint8_t c, bool fraction) {
    if (n_digits < 19) {
      digits = digits * 10 + (c - '0');
      n_digits += digits != 0;
      exponent -= fraction;
    } else {
      exponent += !fraction;  // a further digit moves `wide` below by less than one unit in its last place
    }
  };
  for (; at < end && is_digit(*at); ++at, any = true) take(*at, false);
  if (at < end && *at == '.') {
    for (++at; at < end && is_digit(*at); ++at, any = true) take(*at, true);
  }
  if (!any) {
    const bool odd = is_word(unsigned_begin, end, "nan") || is_word(unsigned_begin, end, "inf") ||
                     is_word(unsigned_begin, end, "infinity");
    return odd ? DecimalFault::not_finite : DecimalFault::not_a_number;
  }
  if (at < end && (*at | 0x20) == 'e') {
    ++at;
    const bool down = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    if (at == end) return DecimalFault::not_a_number;
    int64_t written = 0;
    for (; at < end && is_digit(*at); ++at) {
      if (written < 100000000) written = written * 10 + (*at - '0');
    }
    exponent += down ? -written : written;
  }
  if (at != end) return DecimalFault::not_a_number;
  if (digits == 0) {
    *value = negative ? -0.0f : 0.0f;
    return DecimalFault::none;
  }

  // In double precision the result is off by a few units in the last place at most; it rounds to the right
  // float unless it lies within that of the middle between two floats, where bit 28 is set and the rest
  // clear.
  if (exponent >= -22 && exponent <= 22) {
    double wide = static_cast<double>(digits);
    wide = exponent < 0 ? wide / powers_of_ten[-exponent] : wide * powers_of_ten[exponent];
    uint64_t bits;
    std::memcpy(&bits, &wide, sizeof bits);
    const uint64_t below = bits & 0x1fffffff;
    const bool near_middle = below - (0x10000000 - 8) <= 16;
    if (!near_middle && wide > 1.2e-38 && wide < 3.4e38) {
      *value = static_cast<float>(negative ? -wide : wide);
      return DecimalFault::none;
    }
  }
  float magnitude = 0.0f;
  const DecimalFault fault = read_exactly(unsigned_begin, end, exponent + n_digits - 1, &magnitude);
  *value = negative ? -magnitude : magnitude;
  return fault;
}

uint8_t* write_int(int64_t value, uint8_t* out) {
  char* const first = reinterpret_cast<char*>(out);
  return reinterpret_cast<uint8_t*>(std::to_chars(first, first + 20, value).ptr);
}

uint8_t* write_float(float value, uint8_t* out) {
  char* const first = reinterpret_cast<char*>(out);
#if defined(__cpp_lib_to_chars)
  return reinterpret_cast<uint8_t*>(std::to_chars(first, first + 16, value).ptr);
#else
  char text[32];
  for (int precision = 6; precision <= 9; ++precision) {
    const int length = std::snprintf(text, sizeof text, "%.*g", precision, static_cast<double>(value));
    for (int i = 0; i < length; ++i) {
      if (text[i] == ',') text[i] = '.';  // the decimal sign of some locales
    }
    std::memcpy(first, text, static_cast<size_t>(length));
    float back = 0.0f;
    const DecimalFault fault = read_float(out, out + length, &back);
    if (precision == 9 || (fault == DecimalFault::none && back == value)) return out + length;
  }
  return out;
#endif
}

}  // namespace sylvan
