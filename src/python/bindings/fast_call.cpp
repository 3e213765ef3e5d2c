// SPDX-License-Identifier: Apache-2.0
// fast_call.cpp: the fast path of calls. Most calls pass ints and handles and return a result code
// and at most one value: they need no frame, no error message and no new tuple.
#include "fast_call.hpp"

#include "../type_table.hpp"
#include "core/backlog.hpp"
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
      return p.low = 0, p.high = INT64_MAX, true;  // larger ones take the general path
    case Kind::enumeration:
      return p.low = INT32_MIN, p.high = UINT32_MAX, true;
    default:
      return false;
  }
}

/// Returns whether a value has at most eight bytes and keeps nothing alive.
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
      p.kind = range_kind(row_of(row.type));
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
    if (p.kind == Kind::i32) return slot.i >= INT32_MIN && slot.i <= INT32_MAX;
    return slot.i >= 0 && (p.kind == Kind::u64 || slot.i <= static_cast<std::int64_t>(UINT32_MAX));
  }
  if (Py_IsNone(value)) return slot.u = 0, true;
  return false;
}

using detail::backlog;

/// Calls the function without the GIL, and counts enqueued work for calls that may keep the GIL
/// while there is little.
[[gnu::noinline]] std::uint64_t invoke_unlocked(const FunctionObject& f, const Slot* slots) {
#ifndef Py_GIL_DISABLED
  const auto stream =
      f.stream >= 0 ? reinterpret_cast<CUstream>(slots[f.stream].p) : CUstream{nullptr};
  const unsigned before = f.waits ? backlog.on(stream) : 0;
#endif
  std::uint64_t code = 0;
  {
    const python::WithoutGil unlocked;
    code = f.invoke(f.address, slots);
  }
#ifndef Py_GIL_DISABLED
  if (f.waits) {
    if (code == 0) backlog.drained(stream, before);
  } else if (f.stream >= 0) {
    (void)backlog.add(stream);
  }
#endif
  return code;
}

/// Returns whether a call that enqueues work may keep the GIL, under the same conditions as a
/// launch in cuda.core (core/submission.hpp).
inline bool may_queue([[maybe_unused]] const FunctionObject& f,
                      [[maybe_unused]] const Slot* slots) {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return !host_calls_are_pending() && python::is_only_thread() &&
         backlog.add(reinterpret_cast<CUstream>(slots[f.stream].p));
#endif
}

inline std::uint64_t invoke(const FunctionObject& f, const Slot* slots) {
  if (f.blocking || host_calls_are_pending()) [[unlikely]] {
    if (!f.queues || !may_queue(f, slots)) return invoke_unlocked(f, slots);
  }
  return f.invoke(f.address, slots);
}

inline bool may_keep_lock(const FunctionObject& f, const Slot* slots, std::uint64_t facts) {
  return f.launches && (facts & KernelFacts::quiet) != 0 && may_queue(f, slots);
}

/// load() for the most common kinds of results.
inline PyObject* load_output(const FastParam& p, const std::uint64_t* place) {
  if (p.kind == Kind::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, place, sizeof value);
    return PyLong_FromLong(value);
  }
  return load(p.kind, p.type, place, nullptr);
}

/// Returns a tuple for the result. Reuses the previous one if the caller has released it, as zip()
/// does. Its items are valid or null.
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

/// Returns several values, or the bare value of a raising function.
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

/// Returns (success, value) in a new tuple, which is cached for reuse.
[[gnu::noinline]] PyObject* first_pair(FunctionObject& f, PyObject* value) {
  PyObject* tuple = result_tuple(f);
  if (tuple == nullptr) return Py_DECREF(value), nullptr;
  set_item(tuple, 0, Py_NewRef(f.success));
  set_item(tuple, 1, value);
  return tuple;
}

/// Returns (success, value), in the tuple of the previous call if that has no other reference.
inline PyObject* pair(FunctionObject& f, PyObject* value) {
  if (value == nullptr) [[unlikely]]
    return nullptr;
#ifndef Py_GIL_DISABLED
  if (PyObject* last = f.last; last != nullptr && Py_REFCNT(last) == 1) [[likely]] {
#if PY_VERSION_HEX >= 0x030E0000
    reinterpret_cast<PyTupleObject*>(last)->ob_hash = -1;
#endif
    Py_INCREF(last);
    set_item(last, 1, value);  // the first item is success already
    return last;
  }
#endif
  return first_pair(f, value);
}

inline PyObject* result(FunctionObject& f, int code, const std::uint64_t* outputs) {
  if (code != 0) [[unlikely]]
    return failed_result(f, code);
  if (f.outs == 0) return Py_NewRef(f.raising ? Py_None : f.success_tuple);
  if (f.raising || f.outs != 1) return other_result(f, outputs);
  return pair(f, load_output(*f.out, outputs));
}

/// Converts kernel arguments in any form. They need memory for the duration of the call.
[[gnu::noinline]] bool other_params(const FunctionObject& f, int i, PyObject* given, Frame& frame,
                                    Slot* slots) {
  const Where where{f.name, "(): ", f.api->text + f.params[i].name};
  if (!to_kernel_params(given, where, frame, &slots[i])) return false;
  return kernel_takes(f.name, f.kernel >= 0 ? slots[f.kernel].p : nullptr, given);
}

[[gnu::noinline]] PyObject* call_with_kernel(FunctionObject& f, PyObject* const* args, Slot* slots,
                                             const std::uint64_t* outputs) {
  Frame frame;
  PlainParams plain;
  Py_ssize_t count = -1;
  void* const kernel = f.kernel >= 0 ? slots[f.kernel].p : nullptr;
  std::uint64_t facts = 0;
  for (int i = f.kernel + 1; i < f.parameters; ++i) {
    if (f.fast[i].op != Op::kernel) continue;
    PyObject* const given = args[f.fast[i].argument];
    if (PyLong_CheckExact(given) && as_int64(given, &slots[i].i) && slots[i].i >= 0)
      continue;  // an address, or no argument
    if (count < 0 && (count = to_plain_params(given, plain)) >= 0) {
      slots[i].p = plain.pointers;
      if (kernel == nullptr || (facts = facts_of(kernel, count)) != 0 ||
          kernel_takes(f.name, kernel, given))
        continue;
      return nullptr;
    }
    if (!other_params(f, i, given, frame, slots)) return nullptr;
  }
  if (count < 0) facts = facts_of(kernel, count);
  if (may_keep_lock(f, slots, facts)) [[likely]]
    return result(f, static_cast<int>(f.invoke(f.address, slots)), outputs);
  const auto code = static_cast<int>(invoke(f, slots));
  if (f.launches && code == 0 && (facts & KernelFacts::asked) == 0) query_facts(kernel, count);
  return result(f, code, outputs);
}

}  // namespace

const FastParam* fast_plan(const FunctionObject& f) {
  const FunctionRow& row = *f.row;
  if ((row.flags & (kNoResult | kCallTwice | kStatusRecord)) != 0 || row.extras != 0 ||
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

/// Converts one parameter; false if it needs the general path. `argument` points to its argument,
/// if it has one, and `output` to the memory of its value.
template <Op op>
[[gnu::always_inline]] inline bool convert(const FastParam& p, PyObject* const* argument,
                                           Slot& slot, std::uint64_t* output) {
  if constexpr (op == Op::integer) {
    return PyLong_Check(*argument) && as_int64(*argument, &slot.i) && slot.i >= p.low &&
           (slot.i <= 0 || slot.u <= p.high);
  } else if constexpr (op == Op::handle) {
    return to_handle(*argument, p, slot);
  } else if constexpr (op == Op::address) {
    return to_address(*argument, slot);
  } else if constexpr (op == Op::out) {
    *output = 0;
    slot.p = output;
    return true;
  } else if constexpr (op == Op::real) {
    if (!PyFloat_CheckExact(*argument)) return false;
    slot.d = PyFloat_AS_DOUBLE(*argument);
    return true;
  } else if constexpr (op == Op::text) {
    if (!PyBytes_CheckExact(*argument)) return false;
    slot.p = PyBytes_AS_STRING(*argument);
    return true;
  } else {
    slot.u = p.high;
    return true;
  }
}

/// Converts a parameter whose kind is known only at run time; common kinds first.
[[gnu::always_inline]] inline bool convert_any(const FastParam& p, PyObject* const* args,
                                               Slot& slot, std::uint64_t* outputs) {
  PyObject* const* const argument = args + p.argument;
  if (p.op == Op::integer) return convert<Op::integer>(p, argument, slot, nullptr);
  if (p.op == Op::handle) return convert<Op::handle>(p, argument, slot, nullptr);
  switch (p.op) {
    case Op::address:
      return convert<Op::address>(p, argument, slot, nullptr);
    case Op::out:
      return convert<Op::out>(p, argument, slot, outputs + p.output);
    case Op::real:
      return convert<Op::real>(p, argument, slot, nullptr);
    case Op::text:
      return convert<Op::text>(p, argument, slot, nullptr);
    default:
      return convert<Op::constant>(p, argument, slot, nullptr);
  }
}

[[gnu::always_inline]] inline PyObject* call(FunctionObject& f, PyObject* const* args) {
  if (f.address == nullptr) [[unlikely]]
    return call_function(f, args);
  Slot slots[kMostParameters];
  std::uint64_t outputs[kMostOutputs];
  bool kernel = false;
  const int n = f.parameters;
  const FastParam* p = f.fast;
  for (int i = 0; i < n; ++i, ++p) {
    if (p->op == Op::kernel)
      kernel = true;
    else if (!convert_any(*p, args, slots[i], outputs)) [[unlikely]]
      return call_function(f, args);
  }
  if (kernel) return call_with_kernel(f, args, slots, outputs);
  return result(f, static_cast<int>(invoke(f, slots)), outputs);
}

PyObject* fast_entry(PyObject* self, PyObject* const* args, std::intptr_t given, PyObject* names) {
  auto& f = *reinterpret_cast<FunctionObject*>(self);
  if (names != nullptr || given != f.arguments) [[unlikely]]
    return long_entry(self, args, given, names);
  return call(f, args);
}

[[gnu::noinline]] PyObject* other_entry(PyObject* self, PyObject* const* args, std::intptr_t given,
                                        PyObject* names) {
  return long_entry(self, args, given, names);
}

template <Op... ops, std::size_t... I>
[[gnu::always_inline]] inline bool convert_all(std::index_sequence<I...>, const FastParam* p,
                                               PyObject* const* args, Slot* slots,
                                               std::uint64_t* output) {
  constexpr Op all[] = {ops...};
  constexpr auto argument = [](std::size_t parameter) {
    int n = 0;
    for (std::size_t i = 0; i < parameter; ++i) n += all[i] != Op::out ? 1 : 0;
    return n;
  };
  return (convert<ops>(p[I], args + argument(I), slots[I], output) && ...);
}

/// The entry of functions with exactly these parameters, of which at most one is an output: without
/// loops and dispatch.
template <Op... ops>
PyObject* shaped_entry(PyObject* self, PyObject* const* args, std::intptr_t given,
                       PyObject* names) {
  constexpr int kOutputs = ((ops == Op::out ? 1 : 0) + ... + 0);
  constexpr std::intptr_t kArguments = sizeof...(ops) - kOutputs;
  static_assert(kOutputs <= 1);
  auto& f = *reinterpret_cast<FunctionObject*>(self);
  if (names != nullptr || given != kArguments || f.address == nullptr) [[unlikely]]
    return other_entry(self, args, given, names);
  Slot slots[sizeof...(ops)];
  std::uint64_t output;
  if (!convert_all<ops...>(std::make_index_sequence<sizeof...(ops)>{}, f.fast, args, slots,
                           &output)) [[unlikely]]
    return call_function(f, args);
  if (const auto code = static_cast<int>(invoke(f, slots)); code != 0) [[unlikely]]
    return failed_result(f, code);
  if constexpr (kOutputs == 0) {
    return Py_NewRef(f.raising ? Py_None : f.success_tuple);
  } else {
    if (f.raising) [[unlikely]]
      return other_result(f, &output);
    return pair(f, load_output(*f.out, &output));
  }
}

struct Shape {
  Op ops[4];
  int count;
  FastEntry entry;
};
template <Op... ops>
constexpr Shape shape() {
  return {{ops...}, sizeof...(ops), shaped_entry<ops...>};
}
constexpr Op kInt = Op::integer, kHandle = Op::handle, kOut = Op::out, kAddress = Op::address;
constexpr Shape kShapes[] = {
    shape<kHandle>(),                          // cuStreamQuery
    shape<kOut>(),                             // cuDeviceGetCount
    shape<kInt>(),                             // cudaSetDevice
    shape<kHandle, kHandle>(),                 // cuEventRecord
    shape<kHandle, kOut>(),                    // cuStreamIsCapturing
    shape<kOut, kHandle>(),                    // cuDevicePrimaryCtxRetain
    shape<kOut, kInt>(),                       // cuEventCreate
    shape<kOut, kInt, kHandle>(),              // cuDeviceGetAttribute, cuMemAllocAsync
    shape<kOut, kInt, kInt>(),                 // cudaDeviceGetAttribute
    shape<kOut, kHandle, kHandle>(),           // cuEventElapsedTime
    shape<kHandle, kHandle, kInt>(),           // cuStreamWaitEvent
    shape<kHandle, kAddress, kInt>(),          // cuMemcpyHtoD
    shape<kAddress, kHandle, kInt>(),          // cuMemcpyDtoH
    shape<kHandle, kInt, kInt, kHandle>(),     // cuMemsetD8Async
    shape<kHandle, kHandle, kInt, kHandle>(),  // cuMemcpyDtoDAsync
    shape<kAddress, kInt, kInt, kHandle>(),    // cudaMemsetAsync
};

}  // namespace

PyObject* fast_call(FunctionObject& f, PyObject* const* args) { return call(f, args); }

FastEntry entry_of(const FunctionObject& f) {
  for (const Shape& shape : kShapes) {
    if (shape.count != f.parameters) continue;
    int same = 0, argument = 0;
    for (; same < shape.count && f.fast[same].op == shape.ops[same]; ++same) {
      if (shape.ops[same] != Op::out && f.fast[same].argument != argument++) break;
    }
    if (same == shape.count && argument == f.arguments) return shape.entry;
  }
  return fast_entry;
}

}  // namespace cucore::bindings
