// Which labels' words stand in documents, and how: counted for every candidate of a document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lexical/trie.hpp"

namespace sylvan {

// Lists of label ids: list i is labels[offsets[i]] to labels[offsets[i + 1] - 1].
struct LabelLists {
  const int64_t* offsets;
  const int32_t* labels;
};

constexpr int n_form_kinds = 4;        // preferred, alternative, hidden, derived
constexpr size_t most_set_words = 64;  // larger sets aren't looked for

// What is asked of a node of the automaton, in one place: this is where a text's words lead to all over
// memory.
struct PhraseNode {
  int32_t first_child, fail, next_end, ending;
};

// The nodes of a trie with links, and one more that says where the last one's children end.
std::vector<PhraseNode> phrase_nodes(const Trie& trie);
// Some bits for each edge of a trie: most ways that a text would go there aren't, and this says so in one
// look.
class EdgeFilter {
 public:
  EdgeFilter() : bits_(2, ~uint64_t{0}) {}
  explicit EdgeFilter(const Trie& trie);

  // Where the bit of an edge, from a node by a word, stands.
  const uint64_t* place(int32_t node, int32_t word) const { return &bits_[hash(node, word) >> shift_]; }
  bool may_have(int32_t node, int32_t word) const {
    const uint64_t hashed = hash(node, word);
    return (bits_[hashed >> shift_] >> (hashed & 63) & 1) != 0;
  }

 private:
  static uint64_t hash(int32_t node, int32_t word) {
    const uint64_t mixed =
        (static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(word)) * 0x9e3779b97f4a7c15ull;
    return (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ull;
  }

  std::vector<uint64_t> bits_;  // a power of two many
  int shift_ = 63;              // to the number of one of these
};

// The root's child by each word, 0 for none.
std::vector<int32_t> root_children(const Trie& trie, int64_t n_words);

// The forms of all labels as word ids, in what shapes they are looked up; borrowed, verified arrays.
struct Lexicon {
  int64_t n_labels, n_words, n_phrases;
  Trie phrases;              // of the forms as they stand
  LabelLists phrase_labels;  // whose each distinct one is
  const uint8_t* phrase_kinds;
  const PhraseNode* nodes;      // of these
  const EdgeFilter* edges;      // of these
  const int32_t* first_phrase;  // the root's child by each word, 0 for none
  const int32_t* first_set;     // the same of the sets' trie
  Trie sets;                    // of the forms' sets of words, each in one fixed order
  LabelLists set_labels;
  LabelLists postings;  // the labels with each word in any form
  const float* posting_values;
  const float* idf;             // of each word
  const int64_t* form_offsets;  // the sets of a label: form_offsets[label] to form_offsets[label + 1] - 1
  const int64_t* set_offsets;   // the words of a set
  const int32_t* set_words;
  const int64_t* part_offsets;  // the parts of a label's heading, as numbers of distinct phrases
  const int32_t* parts;
  LabelLists relations[3];  // broader, narrower, related
};

// What is counted of a candidate, a column each.
enum Count : int {
  count_phrases = 0,  // occurrences of phrases, one column a kind of form
  count_sentences = 4,
  count_inside = 5,
  count_first = 6,
  count_last = 7,
  count_words = 8,
  count_capitals = 9,
  count_others = 10,
  count_share = 11,
  count_bm25 = 12,
  count_parts = 13,
  count_relations = 14,  // three columns
  n_counts = 17,
};

// The words of documents: places first to last - 1 of document i are offsets[i] to offsets[i + 1] - 1; a word
// is an id below n_words, or -1 for one that no label has.
struct Places {
  int64_t n;
  const int64_t* offsets;
  const int32_t* words;
  const uint8_t* kinds;
};

struct Candidates {
  std::vector<int64_t> offsets;  // one more than documents
  std::vector<int32_t> labels;   // rising in a document
  std::vector<uint8_t> found;    // whether a form's words stand in a sentence, or as a phrase
  std::vector<float> counts;     // n_counts a candidate
  std::vector<float> best_bm25;  // of any label, a document
};

// Candidates of every document: the labels that are found, and the n_partial others with the highest BM25
// (which isn't computed where there are to be none); or, where `given` isn't null, the labels that it lists
// for each document, rising. False when memory runs out.
bool match_documents(const Lexicon& lexicon, const Places& places, int64_t n_partial, const LabelLists* given,
                     Candidates& out);

}  // namespace sylvan
