// SPDX-License-Identifier: Apache-2.0
// least.cpp: the calls of raw.cpp as Python functions that ignore their arguments: the lower bound
// of a call from Python, with the GIL held or released.
#include <Python.h>

#include "timing.hpp"

extern "C" int cucore_bench_raw(int argc, char** argv);

namespace {

/// Runs a call, with the GIL released if requested.
template <bool unlocked, class Call>
void run(Call call) {
  if constexpr (!unlocked) return call();
  PyThreadState* const state = PyEval_SaveThread();
  call();
  PyEval_RestoreThread(state);
}

bench::Row& row_of(PyObject* self) {
  return *static_cast<bench::Row*>(PyCapsule_GetPointer(self, nullptr));
}

template <bool unlocked>
PyObject* call(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const auto& row = row_of(self);
  run<unlocked>([&] { row.call(); });
  Py_RETURN_NONE;
}
template <bool unlocked>
PyObject* make(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const auto& row = row_of(self);
  std::uint64_t made = 0;
  run<unlocked>([&] { made = row.make(); });
  return PyLong_FromUnsignedLongLong(made);
}
template <bool unlocked>
PyObject* take(PyObject* self, PyObject* const* args, Py_ssize_t, PyObject*) {
  const auto& row = row_of(self);
  const std::uint64_t made = PyLong_AsUnsignedLongLong(args[0]);
  run<unlocked>([&] { row.take(made); });
  Py_RETURN_NONE;
}
PyObject* drain(PyObject* self, PyObject*) {
  row_of(self).drain();
  Py_RETURN_NONE;
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
PyMethodDef method(const char* name, Fast function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL | METH_KEYWORDS, nullptr};
}
PyMethodDef methods[2][3]{
    {method("call", call<false>), method("make", make<false>), method("take", take<false>)},
    {method("call", call<true>), method("make", make<true>), method("take", take<true>)}};
PyMethodDef drain_method{"drain", drain, METH_NOARGS, nullptr};

PyObject* taker = nullptr;  // the Python callable that receives the calls
int kind = 0;               // 0: the GIL is held, 1: released
bool failed = false;

/// The functions of a row: one, a creating and a consuming one, or those of a sequence: begin,
/// step, end.
PyObject* functions_of(const bench::Row& row, PyObject* self) {
  PyMethodDef* const table = methods[kind];
  const auto function = [&](int which) { return PyCFunction_New(&table[which], self); };
  if (row.is_sequence) return Py_BuildValue("(NNN)", function(1), function(0), function(2));
  if (row.make) return Py_BuildValue("(NN)", function(1), function(2));
  return Py_BuildValue("(N)", function(0));
}

/// taker({name: (functions, drain, batch), ...})
void hand_to_python(bench::Suite& suite) {
  PyObject* rows = PyDict_New();
  for (bench::Row& row : suite.rows()) {
    PyObject* self = PyCapsule_New(&row, nullptr, nullptr);
    PyObject* value = Py_BuildValue("(NNi)", functions_of(row, self),
                                    PyCFunction_New(&drain_method, self), row.batch);
    PyDict_SetItemString(rows, row.name.c_str(), value);
    Py_DECREF(value);
    Py_DECREF(self);
  }
  PyObject* done = PyObject_CallOneArg(taker, rows);
  failed = done == nullptr;
  Py_XDECREF(done);
  Py_DECREF(rows);
}

}  // namespace

/// Called by bench/python/least.py. The calls are valid while the given callable runs.
extern "C" __attribute__((visibility("default"))) PyObject* cucore_bench_least(const char* library,
                                                                               int unlocked,
                                                                               PyObject* function) {
  taker = function;
  kind = unlocked != 0 ? 1 : 0;
  bench::hand_over = hand_to_python;
  std::string name{"raw"};
  std::string path{library};
  char* arguments[]{name.data(), path.data()};
  const int code = cucore_bench_raw(2, arguments);
  if (failed) return nullptr;
  return PyLong_FromLong(code);
}
