#include "../check.hpp"
#include "door.hpp"

#include <nanobind/stl/pair.h>

void bind_arrays(nb::module_& m) {
  m.def(
      "check_compressed",
      [](In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_columns) {
        if (indptr.size() < 1 || indices.size() != data.size()) {
          return std::make_pair(static_cast<int>(sylvan::CheckFault::offsets_not_monotone), int64_t{0});
        }
        sylvan::CheckResult result{};
        {
          nb::gil_scoped_release release;
          result = sylvan::check_compressed(indptr.data(), static_cast<int64_t>(indptr.size()) - 1,
                                            indices.data(), data.data(),
                                            static_cast<int64_t>(indices.size()), n_columns);
        }
        return std::make_pair(static_cast<int>(result.fault), result.row);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("data").noconvert(),
      nb::arg("n_columns"), "Fault code and first row at fault of a CSR matrix; (0, -1) when it is sound.");
}
