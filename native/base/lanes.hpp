// Eight floats in one vector: the weights of a feature for neighbouring children. GCC and Clang map them to
// vector registers through their vector types; other compilers get plain arrays. Sixteen would suit AVX-512
// only, and be spilled to memory on every other processor.
//
// Vector arithmetic must be written in the body of the SYLVAN_CLONES function itself: GCC splits wide vectors
// in a helper compiled for the baseline before inlining it into a clone for a higher level. Only +, -, * and
// scalar * vector are used; comparisons and selections would be split even there, so they are plain loops.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/platform.hpp"

namespace sylvan {

#if defined(__GNUC__)

template <int N>
struct LaneType;
template <>
struct LaneType<8> {
  typedef float F __attribute__((vector_size(32), may_alias));
};
template <>
struct LaneType<2> {
  typedef float F __attribute__((vector_size(8), may_alias));
};
template <>
struct LaneType<4> {
  typedef float F __attribute__((vector_size(16), may_alias));
};
template <int N>
using Floats = typename LaneType<N>::F;

#else

template <int N>
struct Floats {
  float v[N];
};
template <int N>
inline Floats<N> operator+(const Floats<N>& a, const Floats<N>& b) {
  Floats<N> r;
  for (int i = 0; i < N; ++i) r.v[i] = a.v[i] + b.v[i];
  return r;
}
template <int N>
inline Floats<N> operator-(const Floats<N>& a, const Floats<N>& b) {
  Floats<N> r;
  for (int i = 0; i < N; ++i) r.v[i] = a.v[i] - b.v[i];
  return r;
}
template <int N>
inline Floats<N> operator*(const Floats<N>& a, const Floats<N>& b) {
  Floats<N> r;
  for (int i = 0; i < N; ++i) r.v[i] = a.v[i] * b.v[i];
  return r;
}
template <int N>
inline Floats<N> operator*(float a, const Floats<N>& b) {
  Floats<N> r;
  for (int i = 0; i < N; ++i) r.v[i] = a * b.v[i];
  return r;
}

#endif

}  // namespace sylvan
