// Numbers in CBOR (RFC 8949), one after another: the weights of other libraries' models.
#pragma once

#include <cstdint>

namespace sylvan {

// Reads `count` numbers (major types 0 and 1, and floats of 16, 32 and 64 bits) that follow one another from
// byte `at` on. Returns where the next item begins, or -1 - where it stopped: at something else than a
// number, or at a number that the bytes end in.
int64_t cbor_numbers(const uint8_t* bytes, int64_t n_bytes, int64_t at, double* out, int64_t count);

}  // namespace sylvan
