// SPDX-License-Identifier: Apache-2.0
// dlpack_exchange.cpp: DLPack's table of C functions, by which other libraries' C code exchanges
// arrays with cuda.core.
#include "dlpack.hpp"
#include "py_buffer.hpp"
#include "view.hpp"

namespace cucore::python {
namespace {

/// Answers as the table's functions do: 0, or -1 with a Python error set.
template <class Work>
int answer(Work work) noexcept {
  try {
    work();
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

/// Tells the caller by its callback, which needs no GIL; without one by a Python error.
int allocate(DLTensor*, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) {
  constexpr const char* kWhy =
      "cuda.core allocates bytes on a stream, not tensors: use Device.allocate()";
  if (out != nullptr) *out = nullptr;
  if (set_error != nullptr) {
    set_error(context, "NotImplementedError", kWhy);
  } else if (const WithGil gil; gil) {
    PyErr_SetString(PyExc_NotImplementedError, kWhy);
  }
  return -1;
}

/// A new reference to a buffer or a view. The caller orders its work itself.
int managed_from_object(void* object, DLManagedTensorVersioned** out) {
  return answer([&] {
    const nb::object capsule = nb::handle{static_cast<PyObject*>(object)}.attr("__dlpack__")(
        nb::arg("stream") = -1,
        nb::arg("max_version") = nb::make_tuple(kDLPackVersion.major, kDLPackVersion.minor));
    void* managed = PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned");
    if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned") != 0)
      throw nb::python_error();
    *out = static_cast<DLManagedTensorVersioned*>(managed);
  });
}

/// Takes the tensor over; the object is a StridedMemoryView.
int managed_to_object(DLManagedTensorVersioned* tensor, void** out) {
  *out = nullptr;
  return answer([&] {
    if (tensor == nullptr) throw InvalidStateError{"there is no tensor: the pointer is null"};
    static constinit Member view_type{"cuda.core.utils", "StridedMemoryView"};
    const nb::object capsule = nb::steal(PyCapsule_New(tensor, "dltensor_versioned", nullptr));
    if (!capsule.is_valid()) throw nb::python_error();
    *out = take_view(*view_type, capsule, capsule.ptr()).release().ptr();
  });
}

/// What the tensor points to lives as long as the object does, and the object does not change
/// meanwhile: the caller sees to both.
int tensor_of_object(void* object, DLTensor* out) {
  return answer([&] {
    auto* const python = static_cast<PyObject*>(object);
    if (PyBuffer* const buffer = buffer_of(python)) {
      static std::int64_t step = 1;
      const PyBuffer& open = open_buffer(python);
      buffer->extent = static_cast<std::int64_t>(open.buffer.size());
      *out = {};
      out->data = reinterpret_cast<void*>(open.buffer.handle());
      out->device = dl_device_of(traits_of(open));
      out->ndim = 1;
      out->dtype = {kDLInt, 8, 1};
      out->shape = &buffer->extent;
      out->strides = &step;
    } else {
      lend_view(python, out);
    }
  });
}

/// cuda.core has no current stream: the answer is the default stream.
int current_stream(DLDeviceType type, std::int32_t, void** out) {
  return answer([&] {
    const bool on_device = type == kDLCUDA || type == kDLCUDAManaged;
    *out = on_device ? static_cast<void*>(default_stream_handle()) : nullptr;
  });
}

constexpr DLPackExchangeAPI kTable{{kDLPackVersion, nullptr}, &allocate,
                                   &managed_from_object,      &managed_to_object,
                                   &tensor_of_object,         &current_stream};

void bind_dlpack_exchange(nb::module_& m) {
  for (const char* name : {"Buffer", "_View"}) {
    nb::object capsule =
        nb::steal(PyCapsule_New(const_cast<DLPackExchangeAPI*>(&kTable), kDLPackExchange, nullptr));
    if (!capsule.is_valid()) throw nb::python_error();
    for (const char* attribute : {kDLPackExchangeAttribute, kDLPackExchangeOlder})
      nb::setattr(m.attr(name), attribute, capsule);
  }
}

}  // namespace

CUCORE_BIND(kBindRest + 1, bind_dlpack_exchange)

}  // namespace cucore::python
