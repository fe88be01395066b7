#include "lexical/matching.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/platform.hpp"
#include "lexical/words.hpp"

namespace sylvan {

namespace {

struct Free {
  void operator()(void* at) const { std::free(at); }
};

// Zeros of which only those that are used take memory: one a label, of which a document has few.
template <typename T>
using Zeros = std::unique_ptr<T[], Free>;
template <typename T>
Zeros<T> zeros(int64_t n) {
  return Zeros<T>(static_cast<T*>(std::calloc(static_cast<size_t>(n > 0 ? n : 1), sizeof(T))));
}

// A set of words that stands in a sentence: a node of the trie, and where its words are noted.
struct FoundSet {
  int32_t ending, first_word, n_words;
};

// What is noted of a label's word while a document is read.
struct WordState {
  int32_t sentence;     // the last that it stood in
  int32_t largest;      // how many words the largest set of a sentence has that it is in
  int32_t occurrences;  // in the document
};

// Which words may stand in a sentence, by a few of their bits: small enough to be near whatever else is
// asked.
class WordFilter {
 public:
  void add(int32_t word) { bits_[place(word)] |= bit(word); }
  void remove(int32_t word) { bits_[place(word)] = 0; }
  bool may_have(int32_t word) const { return (bits_[place(word)] & bit(word)) != 0; }

 private:
  static size_t place(int32_t word) { return static_cast<size_t>(word >> 6 & 63); }
  static uint64_t bit(int32_t word) { return uint64_t{1} << (word & 63); }
  uint64_t bits_[64] = {};
};

class Matcher {
 public:
  Matcher(const Lexicon& lexicon, int64_t n_partial)
      : lexicon_(lexicon),
        n_partial_(n_partial),
        row_of_(zeros<int32_t>(lexicon.n_labels)),
        bm25_(zeros<float>(lexicon.n_labels)),
        states_(zeros<WordState>(lexicon.n_words)),
        stands_(zeros<uint8_t>(lexicon.n_phrases)),
        has_parts_(lexicon.part_offsets[lexicon.n_labels] > 0) {
    for (int which = 0; which < 3; ++which) {
      has_relations_[which] = lexicon.relations[which].offsets[lexicon.n_labels] > 0;
    }
  }

  bool ready() const { return row_of_ && bm25_ && states_ && stands_; }

  void match(const int32_t* words, const uint8_t* kinds, int64_t n, const int32_t* given, int64_t n_given,
             Candidates& out) {
    words_ = words;
    kinds_ = kinds;
    n_ = n;
    find_phrases();
    find_sets();
    tally_words();
    scored_ = n_partial_ > 0;
    out.best_bm25.push_back(scored_ ? score_bm25() : 0.0f);
    if (given != nullptr) {
      write(given, n_given, out);
    } else {
      chosen_ = found_;
      choose_partial();
      std::sort(chosen_.begin(), chosen_.end());
      write(chosen_.data(), static_cast<int64_t>(chosen_.size()), out);
    }
    forget();
  }

 private:
  // The counts of a label that is found, made when it is first needed.
  float* counts_of(int32_t label) {
    int32_t& row = row_of_[label];
    if (row == 0) {
      found_.push_back(label);
      row = static_cast<int32_t>(found_.size());
      counts_.resize(counts_.size() + n_counts, 0.0f);
      float* counts = counts_.data() + counts_.size() - n_counts;
      counts[count_first] = static_cast<float>(n_);
      counts[count_others] = static_cast<float>(lexicon_.n_labels);
      return counts;
    }
    return counts_.data() + static_cast<size_t>(row - 1) * n_counts;
  }

  // The child of a node of the automaton by a word, -1 for none.
  int32_t child(int32_t node, int32_t by) const {
    if (!lexicon_.edges->may_have(node, by)) return -1;
    const int32_t* words = lexicon_.phrases.word;
    int32_t low = lexicon_.nodes[node].first_child, high = lexicon_.nodes[node + 1].first_child;
    while (high - low > 8) {
      const int32_t middle = low + (high - low) / 2;
      if (words[middle] <= by) {
        low = middle;
      } else {
        high = middle;
      }
    }
    for (; low < high; ++low) {
      if (words[low] == by) return low;
    }
    return -1;
  }

  // Every occurrence of every phrase that doesn't go beyond a sentence.
  void find_phrases() {
    const PhraseNode* nodes = lexicon_.nodes;
    const int32_t* first_phrase = lexicon_.first_phrase;
    int32_t node = 0;
    int64_t sentence = 0;
    for (int64_t at = 0; at < n_; ++at) {
      // The nodes of single words ahead are known: what is asked of them is on its way while others are
      // asked.
      if (at + 12 < n_ && words_[at + 12] >= 0) SYLVAN_PREFETCH(&nodes[first_phrase[words_[at + 12]]]);
      if (at + 6 < n_ && words_[at + 5] >= 0 && words_[at + 6] >= 0) {
        SYLVAN_PREFETCH(lexicon_.edges->place(first_phrase[words_[at + 5]], words_[at + 6]));
      }
      const int32_t word = words_[at];
      if ((kinds_[at] & word_begins_sentence) != 0) {
        node = 0;
        sentence = at;
      }
      if (word < 0) {
        node = 0;
        continue;
      }
      int32_t next = -1;
      while (node != 0 && (next = child(node, word)) < 0) node = nodes[node].fail;
      node = node == 0 ? first_phrase[word] : next;
      for (int32_t end = nodes[node].ending >= 0 ? node : nodes[node].next_end; end != 0;
           end = nodes[end].next_end) {
        note_phrase(nodes[end].ending, at, sentence);
      }
    }
  }

  void note_phrase(int32_t ending, int64_t at, int64_t sentence) {
    if (has_parts_ && stands_[ending] == 0) {
      stands_[ending] = 1;
      standing_.push_back(ending);
    }
    const LabelLists& lists = lexicon_.phrase_labels;
    for (int64_t i = lists.offsets[ending]; i < lists.offsets[ending + 1]; ++i) {
      float* counts = counts_of(lists.labels[i]);
      counts[count_phrases + lexicon_.phrase_kinds[i]] += 1.0f;
      // Its last word says as much as its first: names have capitals in both, and at a sentence's start the
      // first word has one in any case.
      if (at > sentence && (kinds_[at] & word_is_capital) != 0) counts[count_capitals] += 1.0f;
    }
  }

  // Every form all of whose words stand in a sentence, sentence by sentence.
  void find_sets() {
    for (int64_t first = 0; first < n_;) {
      int64_t last = first + 1;
      while (last < n_ && (kinds_[last] & word_begins_sentence) == 0) ++last;
      ++n_sentences_;
      distinct_.clear();
      for (int64_t at = first; at < last; ++at) {
        const int32_t word = words_[at];
        if (word < 0 || states_[word].sentence == n_sentences_) continue;
        states_[word].sentence = n_sentences_;
        distinct_.push_back(word);
        filter_.add(word);
        SYLVAN_PREFETCH(&lexicon_.first_set[word]);
      }
      sets_.clear();
      set_words_.clear();
      for (const int32_t word : distinct_) {
        SYLVAN_PREFETCH(&lexicon_.sets.first_child[lexicon_.first_set[word]]);
        SYLVAN_PREFETCH(&lexicon_.sets.ending[lexicon_.first_set[word]]);
      }
      for (const int32_t word : distinct_) {
        if (lexicon_.first_set[word] == 0) continue;
        path_.assign(1, word);
        descend(lexicon_.first_set[word]);
      }
      note_sets(first);
      for (const int32_t word : distinct_) filter_.remove(word);
      first = last;
    }
  }

  // The sets of the trie below a node whose words all stand in the sentence; path_ leads to the node.
  void descend(int32_t node) {
    const Trie& trie = lexicon_.sets;
    if (trie.ending[node] >= 0) {
      sets_.push_back(
          {trie.ending[node], static_cast<int32_t>(set_words_.size()), static_cast<int32_t>(path_.size())});
      set_words_.insert(set_words_.end(), path_.begin(), path_.end());
    }
    if (path_.size() >= most_set_words) return;
    const int32_t first = trie.first_child[node], last = trie.first_child[node + 1];
    // Whichever are fewer are gone through: the children, or the words of the sentence.
    if (last - first <= 32 * static_cast<int32_t>(distinct_.size())) {
      for (int32_t child = first; child < last; ++child) {
        const int32_t word = trie.word[child];
        if (filter_.may_have(word) && states_[word].sentence == n_sentences_) enter(child);
      }
      return;
    }
    for (const int32_t word : distinct_) {
      const int32_t child = trie.child(node, word);
      if (child >= 0) enter(child);
    }
  }

  void enter(int32_t child) {
    path_.push_back(lexicon_.sets.word[child]);
    descend(child);
    path_.pop_back();
  }

  void note_sets(int64_t sentence) {
    for (const FoundSet& set : sets_) {
      for (int32_t i = 0; i < set.n_words; ++i) {
        int32_t& largest = states_[set_words_[static_cast<size_t>(set.first_word + i)]].largest;
        largest = std::max(largest, set.n_words);
      }
    }
    // Those that aren't inside others come first: a label is inside where all its forms in the sentence are.
    for (const bool inside : {false, true}) {
      for (const FoundSet& set : sets_) {
        if (is_inside(set) == inside) note_set(set, inside, sentence);
      }
    }
    for (const int32_t word : set_words_) states_[word].largest = 0;
  }

  // Whether each of its words is also one of a larger set in the sentence.
  bool is_inside(const FoundSet& set) const {
    for (int32_t i = 0; i < set.n_words; ++i) {
      if (states_[set_words_[static_cast<size_t>(set.first_word + i)]].largest <= set.n_words) return false;
    }
    return true;
  }

  void note_set(const FoundSet& set, bool inside, int64_t sentence) {
    const LabelLists& lists = lexicon_.set_labels;
    const int64_t from = lists.offsets[set.ending], to = lists.offsets[set.ending + 1];
    const float others = static_cast<float>(to - from - 1), place = static_cast<float>(sentence);
    for (int64_t i = from; i < to; ++i) {
      float* counts = counts_of(lists.labels[i]);
      const bool again = counts[count_sentences] > 0.0f && counts[count_last] == place;
      if (!again) {
        counts[count_sentences] += 1.0f;
        counts[count_inside] += inside ? 1.0f : 0.0f;
      }
      counts[count_first] = std::min(counts[count_first], place);
      counts[count_last] = place;
      counts[count_words] = std::max(counts[count_words], static_cast<float>(set.n_words));
      counts[count_others] = std::min(counts[count_others], others);
    }
  }

  void tally_words() {
    distinct_.clear();
    for (int64_t at = 0; at < n_; ++at) {
      const int32_t word = words_[at];
      if (word >= 0 && states_[word].occurrences++ == 0) distinct_.push_back(word);
    }
  }

  // BM25 of every label as a document, for the words of this one; returns the highest.
  float score_bm25() {
    float best = 0.0f;
    const LabelLists& postings = lexicon_.postings;
    for (const int32_t word : distinct_) {
      const float weight = static_cast<float>(1.0 + std::log(static_cast<double>(states_[word].occurrences)));
      for (int64_t i = postings.offsets[word]; i < postings.offsets[word + 1]; ++i) {
        float& score = bm25_[postings.labels[i]];
        if (score == 0.0f) touched_.push_back(postings.labels[i]);
        score += weight * lexicon_.posting_values[i];
        best = std::max(best, score);
      }
    }
    return best;
  }

  // Adds the best by BM25 of the labels that aren't found; of equal ones the lower.
  void choose_partial() {
    others_.clear();
    for (const int32_t label : touched_) {
      if (row_of_[label] == 0) others_.push_back(label);
    }
    const auto better = [this](int32_t a, int32_t b) {
      return bm25_[a] != bm25_[b] ? bm25_[a] > bm25_[b] : a < b;
    };
    if (static_cast<int64_t>(others_.size()) > n_partial_) {
      std::nth_element(others_.begin(), others_.begin() + n_partial_, others_.end(), better);
      others_.resize(static_cast<size_t>(n_partial_));
    }
    chosen_.insert(chosen_.end(), others_.begin(), others_.end());
  }

  // The largest share, by idf, of a form's words that stand anywhere in the document.
  float share_of(int32_t label) const {
    float best = 0.0f;
    for (int64_t form = lexicon_.form_offsets[label]; form < lexicon_.form_offsets[label + 1]; ++form) {
      float here = 0.0f, all = 0.0f;
      for (int64_t i = lexicon_.set_offsets[form]; i < lexicon_.set_offsets[form + 1]; ++i) {
        const int32_t word = lexicon_.set_words[i];
        all += lexicon_.idf[word];
        here += states_[word].occurrences > 0 ? lexicon_.idf[word] : 0.0f;
      }
      if (all > 0.0f) best = std::max(best, here / all);
    }
    return best;
  }

  // The share of a heading's parts that stand as phrases.
  float parts_of(int32_t label) const {
    const int64_t from = lexicon_.part_offsets[label], to = lexicon_.part_offsets[label + 1];
    int64_t n = 0;
    for (int64_t i = from; i < to; ++i) n += stands_[lexicon_.parts[i]];
    return from == to ? 0.0f : static_cast<float>(n) / static_cast<float>(to - from);
  }

  void write(const int32_t* labels, int64_t n, Candidates& out) const {
    size_t at = out.counts.size();
    out.counts.resize(at + static_cast<size_t>(n) * n_counts, 0.0f);
    for (int64_t i = 0; i < n; ++i, at += n_counts) {
      const int32_t label = labels[i], row = row_of_[label];
      float* counts = out.counts.data() + at;
      if (row != 0) {
        std::copy_n(counts_.data() + static_cast<size_t>(row - 1) * n_counts, n_counts, counts);
      } else {
        counts[count_first] = static_cast<float>(n_);
      }
      const bool whole = counts[count_sentences] > 0.0f;  // all words of a form are there
      counts[count_share] = whole ? 1.0f : share_of(label);
      if (scored_) counts[count_bm25] = bm25_[label];
      if (has_parts_) counts[count_parts] = parts_of(label);
      for (int which = 0; which < 3; ++which) {
        if (has_relations_[which])
          counts[count_relations + which] = related_of(lexicon_.relations[which], label);
      }
      out.labels.push_back(label);
      out.found.push_back(row != 0);
    }
    out.offsets.push_back(static_cast<int64_t>(out.labels.size()));
  }

  // How many of the labels that it is related to are found.
  float related_of(const LabelLists& lists, int32_t label) const {
    int64_t n = 0;
    for (int64_t i = lists.offsets[label]; i < lists.offsets[label + 1]; ++i)
      n += row_of_[lists.labels[i]] != 0;
    return static_cast<float>(n);
  }

  void forget() {
    for (const int32_t label : found_) row_of_[label] = 0;
    for (const int32_t label : touched_) bm25_[label] = 0.0f;
    for (const int32_t word : distinct_) states_[word].occurrences = 0;
    for (const int32_t ending : standing_) stands_[ending] = 0;
    standing_.clear();
    found_.clear();
    touched_.clear();
    counts_.clear();
  }

  const Lexicon& lexicon_;
  int64_t n_partial_;
  Zeros<int32_t> row_of_;  // of a label that is found, from 1
  Zeros<float> bm25_;
  Zeros<WordState> states_;
  Zeros<uint8_t> stands_;  // whether a phrase stands in the document
  std::vector<int32_t> standing_, found_, touched_, others_, chosen_, distinct_, path_, set_words_;
  std::vector<FoundSet> sets_;
  WordFilter filter_;
  bool has_parts_, has_relations_[3];
  bool scored_ = false;
  std::vector<float> counts_;
  const int32_t* words_ = nullptr;
  const uint8_t* kinds_ = nullptr;
  int64_t n_ = 0;
  int32_t n_sentences_ = 0;
};

}  // namespace

EdgeFilter::EdgeFilter(const Trie& trie) {
  int log2 = 1;
  while ((int64_t{64} << log2) < 16 * trie.n_nodes) ++log2;
  bits_.assign(size_t{1} << log2, 0);
  shift_ = 64 - log2;
  for (int32_t node = 0; node < static_cast<int32_t>(trie.n_nodes); ++node) {
    for (int32_t child = trie.first_child[node]; child < trie.first_child[node + 1]; ++child) {
      const uint64_t hashed = hash(node, trie.word[child]);
      bits_[hashed >> shift_] |= uint64_t{1} << (hashed & 63);
    }
  }
}

std::vector<PhraseNode> phrase_nodes(const Trie& trie) {
  std::vector<PhraseNode> nodes;
  nodes.reserve(static_cast<size_t>(trie.n_nodes + 1));
  for (int64_t i = 0; i < trie.n_nodes; ++i) {
    nodes.push_back({trie.first_child[i], trie.fail[i], trie.next_end[i], trie.ending[i]});
  }
  nodes.push_back({trie.first_child[trie.n_nodes], 0, 0, -1});
  return nodes;
}

std::vector<int32_t> root_children(const Trie& trie, int64_t n_words) {
  std::vector<int32_t> children(static_cast<size_t>(n_words), 0);
  for (int32_t node = trie.first_child[0]; node < trie.first_child[1]; ++node) {
    children[static_cast<size_t>(trie.word[node])] = node;
  }
  return children;
}

bool match_documents(const Lexicon& lexicon, const Places& places, int64_t n_partial, const LabelLists* given,
                     Candidates& out) {
  Matcher matcher(lexicon, n_partial);
  if (!matcher.ready()) return false;
  out.offsets.push_back(0);
  for (int64_t i = 0; i < places.n; ++i) {
    const int64_t first = places.offsets[i], n = places.offsets[i + 1] - first;
    const int32_t* listed = given == nullptr ? nullptr : given->labels + given->offsets[i];
    const int64_t n_listed = given == nullptr ? 0 : given->offsets[i + 1] - given->offsets[i];
    matcher.match(places.words + first, places.kinds + first, n, listed, n_listed, out);
  }
  return true;
}

}  // namespace sylvan
