#include <stdexcept>

#include "../cbor.hpp"
#include "door.hpp"

void bind_importers(nb::module_& m) {
  m.def(
      "cbor_numbers",
      [](In<uint8_t> bytes, int64_t at, Out<double> out) {
        const auto n_bytes = static_cast<int64_t>(bytes.size());
        if (at < 0 || at > n_bytes) throw std::invalid_argument("at must lie within the bytes");
        nb::gil_scoped_release release;
        return sylvan::cbor_numbers(bytes.data(), n_bytes, at, out.data(), static_cast<int64_t>(out.size()));
      },
      nb::arg("bytes").noconvert(), nb::arg("at"), nb::arg("out").noconvert(),
      "Fill out with CBOR numbers from byte `at` on; where the next item begins, or -1 - where it stopped.");
}
