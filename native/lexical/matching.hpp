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

// The forms of all labels as word ids, in what shapes they are looked up; borrowed, verified arrays.
struct Lexicon {
  int64_t n_labels, n_words, n_phrases;
  Trie phrases;              // of the forms as they stand
  LabelLists phrase_labels;  // whose each distinct one is
  const uint8_t* phrase_kinds;
  Trie sets;  // of the forms' sets of words, each in one fixed order
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

// Candidates of every document: the labels that are found, and the n_partial others with the highest BM25;
// or, where `given` isn't null, the labels that it lists for each document, rising. False when memory runs
// out.
bool match_documents(const Lexicon& lexicon, const Places& places, int64_t n_partial, const LabelLists* given,
                     Candidates& out);

}  // namespace sylvan
