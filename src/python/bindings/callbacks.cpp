// SPDX-License-Identifier: Apache-2.0
// callbacks.cpp: Python callables as C callbacks. A HostCall keeps the callable and its user data
// alive while it has an owner that may call it: a stream until it has run, a graph and the graphs
// created from it, a struct.
#include <mutex>
#include <unordered_set>
#include <utility>

#include "core/probe.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/graph.hpp"
#include "driver/host_function.hpp"
#include "driver/mutex.hpp"
#include "engine.hpp"
#include "python/gil.hpp"

namespace cucore::bindings {

struct HostCall {
  PyObject* callable;
  PyObject* user;
  CallbackShape shape;
  PyObject* raised = nullptr;  // exception of a call that has not returned to Python yet
  // The library may run a call before the submitting thread has set runs_once: the one that sets
  // its bit last releases the call.
  enum State { has_run = 1, runs_once = 2 };
  std::atomic<int> state{0};
  std::atomic<int> holders{1};
};

namespace {

struct Live {
  detail::Mutex mutex;
  std::unordered_set<void*> calls;
  std::atomic<std::size_t> count{0};  // number of calls; 0 in most processes
};

Live& live() {
  static Live* const instance = new Live;
  return *instance;
}

bool is_live(void* pointer) {
  Live& l = live();
  if (pointer == nullptr || l.count == 0) return false;
  const std::lock_guard lock{l.mutex};
  return l.calls.contains(pointer);
}

using Interpreter = python::WithGil;

/// Runs the callable. An exception cannot propagate; it is reported as unraisable, as for
/// destructors.
template <class... Arguments>
PyObject* run(HostCall* call, const char* format, Arguments... arguments) {
  return python::run_or_sleep([=]() -> PyObject* {
    PyObject* args = Py_BuildValue(format, arguments...);
    PyObject* result = args != nullptr ? PyObject_CallObject(call->callable, args) : nullptr;
    if (result == nullptr) PyErr_WriteUnraisable(call->callable);
    Py_XDECREF(args);
    return result;
  });
}

/// Completes a call that has returned `result`, or failed (null).
void finished(HostCall* call, PyObject* result) {
  python::run_or_sleep([=] {
    Py_XDECREF(result);
    if ((call->state.fetch_or(HostCall::has_run) & HostCall::runs_once) != 0) drop(call);
    return 0;
  });
}

void host(void* pointer) {
  if (Interpreter python; python) {
    if (!is_live(pointer)) return;  // its owner was destroyed while a launch was running
    auto* call = static_cast<HostCall*>(pointer);
    finished(call, run(call, "(O)", call->user));
  }
}

/// Like host(). The stream waits for the callable, which must therefore not wait for the stream.
void queued_host(void* pointer) {
  const cucore::detail::HostFunctionScope inside;
  host(pointer);
}

void stream(CUstream handle, CUresult status, void* pointer) {
  const cucore::detail::HostFunctionScope inside;
  if (Interpreter python; python) {
    auto* call = static_cast<HostCall*>(pointer);
    finished(call, run(call, "(KiO)", reinterpret_cast<unsigned long long>(handle),
                       static_cast<int>(status), call->user));
  }
}

void destroy(void* pointer) { host(pointer); }

void logs(void* pointer, int level, char* message, std::size_t length) {
  if (Interpreter python; python) {
    if (!is_live(pointer)) return;  // another thread has unregistered it
    auto* call = static_cast<HostCall*>(pointer);
    PyObject* result =
        run(call, "(Oiy#)", call->user, level, message, static_cast<Py_ssize_t>(length));
    Py_XDECREF(result);
  }
}

/// Returns a copy of the C struct at `place` as an object of the module's class, because the struct
/// does not outlive the call.
Ref copied(const char* module, const char* type, Kind kind, const void* place) {
  if (place == nullptr) return Ref::borrow(Py_None);
  Ref made{make_attribute(*find_api(module), type, false)};
  if (!made) return {};
  return Ref{load(kind, type_of(reinterpret_cast<PyTypeObject*>(made.get())), place, nullptr)};
}

/// Calls the callable with objects, any of which may be null (its creation failed). New reference,
/// or null after an exception has been reported.
template <class... Objects>
Ref told(HostCall* call, const Objects&... objects) {
  Ref args{(... && static_cast<bool>(objects)) ? PyTuple_Pack(sizeof...(objects), objects.get()...)
                                               : nullptr};
  Ref result{args ? PyObject_CallObject(call->callable, args.get()) : nullptr};
  if (!result) PyErr_WriteUnraisable(call->callable);
  return result;
}

void notify(void* pointer, const char* module, const char* info_type, const void* info,
            const char* handle_type, const void* handle) {
  if (Interpreter python; python) {
    if (!is_live(pointer)) return;
    auto* call = static_cast<HostCall*>(pointer);
    told(call, copied(module, info_type, Kind::record, info), Ref::borrow(call->user),
         copied(module, handle_type, Kind::handle, &handle));
  }
}

void notification(const void* info, void* pointer, const void* handle) {
  notify(pointer, "cuda.bindings.driver", "CUasyncNotificationInfo", info, "CUasyncCallbackHandle",
         handle);
}

void runtime_notification(const void* info, void* pointer, const void* handle) {
  notify(pointer, "cuda.bindings.runtime", "cudaAsyncNotificationInfo_t", info,
         "cudaAsyncCallbackHandle_t", handle);
}

void coredump(void* pointer, int pid, CUdevice device) {
  if (Interpreter python; python) {
    if (!is_live(pointer)) return;
    auto* call = static_cast<HostCall*>(pointer);
    told(call, Ref::borrow(call->user), Ref{PyLong_FromLong(pid)}, Ref{PyLong_FromLong(device)});
  }
}

/// Returns whether the capture continues: it does for None and 0; any other number is its error
/// code.
int recaptured(void* pointer, const char* module, const char* const (&types)[3], const void* node,
               const void* before, const void* after, int status) {
  constexpr int kRefused = 999;  // CUDA_ERROR_UNKNOWN: the callable has raised an exception
  Interpreter python;
  if (!python || !is_live(pointer)) return kRefused;
  auto* call = static_cast<HostCall*>(pointer);
  const Ref result = told(
      call, Ref::borrow(call->user), copied(module, types[0], Kind::handle, &node),
      copied(module, types[1], Kind::record, before), copied(module, types[1], Kind::record, after),
      copied(module, types[2], Kind::enumeration, &status));
  if (!result) return kRefused;
  if (Py_IsNone(result.get())) return 0;
  const long code = PyLong_AsLong(result.get());
  if (!PyErr_Occurred()) return static_cast<int>(code);
  PyErr_WriteUnraisable(call->callable);
  return kRefused;
}

int recapture(void* pointer, const void* node, const void* before, const void* after, int status) {
  return recaptured(pointer, "cuda.bindings.driver",
                    {"CUgraphNode", "CUgraphNodeParams", "CUgraphRecaptureStatus"}, node, before,
                    after, status);
}

int runtime_recapture(void* pointer, const void* node, const void* before, const void* after,
                      int status) {
  return recaptured(pointer, "cuda.bindings.runtime",
                    {"cudaGraphNode_t", "cudaGraphNodeParams", "cudaGraphRecaptureStatus"}, node,
                    before, after, status);
}

/// Returns whether to cancel a compilation: the callable's result, or true if it raises an
/// exception.
int flow(void* pointer, void*) {
  Interpreter python;
  if (!python || !is_live(pointer)) return 1;
  auto* call = static_cast<HostCall*>(pointer);
  const Ref result = told(call, Ref::borrow(call->user), Ref::borrow(Py_None));
  return result ? PyObject_IsTrue(result.get()) != 0 : 1;
}

// cuOccupancyMaxPotentialBlockSize calls back on the calling thread before it returns, without user
// data.
thread_local HostCall* occupancy_call = nullptr;

/// If the callable raises an exception or returns a value that is not a size, the call raises it
/// (raise_pending()), and the callable is not called again.
std::size_t occupancy(int block_size) {
  Interpreter python;
  HostCall* const call = occupancy_call;
  if (!python || call == nullptr || call->raised != nullptr) return 0;
  Ref result{PyObject_CallFunction(call->callable, "i", block_size)};
  const std::size_t bytes = result ? PyLong_AsSize_t(result.get()) : 0;
  if (PyErr_Occurred() == nullptr) return bytes;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) (void)PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  call->raised = value;
  return 0;
}

void* trampoline(CallbackShape shape) {
  switch (shape) {
    case CallbackShape::host:
      return reinterpret_cast<void*>(queued_host);
    case CallbackShape::stream:
      return reinterpret_cast<void*>(stream);
    case CallbackShape::occupancy:
      return reinterpret_cast<void*>(occupancy);
    case CallbackShape::destroy:
      return reinterpret_cast<void*>(destroy);
    case CallbackShape::logs:
      return reinterpret_cast<void*>(logs);
    case CallbackShape::notification:
      return reinterpret_cast<void*>(notification);
    case CallbackShape::runtime_notification:
      return reinterpret_cast<void*>(runtime_notification);
    case CallbackShape::coredump:
      return reinterpret_cast<void*>(coredump);
    case CallbackShape::recapture:
      return reinterpret_cast<void*>(recapture);
    case CallbackShape::runtime_recapture:
      return reinterpret_cast<void*>(runtime_recapture);
    case CallbackShape::flow:
      return reinterpret_cast<void*>(flow);
    default:
      return nullptr;
  }
}

/// Returns the address of a ctypes function object, or null.
void* ctypes_function(PyObject* value) {
  static std::atomic<PyObject*> known{nullptr};
  PyObject* type = known.load(std::memory_order_acquire);
  if (type == nullptr) {
    Ref modules = Ref::borrow(PyImport_GetModuleDict());
    PyObject* low = PyDict_GetItemString(modules.get(),
                                         "_ctypes");  // if not loaded, no such object exists
    if (low == nullptr) return nullptr;
    type = PyObject_GetAttrString(low, "CFuncPtr");
    if (type == nullptr) return PyErr_Clear(), nullptr;
    known.store(type, std::memory_order_release);  // idempotent: all threads store the same class
  }
  if (PyObject_IsInstance(value, type) != 1) return nullptr;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) return PyErr_Clear(), nullptr;
  void* function = nullptr;
  if (view.len >= static_cast<Py_ssize_t>(sizeof function))
    std::memcpy(&function, view.buf, sizeof function);
  PyBuffer_Release(&view);
  return function;
}

}  // namespace

bool raise_pending(HostCall* call) {
  PyObject* const raised = std::exchange(call->raised, nullptr);
  if (raised == nullptr) return false;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised)), raised);
  Py_DECREF(raised);
  return true;
}

/// Rejects an address that cannot be a function. Tests whether the memory is executable only if the
/// call itself runs the function, because the test takes longer than many calls.
static bool is_function(std::uint64_t address, CallbackShape shape, const Where& where) {
  constexpr std::uint64_t kFirstPage = 4096;
  if (address == 0) return true;
  if (address >= kFirstPage &&
      (shape != CallbackShape::occupancy ||
       cucore::detail::is_executable(reinterpret_cast<const void*>(address))))
    return true;
  PyErr_Format(PyExc_ValueError, "%s%s%s must be the address of a C function: there is none at %p",
               where.owner, where.joint, where.name, reinterpret_cast<void*>(address));
  return false;
}

bool to_callback(PyObject* value, CallbackShape shape, const Where& where, Slot* out,
                 HostCall** call) {
  if (PyLong_Check(value))
    return to_integer(value, Kind::u64, where, out) && is_function(out->u, shape, where);
  if (Py_IsNone(value)) {
    out->u = 0;
    return true;
  }
  if (is_handle(value)) {
    out->u = handle_value(reinterpret_cast<HandleObject*>(value));
    return is_function(out->u, shape, where);
  }
  if (void* function = ctypes_function(value)) {
    out->p = function;
    if (shape != CallbackShape::occupancy) {
      Py_INCREF(value);  // leaked: the library may call it at any time
      cucore::detail::host_calls.fetch_add(1);
    }
    return true;
  }
  if (PyCallable_Check(value)) {
    void* function = trampoline(shape);
    if (function == nullptr || call == nullptr) {
      PyErr_Format(
          PyExc_TypeError,
          "%s%s%s must be the address of a C function (a ctypes function, for example), not %s",
          where.owner, where.joint, where.name, Py_TYPE(value)->tp_name);
      return false;
    }
    *call = new HostCall{Py_NewRef(value), Py_NewRef(Py_None), shape};
    cucore::detail::host_calls.fetch_add(1);
    Live& l = live();
    const std::lock_guard lock{l.mutex};
    l.calls.insert(*call);
    l.count = l.calls.size();
    if (shape == CallbackShape::occupancy) occupancy_call = *call;
    out->p = function;
    return true;
  }
  PyErr_Format(PyExc_TypeError, "%s%s%s must be a callable, a function address or None, not %s",
               where.owner, where.joint, where.name, Py_TYPE(value)->tp_name);
  return false;
}

void hold(HostCall* call) { call->holders.fetch_add(1); }

CallbackShape shape_of(const HostCall* call) { return call->shape; }

void set_user_data(HostCall* call, PyObject* user) { Py_SETREF(call->user, Py_NewRef(user)); }

void* user_pointer(HostCall* call) { return call; }

void commit(HostCall* call, bool once) {
  if (call->shape == CallbackShape::occupancy) return drop(call);  // it has run already
  if (!once && call->shape != CallbackShape::destroy) return;
  if ((call->state.fetch_or(HostCall::runs_once) & HostCall::has_run) != 0) drop(call);
}

bool keep_in_graph(HostCall* call, CUgraph graph) {
  call->holders.fetch_add(1);
  std::shared_ptr<void> owner{call, [](void* pointer) {
                                if (Interpreter python; python)
                                  drop(static_cast<HostCall*>(pointer));
                              }};
  try {
    GraphDefinition::view(graph, {}).keep(std::move(owner));
    return true;
  } catch (const CUDAError&) {
    return false;  // the destruction of `owner` has dropped the call
  }
}

static constexpr const char* kCapsule = "cucore.HostCall";

PyObject* capsule_of(HostCall* call) {
  PyObject* capsule = PyCapsule_New(call, kCapsule, [](PyObject* self) {
    drop(static_cast<HostCall*>(PyCapsule_GetPointer(self, kCapsule)));
  });
  if (capsule == nullptr) drop(call);
  return capsule;
}

HostCall* call_in(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kCapsule)) return nullptr;
  return static_cast<HostCall*>(PyCapsule_GetPointer(capsule, kCapsule));
}

void drop(HostCall* call) {
  if (call->holders.fetch_sub(1) != 1) return;
  if (occupancy_call == call) occupancy_call = nullptr;
  cucore::detail::host_calls.fetch_sub(1);
  {
    Live& l = live();
    const std::lock_guard lock{l.mutex};
    l.calls.erase(call);
    l.count = l.calls.size();
  }
  Py_DECREF(call->callable);
  Py_DECREF(call->user);
  Py_XDECREF(call->raised);
  delete call;
}

HostCall* live_call(void* pointer) {
  return is_live(pointer) ? static_cast<HostCall*>(pointer) : nullptr;
}

PyObject* user_data_of(void* pointer) {
  HostCall* const call = live_call(pointer);
  return call != nullptr ? Py_NewRef(call->user) : nullptr;
}

}  // namespace cucore::bindings
