// SPDX-License-Identifier: Apache-2.0
// function.hpp: a rendered function as a Python object.
#pragma once
#include <string>

#include "engine.hpp"
#include "fast.hpp"

namespace cucore::bindings {

/// The `self` of the built-in function Python sees. One per function and style, for the life of the
/// process.
struct FunctionObject {
  PyObject_HEAD const Api* api;
  const FunctionRow* row;
  const ParamRow* params;
  const char* name;
  void* address;            // of the C function, once resolved
  const FastParam* fast;    // null: every call takes the general path
  const FastParam* out;     // of a plan: its one output, null when it has none or several
  Invoke invoke;            // row->invoke
  std::uint8_t parameters;  // row->parameters
  std::uint8_t arguments;   // row->arguments
  bool blocking;            // row->flags has kBlocking: the lock is given up, as a rule
  bool queues;              // unless little is queued: a fill, a copy on the device
  bool launches;            // cuLaunchKernel: may keep the GIL if no other thread needs it
  bool waits;               // over when what was queued on its stream is
  std::int8_t stream;       // the parameter with the stream; -1: none
  std::int8_t kernel;       // the parameter with the kernel whose arguments are given; -1: none
  PyObject* success;        // the member for 0 of the result enum
  PyObject* success_tuple;  // (success,), which is all that most calls return
  PyObject* last;           // the result of the call before, to be used again
  PyObject** keywords;      // interned argument names
  int outs;                 // values returned besides the result code
  bool raising;
  bool unloads;  // code may go with it, and its kernels' handles
  std::string* doc;
  PyMethodDef method;
};

/// Finds the C function; false with RuntimeError set when the library or the function is missing.
bool resolve(FunctionObject& function);
PyObject* call_function(FunctionObject& function, PyObject* const* args);
/// The call as Python makes it: keywords and defaults, then the short or the long way.
PyObject* long_entry(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names);
/// What a call that was refused returns: its code and None for every value, or an exception.
PyObject* failed_result(FunctionObject& function, int code);
int count_outputs(const FunctionRow& row, const ParamRow* params);

}  // namespace cucore::bindings
