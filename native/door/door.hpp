// The thin door between Python and the kernels: array types and one bind function per family.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

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

void bind_arrays(nb::module_& m);
void bind_buckets(nb::module_& m);
void bind_classes(nb::module_& m);
void bind_importers(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_joining(nb::module_& m);
void bind_labels(nb::module_& m);
void bind_matching(nb::module_& m);
void bind_neighbors(nb::module_& m);
void bind_ranking(nb::module_& m);
void bind_readers(nb::module_& m);
void bind_sampling(nb::module_& m);
void bind_text(nb::module_& m);
void bind_vectors(nb::module_& m);
