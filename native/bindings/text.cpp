#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/documents.hpp"
#include "text/rows.hpp"
#include "text/word_forms.hpp"

namespace {

using sylvan::Entries;

using Numbers = nb::typed<nb::tuple, int64_t, int64_t, int64_t, int64_t, int64_t>;  // of settings_of

// What words are counted as: its arrays are verified once, and lie where they are as long as it does.
class Forms {
 public:
  Forms(In<uint8_t> words, In<int64_t> offsets, In<uint64_t> slots, In<uint8_t> forms,
        In<int64_t> form_offsets)
      : words_(words), offsets_(offsets), slots_(slots), forms_(forms), form_offsets_(form_offsets) {
    if (offsets.size() < 1 || form_offsets.size() != offsets.size() || !rises_within(offsets, words.size()) ||
        !rises_within(form_offsets, forms.size()) || !names_words()) {
      throw std::invalid_argument("words, their forms, offsets and slots don't fit");
    }
    view_ = sylvan::WordForms{sylvan::FrozenTerms{reinterpret_cast<const char*>(words_.data()),
                                                  offsets_.data(), slots_.data(), slots_.size() - 1},
                              reinterpret_cast<const char*>(forms_.data()), form_offsets_.data()};
  }
  const sylvan::WordForms* view() const { return &view_; }

 private:
  // Whether offsets rise from 0 to the padding of as many bytes.
  static bool rises_within(const In<int64_t>& offsets, size_t n_bytes) {
    const int64_t* at = offsets.data();
    for (size_t i = 1; i < offsets.size(); ++i) {
      if (at[i] <= at[i - 1]) return false;
    }
    return at[0] == 0 && at[offsets.size() - 1] + sylvan::slice_padding <= static_cast<int64_t>(n_bytes);
  }
  // Whether there are a power of two slots, one of them empty, and each full one names a word.
  bool names_words() const {
    const size_t n_words = offsets_.size() - 1;
    if (slots_.size() <= n_words || (slots_.size() & (slots_.size() - 1)) != 0) return false;
    size_t n_full = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const uint64_t slot = slots_.data()[i];
      if (slot != 0 && (slot & 0xffffffffu) - 1 >= n_words) return false;
      n_full += slot != 0;
    }
    return n_full == n_words;
  }

  In<uint8_t> words_;
  In<int64_t> offsets_;
  In<uint64_t> slots_;
  In<uint8_t> forms_;
  In<int64_t> form_offsets_;
  sylvan::WordForms view_{};
};

sylvan::TextSettings settings_of(const In<uint32_t>& table, const nb::tuple& numbers, const Forms* forms) {
  if (numbers.size() != 5) throw std::invalid_argument("settings are five numbers");
  const auto number = [&](int i) { return nb::cast<int64_t>(numbers[static_cast<size_t>(i)]); };
  const int64_t analyzer = number(0), cjk = number(1), min_n = number(2), max_n = number(3);
  if (analyzer < 0 || analyzer > 2 || cjk < 0 || cjk > 2 || min_n < 1 || max_n < min_n || max_n > 1 << 20) {
    throw std::invalid_argument("a setting is out of range");
  }
  if (table.size() <= sylvan::last_selector) throw std::invalid_argument("the table is too short");
  return sylvan::TextSettings{table.data(),
                              static_cast<int64_t>(table.size()),
                              static_cast<sylvan::Analyzer>(analyzer),
                              static_cast<sylvan::Cjk>(cjk),
                              static_cast<int32_t>(min_n),
                              static_cast<int32_t>(max_n),
                              number(4),
                              forms == nullptr ? nullptr : forms->view()};
}

sylvan::Weighting weighting_of(const In<float>& idf, bool use_idf, bool sublinear, int norm) {
  if (norm < 0 || norm > 2) throw std::invalid_argument("norm is 0, 1 or 2");
  return sylvan::Weighting{use_idf ? idf.data() : nullptr, sublinear, static_cast<sylvan::Norm>(norm)};
}

// A growing vocabulary. One thread uses it at a time; a second one at once is refused, not undefined.
class Terms {
 public:
  std::pair<Array<uint64_t>, Array<int64_t>> add(const Texts& texts, int64_t start, int64_t stop,
                                                 In<uint32_t> table, const Numbers& numbers,
                                                 const Forms* forms) {
    const Busy busy(in_use_);
    const sylvan::TextSettings settings = settings_of(table, numbers, forms);
    const Documents documents(texts, start, stop, {settings.table, settings.table_size});
    Entries entries;
    std::vector<int64_t> indptr(documents.views().size() + 1);
    {
      nb::gil_scoped_release release;
      sylvan::count_documents(documents.views(), settings, terms_, entries, indptr.data() + 1);
      entries.shrink_to_fit();
    }
    return {to_array(std::move(entries)), to_array(std::move(indptr))};
  }

  Array<int32_t> absorb(Terms& other) {
    if (&other == this) throw std::invalid_argument("a vocabulary can't absorb itself");
    const Busy busy(in_use_), other_busy(other.in_use_);
    std::vector<int32_t> map(static_cast<size_t>(other.terms_.size()));
    {
      nb::gil_scoped_release release;
      terms_.absorb(other.terms_, map.data());
    }
    return to_array(std::move(map));
  }

  Array<int32_t> document_frequencies() {
    const Busy busy(in_use_);
    std::vector<int32_t> counts(static_cast<size_t>(terms_.size()));
    terms_.document_frequencies(counts.data());
    return to_array(std::move(counts));
  }

  void sort(Out<int32_t> ids) {
    const Busy busy(in_use_);
    check_ids(ids.data(), ids.size());
    nb::gil_scoped_release release;
    terms_.sort(ids.data(), static_cast<int64_t>(ids.size()));
  }

  std::pair<Array<uint8_t>, Array<int64_t>> copy(In<int32_t> ids) {
    const Busy busy(in_use_);
    check_ids(ids.data(), ids.size());
    const int64_t n = static_cast<int64_t>(ids.size());
    std::vector<int64_t> offsets(ids.size() + 1);
    std::vector<uint8_t> bytes;
    {
      nb::gil_scoped_release release;
      terms_.measure(ids.data(), n, offsets.data());
      bytes.resize(static_cast<size_t>(offsets.back() + sylvan::slice_padding));
      terms_.copy_bytes(ids.data(), n, offsets.data(), reinterpret_cast<char*>(bytes.data()));
    }
    return {to_array(std::move(bytes)), to_array(std::move(offsets))};
  }

  int64_t size() const { return terms_.size(); }
  bool overflowed() const { return terms_.overflowed(); }

 private:
  class Busy {
   public:
    explicit Busy(std::atomic_flag& flag) : flag_(flag) {
      if (flag_.test_and_set()) throw std::runtime_error("this vocabulary is in use by another thread");
    }
    ~Busy() { flag_.clear(); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  void check_ids(const int32_t* ids, size_t n) const {
    for (size_t i = 0; i < n; ++i) {
      if (ids[i] < 0 || ids[i] >= terms_.size()) throw std::invalid_argument("an id names no term");
    }
  }

  sylvan::TermTable terms_;
  std::atomic_flag in_use_ = ATOMIC_FLAG_INIT;
};

int64_t first_non_text(const nb::typed<nb::tuple, nb::object, nb::ellipsis>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!PyUnicode_Check(PyTuple_GetItem(texts.ptr(), static_cast<Py_ssize_t>(i)))) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

Array<int64_t> text_lengths(const Texts& texts) {
  std::vector<int64_t> lengths(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    PyObject* text = PyTuple_GetItem(texts.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyUnicode_Check(text)) throw std::invalid_argument("a document is not a str");
    lengths[i] = length_of(text);
  }
  return to_array(std::move(lengths));
}

void check_rows(bool sound) {
  if (!sound) throw std::invalid_argument("the rows name a term that there isn't, or indptr is unsound");
}

void bind_rows(nb::module_& m) {
  m.def(
      "tfidf_add_totals",
      [](In<uint64_t> entries, Out<int64_t> totals) {
        nb::gil_scoped_release release;
        check_rows(sylvan::add_totals(entries.data(), static_cast<int64_t>(entries.size()), totals.data(),
                                      static_cast<int64_t>(totals.size())));
      },
      nb::arg("entries").noconvert(), nb::arg("totals").noconvert(),
      "Adds each entry's count to the total of its term.");
  m.def(
      "tfidf_select_columns",
      [](Out<uint64_t> entries, Out<int64_t> indptr, In<int32_t> column_of) {
        if (indptr.size() < 1) throw std::invalid_argument("indptr is empty");
        nb::gil_scoped_release release;
        check_rows(sylvan::select_columns(entries.data(), static_cast<int64_t>(entries.size()), indptr.data(),
                                          static_cast<int64_t>(indptr.size()) - 1, column_of.data(),
                                          static_cast<int64_t>(column_of.size())));
      },
      nb::arg("entries").noconvert(), nb::arg("indptr").noconvert(), nb::arg("column_of").noconvert(),
      "Renumbers terms as columns in place, drops those of column -1 and sorts each row.");
  m.def(
      "tfidf_weigh_rows",
      [](In<uint64_t> entries, In<int64_t> indptr, In<float> idf, bool use_idf, bool sublinear, int norm,
         int64_t n_columns, Out<int32_t> indices, Out<float> data) {
        if (indptr.size() < 1 || indices.size() != entries.size() || data.size() != entries.size() ||
            (use_idf && static_cast<int64_t>(idf.size()) != n_columns)) {
          throw std::invalid_argument("the sizes of entries, indptr, idf, indices and data don't fit");
        }
        const sylvan::Weighting weighting = weighting_of(idf, use_idf, sublinear, norm);
        nb::gil_scoped_release release;
        check_rows(sylvan::weigh_rows(entries.data(), static_cast<int64_t>(entries.size()), indptr.data(),
                                      static_cast<int64_t>(indptr.size()) - 1, n_columns, weighting,
                                      indices.data(), data.data()));
      },
      nb::arg("entries").noconvert(), nb::arg("indptr").noconvert(), nb::arg("idf").noconvert(),
      nb::arg("use_idf"), nb::arg("sublinear"), nb::arg("norm"), nb::arg("n_columns"),
      nb::arg("indices").noconvert(), nb::arg("data").noconvert(), "Writes columns and weights of rows.");
}

std::tuple<Array<int64_t>, Array<int32_t>, Array<float>> transform(
    const Texts& texts, int64_t start, int64_t stop, In<uint32_t> table, const Numbers& numbers,
    In<uint8_t> bytes, In<int64_t> offsets, In<uint64_t> slots, In<float> idf, bool use_idf, bool sublinear,
    int norm, const Forms* forms) {
  const int64_t n_columns = static_cast<int64_t>(offsets.size()) - 1;
  if (n_columns < 0 || slots.size() == 0 || (slots.size() & (slots.size() - 1)) != 0 ||
      (use_idf && static_cast<int64_t>(idf.size()) != n_columns)) {
    throw std::invalid_argument("the sizes of offsets, slots and idf don't fit");
  }
  const sylvan::TextSettings settings = settings_of(table, numbers, forms);
  const sylvan::Weighting weighting = weighting_of(idf, use_idf, sublinear, norm);
  const Documents documents(texts, start, stop, {settings.table, settings.table_size});
  const sylvan::FrozenTerms terms{reinterpret_cast<const char*>(bytes.data()), offsets.data(), slots.data(),
                                  slots.size() - 1};
  std::vector<int64_t> indptr(documents.views().size() + 1);
  std::vector<int32_t> indices;
  std::vector<float> data;
  {
    nb::gil_scoped_release release;
    Entries entries;
    sylvan::look_up_documents(documents.views(), settings, terms, n_columns, entries, indptr.data() + 1);
    indices.resize(entries.size());
    data.resize(entries.size());
    sylvan::weigh_rows(entries.data(), static_cast<int64_t>(entries.size()), indptr.data(),
                       static_cast<int64_t>(documents.views().size()), n_columns, weighting, indices.data(),
                       data.data());
  }
  return {to_array(std::move(indptr)), to_array(std::move(indices)), to_array(std::move(data))};
}

void bind_vocabulary(nb::module_& m) {
  m.def(
      "tfidf_slots",
      [](In<uint8_t> bytes, In<int64_t> offsets) {
        const int64_t n_terms = static_cast<int64_t>(offsets.size()) - 1;
        if (n_terms < 0) throw std::invalid_argument("offsets are empty");
        std::vector<uint64_t> slots(static_cast<size_t>(sylvan::n_slots_for(n_terms)));
        {
          nb::gil_scoped_release release;
          sylvan::fill_slots(reinterpret_cast<const char*>(bytes.data()), offsets.data(), n_terms,
                             slots.data(), static_cast<int64_t>(slots.size()));
        }
        return to_array(std::move(slots));
      },
      nb::arg("bytes").noconvert(), nb::arg("offsets").noconvert(),
      "The hash table of a verified vocabulary.");
  m.def(
      "tfidf_check_terms",
      [](In<uint8_t> bytes, In<int64_t> offsets, In<uint64_t> slots, In<int64_t> runs) {
        if (offsets.size() < 1 || bytes.size() < static_cast<size_t>(sylvan::slice_padding)) {
          return static_cast<int>(sylvan::TermsFault::offsets);
        }
        nb::gil_scoped_release release;
        return static_cast<int>(sylvan::check_terms(
            reinterpret_cast<const char*>(bytes.data()), static_cast<int64_t>(bytes.size()), offsets.data(),
            static_cast<int64_t>(offsets.size()) - 1, slots.data(), static_cast<int64_t>(slots.size()),
            runs.data(), static_cast<int64_t>(runs.size())));
      },
      nb::arg("bytes").noconvert(), nb::arg("offsets").noconvert(), nb::arg("slots").noconvert(),
      nb::arg("runs").noconvert(), "The first fault of a vocabulary's arrays; 0 when they are sound.");
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<Forms>(m, "TfidfForms",
                    "What words are counted as: word i of the first as word i of the second.")
      .def(nb::init<In<uint8_t>, In<int64_t>, In<uint64_t>, In<uint8_t>, In<int64_t>>(),
           nb::arg("words").noconvert(), nb::arg("offsets").noconvert(), nb::arg("slots").noconvert(),
           nb::arg("forms").noconvert(), nb::arg("form_offsets").noconvert());
  nb::class_<Terms>(m, "TfidfTerms", "A vocabulary that grows while documents are counted.")
      .def(nb::init<>())
      .def("add", &Terms::add, nb::arg("texts"), nb::arg("start"), nb::arg("stop"),
           nb::arg("table").noconvert(), nb::arg("settings"), nb::arg("forms").none() = nb::none(),
           "Counts texts[start:stop]; their entries (term << 32 | count) and indptr.")
      .def("absorb", &Terms::absorb, nb::arg("other"),
           "Takes over the terms of another; the number here of each of its terms.")
      .def("document_frequencies", &Terms::document_frequencies)
      .def("sort", &Terms::sort, nb::arg("ids").noconvert(), "Sorts term numbers by their terms, in place.")
      .def("copy", &Terms::copy, nb::arg("ids").noconvert(), "Bytes (with padding) and offsets of terms.")
      .def("__len__", &Terms::size)
      .def_prop_ro("overflowed", &Terms::overflowed);
  m.def("tfidf_first_non_text", &first_non_text, nb::arg("texts"),
        "Place of the first that is no str, or -1.");
  m.def("tfidf_text_lengths", &text_lengths, nb::arg("texts"), "Length of each text in characters.");
  m.def("tfidf_transform", &transform, nb::arg("texts"), nb::arg("start"), nb::arg("stop"),
        nb::arg("table").noconvert(), nb::arg("settings"), nb::arg("bytes").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("slots").noconvert(), nb::arg("idf").noconvert(),
        nb::arg("use_idf"), nb::arg("sublinear"), nb::arg("norm"), nb::arg("forms").none() = nb::none(),
        "indptr, indices and data of texts[start:stop] over a verified vocabulary.");
  bind_rows(m);
  bind_vocabulary(m);
}
