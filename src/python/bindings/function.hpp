// SPDX-License-Identifier: Apache-2.0
// function.hpp: a rendered function as a Python object.
#pragma once
#include <string>

#include "engine.hpp"
#include "fast_call.hpp"

namespace cucore::bindings {

/// The `self` of the built-in function. One per function and style, until the process exits.
struct FunctionObject {
  PyObject_HEAD const Api* api;
  const FunctionRow* row;
  const ParamRow* params;
  const char* name;
  void* address;            // address of the C function; null until resolved
  const FastParam* fast;    // null: every call takes the general path
  const FastParam* out;     // the only output of a plan; null if it has none or several
  Invoke invoke;            // row->invoke
  std::uint8_t parameters;  // row->parameters
  std::uint8_t arguments;   // row->arguments
  bool blocking;            // row->flags has kBlocking: releases the GIL, with the exceptions below
  bool queues;              // a fill or device copy: may keep the GIL if little work is enqueued
  bool launches;            // cuLaunchKernel: may keep the GIL if no other thread needs it
  bool waits;               // returns when the work on its stream is complete
  std::int8_t stream;       // index of the stream parameter; -1: none
  std::int8_t kernel;       // index of the kernel whose arguments are passed; -1: none
  PyObject* success;        // the member for 0 of the result enum
  PyObject* success_tuple;  // (success,), which is all that most calls return
  PyObject* last;           // the result tuple of the previous call, for reuse
  PyObject** keywords;      // interned argument names
  int outs;                 // number of values returned in addition to the result code
  bool raising;
  bool unloads;  // may unload code, which invalidates kernel handles
  std::string* doc;
  PyMethodDef method;
};

/// Resolves the C function; false with RuntimeError set if the library or the function is missing.
bool resolve(FunctionObject& function);
PyObject* call_function(FunctionObject& function, PyObject* const* args);
/// The entry for calls with keywords or defaults: binds them, then takes the fast or general path.
PyObject* long_entry(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names);
/// Returns the result of a failed call: the code and None for every value, or raises an exception.
PyObject* failed_result(FunctionObject& function, int code);
int count_outputs(const FunctionRow& row, const ParamRow* params);

}  // namespace cucore::bindings
