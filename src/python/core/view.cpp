// SPDX-License-Identifier: Apache-2.0
// view.cpp: the object under cuda.core.utils.StridedMemoryView. view_numpy.cpp, view_foreign.cpp
// and array_interface.cpp fill it.
#include "view.hpp"

#include <Python.h>
#include <structmember.h>  // needs Python.h before it

#include <cstddef>
#include <cstring>
#include <utility>

#include "cucore/driver.hpp"
#include "python/at_exit.hpp"

namespace cucore::python {
namespace {

PyTypeObject* view_type = nullptr;  // set when the module is made

/// Dimensions whose extents and strides lie in the object itself.
constexpr std::int32_t kFewDimensions = 4;

/// Where memory lies and how it is laid out; what each field means is said in _strided.py. A view
/// of another library's array holds that as numbers, and makes an object of each when it is first
/// read: most views are made to read an address and a shape. What making and freeing such a view
/// looks at comes first, in few lines of memory.
struct View {
  PyObject_HEAD PyObject* exporting_obj;
  PyObject* weak;
  std::int64_t* lent;  // shape and strides of a tensor that C code has borrowed; null before
  std::int64_t* many;  // extents and strides of more dimensions than `few` holds
  bool has_objects;    // one of the fields at the end has been set
  // What fields that are null are made of.
  bool has_numbers;
  bool is_packed;       // no strides
  bool may_be_managed;  // the driver has not been asked
  bool is_readonly;
  std::int32_t rank;
  DLDevice device;
  DLDataType type;
  std::uintptr_t address;
  std::int64_t few[2 * kFewDimensions];  // extents, then strides
  std::size_t lent_rank;
  // Made when they are read.
  PyObject* ptr;
  PyObject* shape;
  PyObject* strides;
  PyObject* device_id;
  PyObject* is_device_accessible;
  PyObject* readonly;
  PyObject* dl_type;
  PyObject* dl_device;
  PyObject* dtype;
  PyObject* owner;
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

/// A free list of StridedMemoryView objects (not of derived classes): creating and freeing the
/// object is most of the cost of a view. The fields of a free object are null.
struct FreeList {
  static constexpr unsigned kMost = 32;
  PyTypeObject* type = nullptr;  // null before the class is created and after interpreter exit
  PyObject* first = nullptr;
  unsigned count = 0;

  /// The next free object; stored in the field of the exporting object.
  static PyObject*& next(PyObject* object) noexcept {
    return reinterpret_cast<View*>(object)->exporting_obj;
  }
  bool keep(PyObject* object) noexcept {
    if (Py_TYPE(object) != type || count == kMost) return false;
    next(object) = std::exchange(first, object);
    ++count;
    return true;
  }
  /// Returns null if the list is empty.
  PyObject* take() noexcept {
    PyObject* const object = first;
    if (object == nullptr) return nullptr;
    first = std::exchange(next(object), nullptr);
    --count;
    Py_SET_REFCNT(object, 1);
    return object;
  }
};
constinit FreeList free_list;  // guarded by the GIL

void free_view(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* const view = reinterpret_cast<View*>(self);
#ifndef Py_GIL_DISABLED
  // The usual one: nothing was made of its numbers, and what it keeps lives on.
  if (PyObject* const kept = view->exporting_obj;
      !view->has_objects && view->weak == nullptr && view->lent == nullptr &&
      view->many == nullptr && kept != nullptr && Py_REFCNT(kept) > 1) [[likely]] {
    Py_DECREF(kept);
    view->exporting_obj = nullptr;
    if (!free_list.keep(self)) free_view(self);
    return;
  }
#endif
  Py_TRASHCAN_BEGIN(self, dealloc)  // what a view keeps may be a view, and so on
      if (view->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  view->has_objects = false;
  if (view->lent != nullptr) PyMem_Free(std::exchange(view->lent, nullptr));
  if (view->many != nullptr) PyMem_Free(std::exchange(view->many, nullptr));
  if (!free_list.keep(self)) free_view(self);
  Py_TRASHCAN_END
}

PyMemberDef members[] = {
    {"exporting_obj", T_OBJECT_EX, offsetof(View, exporting_obj), 0, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(View, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

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

nb::object tuple_of(const std::int64_t* values, std::int32_t count) {
  nb::object made = nb::steal(PyTuple_New(count));
  if (!made.is_valid()) throw nb::python_error();
  for (std::int32_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(made.ptr(), i, number(values[i]).release().ptr());
  return made;
}

/// Managed memory is a kind of device of its own. Memory that the driver does not know is for its
/// exporter to say.
nb::object device_tuple(View* view) {
  if (std::exchange(view->may_be_managed, false)) {
    const auto managed = cucore::detail::managed_memory(static_cast<CUdeviceptr>(view->address));
    if (!managed && view->exporting_obj != nullptr)
      return nb::handle{view->exporting_obj}.attr("__dlpack_device__")();
    if (managed.value_or(false)) view->device.device_type = kDLCUDAManaged;
  }
  static PyObject* const host = Py_BuildValue("(ii)", static_cast<int>(kDLCPU), 0);
  const DLDevice device = view->device;
  if (device.device_type == kDLCPU && device.device_id == 0) return nb::borrow(host);
  nb::object made = nb::steal(Py_BuildValue("(ii)", static_cast<int>(device.device_type),
                                            static_cast<int>(device.device_id)));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

/// What a field that is null is made of the numbers.
nb::object make_field(View* view, std::size_t offset) {
  const std::int64_t* const extents = view->many != nullptr ? view->many : view->few;
  switch (offset) {
    case offsetof(View, ptr):
      return nb::steal(PyLong_FromUnsignedLongLong(view->address));
    case offsetof(View, shape):
      return tuple_of(extents, view->rank);
    case offsetof(View, strides):
      return view->is_packed ? nb::none() : tuple_of(extents + view->rank, view->rank);
    case offsetof(View, device_id): {
      const DLDeviceType kind = view->device.device_type;
      return number(kind == kDLCUDA || kind == kDLCUDAManaged ? view->device.device_id : -1);
    }
    case offsetof(View, dl_type):
      return dl_type_tuple(view->type);
    case offsetof(View, is_device_accessible):
      return nb::borrow(view->device.device_type != kDLCPU ? Py_True : Py_False);
    case offsetof(View, readonly):
      return nb::borrow(view->is_readonly ? Py_True : Py_False);
    case offsetof(View, dtype):  // made in Python, of the type of DLPack
    case offsetof(View, owner):  // there is none but what is exported
      return nb::none();
    default:
      return device_tuple(view);
  }
}

/// A field, borrowed; made where it has not been read before. Null where the view is empty.
PyObject* field_object(PyObject* self, std::size_t offset) {
  PyObject*& place = field(self, offset);
  auto* const view = reinterpret_cast<View*>(self);
  if (place == nullptr && view->has_numbers) {
    nb::object made = make_field(view, offset);
    if (!made.is_valid()) throw nb::python_error();
    view->has_objects = true;
    if (place == nullptr) place = made.release().ptr();  // an exporter that was asked may have read
  }
  return place;
}

/// A field that is made when it is read. `closure` is its offset.
PyObject* get_field(PyObject* self, void* closure) noexcept {
  try {
    const nb::ft_object_guard alone{nb::handle{self}};
    PyObject* const value = field_object(self, reinterpret_cast<std::uintptr_t>(closure));
    if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "the view is empty");
    return Py_XNewRef(value);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int set_field(PyObject* self, PyObject* value, void* closure) noexcept {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "an attribute of a view cannot be deleted");
    return -1;
  }
  const nb::ft_object_guard alone{nb::handle{self}};
  reinterpret_cast<View*>(self)->has_objects = true;
  PyObject* const old =
      std::exchange(field(self, reinterpret_cast<std::uintptr_t>(closure)), Py_NewRef(value));
  Py_XDECREF(old);
  return 0;
}

#define CUCORE_FIELD(name, place, doc) \
  { name, &get_field, &set_field, doc, reinterpret_cast<void*>(offsetof(View, place)) }
PyGetSetDef fields[] = {
    CUCORE_FIELD("ptr", ptr, "The address of the first element."),
    CUCORE_FIELD("shape", shape, "The extents, a tuple."),
    CUCORE_FIELD("strides", strides,
                 "Distances in elements, a tuple; None where the exporter gave none: packed in C "
                 "order."),
    CUCORE_FIELD("device_id", device_id, "The number of the CUDA device; -1 for host memory."),
    CUCORE_FIELD("is_device_accessible", is_device_accessible,
                 "True if kernels can access the memory."),
    CUCORE_FIELD("readonly", readonly, "True if the memory must not be written."),
    CUCORE_FIELD("_dtype", dtype, nullptr),
    CUCORE_FIELD("_owner", owner, nullptr),
    CUCORE_FIELD("_dl_type", dl_type, nullptr),
    CUCORE_FIELD("_dl_device", dl_device, nullptr),
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
#undef CUCORE_FIELD

}  // namespace

PyObject* make_view(PyTypeObject* type, const DLTensor& t, PyObject* exporter, Traits traits) {
  PyObject* const spare = type == free_list.type ? free_list.take() : nullptr;
  // All of a new one is zero. A spare is not known to the collector.
  PyObject* const object = spare != nullptr ? spare : type->tp_alloc(type, 0);
  if (object == nullptr) throw nb::python_error();
  auto* view = reinterpret_cast<View*>(object);
  const auto rank = static_cast<std::size_t>(t.ndim);
  std::int64_t* numbers = view->few;
  if (t.ndim > kFewDimensions) [[unlikely]] {
    numbers = view->many =
        static_cast<std::int64_t*>(PyMem_Malloc(2 * rank * sizeof(std::int64_t)));
    if (numbers == nullptr) {
      if (spare != nullptr) PyObject_GC_Track(spare);
      Py_DECREF(object);
      throw std::bad_alloc{};
    }
  }
  const bool is_packed = t.strides == nullptr || t.ndim == 0;
  for (std::size_t i = 0; i < rank; ++i) {
    numbers[i] = t.shape[i];
    numbers[rank + i] = is_packed ? 0 : t.strides[i];
  }
  view->has_numbers = true;
  view->is_packed = is_packed;
  view->may_be_managed = traits.may_be_managed;
  view->is_readonly = traits.is_readonly;
  view->rank = t.ndim;
  view->device = t.device;
  view->type = t.dtype;
  view->address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
  view->exporting_obj = Py_NewRef(exporter);
  if (spare != nullptr) [[likely]]
    PyObject_GC_Track(spare);
  return object;
}

void lend_view(PyObject* object, DLTensor* out) {
  if (PyObject_TypeCheck(object, view_type) == 0) {
    PyErr_Format(PyExc_TypeError, "neither a Buffer nor a StridedMemoryView: %s",
                 Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  auto* const view = reinterpret_cast<View*>(object);
  const nb::ft_object_guard alone{nb::handle{object}};
  for (const PyGetSetDef* lazy = fields; lazy->name != nullptr; ++lazy)
    static_cast<void>(field_object(object, reinterpret_cast<std::uintptr_t>(lazy->closure)));
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

PyObject* stream_ptr_name = nullptr;  // the keyword, as the interpreter passes it

/// from_any_interface(cls, obj, stream_ptr=None)
PyObject* from_any_interface(PyObject* cls, PyObject* const* args, Py_ssize_t nargs,
                             PyObject* kwnames) {
  std::array<PyObject*, 2> given;
  if (nargs == 1 && kwnames != nullptr && PyTuple_GET_SIZE(kwnames) == 1 &&
      PyTuple_GET_ITEM(kwnames, 0) == stream_ptr_name) [[likely]] {
    given = {args[0], args[1]};
  } else {
    static const Names<2> names{"obj", "stream_ptr"};
    parse("from_any_interface", names, 2, 1, args, nargs, kwnames, given);
    if (given[1] == nullptr) given[1] = Py_None;
  }
  if (PyObject* const view =
          view_of_known(reinterpret_cast<PyTypeObject*>(cls), given[0], given[1])) [[likely]]
    return view;
  return view_of_any(nb::handle{cls}, nb::handle{given[0]}, nb::handle{given[1]}).release().ptr();
}

constexpr const char* kFromAnyInterface = "from_any_interface";
constexpr const char* kFromAnyInterfaceDoc =
    "from_any_interface($cls, obj, stream_ptr=None)\n--\n\n"
    "From DLPack or the CUDA array interface, whichever the object has.";
PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs);

PyMethodDef methods[] = {
    {kFromAnyInterface,
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&guarded<from_any_interface>)),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, kFromAnyInterfaceDoc},
    {"__init_subclass__",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&init_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
/// The same as a function of one class.
PyMethodDef bound_method{
    kFromAnyInterface,
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&guarded<from_any_interface>)),
    METH_FASTCALL | METH_KEYWORDS, kFromAnyInterfaceDoc};

/// Gives a derived class its own from_any_interface(), already bound: the interpreter then finds it
/// without a lookup, while it would bind a class method anew for every call. A class that has
/// another one, or inherits it, keeps it.
PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
  try {
    const nb::object super = nb::steal(
        PyObject_CallFunction(reinterpret_cast<PyObject*>(&PySuper_Type), "OO", view_type, cls));
    if (!super.is_valid()) throw nb::python_error();
    const nb::object next = super.attr("__init_subclass__");
    if (!nb::steal(PyObject_Call(next.ptr(), args, kwargs)).is_valid()) throw nb::python_error();
    const nb::object found = nb::handle{cls}.attr(kFromAnyInterface);
    if (PyCFunction_Check(found.ptr()) == 0 ||
        PyCFunction_GET_FUNCTION(found.ptr()) != bound_method.ml_meth)
      Py_RETURN_NONE;
    const nb::object made = nb::steal(PyCFunction_New(&bound_method, cls));
    if (!made.is_valid()) throw nb::python_error();
    nb::handle{cls}.attr(kFromAnyInterface) = made;
    Py_RETURN_NONE;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace

nb::object take_view(nb::handle type, nb::handle capsule, PyObject* exporter) {
  ImportedTensor imported = import_dlpack(capsule);
  auto* owner = new std::shared_ptr<void>(std::move(imported.owner));
  nb::capsule held(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
  nb::object view =
      nb::steal(make_view(reinterpret_cast<PyTypeObject*>(type.ptr()), imported.tensor, exporter,
                          {.is_readonly = imported.readonly}));
  field(view.ptr(), offsetof(View, owner)) = held.release().ptr();
  reinterpret_cast<View*>(view.ptr())->has_objects = true;
  return view;
}

void bind_view(nb::module_& m) {
  PyType_Slot slots[] = {
      {Py_tp_members, members},
      {Py_tp_getset, fields},
      {Py_tp_methods, methods},
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
  stream_ptr_name = PyUnicode_InternFromString("stream_ptr");
  // Told of StridedMemoryView: its objects are kept when they are freed.
  m.def("_keep_views_of", []([[maybe_unused]] nb::handle cls) {
#if !defined(Py_GIL_DISABLED) && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
    auto* const usual = reinterpret_cast<PyTypeObject*>(cls.ptr());
    if (usual->tp_basicsize != sizeof(View) || usual->tp_base != view_type) return;
    usual->tp_dealloc = dealloc;  // the class has nothing more to free
    free_list.type = usual;
    at_exit([] {
      free_list.type = nullptr;
      while (PyObject* const object = free_list.take()) free_view(object);
    });
#endif
  });
}
CUCORE_BIND(kBindRest, bind_view)

}  // namespace cucore::python
