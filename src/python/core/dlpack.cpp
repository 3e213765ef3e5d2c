// dlpack.cpp: capsules of the DLPack exchange format, both ways.
#include "dlpack.hpp"

#include <vector>

#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// What an exported tensor owns. Managed is one of the two capsule structs.
template <class Managed>
struct Export {
  Managed managed{};
  std::vector<std::int64_t> extents;
  PyObject* keep = nullptr;

  static void release(Managed* managed) {
    auto* self = static_cast<Export*>(managed->manager_ctx);
    let_go(self->keep);
    delete self;
  }
};

/// Runs when a capsule goes that no consumer took over (a consumer renames it).
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  PyErr_Restore(type, value, trace);
}

template <class Managed>
Managed* new_export(const DLTensor& tensor, nb::object keep) {
  auto* self = new Export<Managed>;
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  self->extents.assign(tensor.shape, tensor.shape + rank);
  if (tensor.strides != nullptr)
    self->extents.insert(self->extents.end(), tensor.strides, tensor.strides + rank);
  self->managed.dl_tensor = tensor;
  self->managed.dl_tensor.shape = self->extents.data();
  self->managed.dl_tensor.strides =
      tensor.strides != nullptr ? self->extents.data() + rank : nullptr;
  self->managed.manager_ctx = self;
  self->managed.deleter = &Export<Managed>::release;
  self->keep = keep.release().ptr();
  return &self->managed;
}

constexpr const char* kLegacy = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

}  // namespace

DLDevice dl_device_of(const MemoryTraits& traits) {
  if (traits.managed) return {kDLCUDAManaged, traits.device_id < 0 ? 0 : traits.device_id};
  if (traits.device && traits.host) return {kDLCUDAHost, 0};
  if (traits.device) return {kDLCUDA, traits.device_id < 0 ? 0 : traits.device_id};
  return {kDLCPU, 0};
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
    if (PyErr_Occurred() == nullptr)
      PyErr_Format(PyExc_BufferError, "dl_device must be a tuple of two ints, not %s",
                   Py_TYPE(dl_device)->tp_name);
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
    auto* managed = new_export<DLManagedTensorVersioned>(tensor, std::move(keep));
    managed->version = kDLPackVersion;
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
    auto* managed = new_export<DLManagedTensor>(tensor, std::move(keep));
    capsule = PyCapsule_New(managed, kLegacy,
                            [](PyObject* c) { drop_capsule<DLManagedTensor>(c, kLegacy); });
    if (capsule == nullptr) managed->deleter(managed);
  }
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

/// Of a producer that is wrong, not of one that cannot be helped: its words are followed below.
static void check_tensor(const DLTensor& tensor) {
  const char* wrong = nullptr;
  if (tensor.ndim < 0) wrong = "a negative number of dimensions";
  if (tensor.ndim > 0 && tensor.shape == nullptr) wrong = "dimensions, but no shape";
  for (std::int32_t i = 0; wrong == nullptr && i < tensor.ndim; ++i)
    if (tensor.shape[i] < 0) wrong = "a negative extent";
  if (wrong == nullptr) return;
  PyErr_Format(PyExc_BufferError, "the DLPack tensor is not valid: it has %s", wrong);
  throw nb::python_error();
}

ImportedTensor import_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned));
    if (managed->version.major != 1) {
      PyErr_Format(PyExc_BufferError, "DLPack version %u.%u is not known", managed->version.major,
                   managed->version.minor);
      throw nb::python_error();
    }
    check_tensor(managed->dl_tensor);
    if (PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned") != 0) throw nb::python_error();
    return {managed->dl_tensor, (managed->flags & kDLFlagReadOnly) != 0,
            std::shared_ptr<void>{static_cast<void*>(managed), [](void* p) {
                                    auto* m = static_cast<DLManagedTensorVersioned*>(p);
                                    if (m->deleter != nullptr) m->deleter(m);
                                  }}};
  }
  if (PyCapsule_IsValid(capsule.ptr(), kLegacy) != 0) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kLegacy));
    check_tensor(managed->dl_tensor);
    if (PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) throw nb::python_error();
    return {managed->dl_tensor, false,
            std::shared_ptr<void>{static_cast<void*>(managed), [](void* p) {
                                    auto* m = static_cast<DLManagedTensor*>(p);
                                    if (m->deleter != nullptr) m->deleter(m);
                                  }}};
  }
  PyErr_SetString(PyExc_BufferError, "not a DLPack capsule, or one that was used already");
  throw nb::python_error();
}

}  // namespace cucore::python
