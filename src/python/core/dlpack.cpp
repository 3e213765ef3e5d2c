// SPDX-License-Identifier: Apache-2.0
// dlpack.cpp: capsules of the DLPack exchange format, both ways.
#include "dlpack.hpp"

#include <stdexcept>
#include <utility>

#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// Keeps a Python object until a consumer is done, on whatever thread that is.
class KeepObject {
 public:
  KeepObject() = default;
  explicit KeepObject(nb::object object) : object_{object.release().ptr()} {}
  KeepObject(KeepObject&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  KeepObject& operator=(KeepObject&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~KeepObject() {
    if (object_ != nullptr) release_reference(object_);
  }

 private:
  PyObject* object_ = nullptr;
};

/// The destructor of a capsule that no consumer took over (a consumer renames it).
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  PyErr_Restore(type, value, trace);
}

constexpr const char* kLegacy = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

}  // namespace

DLDevice dl_device_of(const MemoryTraits& traits) {
  if (traits.managed) return {kDLCUDAManaged, traits.device_id < 0 ? 0 : traits.device_id};
  if (traits.device && traits.host) return {kDLCUDAHost, 0};
  if (traits.device) return {kDLCUDA, traits.device_id < 0 ? 0 : traits.device_id};
  if (traits.host) return {kDLCPU, 0};
  PyErr_SetString(PyExc_BufferError,
                  "the memory is accessible neither from the host nor from a device, as its memory "
                  "resource says");
  throw nb::python_error();
}

void check_dlpack_request(const DLDevice& device, PyObject* dl_device, PyObject* copy) {
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "copy=True is not supported: copy the buffer first");
    throw nb::python_error();
  }
  if (dl_device == nullptr || dl_device == Py_None) return;
  int type = 0;
  int id = 0;
  if (PyTuple_Check(dl_device) == 0 || PyArg_ParseTuple(dl_device, "ii", &type, &id) == 0) {
    PyErr_Clear();
    PyErr_Format(PyExc_BufferError,
                 "dl_device must be a tuple of two ints (device type, device id), not %R",
                 dl_device);
    throw nb::python_error();
  }
  if (type != device.device_type || id != device.device_id) {
    PyErr_Format(PyExc_BufferError, "the memory is on device (%d, %d), not on (%d, %d)",
                 static_cast<int>(device.device_type), device.device_id, type, id);
    throw nb::python_error();
  }
}

void check_dlpack_stream(PyObject* stream) {
  if (stream == nullptr || stream == Py_None) return;
  const nb::handle object{stream};
  if (PyIndex_Check(stream) == 0) {
    if (nb::hasattr(object, "__cuda_stream__") || nb::hasattr(object, "getPtr")) return;
    PyErr_Format(PyExc_TypeError,
                 "__dlpack__(): stream must be an int (a stream's address, 1 or 2 for the default "
                 "streams, -1 for no ordering) or None, not %s",
                 Py_TYPE(stream)->tp_name);
    throw nb::python_error();
  }
  const nb::object number = nb::steal(PyNumber_Index(stream));
  if (!number.is_valid()) throw nb::python_error();
  const long long value = PyLong_AsLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr || value < -1) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "__dlpack__(): stream must be -1 or a stream's address, not %R",
                 number.ptr());
    throw nb::python_error();
  }
}

bool wants_versioned(PyObject* max_version) {
  if (max_version == nullptr || max_version == Py_None) return false;
  if (PyTuple_Check(max_version) == 0 || PyTuple_GET_SIZE(max_version) != 2) {
    PyErr_Format(PyExc_BufferError, "max_version must be a tuple (major, minor), not %s",
                 Py_TYPE(max_version)->tp_name);
    throw nb::python_error();
  }
  const long major = PyLong_AsLong(PyTuple_GET_ITEM(max_version, 0));
  if (major == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return major >= 1;
}

nb::object make_dlpack_capsule(const DLTensor& tensor, bool versioned, bool readonly,
                               nb::object keep) {
  PyObject* capsule = nullptr;
  if (versioned) {
    auto* managed = export_tensor<DLManagedTensorVersioned>(tensor, KeepObject{std::move(keep)});
    managed->flags = readonly ? kDLFlagReadOnly : 0;
    capsule = PyCapsule_New(managed, kVersioned, [](PyObject* c) {
      drop_capsule<DLManagedTensorVersioned>(c, kVersioned);
    });
    if (capsule == nullptr) managed->deleter(managed);
  } else {
    if (readonly) {
      PyErr_SetString(PyExc_BufferError,
                      "read-only memory needs DLPack 1.0: ask with max_version=(1, 0)");
      throw nb::python_error();
    }
    auto* managed = export_tensor<DLManagedTensor>(tensor, KeepObject{std::move(keep)});
    capsule = PyCapsule_New(managed, kLegacy,
                            [](PyObject* c) { drop_capsule<DLManagedTensor>(c, kLegacy); });
    if (capsule == nullptr) managed->deleter(managed);
  }
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

/// Takes the tensor of a capsule over, which is then marked as used. BufferError for a tensor that
/// is not valid.
template <class Managed>
static ImportedTensor import_from(nb::handle capsule, const char* name, const char* used) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  try {
    ImportedTensor imported = import_tensor(managed);
    if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
    return imported;
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    throw nb::python_error();
  }
}

ImportedTensor import_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0)
    return import_from<DLManagedTensorVersioned>(capsule, kVersioned, "used_dltensor_versioned");
  if (PyCapsule_IsValid(capsule.ptr(), kLegacy) != 0)
    return import_from<DLManagedTensor>(capsule, kLegacy, "used_dltensor");
  PyErr_SetString(PyExc_BufferError, "not a DLPack capsule, or one that was used already");
  throw nb::python_error();
}

}  // namespace cucore::python
