// SPDX-License-Identifier: Apache-2.0
// call.cpp: one call of a rendered function: Python arguments to C arguments, the call, the result
// tuple.
#include "call.hpp"

#include <algorithm>
#include <cmath>

#include "core/unload_count.hpp"
#include "cucore/driver.hpp"
#include "python/gil.hpp"

namespace cucore::bindings {

PyObject* raise_status = nullptr;

PyObject* Call::operator()(PyObject* const* args) {
  for (int i = 0; i < row_.parameters; ++i) {
    if (!simple(i, args)) return nullptr;
  }
  for (int i = row_.parameters; i < row_.parameters + row_.extras; ++i) {
    if (params_[i].role == Role::field && !set_field(i, args)) return nullptr;
  }
  if (deferred_) {
    for (const bool last : {false, true}) {  // attribute buffers last: they depend on the attribute
      for (int i = 0; i < row_.parameters; ++i) {
        if (((deferred_ >> i) & 1) != 0 && (params_[i].role == Role::attributes_out) == last &&
            !linked(i, args))
          return nullptr;
      }
    }
  }
  if (f_.address == nullptr && !resolve(f_)) [[unlikely]]
    return nullptr;
  if (row_.flags & kNoResult) return plain();
  const int code = (row_.flags & kCallTwice) != 0 ? call_twice() : status();
  if ((row_.flags & kCallTwice) != 0 && PyErr_Occurred()) return nullptr;
  if (host_call_ != nullptr) {
    if (raise_pending(host_call_)) [[unlikely]]
      return nullptr;
    settle(code);
  }
  if (record_with_calls_ != nullptr && code == 0) [[unlikely]]
    settle_record();
  return result(code);
}

bool Call::fraction(int i, PyObject* value) {
  const ParamRow& p = params_[i];
  const double number = PyFloat_AS_DOUBLE(value);
  // In the Pythonic modules a number may be a handle, which is never computed: no truncation.
  const bool is_cut = f_.api->raises == 0 && std::isfinite(number);
  const Ref whole{is_cut ? PyLong_FromDouble(number) : Py_NewRef(value)};
  return whole && to_slot(whole.get(), p.kind, p.type, where(i), &slots_[i]);
}

bool Call::simple(int i, PyObject* const* args) {
  const ParamRow& p = params_[i];
  Slot& slot = slots_[i];
  switch (p.role) {
    case Role::in:
      if (PyFloat_Check(args[p.argument]) && p.kind >= Kind::i8 && p.kind <= Kind::u64) [[unlikely]]
        return fraction(i, args[p.argument]);
      return to_slot(args[p.argument], p.kind, p.type, where(i), &slot);
    case Role::out:
      if (p.kind == Kind::record) {
        RecordObject* record = new_record(p.type);
        if (record == nullptr) return false;
        fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
        index_[i] = static_cast<std::uint8_t>(fresh_count_ - 1);
        slot.p = record->place;
        return true;
      }
      [[fallthrough]];
    case Role::size_of:
      return fetch_void(slot, frame_.take(8));
    case Role::asked: {
      const std::uint64_t room = p.extra;
      if (!fetch_void(slot, frame_.take(8))) return false;
      std::memcpy(slot.p, &room, sizeof room);
      return true;
    }
    case Role::in_pointer: {
      PyObject* value = args[p.argument];
      if (Py_IsNone(value)) {
        slot.p = nullptr;
        return true;
      }
      if (p.kind == Kind::record) {
        RecordObject* record = expect_record(value, p.type, where(i));
        if (record == nullptr) return false;
        if (holds_calls(record)) [[unlikely]]
          record_with_calls_ = record;
        slot.p = record->place;
        return true;
      }
      if (p.kind == Kind::handle && is_handle(value)) {
        slot.p = reinterpret_cast<HandleObject*>(value)->place;  // the callee may write to it
        Slot ignored{};
        return to_slot(value, p.kind, p.type, where(i), &ignored);
      }
      // In the Pythonic modules a handle is an int, and a sequence of ints is several handles.
      const bool is_handle_here =
          p.kind == Kind::handle || (f_.api->raises != 0 && p.kind == Kind::u64);
      if (PySequence_Check(value) && !is_handle_here) return sequence(i, value, UINT64_MAX);
      return fetch_void(slot, frame_.take(8)) &&
             store(value, p.kind, p.type, where(i), slot.p, nullptr);
    }
    case Role::in_out:
    case Role::count: {
      if (!fetch_void(slot, frame_.take(8))) return false;
      PyObject* value = p.argument < 0 ? nullptr : args[p.argument];
      return value == nullptr || store(value, p.kind, p.type, where(i), slot.p, nullptr);
    }
    case Role::image:
      if (p.link >= 0) {
        deferred_ |= 1u << i;
        return true;
      }
      return to_image(args[p.argument], where(i), frame_, &slot);
    case Role::text: {
      const char* text = nullptr;
      if (!to_text(args[p.argument], where(i), frame_, &text)) return false;
      slot.p = const_cast<char*>(text);
      return true;
    }
    case Role::kernel:
      return to_kernel_params(args[p.argument], where(i), frame_, &slot) &&
             kernel_takes(f_.name, f_.kernel >= 0 ? slots_[f_.kernel].p : nullptr,
                          args[p.argument]);
    case Role::callback:
      return to_callback(args[p.argument], static_cast<CallbackShape>(p.extra), where(i), &slot,
                         &host_call_);
    case Role::out_owned:
      return fetch_void(slot, frame_.take(8));
    case Role::null:
      slot.u = 0;
      return true;
    case Role::constant:
      slot.u = p.extra;
      return true;
    case Role::elements: {
      PyObject* value = args[params_[p.link].argument];
      slot.u = is_record(value) ? reinterpret_cast<RecordObject*>(value)->count : 1;
      return true;
    }
    case Role::compose: {
      RecordObject* record = new_record(p.type);
      if (record == nullptr) return false;
      fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
      slot.p = record->place;
      return true;
    }
    default:
      deferred_ |= 1u << i;
      return true;
  }
}

std::uint64_t Call::number(int i) const {
  const ParamRow& p = params_[i];
  if (p.role == Role::in) return slots_[i].u;
  std::uint64_t wide = 0;
  std::memcpy(&wide, slots_[i].p, size_of(p.kind, p.type));
  return wide;
}

std::uint64_t Call::invoke() {
  const bool release = (row_.flags & kBlocking) != 0 || host_calls_are_pending();
  if (!release) return row_.invoke(f_.address, slots_);
  const python::WithoutGil unlocked;
  return row_.invoke(f_.address, slots_);
}

int Call::status() {
  if ((row_.flags & kStatusRecord) == 0) return static_cast<int>(invoke());
  int pair[4] = {};  // CUfileError_t: (error of the operation, error of the driver)
  slots_[row_.parameters].p = pair;
  invoke();
  return pair[0];
}

int Call::call_twice() {
  int code = status();
  for (int attempt = 0; attempt < 8 && (code == 0 || code == 7);
       ++attempt) {  // 7: NVML_ERROR_INSUFFICIENT_SIZE
    bool fits = true;
    for (int i = 0; i < row_.parameters; ++i) {
      const ParamRow& p = params_[i];
      if (p.role != Role::out_counted) continue;
      const std::uint64_t wanted = number(p.link);
      if (wanted <= counts_[i]) continue;
      fits = false;
      counts_[i] = static_cast<std::uint32_t>(wanted + 4);
      if (!fetch_void(slots_[i], frame_.take(size_of(p.kind, p.type) * counts_[i]))) return code;
      const std::uint32_t room = counts_[i];
      std::memcpy(slots_[p.link].p, &room, sizeof room);
    }
    if (fits) return code;
    code = status();
  }
  return code;
}

void* Call::handle_argument(const char* type) const {
  for (int i = 0; i < row_.parameters; ++i) {
    const ParamRow& p = params_[i];
    if (p.role == Role::in && p.kind == Kind::handle &&
        std::strcmp(name_of(row_of(p.type).root), type) == 0)
      return slots_[i].p;
  }
  return nullptr;
}

void* Call::made_handle(const char* type) const {
  for (int i = 0; i < row_.parameters; ++i) {
    const ParamRow& p = params_[i];
    if (p.role != Role::out || p.kind != Kind::handle ||
        std::strcmp(name_of(row_of(p.type).root), type) != 0)
      continue;
    void* made = nullptr;
    std::memcpy(&made, slots_[i].p, sizeof made);
    return made;
  }
  return nullptr;
}

void Call::settle(int code) {
  HostCall* call = std::exchange(host_call_, nullptr);
  if (code != 0) return drop(call);
  for (const char* const registration : {"CUlogsCallbackHandle", "CUasyncCallbackHandle",
                                         "cudaAsyncCallbackHandle_t", "CUcoredumpCallbackHandle"})
    if (void* const owner = made_handle(registration)) return keep_for(call, owner);
  if (shape_of(call) == CallbackShape::flow) return keep_for(call, handle_argument("nvrtcProgram"));
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  const auto stream = static_cast<CUstream>(handle_argument("CUstream"));
  if (shape_of(call) == CallbackShape::recapture) return keep_for(call, stream);
  const CUresult asked =
      driver().cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
  const bool captured = asked == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  commit(call, asked == CUDA_SUCCESS && !captured);
  if (captured && keep_in_graph(call, graph)) drop(call);  // the graph is the owner now
}

void Call::settle_record() {
  auto graph = static_cast<CUgraph>(handle_argument("CUgraph"));
  const auto node = static_cast<CUgraphNode>(handle_argument("CUgraphNode"));
  if (graph == nullptr && node != nullptr && handle_argument("CUgraphExec") == nullptr &&
      driver().cuGraphNodeGetContainingGraph(node, &graph) != CUDA_SUCCESS)
    graph = nullptr;
  keep_calls_in_graph(record_with_calls_, graph, handle_argument("CUgraphExec"));
}

/// Returns whether the parameter is returned to the caller.
static bool is_returned(const ParamRow& p) {
  switch (p.role) {
    case Role::out:
    case Role::out_chars:
    case Role::out_array:
    case Role::out_counted:
    case Role::out_owned:
    case Role::count:
    case Role::in_out:
    case Role::attribute_out:
    case Role::attributes_out:
    case Role::out_asked:
    case Role::result_field:
      return true;
    case Role::size_of:
      return p.extra != 0;
    default:
      return false;
  }
}

PyObject* Call::value_of(int i) {
  const ParamRow& p = params_[i];
  switch (p.role) {
    case Role::out:
      if (p.kind == Kind::record) return std::exchange(fresh_[index_[i]], nullptr);
      [[fallthrough]];
    case Role::in_out:
    case Role::count:
    case Role::size_of:
      return load(p.kind, p.type, slots_[i].p, nullptr);
    case Role::out_chars: {
      const auto* text = static_cast<const char*>(slots_[i].p);
      if (p.kind == Kind::bytes) return PyBytes_FromStringAndSize(text, counts_[i]);
      if (p.kind == Kind::string) return load(Kind::string, kNoType, text, nullptr, counts_[i]);
      return PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(strnlen(text, counts_[i])));
    }
    case Role::out_asked:
    case Role::out_array:
      return list_of(p, static_cast<const char*>(slots_[i].p), counts_[i]);
    case Role::out_counted: {
      const std::uint64_t have = number(p.link);
      return list_of(p, static_cast<const char*>(slots_[i].p),
                     have < counts_[i] ? have : counts_[i]);
    }
    case Role::out_owned: {
      const char* data = nullptr;
      std::memcpy(&data, slots_[i].p, sizeof data);
      return list_of(p, data, data != nullptr ? number(p.link) : 0);
    }
    case Role::attribute_out: {
      return attribute_value(attribute(i), slots_[i].p, p.kind == Kind::u64 ? slots_[i + 1].u : 0);
    }
    case Role::attributes_out:
      return attribute_list(i);
    case Role::result_field: {
      const std::size_t room = p.kind == Kind::string || p.kind == Kind::bytes ? p.type : 0;
      return load(p.kind, p.type, static_cast<char*>(slots_[p.link].p) + p.extra, nullptr, room);
    }
    default:
      Py_RETURN_NONE;
  }
}

PyObject* Call::list_of(const ParamRow& p, const char* data, std::uint64_t n) {
  if (p.kind == Kind::record && f_.api->raises != 0) {  // one object with n elements
    if (n == 0) return PyList_New(0);
    RecordObject* array = new_record(p.type, static_cast<std::uint32_t>(n));
    if (array != nullptr) std::memcpy(array->place, data, n * size_of(p.kind, p.type));
    return reinterpret_cast<PyObject*>(array);
  }
  Ref list{PyList_New(static_cast<Py_ssize_t>(n))};
  for (std::uint64_t k = 0; list && k < n; ++k) {
    PyObject* item = load(p.kind, p.type, data + k * size_of(p.kind, p.type), nullptr);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), item);
  }
  return list.release();
}

PyObject* failed_result(FunctionObject& f, int code) {
  Ref member{enum_member(f.api->result, code)};
  if (!member) return nullptr;
  if (f.raising)
    return PyObject_CallFunction(raise_status, "sOs", f.api->module, member.get(), f.name);
  PyObject* tuple = PyTuple_New(1 + f.outs);
  if (tuple == nullptr) return nullptr;
  PyTuple_SET_ITEM(tuple, 0, member.release());
  for (int i = 1; i <= f.outs; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(Py_None));
  return tuple;
}

PyObject* Call::result(int code) {
  if (f_.raising) return bare(code);
  if (filled_ != nullptr) [[unlikely]] {
    Ref member{enum_member(f_.api->result, code)};
    return member ? Py_BuildValue("(OO)", member.get(), code == 0 ? filled_ : Py_None) : nullptr;
  }
  if (code != 0) return failed_result(f_, code);
  const int outs = f_.outs;
  if (outs == 0) return Py_NewRef(f_.success_tuple);
  PyObject* tuple = PyTuple_New(1 + outs);
  if (tuple == nullptr) return nullptr;
  Ref owner{tuple};
  PyTuple_SET_ITEM(tuple, 0, Py_NewRef(f_.success));
  int k = 1;
  for (int i = 0; k <= outs; ++i) {
    if (!is_returned(params_[i])) continue;
    PyObject* value = value_of(i);
    if (value == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple, k++, value);
  }
  return owner.release();
}

PyObject* Call::bare(int code) {
  if (code != 0) [[unlikely]]
    return failed_result(f_, code);
  if (filled_ != nullptr) return Py_NewRef(filled_);
  if (f_.outs == 0) Py_RETURN_NONE;
  Ref tuple{f_.outs > 1 ? PyTuple_New(f_.outs) : nullptr};
  if (f_.outs > 1 && !tuple) return nullptr;
  int k = 0;
  for (int i = 0; i < row_.parameters + row_.extras; ++i) {
    if (!is_returned(params_[i])) continue;
    PyObject* value = value_of(i);
    if (value == nullptr || f_.outs == 1) return value;
    PyTuple_SET_ITEM(tuple.get(), k++, value);
  }
  return tuple.release();
}

PyObject* Call::plain() {
  RecordObject* record = nullptr;
  if (row_.returns == Kind::record) {
    record = new_record(row_.returns_type);
    if (record == nullptr) return nullptr;
    fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
    slots_[row_.parameters].p = record->place;
  }
  std::uint64_t raw = invoke();
  if (f_.raising && row_.returns == Kind::i64 &&
      static_cast<std::int64_t>(raw) < 0) {  // cuFileRead: a negated error code
    Ref member{enum_member(f_.api->result, -static_cast<std::int64_t>(raw))};
    return member
               ? PyObject_CallFunction(raise_status, "sOs", f_.api->module, member.get(), f_.name)
               : nullptr;
  }
  PyObject* value = record != nullptr ? std::exchange(fresh_[fresh_count_ - 1], nullptr)
                                      : load(row_.returns, row_.returns_type, &raw, nullptr);
  if (value == nullptr || f_.raising) return value;
  Ref held{value};
  return Py_BuildValue("(OO)", f_.success, value);
}

PyObject* call_function(FunctionObject& function, PyObject* const* args) {
  PyObject* result = Call{function}(args);
  if (function.unloads) detail::unload_count.fetch_add(1);
  return result;
}

int count_outputs(const FunctionRow& row, const ParamRow* params) {
  return static_cast<int>(std::count_if(params, params + row.parameters + row.extras, is_returned));
}

}  // namespace cucore::bindings
