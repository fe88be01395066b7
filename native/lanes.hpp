// A handful of float lanes that are computed together: the children of a cluster solved side by side.
// GCC and Clang map them to vector registers through their vector types; other compilers get plain arrays.
#pragma once

#include <cstdint>
#include <cstring>

#include "platform.hpp"

namespace sylvan {

#if defined(__GNUC__)

template <int N>
struct LaneTypes;
template <>
struct LaneTypes<4> {
  typedef float F __attribute__((vector_size(16), may_alias));
  typedef int32_t I __attribute__((vector_size(16), may_alias));
};
template <>
struct LaneTypes<8> {
  typedef float F __attribute__((vector_size(32), may_alias));
  typedef int32_t I __attribute__((vector_size(32), may_alias));
};
template <>
struct LaneTypes<16> {
  typedef float F __attribute__((vector_size(64), may_alias));
  typedef int32_t I __attribute__((vector_size(64), may_alias));
};
template <int N>
using Floats = typename LaneTypes<N>::F;
template <int N>
using Ints = typename LaneTypes<N>::I;

// Macros rather than functions: GCC breaks wide vectors up in a function compiled for the baseline before it
// inlines it into a clone for a higher level, so every vector operation must stand in the clone's own body.
#define SYLVAN_SELECT(mask, a, b) ((mask) ? (a) : (b))

#else

template <int N, typename T>
struct LaneArray {
  T v[N];
  T operator[](int i) const { return v[i]; }
  T& operator[](int i) { return v[i]; }
};
template <int N>
using Floats = LaneArray<N, float>;
template <int N>
using Ints = LaneArray<N, int32_t>;

#define SYLVAN_LANE_OPERATOR(symbol)                                                          \
  template <int N, typename T>                                                                \
  inline LaneArray<N, T> operator symbol(const LaneArray<N, T>& a, const LaneArray<N, T>& b) { \
    LaneArray<N, T> r;                                                                        \
    for (int i = 0; i < N; ++i) r.v[i] = a.v[i] symbol b.v[i];                                \
    return r;                                                                                 \
  }
SYLVAN_LANE_OPERATOR(+)
SYLVAN_LANE_OPERATOR(-)
SYLVAN_LANE_OPERATOR(*)
SYLVAN_LANE_OPERATOR(/)
SYLVAN_LANE_OPERATOR(&)
SYLVAN_LANE_OPERATOR(|)
#undef SYLVAN_LANE_OPERATOR
#define SYLVAN_LANE_COMPARISON(symbol)                                                        \
  template <int N, typename T>                                                                \
  inline LaneArray<N, int32_t> operator symbol(const LaneArray<N, T>& a, const LaneArray<N, T>& b) { \
    LaneArray<N, int32_t> r;                                                                  \
    for (int i = 0; i < N; ++i) r.v[i] = a.v[i] symbol b.v[i] ? -1 : 0;                       \
    return r;                                                                                 \
  }
SYLVAN_LANE_COMPARISON(<)
SYLVAN_LANE_COMPARISON(>)
SYLVAN_LANE_COMPARISON(<=)
SYLVAN_LANE_COMPARISON(>=)
SYLVAN_LANE_COMPARISON(==)
SYLVAN_LANE_COMPARISON(!=)
#undef SYLVAN_LANE_COMPARISON
template <int N, typename T>
inline LaneArray<N, T> operator-(T a, const LaneArray<N, T>& b) {
  LaneArray<N, T> r;
  for (int i = 0; i < N; ++i) r.v[i] = a - b.v[i];
  return r;
}
template <int N, typename T>
inline LaneArray<N, T> operator*(T a, const LaneArray<N, T>& b) {
  LaneArray<N, T> r;
  for (int i = 0; i < N; ++i) r.v[i] = a * b.v[i];
  return r;
}
template <int N>
inline LaneArray<N, float> select_lanes(const LaneArray<N, int32_t>& m, const LaneArray<N, float>& a,
                                        const LaneArray<N, float>& b) {
  LaneArray<N, float> r;
  for (int i = 0; i < N; ++i) r.v[i] = m.v[i] ? a.v[i] : b.v[i];
  return r;
}
#define SYLVAN_SELECT(mask, a, b) select_lanes(mask, a, b)

#endif

// Lane i holds 1 << i.
alignas(64) constexpr int32_t kLaneBits[16] = {1,   2,   4,    8,    16,   32,   64,    128,
                                               256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
template <int N>
SYLVAN_INLINE const Ints<N>& lane_bits() {
  return *reinterpret_cast<const Ints<N>*>(kLaneBits);
}

// All lanes set to one value.
#define SYLVAN_BROADCAST(N, value) ((value) - Floats<N>{})

// -1 in each lane whose bit is set, 0 elsewhere.
#define SYLVAN_LANES_OF_BITS(N, bits) ((lane_bits<N>() & (static_cast<int32_t>(bits) - Ints<N>{})) == lane_bits<N>())

// The bits of the lanes that are not 0 (each is 0 or -1), into `bits`. The store and the loop become a few shuffles.
#define SYLVAN_BITS_OF_LANES(N, lanes, bits)                                  \
  do {                                                                        \
    alignas(64) int32_t stored_lanes[N];                                      \
    const Ints<N> masked_lanes = (lanes) & lane_bits<N>();                    \
    std::memcpy(stored_lanes, &masked_lanes, sizeof(stored_lanes));           \
    int32_t gathered_bits = 0;                                                \
    for (int lane = 0; lane < (N); ++lane) gathered_bits |= stored_lanes[lane]; \
    (bits) = static_cast<uint32_t>(gathered_bits);                            \
  } while (0)

}  // namespace sylvan
