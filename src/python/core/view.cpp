// SPDX-License-Identifier: Apache-2.0
// view.cpp: the object under cuda.core.utils.StridedMemoryView, and the two ways to fill it that
// are used most: from a NumPy array and from a DLPack capsule. array_interface.cpp has the others.
#include "view.hpp"

#include <Python.h>
#include <structmember.h>  // needs Python.h before it

#include <cstddef>
#include <cstring>
#include <utility>

#include "../type_table.hpp"

namespace cucore::python {
namespace {

/// Where memory lies and how it is laid out; what each field means is said in _strided.py.
struct View {
  PyObject_HEAD PyObject* ptr;
  PyObject* shape;
  PyObject* strides;
  PyObject* device_id;
  PyObject* is_device_accessible;
  PyObject* readonly;
  PyObject* exporting_obj;
  PyObject* dl_type;
  PyObject* dl_device;
  PyObject* dtype;
  PyObject* owner;
  PyObject* weak;
  std::int64_t* lent;  // shape and strides of a tensor that C code has borrowed; null before
  std::size_t lent_rank;
};

constexpr std::size_t kFields[] = {
    offsetof(View, ptr),       offsetof(View, shape),         offsetof(View, strides),
    offsetof(View, device_id), offsetof(View, readonly),      offsetof(View, is_device_accessible),
    offsetof(View, dl_type),   offsetof(View, exporting_obj), offsetof(View, dl_device),
    offsetof(View, dtype),     offsetof(View, owner)};

PyObject*& field(PyObject* self, std::size_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + offset);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (const std::size_t offset : kFields) Py_VISIT(field(self, offset));
  return 0;
}

int clear(PyObject* self) {
  for (const std::size_t offset : kFields) Py_CLEAR(field(self, offset));
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<View*>(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  PyMem_Free(reinterpret_cast<View*>(self)->lent);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

#define CUCORE_MEMBER(name, place) \
  { name, T_OBJECT_EX, offsetof(View, place), 0, nullptr }
PyMemberDef members[] = {
    CUCORE_MEMBER("ptr", ptr),
    CUCORE_MEMBER("shape", shape),
    CUCORE_MEMBER("strides", strides),
    CUCORE_MEMBER("device_id", device_id),
    CUCORE_MEMBER("is_device_accessible", is_device_accessible),
    CUCORE_MEMBER("readonly", readonly),
    CUCORE_MEMBER("exporting_obj", exporting_obj),
    CUCORE_MEMBER("_dl_type", dl_type),
    CUCORE_MEMBER("_dl_device", dl_device),
    CUCORE_MEMBER("_dtype", dtype),
    CUCORE_MEMBER("_owner", owner),
    {"__weaklistoffset__", T_PYSSIZET, offsetof(View, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
#undef CUCORE_MEMBER

/// (code, bits, lanes); those of ordinary elements are made once.
nb::object dl_type_tuple(const DLDataType& type) {
#ifndef Py_GIL_DISABLED
  static PyObject* known[8][9];  // by code and by bits / 16; guarded by the GIL
  const bool ordinary = type.lanes == 1 && type.code < 8 && type.bits <= 128 &&
                        (type.bits == 8 || type.bits % 16 == 0);
  if (ordinary && known[type.code][type.bits / 16] != nullptr)
    return nb::borrow(known[type.code][type.bits / 16]);
#endif
  nb::object made = nb::steal(Py_BuildValue("(iii)", type.code, type.bits, type.lanes));
  if (!made.is_valid()) throw nb::python_error();
#ifndef Py_GIL_DISABLED
  if (ordinary) known[type.code][type.bits / 16] = Py_NewRef(made.ptr());
#endif
  return made;
}

nb::object number(std::int64_t value) {
  nb::object made = nb::steal(PyLong_FromLongLong(value));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

}  // namespace

nb::object make_view(nb::handle type, const DLTensor& t, bool readonly, PyObject* exporter,
                     nb::object owner) {
  auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  nb::object object = nb::steal(python_type->tp_alloc(python_type, 0));
  if (!object.is_valid()) throw nb::python_error();
  auto* view = reinterpret_cast<View*>(object.ptr());
  view->ptr = PyLong_FromUnsignedLongLong(reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset);
  view->shape = PyTuple_New(t.ndim);
  const bool packed = t.strides == nullptr || t.ndim == 0;
  view->strides = packed ? Py_NewRef(Py_None) : PyTuple_New(t.ndim);
  if (view->ptr == nullptr || view->shape == nullptr || view->strides == nullptr)
    throw nb::python_error();
  for (std::int32_t i = 0; i < t.ndim; ++i) {
    PyTuple_SET_ITEM(view->shape, i, number(t.shape[i]).release().ptr());
    if (!packed) PyTuple_SET_ITEM(view->strides, i, number(t.strides[i]).release().ptr());
  }
  const DLDeviceType kind = t.device.device_type;
  const bool on_device = kind == kDLCUDA || kind == kDLCUDAManaged;
  view->device_id = number(on_device ? t.device.device_id : -1).release().ptr();
  view->is_device_accessible = PyBool_FromLong(kind != kDLCPU);
  view->readonly = PyBool_FromLong(readonly);
  view->exporting_obj = Py_NewRef(exporter);
  view->dl_type = dl_type_tuple(t.dtype).release().ptr();
  static PyObject* const host = Py_BuildValue("(ii)", static_cast<int>(kDLCPU), 0);
  view->dl_device =
      kind == kDLCPU && t.device.device_id == 0
          ? Py_NewRef(host)
          : Py_BuildValue("(ii)", static_cast<int>(kind), static_cast<int>(t.device.device_id));
  if (view->dl_device == nullptr) throw nb::python_error();
  view->dtype = Py_NewRef(Py_None);
  view->owner = owner.is_valid() ? owner.release().ptr() : Py_NewRef(Py_None);
  return object;
}

static PyTypeObject* view_type = nullptr;  // set when the module is made

void lend_view(PyObject* object, DLTensor* out) {
  if (PyObject_TypeCheck(object, view_type) == 0) {
    PyErr_Format(PyExc_TypeError, "neither a Buffer nor a StridedMemoryView: %s",
                 Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  auto* const view = reinterpret_cast<View*>(object);
  int code = 0;
  int bits = 0;
  int lanes = 0;
  int kind = 0;
  int device = 0;
  if (view->ptr == nullptr || view->dl_type == nullptr || view->dl_device == nullptr ||
      view->shape == nullptr || PyTuple_Check(view->shape) == 0) {
    PyErr_SetString(PyExc_BufferError, "the view is empty");
    throw nb::python_error();
  }
  if (PyArg_ParseTuple(view->dl_type, "iii", &code, &bits, &lanes) == 0 ||
      PyArg_ParseTuple(view->dl_device, "ii", &kind, &device) == 0)
    throw nb::python_error();
  constexpr int kRecord = 3;
  if (code == kRecord || view->readonly == Py_True) {
    PyErr_Format(PyExc_BufferError, "a borrowed DLPack tensor cannot be %s",
                 code == kRecord ? "of elements without a type of DLPack's"
                                 : "read-only: ask for a managed one");
    throw nb::python_error();
  }
  const auto rank = static_cast<std::size_t>(PyTuple_GET_SIZE(view->shape));
  const bool packed = view->strides == nullptr || PyTuple_Check(view->strides) == 0;
  if (!packed && static_cast<std::size_t>(PyTuple_GET_SIZE(view->strides)) != rank) {
    PyErr_SetString(PyExc_BufferError, "the view's strides do not fit its shape");
    throw nb::python_error();
  }
  // One array as long as the view stays as it is: a tensor lent before still points to it.
  if (view->lent == nullptr || view->lent_rank != rank) {
    auto* const made = static_cast<std::int64_t*>(PyMem_Calloc(2 * rank + 1, sizeof(std::int64_t)));
    if (made == nullptr) throw std::bad_alloc{};
    PyMem_Free(std::exchange(view->lent, made));
    view->lent_rank = rank;
  }
  std::int64_t* const strides = view->lent + rank;
  for (std::size_t i = rank; i-- > 0;) {
    const auto at = static_cast<Py_ssize_t>(i);
    view->lent[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(view->shape, at));
    strides[i] = !packed         ? PyLong_AsLongLong(PyTuple_GET_ITEM(view->strides, at))
                 : i + 1 == rank ? 1
                                 : strides[i + 1] * view->lent[i + 1];
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  }
  *out = {};
  out->data = PyLong_AsVoidPtr(view->ptr);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  out->device = {static_cast<DLDeviceType>(kind), device};
  out->ndim = static_cast<std::int32_t>(rank);
  out->dtype = {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits),
                static_cast<std::uint16_t>(lanes)};
  out->shape = view->lent;
  out->strides = strides;
}

namespace {

/// The elements of a buffer as DLPack names them; false for what has no plain name here.
bool element_type(const char* format, Py_ssize_t size, DLDataType& out) {
  if (format == nullptr || size > 16) return false;
  out.lanes = 1;
  out.bits = static_cast<std::uint8_t>(size * 8);
  const bool complex = format[0] == 'Z';
  const char code = format[complex ? 1 : 0];
  if (code == '\0' || format[complex ? 2 : 1] != '\0') return false;
  if (complex) return out.code = kDLComplex, code == 'f' || code == 'd';
  if (std::strchr("bhilq", code) != nullptr) return out.code = kDLInt, true;
  if (std::strchr("BHILQ", code) != nullptr) return out.code = kDLUInt, true;
  if (std::strchr("efd", code) != nullptr) return out.code = kDLFloat, true;
  return out.code = kDLBool, code == '?';
}

bool is_numpy_array(PyObject* object) {
  static TypeTable<bool> known;
  PyTypeObject* type = Py_TYPE(object);
  if (const bool* answer = known.find(type)) return *answer;
  const bool answer = std::strcmp(type->tp_name, "numpy.ndarray") == 0;
  known.add(type, answer);
  return answer;
}

/// view_of_array(cls, obj, stream_ptr): a view of an ordinary array of NumPy, PyTorch or CuPy; None
/// for anything else, which is then asked by DLPack.
PyObject* view_of_array(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject*) {
  constexpr int kMostDimensions = 64;
  if (nargs != 3)
    return PyErr_Format(PyExc_TypeError, "view_of_array() takes a class, an array and a stream");
  PyObject* array = args[1];
  if (!is_numpy_array(array))
    return view_of_foreign(nb::handle{args[0]}, array, args[2]).release().ptr();
  Py_buffer buffer;
  if (PyObject_GetBuffer(array, &buffer, PyBUF_RECORDS_RO) < 0) {
    PyErr_Clear();
    Py_RETURN_NONE;
  }
  // The view keeps the array, and the array its memory: the buffer itself can go.
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> held{&buffer, &PyBuffer_Release};
  DLTensor t{};
  std::int64_t strides[kMostDimensions];
  bool plain =
      buffer.ndim <= kMostDimensions && element_type(buffer.format, buffer.itemsize, t.dtype);
  for (int i = 0; plain && i < buffer.ndim; ++i) {
    plain = buffer.strides[i] % buffer.itemsize == 0;
    strides[i] = plain ? buffer.strides[i] / buffer.itemsize : 0;
  }
  if (!plain) Py_RETURN_NONE;
  t.data = buffer.buf;
  t.device = {kDLCPU, 0};
  t.ndim = buffer.ndim;
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  t.shape = reinterpret_cast<std::int64_t*>(buffer.shape);
  t.strides = strides;
  return make_view(nb::handle{args[0]}, t, buffer.readonly != 0, array, {}).release().ptr();
}

}  // namespace

nb::object take_view(nb::handle type, nb::handle capsule, PyObject* exporter) {
  ImportedTensor imported = import_dlpack(capsule);
  auto* owner = new std::shared_ptr<void>(std::move(imported.owner));
  nb::capsule held(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
  return make_view(type, imported.tensor, imported.readonly, exporter, std::move(held));
}

void bind_view(nb::module_& m) {
  PyType_Slot slots[] = {
      {Py_tp_members, members},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.core._core._View", sizeof(View), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  view_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.ptr()));
  m.attr("_View") = type;
  add_function(
      m, "view_of_array", &guarded<view_of_array>,
      "view_of_array(cls, obj, stream_ptr, /)\n--\n\nA view of an ordinary array, or None.");
}
CUCORE_BIND(kBindRest, bind_view)

}  // namespace cucore::python
