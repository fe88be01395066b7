// Texts of Python as kernels read them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bindings/bindings.hpp"
#include "text/ngrams.hpp"

using Texts = nb::typed<nb::tuple, nb::str, nb::ellipsis>;

// The bits of a table of characters (base/characters.hpp); null for documents that are read as they are.
struct CharacterTable {
  const uint32_t* bits;
  int64_t size;

  // The bits of all characters of a text together. Below the first combining mark no text has to be composed,
  // and the one letter whose lower case is two characters is looked for by itself.
  uint32_t bits_of(const uint32_t* text, int64_t length) const {
    constexpr int64_t step = 256;
    constexpr uint32_t first_mark = 0x300, dotted_capital = 0x130;
    uint32_t found = 0;
    for (int64_t from = 0; from < length; from += step) {
      const int64_t to = from + step < length ? from + step : length;
      unsigned above = 0;
      for (int64_t i = from; i < to; ++i) {
        above |=
            static_cast<unsigned>(text[i] >= first_mark) | static_cast<unsigned>(text[i] == dotted_capital);
      }
      if (!above) continue;
      for (int64_t i = from; i < to; ++i) {
        if (static_cast<int64_t>(text[i]) < size) found |= bits[text[i]];
      }
    }
    return found;
  }
};

inline int64_t length_of(PyObject* text) { return static_cast<int64_t>(PyUnicode_GetLength(text)); }

// str.isascii, looked up once and then called without Python's detours: for short texts they would be a tenth
// of the time.
class IsAscii {
 public:
  IsAscii() {
    const auto* method = static_cast<const PyMethodDef*>(PyType_GetSlot(&PyUnicode_Type, Py_tp_methods));
    while (method != nullptr && method->ml_name != nullptr && std::strcmp(method->ml_name, "isascii") != 0)
      ++method;
    if (method == nullptr || method->ml_name == nullptr || method->ml_flags != METH_NOARGS) {
      throw std::runtime_error("this Python's str has another isascii than its manual says");
    }
    function_ = method->ml_meth;
  }

  bool operator()(PyObject* text) const {
    const nb::object answer = nb::steal(function_(text, nullptr));
    if (!answer.is_valid()) throw nb::python_error();
    return answer.ptr() == Py_True;
  }

 private:
  PyCFunction function_;
};

// Documents as kernels read them. CPython's stable ABI gives the characters of ASCII texts where they lie:
// they are their own UTF-8. Asked for the UTF-8 of any other text, Python would store it for as long as the
// text; the code points of such a text are copied instead, while its chunk of documents is read. With a
// table, texts are composed first (Unicode's NFC), and brought to lower case where it can't be looked up.
class Documents {
 public:
  Documents(const nb::tuple& texts, int64_t start, int64_t stop, CharacterTable table) : table_(table) {
    if (start < 0 || stop < start || stop > static_cast<int64_t>(texts.size())) {
      throw std::invalid_argument("start and stop lie outside of texts");
    }
    const IsAscii is_ascii;
    views_.reserve(static_cast<size_t>(stop - start));
    int64_t n_copied = 0;
    for (int64_t i = start; i < stop; ++i) {
      PyObject* text = PyTuple_GetItem(texts.ptr(), static_cast<Py_ssize_t>(i));
      if (!PyUnicode_Check(text)) throw std::invalid_argument("a document is not a str");
      const bool ascii = is_ascii(text);
      const int64_t length = length_of(text);
      views_.push_back(sylvan::TextView{ascii ? characters(text, length) : nullptr, length, ascii});
      n_copied += ascii ? 0 : length;
    }
    if (n_copied == 0) return;
    copies_.reset(
        new uint32_t[static_cast<size_t>(n_copied)]);  // at once: many small blocks cost more than a copy
    uint32_t* room = copies_.get();
    for (size_t i = 0; i < views_.size(); ++i) {
      if (views_[i].ascii) continue;
      const int64_t length = views_[i].length;
      views_[i] =
          copied(PyTuple_GetItem(texts.ptr(), static_cast<Py_ssize_t>(start) + static_cast<Py_ssize_t>(i)),
                 room, length, sylvan::composes_bit | sylvan::lowers_bit);
      room += length;
    }
  }

  const std::vector<sylvan::TextView>& views() const { return views_; }

 private:
  // A tuple can't change, so its strings stay where they are while the GIL is released.
  const char* characters(PyObject* text, [[maybe_unused]] int64_t length) {
    const char* data = PyUnicode_AsUTF8AndSize(text, nullptr);
    if (data == nullptr) throw nb::python_error();
#ifdef __SANITIZE_ADDRESS__  // behind a str lie its 0 and others: AddressSanitizer knows where a block ends
    blocks_.emplace_back(new char[static_cast<size_t>(length)]);
    data = static_cast<const char*>(std::memcpy(blocks_.back().get(), data, static_cast<size_t>(length)));
#endif
    return data;
  }

  // The characters of a text in `room`, or elsewhere those of what it becomes by the changes that are left.
  sylvan::TextView copied(PyObject* text, uint32_t* room, int64_t length, uint32_t left) {
    if (PyUnicode_AsUCS4(text, room, static_cast<Py_ssize_t>(length), 0) == nullptr) throw nb::python_error();
    const uint32_t change = table_.bits == nullptr || left == 0 ? 0 : left & table_.bits_of(room, length);
    if (change == 0) return sylvan::TextView{room, length, false};
    nb::object changed;
    if (change & sylvan::composes_bit) {
      if (!normalize_.is_valid()) normalize_ = nb::module_::import_("unicodedata").attr("normalize");
      changed = normalize_("NFC", nb::handle(text));
      left = sylvan::lowers_bit;
    } else {
      // str.lower itself, which always gives a str; a subclass may have a method of that name.
      const nb::handle str(reinterpret_cast<PyObject*>(&PyUnicode_Type));
      changed = str.attr("lower")(nb::handle(text));
      left = 0;
    }
    const int64_t new_length = length_of(changed.ptr());
    changed_.emplace_back(new uint32_t[static_cast<size_t>(new_length)]);
    return copied(changed.ptr(), changed_.back().get(), new_length, left);
  }

  CharacterTable table_;
  nb::object normalize_;  // unicodedata's, once it is needed
  std::vector<sylvan::TextView> views_;
  std::unique_ptr<uint32_t[]> copies_;
  std::vector<std::unique_ptr<uint32_t[]>> changed_;
#ifdef __SANITIZE_ADDRESS__
  std::vector<std::unique_ptr<char[]>> blocks_;
#endif
};
