// The best of a query's candidates, whose scores lie in groups of sixteen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sylvan {

// Candidates and the rest of the last group, which vector code takes whole; it has scores of -inf.
inline int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// As a TopK, but knows all scores before it looks at any: with the k-th greatest of the groups' greatest
// scores at least k scores are as great, and few more.
class Choice {
 public:
  // Adds padded(n) scores, which are read again by finish(): of candidates first to first + n - 1.
  void add(const float* scores, int64_t n, int64_t first);

  // Writes the `width` best, best first, by their names (their numbers, where it is null), and forgets them.
  void finish(const int32_t* names, int64_t width, int32_t* out_names, float* out_scores);

 private:
  struct Part {
    const float* scores;
    int64_t n, first;
  };
  void fold(int64_t n);
  float least_of(int64_t width);
  void collect(float least);

  std::vector<Part> parts_;
  std::vector<float> quarters_,
      greatest_;               // the greatest score of each quarter of a group, and of each group
  std::vector<float> scores_;  // of the candidates that remain
  std::vector<int32_t> names_, ranks_;
  int64_t n_ = 0;  // how many they are
};

}  // namespace sylvan
