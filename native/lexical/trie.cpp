#include "lexical/trie.hpp"

#include <algorithm>
#include <numeric>

namespace sylvan {

namespace {

bool comes_before(const WordSequences& all, int32_t a, int32_t b) {
  const int32_t* words = all.words;
  return std::lexicographical_compare(words + all.offsets[a], words + all.offsets[a + 1],
                                      words + all.offsets[b], words + all.offsets[b + 1]);
}

// A node while the trie is built: which of the sorted sequences begin with its words, and how many words
// these are.
struct Span {
  int32_t first, last, depth;
};

}  // namespace

bool build_trie(const WordSequences& all, TrieArrays& out) {
  std::vector<int32_t> order(static_cast<size_t>(all.n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return comes_before(all, a, b); });
  out.number_of.assign(order.size(), -1);
  std::vector<Span> level{{0, static_cast<int32_t>(all.n), 0}}, next;
  out.word.push_back(0);
  int32_t n_distinct = 0;
  while (!level.empty()) {
    next.clear();
    for (const Span& span : level) {
      int32_t at = span.first, number = -1;
      // The shortest come first: those that end here.
      for (; at < span.last; ++at) {
        const int32_t one = order[static_cast<size_t>(at)];
        if (all.offsets[one + 1] - all.offsets[one] != span.depth) break;
        if (number < 0) number = n_distinct++;
        out.number_of[static_cast<size_t>(one)] = number;
      }
      out.ending.push_back(number);
      out.first_child.push_back(static_cast<int32_t>(out.word.size()));
      while (at < span.last) {
        const auto by = [&](int32_t place) {
          return all.words[all.offsets[order[static_cast<size_t>(place)]] + span.depth];
        };
        const int32_t word = by(at), first = at;
        while (at < span.last && by(at) == word) ++at;
        if (out.word.size() >= static_cast<size_t>(INT32_MAX)) return false;
        out.word.push_back(word);
        next.push_back({first, at, span.depth + 1});
      }
    }
    level.swap(next);
  }
  out.first_child.push_back(static_cast<int32_t>(out.word.size()));
  return true;
}

void link_trie(TrieArrays& made, int64_t n_words) {
  const size_t n = made.word.size();
  made.fail.assign(n, 0);
  made.next_end.assign(n, 0);
  const Trie trie{static_cast<int64_t>(n), made.first_child.data(), made.word.data(),
                  made.fail.data(),        made.next_end.data(),    made.ending.data()};
  std::vector<int32_t> first(static_cast<size_t>(n_words), 0);  // the root's children, 0 for none
  for (int32_t node = trie.first_child[0]; node < trie.first_child[1]; ++node) {
    first[static_cast<size_t>(trie.word[node])] = node;
  }
  // Breadth first: a node's link and those of all shorter ones are there before its children's.
  for (int32_t node = 1; node < static_cast<int32_t>(n); ++node) {
    for (int32_t child = trie.first_child[node]; child < trie.first_child[node + 1]; ++child) {
      const int32_t word = trie.word[child];
      int32_t suffix = made.fail[static_cast<size_t>(node)], found = -1;
      while (suffix != 0 && (found = trie.child(suffix, word)) < 0)
        suffix = made.fail[static_cast<size_t>(suffix)];
      if (suffix == 0) found = first[static_cast<size_t>(word)];
      made.fail[static_cast<size_t>(child)] = found;
      made.next_end[static_cast<size_t>(child)] =
          made.ending[static_cast<size_t>(found)] >= 0 ? found : made.next_end[static_cast<size_t>(found)];
    }
  }
}

TrieFault check_trie(const Trie& trie, int64_t n_words, int64_t n_endings) {
  const int64_t n = trie.n_nodes;
  if (n < 1 || trie.first_child[0] != 1 || trie.first_child[n] != n) return TrieFault::first_child;
  for (int64_t node = 0; node < n; ++node) {
    const int32_t first = trie.first_child[node], last = trie.first_child[node + 1];
    if (first <= node || last < first || last > n)
      return TrieFault::first_child;  // so that no way goes in circles
    for (int32_t child = first; child < last; ++child) {
      const bool known = trie.word[child] >= 0 && trie.word[child] < n_words;
      if (!known || (child > first && trie.word[child] <= trie.word[child - 1])) return TrieFault::word;
    }
  }
  for (int64_t node = 0; node < n; ++node) {
    if (trie.ending[node] < -1 || trie.ending[node] >= n_endings) return TrieFault::ending;
    if (trie.fail == nullptr) continue;
    const int32_t below = node == 0 ? 1 : static_cast<int32_t>(node);
    if (trie.fail[node] < 0 || trie.fail[node] >= below) return TrieFault::fail;
    const int32_t next = trie.next_end[node];
    if (next < 0 || next >= below || (next != 0 && trie.ending[next] < 0)) return TrieFault::next_end;
  }
  return trie.ending[0] < 0 ? TrieFault::none : TrieFault::ending;
}

}  // namespace sylvan
