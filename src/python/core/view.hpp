// SPDX-License-Identifier: Apache-2.0
// view.hpp: making the object under cuda.core.utils.StridedMemoryView.
#pragma once

#include "dlpack.hpp"

namespace cucore::python {

/// What a tensor does not say of itself.
struct Traits {
  bool is_readonly = false;
  bool may_be_managed = false;  ///< memory of a CUDA device: who reads the device asks the driver
};
/// A new view of class `type`. Shape and strides are copied; `exporter` is kept. Its attributes
/// become Python objects when they are first read.
PyObject* make_view(PyTypeObject* type, const DLTensor& tensor, PyObject* exporter,
                    Traits traits = {});

/// A view of what a capsule of DLPack holds, which is taken over; `exporter` is kept.
nb::object take_view(nb::handle type, nb::handle capsule, PyObject* exporter);

/// A view of an array of NumPy, a tensor of PyTorch or an array of CuPy, ready for work on a stream
/// (-1: no ordering). Null for anything else, or anything out of the ordinary, which is then asked
/// by DLPack. An object of a derived class may mean something else, and is asked so, too.
PyObject* view_of_known(PyTypeObject* type, PyObject* object, PyObject* stream_ptr);
/// The same for an array of NumPy.
PyObject* view_of_numpy(PyTypeObject* type, PyObject* array);

/// A view by whichever protocol an object has: DLPack or an array interface. BufferError.
nb::object view_of_any(nb::handle type, nb::handle object, nb::handle stream_ptr);

/// Fills in a tensor whose arrays are the view's. TypeError for what is no view, BufferError for a
/// view that a tensor cannot describe.
void lend_view(PyObject* object, DLTensor* out);

}  // namespace cucore::python
