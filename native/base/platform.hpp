// What differs between compilers, in one place: multiversioned functions, restrict, prefetch.
#pragma once

// One build that is fast everywhere: GCC and Clang on x86-64 Linux compile a marked function once per
// level and choose at load time. Elsewhere (MSVC, ARM, macOS, sanitizer builds) the macro is empty.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(SYLVAN_NO_CLONES) && \
    (!defined(__clang__) || __clang_major__ >= 17)
#define SYLVAN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SYLVAN_CLONES
#endif

#if defined(__GNUC__)
#define SYLVAN_INLINE inline __attribute__((always_inline))
#define SYLVAN_PREFETCH(address) __builtin_prefetch(address)
#define SYLVAN_RESTRICT __restrict__
#else
#define SYLVAN_INLINE inline
#define SYLVAN_PREFETCH(address) ((void)0)
#define SYLVAN_RESTRICT __restrict
#endif
