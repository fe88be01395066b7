// The bindings between Python and the kernels: array types, and one bind function per file.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace nb = nanobind;

// A borrowed, contiguous, one-dimensional array on the CPU. `In` is read-only and accepts read-only arrays.
// nb::arg("x").noconvert() at every definition: a silent copy would hide a wrong dtype.
template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A new NumPy array, and one that owns the values of a vector.
template <typename T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <typename T>
Array<T> to_array(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(owned->data(), {owned->size()}, owner);
}

void bind_base(nb::module_& m);
void bind_buckets(nb::module_& m);
void bind_candidates(nb::module_& m);
void bind_classes(nb::module_& m);
void bind_io(nb::module_& m);
void bind_label_filter(nb::module_& m);
void bind_lexical(nb::module_& m);
void bind_linear_search(nb::module_& m);
void bind_linear_training(nb::module_& m);
void bind_text(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_vectors(nb::module_& m);
void bind_vectors_clustering(nb::module_& m);
void bind_vectors_neighbors(nb::module_& m);
