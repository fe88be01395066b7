#include "io/cbor.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace sylvan {
namespace {

uint64_t big_endian(const uint8_t* bytes, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; ++i) value = (value << 8) | bytes[i];
  return value;
}

// A float of 16 bits (RFC 8949, appendix D): 1 bit of sign, 5 of exponent, 10 of fraction.
double half(uint64_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double fraction = static_cast<double>(bits & 1023);
  double value;
  if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else if (exponent < 31) {
    value = std::ldexp(1024 + fraction, exponent - 25);
  } else {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return bits & 0x8000 ? -value : value;
}

double single(uint64_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

double wide(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

int64_t cbor_numbers(const uint8_t* bytes, int64_t n_bytes, int64_t at, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (at >= n_bytes) return -1 - at;
    const int major = bytes[at] >> 5, info = bytes[at] & 31;
    const int n = info < 24 ? 0 : info < 28 ? 1 << (info - 24) : -1;  // bytes that follow the first
    if (n < 0 || n_bytes - at - 1 < n) return -1 - at;
    const uint64_t bits = n == 0 ? static_cast<uint64_t>(info) : big_endian(bytes + at + 1, n);
    if (major == 0) {
      out[i] = static_cast<double>(bits);
    } else if (major == 1) {
      out[i] = -1.0 - static_cast<double>(bits);
    } else if (major == 7 && n >= 2) {
      out[i] = n == 2 ? half(bits) : n == 4 ? single(bits) : wide(bits);
    } else {
      return -1 - at;
    }
    at += 1 + n;
  }
  return at;
}

}  // namespace sylvan
