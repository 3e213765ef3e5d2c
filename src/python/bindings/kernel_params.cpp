// SPDX-License-Identifier: Apache-2.0
// kernel_params.cpp: conversion of kernel arguments, given as an address, a buffer of addresses, or
// (values, types) with ctypes types or None.
#include "../type_table.hpp"
#include "core/unload_count.hpp"
#include "cucore/driver.hpp"
#include "engine.hpp"

namespace cucore::bindings {
namespace {

struct CTypes {  // looked up once, when a program uses ctypes
  PyObject *structure, *union_, *simple, *pointer, *sizeof_, *addressof, *data, *func;
};

const CTypes* ctypes() {
  static std::atomic<CTypes*> loaded{nullptr};
  if (CTypes* known = loaded.load(std::memory_order_acquire)) return known;
  Ref module{PyImport_ImportModule("ctypes")}, low{PyImport_ImportModule("_ctypes")};
  if (!module || !low) return nullptr;
  auto* made = new CTypes{PyObject_GetAttrString(module.get(), "Structure"),
                          PyObject_GetAttrString(module.get(), "Union"),
                          PyObject_GetAttrString(module.get(), "_SimpleCData"),
                          PyObject_GetAttrString(module.get(), "_Pointer"),
                          PyObject_GetAttrString(module.get(), "sizeof"),
                          PyObject_GetAttrString(module.get(), "addressof"),
                          PyObject_GetAttrString(module.get(), "Array"),
                          PyObject_GetAttrString(low.get(), "CFuncPtr")};
  if (PyErr_Occurred()) return nullptr;
  loaded.store(made, std::memory_order_release);  // idempotent: all threads store the same classes
  return made;
}

/// The owner of the arguments' bytes and references: the frame of a call, or an object of a record.
struct Sink {
  Frame* frame = nullptr;
  PyObject* list = nullptr;
  void* take(std::size_t bytes) {
    if (frame != nullptr) return frame->take(bytes);
    Ref memory{
        PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes == 0 ? 1 : bytes))};
    if (!memory || PyList_Append(list, memory.get()) < 0) return nullptr;
    void* data = PyByteArray_AS_STRING(memory.get());
    std::memset(data, 0, bytes);
    return data;
  }
  bool hold(PyObject* object) {
    return frame != nullptr ? frame->hold(object) : PyList_Append(list, object) == 0;
  }
};

bool fail(const Where& where, Py_ssize_t index, const char* text, PyObject* value) {
  PyErr_Format(PyExc_TypeError, "%s%s%s[%zd]: %s, got %s", where.owner, where.joint, where.name,
               index, text, Py_TYPE(value)->tp_name);
  return false;
}

/// Returns the one-character code of a simple ctypes type ("i", "Q", "f", ...), or 0.
char simple_code(PyObject* type) {
  static python::TypeTable<char> known;
  auto* key = reinterpret_cast<PyTypeObject*>(type);
  if (const char* code = known.find(key)) return *code;
  Ref code{PyObject_GetAttrString(type, "_type_")};
  if (!code) {
    PyErr_Clear();
    return 0;
  }
  if (!PyUnicode_Check(code.get()) || PyUnicode_GET_LENGTH(code.get()) != 1) return 0;
  const char c = static_cast<char>(PyUnicode_READ_CHAR(code.get(), 0));
  known.add(key, c);
  return c;
}

constexpr Kind kind_of_code(char code) {
  switch (code) {
    case '?':
      return Kind::boolean;
    case 'b':
    case 'c':
      return Kind::i8;
    case 'B':
      return Kind::u8;
    case 'h':
      return Kind::i16;
    case 'H':
      return Kind::u16;
    case 'i':
      return Kind::i32;
    case 'I':
      return Kind::u32;
    case 'l':
    case 'q':
      return Kind::i64;
    case 'L':
    case 'Q':
      return Kind::u64;
    case 'f':
      return Kind::f32;
    case 'd':
      return Kind::f64;
    case 'P':
      return Kind::address;
    default:
      return Kind::none;
  }
}

bool has_value_method(PyObject* value) { return PyObject_HasAttrString(value, "getPtr"); }

/// isinstance that does not raise: returns false if the test raises an exception.
bool is_instance(PyObject* value, PyObject* type) {
  const int answer = PyObject_IsInstance(value, type);
  if (answer < 0) PyErr_Clear();
  return answer == 1;
}

/// Returns the address of a ctypes instance's data.
void* data_of(PyObject* instance) {
  Ref address{PyObject_CallOneArg(ctypes()->addressof, instance)};
  return address ? PyLong_AsVoidPtr(address.get()) : nullptr;
}

/// Converts an argument with type None: the value itself has an address.
bool untyped(PyObject* value, Py_ssize_t index, const Where& where, Sink& sink, void** out) {
  if (is_handle(value)) {
    *out = reinterpret_cast<HandleObject*>(value)->place;
    return true;
  }
  if (is_record(value)) {
    *out = reinterpret_cast<RecordObject*>(value)->place;
    return true;
  }
  if (PyLong_Check(value) &&
      !PyLong_CheckExact(value)) {  // an enum of the bindings, or an IntEnum: a C int
    auto* place = static_cast<std::int32_t*>(sink.take(8));
    Slot slot{};
    if (place == nullptr || !to_integer(value, Kind::none, where, &slot)) return false;
    *place = static_cast<std::int32_t>(slot.i);
    *out = place;
    return true;
  }
  if (has_value_method(value)) {
    Ref pointer{PyObject_CallMethod(value, "getPtr", nullptr)};
    Slot slot{};
    if (!pointer || !to_integer(pointer.get(), Kind::u64, where, &slot)) return false;
    *out = slot.p;
    return true;
  }
  const CTypes* c = ctypes();
  if (c == nullptr) return false;
  for (PyObject* base : {c->structure, c->union_, c->simple, c->data, c->pointer}) {
    if (is_instance(value, base)) return (*out = data_of(value)) != nullptr;
  }
  if (PyObject_HasAttrString(value, "value") &&
      PyObject_HasAttrString(value, "name")) {  // Python's enum.Enum
    Ref inner{PyObject_GetAttrString(value, "value")};
    Slot slot{};
    auto* place = static_cast<std::int32_t*>(sink.take(8));
    if (!inner || place == nullptr || !to_integer(inner.get(), Kind::none, where, &slot))
      return false;
    *place = static_cast<std::int32_t>(slot.i);
    *out = place;
    return true;
  }
  return fail(where, index, "type None needs an object with getPtr(), a ctypes instance or an enum",
              value);
}

bool typed(PyObject* value, PyObject* type, Py_ssize_t index, const Where& where, Sink& sink,
           void** out) {
  const CTypes* c = ctypes();
  if (c == nullptr) return false;
  if (!PyType_Check(type))
    return fail(where, index, "the type must be a ctypes type or None", type);
  const bool number_itself =
      PyLong_CheckExact(value) || PyFloat_CheckExact(value);  // the common case
  if (!number_itself && is_instance(value, type)) {           // already of that type
    if (!sink.hold(value)) return false;
    return (*out = data_of(value)) != nullptr;
  }
  const char code = simple_code(type);
  const Kind kind = kind_of_code(code);
  if (kind != Kind::none) {
    void* place = sink.take(8);
    if (place == nullptr) return false;
    Slot slot{};
    PyObject* number = value;
    Ref inner;
    if (!number_itself && is_instance(value, c->simple)) {  // another simple ctypes value
      inner = Ref{PyObject_GetAttrString(value, "value")};
      if (!inner) return false;
      number = inner.get();
    }
    if (kind == Kind::boolean) {
      const int truth = PyObject_IsTrue(number);
      if (truth < 0) return false;
      *static_cast<char*>(place) = static_cast<char>(truth);
    } else if (kind == Kind::f32 || kind == Kind::f64) {
      if (!to_slot(number, kind, kNoType, where, &slot)) return false;
      put(slot, kind, kNoType, place);
    } else if (code == 'c' && PyBytes_Check(number)) {
      if (PyBytes_GET_SIZE(number) != 1) return fail(where, index, "c_char takes one byte", value);
      *static_cast<char*>(place) = PyBytes_AS_STRING(number)[0];
    } else if (kind == Kind::address) {
      // c_void_p: the address itself, not the memory there
      if (Py_IsNone(number))
        slot.u = 0;
      else if (is_handle(number))
        slot.u = handle_value(reinterpret_cast<HandleObject*>(number));
      else if (is_record(number))  // the address of the struct, as getPtr() gives it
        slot.p = reinterpret_cast<RecordObject*>(number)->place;
      else if (has_value_method(number)) {
        Ref pointer{PyObject_CallMethod(number, "getPtr", nullptr)};
        if (!pointer || !to_integer(pointer.get(), Kind::u64, where, &slot)) return false;
      } else if (!to_integer(number, Kind::u64, where, &slot))
        return false;
      put(slot, Kind::u64, kNoType, place);
    } else {
      // ctypes integers do not check for overflow: they keep the low bits. Strings and fractions,
      // which int() accepts, are rejected.
      const bool whole = PyLong_Check(number) || PyIndex_Check(number) || has_value_method(number);
      Ref integer{!whole                 ? nullptr
                  : PyLong_Check(number) ? Py_NewRef(number)
                                         : PyNumber_Long(number)};
      if (!integer) {
        PyErr_Clear();
        return fail(where, index, "an integer is needed", value);
      }
      slot.u = PyLong_AsUnsignedLongLongMask(integer.get());
      if (PyErr_Occurred()) return false;
      put(slot, kind, kNoType, place);
    }
    *out = place;
    return true;
  }
  Ref instance{PyObject_CallOneArg(
      type, value)};  // a structure, pointer or other ctypes type converts the value itself
  if (!instance) return false;
  if (!sink.hold(instance.get())) return false;
  return (*out = data_of(instance.get())) != nullptr;
}

/// Converts the common argument: a plain int or float with a simple ctypes type. Returns false,
/// without side effects, for others.
bool plain(PyObject* value, PyObject* type, Slot& out) {
  if (!PyType_Check(type)) return false;
  const char code = simple_code(type);
  if (PyLong_CheckExact(value)) {
    if (!python::as_int64(value, &out.i)) return false;
    switch (code) {
      case 'P':
        return out.i >= 0;
      case 'b':
      case 'B':
      case 'h':
      case 'H':
      case 'i':
      case 'I':
      case 'l':
      case 'L':
      case 'q':
      case 'Q':
        return true;  // little-endian; ctypes also drops the high bytes
      case 'd':
        out.d = static_cast<double>(out.i);
        return true;
      case 'f':
        break;
      default:
        return false;
    }
    const auto narrow = static_cast<float>(out.i);
    std::memcpy(&out, &narrow, sizeof narrow);
    return true;
  }
  if (!PyFloat_CheckExact(value)) return false;
  if (code == 'd') {
    out.d = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (code != 'f') return false;
  const auto narrow = static_cast<float>(PyFloat_AS_DOUBLE(value));
  std::memcpy(&out, &narrow, sizeof narrow);
  return true;
}

bool fill(PyObject* value, const Where& where, Sink& sink, Slot* out) {
  if (PyTuple_GET_SIZE(value) != 2) {
    PyErr_Format(PyExc_TypeError, "%s%s%s must be a pair (values, types), got a tuple of %zd",
                 where.owner, where.joint, where.name, PyTuple_GET_SIZE(value));
    return false;
  }
  const Ref values{PySequence_Tuple(PyTuple_GET_ITEM(value, 0))};
  const Ref types{values ? PySequence_Tuple(PyTuple_GET_ITEM(value, 1)) : nullptr};
  if (!types) {
    PyErr_Format(PyExc_TypeError, "%s%s%s: the %s must be a sequence, not %s", where.owner,
                 where.joint, where.name, values ? "types" : "values",
                 Py_TYPE(PyTuple_GET_ITEM(value, values ? 1 : 0))->tp_name);
    return false;
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(values.get());
  if (PySequence_Fast_GET_SIZE(types.get()) != n) {
    PyErr_Format(PyExc_TypeError, "%s%s%s: %zd values but %zd types", where.owner, where.joint,
                 where.name, n, PySequence_Fast_GET_SIZE(types.get()));
    return false;
  }
  auto** pointers = static_cast<void**>(sink.take(sizeof(void*) * static_cast<std::size_t>(n + 1)));
  if (pointers == nullptr) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(values.get(), i);
    PyObject* type = PySequence_Fast_GET_ITEM(types.get(), i);
    if (Slot slot{}; plain(item, type, slot)) {
      pointers[i] = sink.take(sizeof slot);
      if (pointers[i] == nullptr) return false;
      std::memcpy(pointers[i], &slot, sizeof slot);
      continue;
    }
    const bool done = Py_IsNone(type) ? untyped(item, i, where, sink, &pointers[i])
                                      : typed(item, type, i, where, sink, &pointers[i]);
    if (!done) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s%s%s[%zd]: %s cannot be used as %R", where.owner,
                     where.joint, where.name, i, Py_TYPE(item)->tp_name, type);
      return false;
    }
  }
  out->p = pointers;
  return true;
}

}  // namespace

Py_ssize_t to_plain_params(PyObject* value, PlainParams& out) {
  if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != 2) return -1;
  PyObject* const values = PyTuple_GET_ITEM(value, 0);
  PyObject* const types = PyTuple_GET_ITEM(value, 1);
  if (!PyTuple_CheckExact(values) || !PyTuple_CheckExact(types)) return -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(values);
  if (n > PlainParams::kMost || PyTuple_GET_SIZE(types) != n) return -1;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!plain(PyTuple_GET_ITEM(values, i), PyTuple_GET_ITEM(types, i), out.values[i])) return -1;
    out.pointers[i] = &out.values[i];
  }
  return n;
}

bool to_kernel_params(PyObject* value, const Where& where, Frame& frame, Slot* out) {
  if (PyTuple_Check(value)) {
    if (PyTuple_GET_SIZE(value) == 0) {
      out->u = 0;
      return true;
    }
    Sink sink{&frame, nullptr};
    return fill(value, where, sink, out);
  }
  return to_address(value, where, frame, 0, false, out);
}

namespace {

/// Cache of the kernels' parameter counts: the query takes the driver microseconds, since its last
/// result is an error. An entry is one number, for atomicity: a digest of the kernel's handle, the
/// count and the number of code unloads, with the facts in the lowest bits.
std::atomic<std::uint64_t> remembered[256];
constexpr std::uint64_t kFacts = KernelFacts::known | KernelFacts::quiet | KernelFacts::asked;
using detail::unload_count;

std::uint64_t digest(std::uint64_t kernel, Py_ssize_t n, std::uint64_t unloaded) {
  std::uint64_t mixed = kernel * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ (mixed >> 29) ^ static_cast<std::uint64_t>(n)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 32) ^ unloaded) * 0x94D049BB133111EBu;
  return (mixed ^ (mixed >> 31)) & ~kFacts;
}

std::atomic<std::uint64_t>& place_of(std::uint64_t kernel) {
  return remembered[((kernel >> 4) ^ (kernel >> 12)) % std::size(remembered)];
}

/// `unloaded`: the number of code unloads before the driver was queried.
void remember(std::uint64_t kernel, Py_ssize_t n, std::uint64_t unloaded, std::uint64_t facts) {
  place_of(kernel).store(digest(kernel, n, unloaded) | facts, std::memory_order_relaxed);
}

}  // namespace

std::uint64_t facts_of(void* kernel, Py_ssize_t arguments) {
  const auto handle = reinterpret_cast<std::uint64_t>(kernel);
  const std::uint64_t entry = place_of(handle).load(std::memory_order_relaxed);
  const std::uint64_t unloaded = unload_count.load(std::memory_order_relaxed);
  return ((entry ^ digest(handle, arguments, unloaded)) & ~kFacts) == 0 ? entry & kFacts : 0;
}

void query_facts(void* kernel, Py_ssize_t arguments) {
  const std::uint64_t unloaded = unload_count.load(std::memory_order_relaxed);
  int local = 1;
  const CUresult code = driver().cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                                    static_cast<CUfunction>(kernel));
  const bool is_quiet = code == CUDA_SUCCESS && local == 0;
  remember(reinterpret_cast<std::uint64_t>(kernel), arguments, unloaded,
           KernelFacts::known | KernelFacts::asked | (is_quiet ? KernelFacts::quiet : 0));
}

bool kernel_takes(const char* function, void* kernel, PyObject* given) {
  if (!PyTuple_Check(given)) return true;  // an address: the number of arguments is unknown
  if (kernel == nullptr) return true;
  const Py_ssize_t n =
      PyTuple_GET_SIZE(given) == 0 ? 0 : PyObject_Length(PyTuple_GET_ITEM(given, 0));
  if (facts_of(kernel, n) != 0) return true;
  const std::uint64_t codes = unload_count.load(std::memory_order_relaxed);
  const auto ask = [&](Py_ssize_t index) {
    std::size_t offset = 0, size = 0;
    return driver().cuFuncGetParamInfo(static_cast<CUfunction>(kernel),
                                       static_cast<std::size_t>(index), &offset, &size);
  };
  if (ask(n) == CUDA_SUCCESS) {
    PyErr_Format(PyExc_TypeError, "%s(): argument %zd of the kernel is missing: %zd were given",
                 function, n, n);
    return false;
  }
  if (n > 0 && ask(n - 1) == CUDA_ERROR_INVALID_VALUE) {
    PyErr_Format(PyExc_TypeError, "%s(): the kernel takes fewer than the %zd arguments given",
                 function, n);
    return false;
  }
  remember(reinterpret_cast<std::uint64_t>(kernel), n, codes, KernelFacts::known);
  return true;
}

PyObject* kernel_params_object(PyObject* value, const Where& where, void** address) {
  Ref list{PyList_New(0)};
  if (!list || PyList_Append(list.get(), value) < 0) return nullptr;
  Slot slot{};
  if (PyTuple_Check(value) && PyTuple_GET_SIZE(value) != 0) {
    Sink sink{nullptr, list.get()};
    if (!fill(value, where, sink, &slot)) return nullptr;
  } else if (!PyTuple_Check(value)) {
    Frame frame;
    if (!to_address(value, where, frame, 0, false, &slot)) return nullptr;
  }
  *address = slot.p;
  return list.release();
}

}  // namespace cucore::bindings
