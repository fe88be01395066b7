#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <new>
#include <optional>
#include <tuple>

#include "bindings/checks.hpp"
#include "bindings/documents.hpp"
#include "lexical/matching.hpp"
#include "lexical/words.hpp"

namespace {

std::tuple<Array<int64_t>, Array<int32_t>, Array<int32_t>, Array<int32_t>, Array<uint8_t>, Array<uint8_t>>
scan_words(const Texts& texts, int64_t first, int64_t last, In<uint32_t> table) {
  need(size(table) > UINT16_MAX, "the table of characters is too short");
  const Documents documents(texts, first, last, {nullptr, 0});
  for (const auto& text : documents.views()) need(text.length < INT32_MAX, "a document is too long");
  sylvan::WordReader reader(table.data(), size(table));
  std::vector<int64_t> offsets(1, 0);
  bool fits = true;
  {
    nb::gil_scoped_release release;
    for (const auto& text : documents.views()) {
      fits = fits && reader.read(sylvan::Characters{text.data, text.length, text.ascii ? 1 : 4});
      offsets.push_back(static_cast<int64_t>(reader.words.size()));
    }
  }
  need(fits, "the texts have too many different words");
  return {to_array(std::move(offsets)),       to_array(std::move(reader.words)),
          to_array(std::move(reader.starts)), to_array(std::move(reader.ends)),
          to_array(std::move(reader.kinds)),  to_array(std::move(reader.bytes))};
}

void need_ids(const In<int32_t>& ids, int64_t low, int64_t n, const char* what) {
  for (int64_t i = 0; i < size(ids); ++i) need(ids.data()[i] >= low && ids.data()[i] < n, what);
}

std::tuple<Array<int32_t>, Array<int32_t>, Array<int32_t>, Array<int32_t>, Array<int32_t>, Array<int32_t>>
build_trie(In<int64_t> offsets, In<int32_t> words, int64_t n_words, bool links) {
  const int64_t n = size(offsets) - 1;
  need(n >= 0 && n < INT32_MAX && n_words >= 0 && n_words < INT32_MAX, "sizes out of range");
  need_offsets(offsets, n, size(words), "the offsets of the sequences are not offsets");
  for (int64_t i = 0; i < n; ++i) need(offsets.data()[i] < offsets.data()[i + 1], "a sequence is empty");
  need_ids(words, 0, n_words, "a word is out of range");
  sylvan::TrieArrays made;
  bool fits = false;
  {
    nb::gil_scoped_release release;
    fits = sylvan::build_trie({n, offsets.data(), words.data()}, made);
    if (fits && links) sylvan::link_trie(made, n_words);
  }
  need(fits, "the sequences have too many words");
  return {to_array(std::move(made.first_child)), to_array(std::move(made.word)),
          to_array(std::move(made.fail)),        to_array(std::move(made.next_end)),
          to_array(std::move(made.ending)),      to_array(std::move(made.number_of))};
}

// The arrays of a trie, as Python has them; links are empty where there are none.
struct TrieIn {
  In<int32_t> first_child, word, fail, next_end, ending;

  sylvan::Trie view() const {
    need(size(first_child) >= 2 && size(word) == size(first_child) - 1 && size(ending) == size(word) &&
             (size(fail) == 0 || size(fail) == size(word)) && size(next_end) == size(fail),
         "the trie's arrays disagree");
    const bool links = size(fail) != 0;
    return {size(word),
            first_child.data(),
            word.data(),
            links ? fail.data() : nullptr,
            links ? next_end.data() : nullptr,
            ending.data()};
  }
};

int64_t trie_fault(In<int32_t> first_child, In<int32_t> word, In<int32_t> fail, In<int32_t> next_end,
                   In<int32_t> ending, int64_t n_words, int64_t n_endings) {
  const sylvan::Trie trie = TrieIn{first_child, word, fail, next_end, ending}.view();
  nb::gil_scoped_release release;
  return static_cast<int64_t>(sylvan::check_trie(trie, n_words, n_endings));
}

sylvan::LabelLists lists_of(const In<int64_t>& offsets, const In<int32_t>& labels, int64_t n,
                            int64_t n_labels, const char* what) {
  need_offsets(offsets, n, size(labels), what);
  need_ids(labels, 0, n_labels, what);
  return {offsets.data(), labels.data()};
}

// What documents are matched with, part by part; owns references to the arrays that the kernel borrows.
class LabelLexicon {
 public:
  LabelLexicon(int64_t n_labels, int64_t n_words) {
    need(n_labels >= 1 && n_labels <= INT32_MAX && n_words >= 0 && n_words < INT32_MAX, "sizes out of range");
    view_.n_labels = n_labels;
    view_.n_words = n_words;
  }

  void phrases(In<int32_t> first_child, In<int32_t> word, In<int32_t> fail, In<int32_t> next_end,
               In<int32_t> ending, In<int64_t> offsets, In<int32_t> labels, In<uint8_t> kinds) {
    take_trie(phrase_trie_, {first_child, word, fail, next_end, ending}, offsets, view_.phrases);
    need(view_.phrases.fail != nullptr, "the phrases' trie needs links");
    need(kinds.size() == labels.size(), "labels and kinds disagree");
    for (int64_t i = 0; i < size(kinds); ++i)
      need(kinds.data()[i] < sylvan::n_form_kinds, "there is no such kind");
    view_.phrase_labels = take_lists(offsets, labels, size(offsets) - 1, "the phrases' labels are unsound");
    view_.phrase_kinds = (phrase_kinds_ = kinds).data();
    view_.n_phrases = size(offsets) - 1;
    nodes_ = sylvan::phrase_nodes(view_.phrases);
    view_.nodes = nodes_.data();
    edges_ = sylvan::EdgeFilter(view_.phrases);
    view_.edges = &edges_;
    first_phrase_ = sylvan::root_children(view_.phrases, view_.n_words);
    view_.first_phrase = first_phrase_.data();
    parts_ |= 1;
  }

  void sets(In<int32_t> first_child, In<int32_t> word, In<int32_t> ending, In<int64_t> offsets,
            In<int32_t> labels) {
    take_trie(set_trie_, {first_child, word, {}, {}, ending}, offsets, view_.sets);
    first_set_ = sylvan::root_children(view_.sets, view_.n_words);
    view_.first_set = first_set_.data();
    view_.set_labels = take_lists(offsets, labels, size(offsets) - 1, "the sets' labels are unsound");
    parts_ |= 2;
  }

  void postings(In<int64_t> offsets, In<int32_t> labels, In<float> values, In<float> idf) {
    need(size(idf) == view_.n_words && values.size() == labels.size(), "words and their values disagree");
    view_.postings = take_lists(offsets, labels, view_.n_words, "the postings are unsound");
    view_.posting_values = (values_ = values).data();
    view_.idf = (idf_ = idf).data();
    parts_ |= 4;
  }

  void parts(In<int64_t> offsets, In<int32_t> phrases) {
    need((parts_ & 1) != 0, "the phrases come first");
    need_offsets(offsets, view_.n_labels, size(phrases), "the labels' parts are unsound");
    need_ids(phrases, 0, view_.n_phrases, "a part is a phrase that there isn't");
    view_.part_offsets = (part_offsets_ = offsets).data();
    view_.parts = (part_phrases_ = phrases).data();
    parts_ |= 128;
  }

  void forms(In<int64_t> form_offsets, In<int64_t> set_offsets, In<int32_t> set_words) {
    need_offsets(form_offsets, view_.n_labels, size(set_offsets) - 1, "the labels' forms are unsound");
    need_offsets(set_offsets, size(set_offsets) - 1, size(set_words), "the forms' words are unsound");
    need_ids(set_words, 0, view_.n_words, "a form has a word that there isn't");
    view_.form_offsets = (form_offsets_ = form_offsets).data();
    view_.set_offsets = (set_offsets_ = set_offsets).data();
    view_.set_words = (set_words_ = set_words).data();
    parts_ |= 8;
  }

  void relations(int64_t which, In<int64_t> offsets, In<int32_t> labels) {
    need(which >= 0 && which < 3, "there are three relations");
    view_.relations[which] = take_lists(offsets, labels, view_.n_labels, "a relation is unsound");
    parts_ |= 16u << which;
  }

  const sylvan::Lexicon& view() const {
    need(parts_ == 255, "a part of the lexicon isn't there yet");
    return view_;
  }

 private:
  void take_trie(TrieIn& owner, const TrieIn& given, const In<int64_t>& offsets, sylvan::Trie& view) {
    owner = given;
    view = owner.view();
    need(size(offsets) >= 1 &&
             sylvan::check_trie(view, view_.n_words, size(offsets) - 1) == sylvan::TrieFault::none,
         "the trie is unsound");
  }

  sylvan::LabelLists take_lists(const In<int64_t>& offsets, const In<int32_t>& labels, int64_t n,
                                const char* what) {
    lists_.push_back({offsets, labels});
    return lists_of(offsets, labels, n, view_.n_labels, what);
  }

  sylvan::Lexicon view_{};
  unsigned parts_ = 0;  // bits of those that are there
  TrieIn phrase_trie_, set_trie_;
  std::vector<sylvan::PhraseNode> nodes_;
  sylvan::EdgeFilter edges_;
  std::vector<int32_t> first_phrase_, first_set_;
  In<uint8_t> phrase_kinds_;
  In<float> values_, idf_;
  In<int64_t> form_offsets_, set_offsets_, part_offsets_;
  In<int32_t> set_words_, part_phrases_;
  std::vector<std::pair<In<int64_t>, In<int32_t>>> lists_;
};

std::tuple<Array<int64_t>, Array<int32_t>, Array<uint8_t>, Array<float>, Array<float>> match_labels(
    const LabelLexicon& lexicon, In<int64_t> offsets, In<int32_t> words, In<uint8_t> kinds, int64_t n_partial,
    std::optional<In<int64_t>> given_offsets, std::optional<In<int32_t>> given_labels) {
  const sylvan::Lexicon& view = lexicon.view();
  const int64_t n = size(offsets) - 1;
  need(n >= 0 && words.size() == kinds.size() && n_partial >= 0, "words and their kinds disagree");
  need_offsets(offsets, n, size(words), "the documents' offsets are not offsets");
  need_ids(words, -1, view.n_words, "a word is out of range");
  need(given_offsets.has_value() == given_labels.has_value(), "given labels need offsets");
  std::optional<sylvan::LabelLists> given;
  if (given_offsets) {
    given = lists_of(*given_offsets, *given_labels, n, view.n_labels, "the given labels are unsound");
  }
  sylvan::Candidates made;
  bool done = false;
  {
    nb::gil_scoped_release release;
    done = sylvan::match_documents(view, {n, offsets.data(), words.data(), kinds.data()}, n_partial,
                                   given ? &*given : nullptr, made);
  }
  if (!done) throw std::bad_alloc();
  return {to_array(std::move(made.offsets)), to_array(std::move(made.labels)),
          to_array(std::move(made.found)), to_array(std::move(made.counts)),
          to_array(std::move(made.best_bm25))};
}

}  // namespace

void bind_lexical(nb::module_& m) {
  m.def("scan_words", &scan_words, nb::arg("texts"), nb::arg("first"), nb::arg("last"),
        nb::arg("table").noconvert(),
        "The words of texts[first:last]: where each text's begin, numbers of distinct words, starts, ends "
        "and kinds "
        "of places, and the distinct words, each with a zero behind it.");
  m.def("build_trie", &build_trie, nb::arg("offsets").noconvert(), nb::arg("words").noconvert(),
        nb::arg("n_words"), nb::arg("links"),
        "The trie of sequences of words: first_child, word, fail, next_end, ending, and each sequence's "
        "number.");
  m.def("trie_fault", &trie_fault, nb::arg("first_child").noconvert(), nb::arg("word").noconvert(),
        nb::arg("fail").noconvert(), nb::arg("next_end").noconvert(), nb::arg("ending").noconvert(),
        nb::arg("n_words"), nb::arg("n_endings"), "Which of the arrays is unsound, from 1; 0 for none.");
  nb::class_<LabelLexicon>(
      m, "LabelLexicon",
      "The words of labels as the kernel sees them; it refers to the arrays that it borrows.")
      .def(nb::init<int64_t, int64_t>(), nb::arg("n_labels"), nb::arg("n_words"))
      .def("phrases", &LabelLexicon::phrases, nb::arg("first_child").noconvert(), nb::arg("word").noconvert(),
           nb::arg("fail").noconvert(), nb::arg("next_end").noconvert(), nb::arg("ending").noconvert(),
           nb::arg("offsets").noconvert(), nb::arg("labels").noconvert(), nb::arg("kinds").noconvert())
      .def("sets", &LabelLexicon::sets, nb::arg("first_child").noconvert(), nb::arg("word").noconvert(),
           nb::arg("ending").noconvert(), nb::arg("offsets").noconvert(), nb::arg("labels").noconvert())
      .def("postings", &LabelLexicon::postings, nb::arg("offsets").noconvert(), nb::arg("labels").noconvert(),
           nb::arg("values").noconvert(), nb::arg("idf").noconvert())
      .def("parts", &LabelLexicon::parts, nb::arg("offsets").noconvert(), nb::arg("phrases").noconvert())
      .def("forms", &LabelLexicon::forms, nb::arg("form_offsets").noconvert(),
           nb::arg("set_offsets").noconvert(), nb::arg("set_words").noconvert())
      .def("relations", &LabelLexicon::relations, nb::arg("which"), nb::arg("offsets").noconvert(),
           nb::arg("labels").noconvert());
  m.def("match_labels", &match_labels, nb::arg("lexicon"), nb::arg("offsets").noconvert(),
        nb::arg("words").noconvert(), nb::arg("kinds").noconvert(), nb::arg("n_partial"),
        nb::arg("given_offsets").noconvert().none() = nb::none(),
        nb::arg("given_labels").noconvert().none() = nb::none(),
        "Candidates of documents: offsets, labels, whether they are found, counts, and each document's best "
        "BM25.");
}
