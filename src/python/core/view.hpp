// SPDX-License-Identifier: Apache-2.0
// view.hpp: making the object under cuda.core.utils.StridedMemoryView.
#pragma once

#include "dlpack.hpp"

namespace cucore::python {

/// A new view of class `type`. Shape and strides are copied; `exporter` and `owner` (may be
/// invalid) are kept. Its attributes become Python objects when they are first read.
nb::object make_view(nb::handle type, const DLTensor& tensor, bool readonly, PyObject* exporter,
                     nb::object owner);
/// The same for memory of a CUDA device that may be managed: who reads the device asks the driver.
nb::object make_device_view(nb::handle type, const DLTensor& tensor, PyObject* exporter);

/// A view of what a capsule of DLPack holds, which is taken over; `exporter` is kept.
nb::object take_view(nb::handle type, nb::handle capsule, PyObject* exporter);

/// Exactly numpy.ndarray.
bool is_numpy_array(PyObject* object);
/// A view of such an array; None for elements that DLPack does not know.
nb::object view_of_numpy(nb::handle type, PyObject* array);

/// A view of a tensor of PyTorch or an array of CuPy, ready for work on a stream (-1: no ordering);
/// None for anything else, or anything out of the ordinary, which is then asked by DLPack.
nb::object view_of_foreign(nb::handle type, PyObject* object, PyObject* stream_ptr);

/// A view by whichever protocol an object has: DLPack or an array interface. BufferError.
nb::object view_of_any(nb::handle type, nb::handle object, nb::handle stream_ptr);

/// Fills in a tensor whose arrays are the view's. TypeError for what is no view, BufferError for a
/// view that a tensor cannot describe.
void lend_view(PyObject* object, DLTensor* out);

}  // namespace cucore::python
