// Words that are counted as others: "walking" as its stem "walk", say.
#pragma once

#include <cstdint>

#include "text/terms.hpp"

namespace sylvan {

// A table over borrowed, verified arrays: word i of `words` is counted as the bytes from offsets[i] on.
struct WordForms {
  FrozenTerms words;
  const char* bytes;
  const int64_t* offsets;
};

}  // namespace sylvan
