// SPDX-License-Identifier: Apache-2.0
// view.hpp: making the object under cuda.core.utils.StridedMemoryView.
#pragma once

#include "dlpack.hpp"

namespace cucore::python {

/// A new view of class `type`. Shape and strides are copied; `exporter` and `owner` (may be
/// invalid) are kept.
nb::object make_view(nb::handle type, const DLTensor& tensor, bool readonly, PyObject* exporter,
                     nb::object owner);

/// A view of what a capsule of DLPack holds, which is taken over; `exporter` is kept.
nb::object take_view(nb::handle type, nb::handle capsule, PyObject* exporter);

/// A view of a tensor of PyTorch or an array of CuPy, ready for work on a stream (-1: no ordering);
/// None for anything else, or anything out of the ordinary, which is then asked by DLPack.
nb::object view_of_foreign(nb::handle type, PyObject* object, PyObject* stream_ptr);

/// Fills in a tensor whose arrays are the view's. TypeError for what is no view, BufferError for a
/// view that a tensor cannot describe.
void lend_view(PyObject* object, DLTensor* out);

}  // namespace cucore::python
