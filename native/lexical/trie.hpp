// Tries over sequences of word ids, as arrays; with the links that make one an Aho-Corasick automaton.
//
// Nodes are numbered breadth first, so that the children of a node are contiguous and sorted by word; node 0
// is the root. Aho and Corasick (1975), "Efficient string matching: an aid to bibliographic search".
#pragma once

#include <cstdint>
#include <vector>

namespace sylvan {

// Sequences of words: sequence i is words[offsets[i]] to words[offsets[i + 1] - 1].
struct WordSequences {
  int64_t n;
  const int64_t* offsets;
  const int32_t* words;
};

struct TrieArrays {
  std::vector<int32_t>
      first_child;  // n_nodes + 1: the children of node i are first_child[i] to first_child[i + 1] - 1
  std::vector<int32_t> word;  // by which a node is reached from its parent; 0 for the root
  std::vector<int32_t> fail;  // the node of the longest proper suffix that there is
  std::vector<int32_t>
      next_end;  // the first node along these links, from fail on, where a sequence ends; 0 for none
  std::vector<int32_t> ending;     // the number of the distinct sequence that ends at a node, -1 for none
  std::vector<int32_t> number_of;  // the distinct sequence that each sequence is
};

// Builds the trie of sequences, none of them empty; false when there are more nodes than an int32 counts.
// Distinct sequences are numbered in the order of their nodes.
bool build_trie(const WordSequences& sequences, TrieArrays& out);

// Fills fail and next_end; words are ids below n_words.
void link_trie(TrieArrays& trie, int64_t n_words);

// A trie over borrowed, verified arrays.
struct Trie {
  int64_t n_nodes;
  const int32_t* first_child;
  const int32_t* word;
  const int32_t* fail;      // nullptr for a trie without links
  const int32_t* next_end;  // the same
  const int32_t* ending;

  // The child by a word, -1 for none.
  int32_t child(int32_t node, int32_t by) const {
    int32_t low = first_child[node], high = first_child[node + 1];
    while (high - low > 8) {
      const int32_t middle = low + (high - low) / 2;
      if (word[middle] <= by) {
        low = middle;
      } else {
        high = middle;
      }
    }
    for (; low < high; ++low) {
      if (word[low] == by) return low;
    }
    return -1;
  }
};

// Which array of a trie is unsound, 0 for none: first_child, word, fail, next_end, ending. Links are only
// looked at where there are any.
enum class TrieFault : int { none = 0, first_child = 1, word = 2, fail = 3, next_end = 4, ending = 5 };
TrieFault check_trie(const Trie& trie, int64_t n_words, int64_t n_endings);

}  // namespace sylvan
