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

// The two characters whose lower case isn't one character looked up in a table: capital sigma, which becomes
// another letter at a word's end, and capital I with a dot, which becomes two characters.
inline bool has_special(const uint32_t* text, int64_t length) {
  constexpr int64_t step = 256;
  for (int64_t from = 0; from < length; from += step) {
    const int64_t to = from + step < length ? from + step : length;
    unsigned found = 0;
    for (int64_t i = from; i < to; ++i) {
      found |= static_cast<unsigned>(text[i] == 0x3a3) | static_cast<unsigned>(text[i] == 0x130);
    }
    if (found) return true;
  }
  return false;
}

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
// text; the code points of such a text are copied instead, while its chunk of documents is read.
class Documents {
 public:
  Documents(const nb::tuple& texts, int64_t start, int64_t stop, bool lowercase) {
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
      views_.push_back(sylvan::TextView{ascii ? characters(text) : nullptr, length, ascii});
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
                 room, length, lowercase);
      room += length;
    }
  }

  const std::vector<sylvan::TextView>& views() const { return views_; }

 private:
  // A tuple can't change, so its strings stay where they are while the GIL is released.
  static const char* characters(PyObject* text) {
    const char* data = PyUnicode_AsUTF8AndSize(text, nullptr);
    if (data == nullptr) throw nb::python_error();
    return data;
  }

  sylvan::TextView copied(PyObject* text, uint32_t* room, int64_t length, bool lowercase) {
    if (PyUnicode_AsUCS4(text, room, static_cast<Py_ssize_t>(length), 0) == nullptr) throw nb::python_error();
    if (!lowercase || !has_special(room, length)) return sylvan::TextView{room, length, false};
    // str.lower itself, which always gives a str; a subclass may have a method of that name.
    const nb::handle str(reinterpret_cast<PyObject*>(&PyUnicode_Type));
    const nb::object low = str.attr("lower")(nb::handle(text));
    const int64_t low_length = length_of(low.ptr());
    lowered_.emplace_back(new uint32_t[static_cast<size_t>(low_length)]);
    return copied(low.ptr(), lowered_.back().get(), low_length, false);
  }

  std::vector<sylvan::TextView> views_;
  std::unique_ptr<uint32_t[]> copies_;
  std::vector<std::unique_ptr<uint32_t[]>> lowered_;
};
