// fast.cpp: the short way through a call. Most calls pass ints and handles and get a result code
// and perhaps one value: those need no frame, no error text, and no new tuple.
#include "fast.hpp"

#include "../type_table.hpp"
#include "function.hpp"
#include "python/gil.hpp"

namespace cucore::bindings {
namespace {

using Op = FastParam::Op;
using python::as_int64;

constexpr int kMostParameters = 16;
constexpr int kMostOutputs = 4;

bool integer_range(Kind kind, FastParam& p) {
  switch (kind) {
    case Kind::i8:
      return p.low = INT8_MIN, p.high = INT8_MAX, true;
    case Kind::u8:
      return p.low = 0, p.high = UINT8_MAX, true;
    case Kind::i16:
      return p.low = INT16_MIN, p.high = INT16_MAX, true;
    case Kind::u16:
      return p.low = 0, p.high = UINT16_MAX, true;
    case Kind::i32:
    case Kind::boolean:
      return p.low = INT32_MIN, p.high = INT32_MAX, true;
    case Kind::u32:
      return p.low = 0, p.high = UINT32_MAX, true;
    case Kind::i64:
      return p.low = INT64_MIN, p.high = INT64_MAX, true;
    case Kind::u64:
      return p.low = 0, p.high = INT64_MAX, true;  // larger ones go the long way
    case Kind::enumeration:
      return p.low = INT32_MIN, p.high = UINT32_MAX, true;
    default:
      return false;
  }
}

/// A value that takes at most eight bytes and needs nothing kept alive.
bool is_plain_output(Kind kind) {
  switch (kind) {
    case Kind::record:
    case Kind::none:
    case Kind::chars:
    case Kind::bytes:
    case Kind::string:
    case Kind::array:
    case Kind::kernel:
      return false;
    default:
      return true;
  }
}

bool plan_one(const ParamRow& row, FastParam& p, int& outputs) {
  p.argument = row.argument;
  p.kind = row.kind;
  p.type = row.type;
  switch (row.role) {
    case Role::in:
      if (integer_range(row.kind, p)) return p.op = Op::integer, true;
      if (row.kind == Kind::f32 || row.kind == Kind::f64) return p.op = Op::real, true;
      if (row.kind == Kind::address) return p.op = Op::address, true;
      if (row.kind != Kind::handle) return false;
      p.op = Op::handle;
      p.root = row_of(row.type).root;
      p.size = static_cast<std::uint8_t>(row_of(row.type).size);
      return true;
    case Role::in_void:
    case Role::out_void:
      return p.op = Op::address, true;
    case Role::text:
      return p.op = Op::text, true;
    case Role::kernel:
      return p.op = Op::kernel, true;
    case Role::out:
      if (!is_plain_output(row.kind) || outputs == kMostOutputs) return false;
      p.op = Op::out;
      p.output = static_cast<std::uint8_t>(outputs++);
      return true;
    case Role::null:
      return p.op = Op::constant, p.high = 0, true;
    case Role::constant:
      return p.op = Op::constant, p.high = row.extra, true;
    default:
      return false;
  }
}

/// A handle of one of our classes; classes derived from them in Python go the long way.
bool is_plain_handle(PyObject* value) { return Py_TYPE(value)->tp_dealloc == handle_dealloc; }

bool to_address(PyObject* value, Slot& slot) {
  if (PyLong_CheckExact(value)) return as_int64(value, &slot.i) && slot.i >= 0;
  if (is_plain_handle(value))
    return slot.u = handle_value(reinterpret_cast<HandleObject*>(value)), true;
  if (Py_IsNone(value)) return slot.u = 0, true;
  return false;
}

[[gnu::always_inline]] inline bool to_handle(PyObject* value, const FastParam& p, Slot& slot) {
  if (is_plain_handle(value)) {
    const auto* handle = reinterpret_cast<HandleObject*>(value);
    if (handle->root != p.root) return false;
    slot.u = handle_value(handle);
    return true;
  }
  if (PyLong_CheckExact(value)) {
    if (!as_int64(value, &slot.i)) return false;
    return p.size == 4 ? slot.i >= INT32_MIN && slot.i <= static_cast<std::int64_t>(UINT32_MAX)
                       : slot.i >= 0;
  }
  if (Py_IsNone(value)) return slot.u = 0, true;
  return false;
}

[[gnu::noinline]] std::uint64_t invoke_unlocked(const FunctionObject& f, const Slot* slots) {
  const python::WithoutGil unlocked;
  return f.invoke(f.address, slots);
}

inline std::uint64_t invoke(const FunctionObject& f, const Slot* slots) {
  if (f.blocking || host_calls_are_pending()) [[unlikely]]
    return invoke_unlocked(f, slots);
  return f.invoke(f.address, slots);
}

/// load() for the kinds that most calls return.
inline PyObject* load_output(const FastParam& p, const std::uint64_t* place) {
  if (p.kind == Kind::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, place, sizeof value);
    return PyLong_FromLong(value);
  }
  return load(p.kind, p.type, place, nullptr);
}

/// A tuple for the result: the last one again when the caller has dropped it, as zip() does. Its
/// items are valid or null.
PyObject* result_tuple(FunctionObject& f) {
#ifndef Py_GIL_DISABLED
  if (PyObject* last = f.last; last != nullptr && Py_REFCNT(last) == 1) {
#if PY_VERSION_HEX >= 0x030E0000
    reinterpret_cast<PyTupleObject*>(last)->ob_hash = -1;
#endif
    return Py_NewRef(last);
  }
#endif
  PyObject* tuple = PyTuple_New(1 + f.outs);
#ifndef Py_GIL_DISABLED
  if (tuple != nullptr) Py_XSETREF(f.last, Py_NewRef(tuple));
#endif
  return tuple;
}

void set_item(PyObject* tuple, Py_ssize_t index, PyObject* value) {
  PyObject* old = PyTuple_GET_ITEM(tuple, index);
  PyTuple_SET_ITEM(tuple, index, value);
  Py_XDECREF(old);
}

/// Several values, or one that raising functions return bare.
[[gnu::noinline]] PyObject* other_result(FunctionObject& f, const std::uint64_t* outputs) {
  if (f.outs == 1) return load(f.out->kind, f.out->type, outputs, nullptr);
  PyObject* values[kMostOutputs];
  int made = 0;
  for (const FastParam* p = f.fast; made < f.outs; ++p) {
    if (p->op != Op::out) continue;
    values[made] = load(p->kind, p->type, &outputs[made], nullptr);
    if (values[made] == nullptr) break;
    ++made;
  }
  PyObject* tuple = nullptr;
  if (made == f.outs) tuple = f.raising ? PyTuple_New(f.outs) : result_tuple(f);
  if (tuple == nullptr) [[unlikely]] {
    while (made > 0) Py_DECREF(values[--made]);
    return nullptr;
  }
  int at = 0;
  if (!f.raising) set_item(tuple, at++, Py_NewRef(f.success));
  for (int i = 0; i < f.outs; ++i) set_item(tuple, at++, values[i]);
  return tuple;
}

/// (success, value) in a new tuple, which is kept to be used again.
[[gnu::noinline]] PyObject* first_pair(FunctionObject& f, PyObject* value) {
  PyObject* tuple = result_tuple(f);
  if (tuple == nullptr) return Py_DECREF(value), nullptr;
  set_item(tuple, 0, Py_NewRef(f.success));
  set_item(tuple, 1, value);
  return tuple;
}

inline PyObject* result(FunctionObject& f, int code, const std::uint64_t* outputs) {
  if (code != 0) [[unlikely]]
    return failed_result(f, code);
  if (f.outs == 0) return Py_NewRef(f.raising ? Py_None : f.success_tuple);
  if (f.raising || f.outs != 1) return other_result(f, outputs);
  PyObject* value = load_output(*f.out, outputs);
  if (value == nullptr) [[unlikely]]
    return nullptr;
#ifndef Py_GIL_DISABLED
  if (PyObject* last = f.last; last != nullptr && Py_REFCNT(last) == 1) [[likely]] {
#if PY_VERSION_HEX >= 0x030E0000
    reinterpret_cast<PyTupleObject*>(last)->ob_hash = -1;
#endif
    Py_INCREF(last);
    set_item(last, 1, value);  // the first item is the success it was
    return last;
  }
#endif
  return first_pair(f, value);
}

/// Kernel arguments need memory for the time of the call.
[[gnu::noinline]] PyObject* call_with_kernel(FunctionObject& f, PyObject* const* args, Slot* slots,
                                             const std::uint64_t* outputs) {
  Frame frame;
  for (int i = 0; i < f.row->parameters; ++i) {
    if (f.fast[i].op != Op::kernel) continue;
    const ParamRow& p = f.params[i];
    const Where where{f.name, "(): ", f.api->text + p.name};
    if (!to_kernel_params(args[p.argument], where, frame, &slots[i])) return nullptr;
    if (!kernel_takes(f.name, f.api->text, f.params, slots, i, args[p.argument])) return nullptr;
  }
  return result(f, static_cast<int>(invoke(f, slots)), outputs);
}

}  // namespace

const FastParam* fast_plan(const FunctionObject& f) {
  const FunctionRow& row = *f.row;
  if ((row.flags & (kNoResult | kAskTwice | kStatusRecord)) != 0 || row.extras != 0 ||
      row.parameters > kMostParameters || f.success == nullptr)
    return nullptr;
  FastParam plan[kMostParameters]{};
  int outputs = 0;
  for (int i = 0; i < row.parameters; ++i) {
    if (!plan_one(f.params[i], plan[i], outputs)) return nullptr;
  }
  auto* kept = new FastParam[row.parameters + 1]{};
  for (int i = 0; i < row.parameters; ++i) kept[i] = plan[i];
  return kept;
}

namespace {

[[gnu::always_inline]] inline PyObject* call(FunctionObject& f, PyObject* const* args) {
  if (f.address == nullptr) [[unlikely]]
    return call_function(f, args);
  Slot slots[kMostParameters];
  std::uint64_t outputs[kMostOutputs];
  bool kernel = false;
  const int n = f.parameters;
  const FastParam* p = f.fast;
  for (int i = 0; i < n; ++i, ++p) {
    Slot& slot = slots[i];
    switch (p->op) {
      case Op::integer: {
        PyObject* value = args[p->argument];
        if (!PyLong_Check(value) || !as_int64(value, &slot.i) || slot.i < p->low ||
            (slot.i > 0 && slot.u > p->high)) [[unlikely]]
          return call_function(f, args);
        break;
      }
      case Op::handle:
        if (!to_handle(args[p->argument], *p, slot)) [[unlikely]]
          return call_function(f, args);
        break;
      case Op::address:
        if (!to_address(args[p->argument], slot)) return call_function(f, args);
        break;
      case Op::out:
        outputs[p->output] = 0;
        slot.p = &outputs[p->output];
        break;
      case Op::real:
        if (!PyFloat_CheckExact(args[p->argument])) return call_function(f, args);
        slot.d = PyFloat_AS_DOUBLE(args[p->argument]);
        break;
      case Op::text:
        if (!PyBytes_CheckExact(args[p->argument])) return call_function(f, args);
        slot.p = PyBytes_AS_STRING(args[p->argument]);
        break;
      case Op::constant:
        slot.u = p->high;
        break;
      case Op::kernel:
        kernel = true;
        break;
    }
  }
  if (kernel) return call_with_kernel(f, args, slots, outputs);
  return result(f, static_cast<int>(invoke(f, slots)), outputs);
}

}  // namespace

PyObject* fast_call(FunctionObject& f, PyObject* const* args) { return call(f, args); }

PyObject* fast_entry(PyObject* self, PyObject* const* args, std::intptr_t given, PyObject* names) {
  auto& f = *reinterpret_cast<FunctionObject*>(self);
  if (names != nullptr || given != f.arguments) [[unlikely]]
    return long_entry(self, args, given, names);
  return call(f, args);
}

}  // namespace cucore::bindings
