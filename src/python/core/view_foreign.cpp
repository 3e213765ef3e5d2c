// SPDX-License-Identifier: Apache-2.0
// view_foreign.cpp: arrays that views know by their class: those of NumPy (view_numpy.cpp), and
// tensors of PyTorch and CuPy, asked for what a view needs without their DLPack export, which costs
// them microseconds.
#include <atomic>
#include <cstring>
#include <string>

#include "../type_table.hpp"
#include "view.hpp"

namespace cucore::python {
namespace {

constexpr int kMostDimensions = 64;

enum class Library : char { other, numpy, torch, cupy };

bool is_named(PyTypeObject* type, const char* module, const char* name) {
  const nb::handle handle{reinterpret_cast<PyObject*>(type)};
  const nb::object where = nb::getattr(handle, "__module__", nb::none());
  const nb::object what = nb::getattr(handle, "__name__", nb::none());
  return PyUnicode_Check(where.ptr()) && PyUnicode_Check(what.ptr()) &&
         PyUnicode_CompareWithASCIIString(where.ptr(), module) == 0 &&
         PyUnicode_CompareWithASCIIString(what.ptr(), name) == 0;
}

/// The classes themselves, once the table has them (and keeps them alive); null before.
struct Classes {
  PyTypeObject *numpy = nullptr, *torch = nullptr, *cupy = nullptr;
};
constinit Classes classes;  // guarded by the GIL

Library library_of(PyTypeObject* type) {
  static TypeTable<Library> known;
  if (const Library* answer = known.find(type)) return *answer;
  const Library answer = std::strcmp(type->tp_name, "numpy.ndarray") == 0 ? Library::numpy
                         : is_named(type, "torch", "Tensor")              ? Library::torch
                         : is_named(type, "cupy", "ndarray")              ? Library::cupy
                                                                          : Library::other;
  known.add(type, answer);
#ifndef Py_GIL_DISABLED
  if (known.find(type) != nullptr && answer != Library::other) {
    if (classes.numpy == nullptr && classes.torch == nullptr && classes.cupy == nullptr)
      at_exit([] { classes = {}; });
    (answer == Library::numpy   ? classes.numpy
     : answer == Library::torch ? classes.torch
                                : classes.cupy) = type;
  }
#endif
  return answer;
}

/// An attribute, by a name that is interned once. Where the class of the first object implements it
/// in C, its function is called for other objects of that class without a lookup.
class Name {
 public:
  explicit Name(const char* text) : object_{PyUnicode_InternFromString(text)} {}
  [[nodiscard]] nb::object of(PyObject* object) {
    const PyTypeObject* const known = type_.load(std::memory_order_acquire);
    nb::object value = nb::steal(Py_TYPE(object) == known ? get_(object, closure_)
                                                          : PyObject_GetAttr(object, object_));
    if (!value.is_valid()) throw nb::python_error();
    if (known == nullptr) look_at(Py_TYPE(object));
    return value;
  }
  /// Whether the attribute is True. Where the first object has none, no other one is asked.
  [[nodiscard]] bool is_true_of(PyObject* object) {
    if (missing_.load(std::memory_order_relaxed)) return false;
    try {
      return of(object).is(Py_True);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_AttributeError)) throw;
      missing_.store(true, std::memory_order_relaxed);
      return false;
    }
  }
  [[nodiscard]] nb::object call(PyObject* object) const {
    PyObject* args[] = {object};
    nb::object value = nb::steal(PyObject_VectorcallMethod(object_, args, 1, nullptr));
    if (!value.is_valid()) throw nb::python_error();
    return value;
  }

 private:
  [[gnu::noinline]] void look_at(PyTypeObject* type) {
    PyTypeObject* none = nullptr;
    if (!taken_.exchange(true)) {  // by one thread, once
      const nb::object found =
          nb::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), object_));
      if (!found.is_valid()) return PyErr_Clear();
      if (Py_TYPE(found.ptr()) != &PyGetSetDescr_Type) return;
      const PyGetSetDef* const definition =
          reinterpret_cast<PyGetSetDescrObject*>(found.ptr())->d_getset;
      get_ = definition->get;
      closure_ = definition->closure;
      Py_INCREF(reinterpret_cast<PyObject*>(type));  // its address must not come to mean another
      type_.compare_exchange_strong(none, type, std::memory_order_release);
    }
  }
  PyObject* object_;
  std::atomic<PyTypeObject*> type_{nullptr};
  std::atomic<bool> taken_{false};
  std::atomic<bool> missing_{false};
  getter get_ = nullptr;
  void* closure_ = nullptr;
};

std::int64_t integer(PyObject* object) {
  std::int64_t value = 0;
  if (PyLong_Check(object) && as_int64(object, &value)) return value;
  const long long slow = PyLong_AsLongLong(object);
  if (slow == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return slow;
}

/// The numbers of a tuple; false when it is none or too long.
bool integers(PyObject* tuple, std::int64_t* out, std::int32_t* count) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > kMostDimensions) return false;
  *count = static_cast<std::int32_t>(PyTuple_GET_SIZE(tuple));
  for (std::int32_t i = 0; i < *count; ++i) out[i] = integer(PyTuple_GET_ITEM(tuple, i));
  return true;
}

/// Strides of rows that lie packed in C order. False where an extent is 0 or 1: its stride may be
/// anything then.
bool packed_strides(const std::int64_t* extents, std::int32_t rank, std::int64_t* out) {
  std::int64_t step = 1;
  for (std::int32_t i = rank; i-- > 0;) {
    if (extents[i] < 2) return false;
    out[i] = step;
    step *= extents[i];
  }
  return true;
}

/// Element types by the object that stands for them; such objects are few and live for ever.
class ElementTypes {
 public:
  /// False for a type that has no plain name: `read` says so, and DLPack decides.
  template <class Read>
  bool find(nb::handle dtype, DLDataType* out, Read read) {
#ifndef Py_GIL_DISABLED
    for (int i = 0; i < used_; ++i) {
      if (known_[i].dtype == dtype.ptr()) {
        *out = known_[i].type;
        return known_[i].is_plain;
      }
    }
#endif
    const bool is_plain = read(dtype, out);
#ifndef Py_GIL_DISABLED
    if (used_ < kMost) known_[used_++] = {Py_NewRef(dtype.ptr()), *out, is_plain};
#endif
    return is_plain;
  }

 private:
  struct Entry {
    PyObject* dtype;
    DLDataType type;
    bool is_plain;
  };
  static constexpr int kMost = 24;
  Entry known_[kMost]{};
  int used_ = 0;
};

bool torch_type(nb::handle dtype, DLDataType* out) {
  struct Row {
    const char* name;
    DLDataType type;
  };
  static constexpr Row rows[] = {
      {"torch.float32", {kDLFloat, 32, 1}}, {"torch.float64", {kDLFloat, 64, 1}},
      {"torch.float16", {kDLFloat, 16, 1}}, {"torch.bfloat16", {kDLBfloat, 16, 1}},
      {"torch.int8", {kDLInt, 8, 1}},       {"torch.int16", {kDLInt, 16, 1}},
      {"torch.int32", {kDLInt, 32, 1}},     {"torch.int64", {kDLInt, 64, 1}},
      {"torch.uint8", {kDLUInt, 8, 1}},     {"torch.uint16", {kDLUInt, 16, 1}},
      {"torch.uint32", {kDLUInt, 32, 1}},   {"torch.uint64", {kDLUInt, 64, 1}},
      {"torch.bool", {kDLBool, 8, 1}},
  };
  const nb::str text = nb::str(dtype);
  for (const Row& row : rows) {
    if (std::strcmp(text.c_str(), row.name) == 0) return *out = row.type, true;
  }
  return false;
}

/// "<f4" and its kin.
bool numpy_type(nb::handle dtype, DLDataType* out) {
  const nb::object text = nb::getattr(dtype, "str", nb::none());
  const char* name = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (name == nullptr || std::strlen(name) < 3 || name[0] == '>') return PyErr_Clear(), false;
  const int bytes = std::atoi(name + 2);
  const char* kinds = "iufcb";
  static constexpr std::uint8_t codes[] = {kDLInt, kDLUInt, kDLFloat, kDLComplex, kDLBool};
  const char* at = std::strchr(kinds, name[1]);
  if (at == nullptr || bytes < 1 || bytes > 16) return false;
  *out = {codes[at - kinds], static_cast<std::uint8_t>(bytes * 8), 1};
  return true;
}

/// Makes work on `consumer` wait for what is queued on `producer`; 0 is the legacy default stream.
void order(std::int64_t producer, std::int64_t consumer) {
  const auto stream = [](std::int64_t raw) {
    return StreamRef{reinterpret_cast<CUstream>(raw == 0 ? 1 : raw)};
  };
  if (stream(producer).handle() != stream(consumer).handle())
    stream(consumer).wait(stream(producer));
}

/// Makes work on `consumer` wait for what PyTorch has queued on its current stream.
bool order_after_torch(std::int64_t device, std::int64_t consumer) {
  if (consumer == -1) return true;
  static const nb::handle current =
      nb::getattr(nb::module_::import_("torch._C"), "_cuda_getCurrentRawStream", nb::none())
          .release();
  if (current.is_none()) return false;
  order(integer(current(device).ptr()), consumer);
  return true;
}

/// PyTorch's table of C functions; null before PyTorch 2.10.
const DLPackExchangeAPI* torch_exchange(PyObject* tensor) {
  static const DLPackExchangeAPI* const table = [tensor]() -> const DLPackExchangeAPI* {
    const nb::object capsule = nb::getattr(nb::handle{reinterpret_cast<PyObject*>(Py_TYPE(tensor))},
                                           kDLPackExchangeAttribute, nb::none());
    if (PyCapsule_IsValid(capsule.ptr(), kDLPackExchange) == 0) return nullptr;
    auto* found = static_cast<const DLPackExchangeAPIHeader*>(
        PyCapsule_GetPointer(capsule.ptr(), kDLPackExchange));
    while (found != nullptr && found->version.major != 1) found = found->prev_api;
    const auto* made = reinterpret_cast<const DLPackExchangeAPI*>(found);
    return made != nullptr && made->dltensor_from_py_object_no_sync != nullptr &&
                   made->current_work_stream != nullptr
               ? made
               : nullptr;
  }();
  return table;
}

/// Whether a stream argument is -1: no ordering. Python has one object for it.
bool is_unordered(PyObject* stream_ptr) {
  static PyObject* const minus_one = PyLong_FromLong(-1);
  return stream_ptr == minus_one || (PyLong_Check(stream_ptr) && integer(stream_ptr) == -1);
}

/// The view by those functions; null where the tensor is not a plain one, and is asked otherwise.
PyObject* view_by_exchange(PyTypeObject* type, PyObject* tensor, PyObject* stream_ptr,
                           const DLPackExchangeAPI& exchange) {
  DLTensor t;
  if (exchange.dltensor_from_py_object_no_sync(tensor, &t) != 0) return PyErr_Clear(), nullptr;
  const bool is_plain =
      t.dtype.lanes == 1 && t.byte_offset == 0 &&
      (t.dtype.code <= kDLFloat || t.dtype.code == kDLBfloat || t.dtype.code == kDLBool);
  if (!is_plain || t.ndim > kMostDimensions) return nullptr;
  if (t.device.device_type == kDLCUDA) {
    if (!is_unordered(stream_ptr)) {
      if (!PyLong_Check(stream_ptr)) return nullptr;
      void* producer = nullptr;
      const std::int64_t consumer = integer(stream_ptr);
      if (exchange.current_work_stream(kDLCUDA, t.device.device_id, &producer) != 0)
        return PyErr_Clear(), nullptr;
      order(reinterpret_cast<std::int64_t>(producer), consumer);
    }
  } else if (t.device.device_type != kDLCPU) {
    return nullptr;
  }
  return make_view(type, t, tensor);
}

/// The same by the attributes of a tensor.
[[gnu::noinline]] PyObject* view_by_attributes(PyTypeObject* type, PyObject* tensor,
                                               PyObject* stream_ptr) {
  static Name layout{"layout"}, dtype{"dtype"}, is_cuda{"is_cuda"}, is_cpu{"is_cpu"},
      get_device{"get_device"}, shape{"shape"}, stride{"stride"}, data_ptr{"data_ptr"};
  static const nb::handle strided = nb::getattr(nb::module_::import_("torch"), "strided").release();
  static ElementTypes types;
  DLTensor t{};
  if (!layout.of(tensor).is(strided) || !types.find(dtype.of(tensor), &t.dtype, torch_type))
    return nullptr;
  if (is_cuda.of(tensor).is(Py_True)) {
    if (!PyLong_Check(stream_ptr)) return nullptr;
    const std::int64_t device = integer(get_device.call(tensor).ptr());
    if (!order_after_torch(device, integer(stream_ptr))) return nullptr;
    t.device = {kDLCUDA, static_cast<std::int32_t>(device)};
  } else if (is_cpu.of(tensor).is(Py_True)) {
    t.device = {kDLCPU, 0};
  } else {
    return nullptr;
  }
  std::int64_t extents[kMostDimensions];
  std::int64_t steps[kMostDimensions];
  std::int32_t rank = 0;
  if (!integers(shape.of(tensor).ptr(), extents, &t.ndim) ||
      !integers(stride.call(tensor).ptr(), steps, &rank) || rank != t.ndim)
    return nullptr;
  t.shape = extents;
  t.strides = steps;
  const nb::object address = data_ptr.call(tensor);
  t.data = PyLong_AsVoidPtr(address.ptr());
  if (t.data == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return make_view(type, t, tensor);
}

PyObject* view_of_torch(PyTypeObject* type, PyObject* tensor, PyObject* stream_ptr) {
  static Name requires_grad{"requires_grad"};
  if (!requires_grad.of(tensor).is(Py_False)) return nullptr;
  if (const DLPackExchangeAPI* exchange = torch_exchange(tensor); exchange != nullptr) {
    if (PyObject* const view = view_by_exchange(type, tensor, stream_ptr, *exchange)) return view;
  }
  return view_by_attributes(type, tensor, stream_ptr);
}

/// The fields of an array of CuPy and of its pointer to memory. They are no public interface: they
/// are read once the attributes of an array have confirmed them.
struct CupyArray {
  struct Numbers {  // std::vector
    std::int64_t *begin, *end, *limit;
    [[nodiscard]] bool are(const std::int64_t* values, std::int32_t count) const {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int64_t);
      const auto first = reinterpret_cast<std::uintptr_t>(begin);
      // Compared before it is followed: other fields would not be three addresses in a row.
      return first > 4096 && first % alignof(std::int64_t) == 0 &&
             reinterpret_cast<std::uintptr_t>(end) == first + bytes && limit >= end &&
             std::memcmp(begin, values, bytes) == 0;
    }
  };
  PyObject_HEAD void* functions;
  PyObject* weak;
  std::int64_t size;
  Numbers shape;
  Numbers strides;  // in bytes
  int is_c_contiguous, is_f_contiguous, has_short_index;
  PyObject* dtype;
  PyObject* data;
  PyObject* base;
};
struct CupyMemory {
  PyObject_HEAD void* functions;
  std::intptr_t ptr;
  int device_id;
  PyObject* memory;
};

class Cupy {
 public:
  PyObject* view(PyTypeObject* type, PyObject* array, PyObject* stream_ptr) {
    // Ordering after CuPy's stream is left to its own export.
    if (!is_unordered(stream_ptr)) return nullptr;
    DLTensor t{};
    std::int64_t extents[kMostDimensions];
    std::int64_t steps[kMostDimensions];
    const bool is_confirmed = Py_TYPE(array) == array_type_ && array_type_ == classes.cupy;
    if (!is_confirmed || !read_fields(array, &t, steps)) {
      t.shape = extents;
      if (!read_attributes(array, &t, steps)) return nullptr;
    }
    t.strides = steps;
    return make_view(type, t, array, {.may_be_managed = true});
  }

 private:
  /// Strides in elements instead of bytes; false where they are no multiples of the element size.
  static bool divide(const std::int64_t* bytes, const DLTensor& t, std::int64_t* out) {
    const std::int64_t size = t.dtype.bits / 8;
    for (std::int32_t i = 0; i < t.ndim; ++i) {
      if (bytes[i] % size != 0) return false;
      out[i] = bytes[i] / size;
    }
    return true;
  }

  /// False for what is not in the fields, or not as usual.
  bool read_fields(PyObject* object, DLTensor* t, std::int64_t* steps) {
    const auto& array = *reinterpret_cast<const CupyArray*>(object);
    if (array.data == nullptr || Py_TYPE(array.data) != memory_type_ || array.dtype == nullptr)
      return false;
    const auto& memory = *reinterpret_cast<const CupyMemory*>(array.data);
    const std::ptrdiff_t rank = array.shape.end - array.shape.begin;
    if (memory.ptr == 0 || rank > kMostDimensions ||
        array.strides.end - array.strides.begin != rank ||
        !types_.find(array.dtype, &t->dtype, numpy_type))
      return false;
    t->data = reinterpret_cast<void*>(memory.ptr);
    t->device = {kDLCUDA, memory.device_id};
    t->ndim = static_cast<std::int32_t>(rank);
    t->shape = array.shape.begin;
    return divide(array.strides.begin, *t, steps);
  }

  /// False for what DLPack must answer.
  [[gnu::noinline]] bool read_attributes(PyObject* array, DLTensor* t, std::int64_t* steps) {
    const nb::object elements = dtype_.of(array);
    if (!types_.find(elements, &t->dtype, numpy_type)) return false;
    const nb::object memory = data_.of(array);
    const nb::object address = ptr_.of(memory.ptr());
    t->data = PyLong_AsVoidPtr(address.ptr());
    if (t->data == nullptr) return PyErr_Clear(), false;
    t->device = {kDLCUDA, static_cast<std::int32_t>(integer(device_id_.of(memory.ptr()).ptr()))};
    if (!integers(shape_.of(array).ptr(), t->shape, &t->ndim)) return false;
    // CuPy makes a tuple of its strides for every reader, and knows whether they say anything.
    const bool may_confirm = attempts_ > 0 && Py_TYPE(array) == classes.cupy;
    if (!may_confirm && is_packed_.is_true_of(array) && packed_strides(t->shape, t->ndim, steps))
      return true;
    std::int64_t bytes[kMostDimensions];
    std::int32_t rank = 0;
    if (!integers(strides_.of(array).ptr(), bytes, &rank) || rank != t->ndim) return false;
    if (may_confirm) confirm(array, elements.ptr(), memory.ptr(), *t, bytes);
    return divide(bytes, *t, steps);
  }

  /// Lets the fields be read from now on if they say what the attributes of this array say.
  void confirm(PyObject* object, PyObject* elements, PyObject* pointer, const DLTensor& t,
               const std::int64_t* bytes) {
    const auto size_of = [](PyObject* thing) {
      return static_cast<std::size_t>(Py_TYPE(thing)->tp_basicsize);
    };
    --attempts_;
    if (t.ndim < 1 || t.shape[0] == bytes[0] || size_of(object) != sizeof(CupyArray) ||
        size_of(pointer) != sizeof(CupyMemory))
      return;
    const auto& array = *reinterpret_cast<const CupyArray*>(object);
    const auto& memory = *reinterpret_cast<const CupyMemory*>(pointer);
    std::int64_t size = 1;
    for (std::int32_t i = 0; i < t.ndim; ++i) size *= t.shape[i];
    if (array.dtype != elements || array.data != pointer || array.size != size ||
        !array.shape.are(t.shape, t.ndim) || !array.strides.are(bytes, t.ndim) ||
        memory.ptr != reinterpret_cast<std::intptr_t>(t.data) ||
        memory.device_id != t.device.device_id)
      return;
    memory_type_ = Py_TYPE(pointer);
    Py_INCREF(reinterpret_cast<PyObject*>(memory_type_));  // its address must not mean another
    array_type_ = Py_TYPE(object);
    attempts_ = 0;
  }

  Name data_{"data"}, ptr_{"ptr"}, device_id_{"device_id"}, shape_{"shape"}, strides_{"strides"},
      dtype_{"dtype"}, is_packed_{"_c_contiguous"};
  ElementTypes types_;
  PyTypeObject *array_type_ = nullptr, *memory_type_ = nullptr;  // once confirmed
  int attempts_ = 32;  // to confirm the fields of this version of CuPy
};

PyObject* view_of_cupy(PyTypeObject* type, PyObject* array, PyObject* stream_ptr) {
  static Cupy cupy;
  return cupy.view(type, array, stream_ptr);
}

using Viewer = PyObject* (*)(PyTypeObject* type, PyObject* object, PyObject* stream_ptr);

/// A version of the library that lacks one of the names is asked by DLPack.
template <Viewer viewer>
PyObject* by_names(PyTypeObject* type, PyObject* object, PyObject* stream_ptr) {
  try {
    return viewer(type, object, stream_ptr);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_AttributeError)) throw;
    return nullptr;
  }
}

[[gnu::noinline]] PyObject* view_of_new(PyTypeObject* type, PyObject* object,
                                        PyObject* stream_ptr) {
  switch (library_of(Py_TYPE(object))) {
    case Library::numpy:
      return view_of_numpy(type, object);
    case Library::torch:
      return by_names<view_of_torch>(type, object, stream_ptr);
    case Library::cupy:
      return by_names<view_of_cupy>(type, object, stream_ptr);
    default:
      return nullptr;
  }
}

}  // namespace

PyObject* view_of_known(PyTypeObject* type, PyObject* object, PyObject* stream_ptr) {
  const PyTypeObject* const there = Py_TYPE(object);
  if (there == classes.numpy) return view_of_numpy(type, object);
  if (there == classes.torch) return by_names<view_of_torch>(type, object, stream_ptr);
  if (there == classes.cupy) return by_names<view_of_cupy>(type, object, stream_ptr);
  return view_of_new(type, object, stream_ptr);
}

}  // namespace cucore::python
