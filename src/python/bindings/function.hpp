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
  const FastParam* fast;    // null: every call goes the long way
  PyObject* success;        // the member for 0 of the result enum
  PyObject* success_tuple;  // (success,), which is all that most calls return
  PyObject* last;           // the result of the call before, to be used again
  PyObject** keywords;      // interned argument names
  int outs;                 // values returned besides the result code
  bool raising;
  std::string* doc;
  PyMethodDef method;
};

/// Finds the C function; false with RuntimeError set when the library or the function is missing.
bool resolve(FunctionObject& function);
PyObject* call_function(FunctionObject& function, PyObject* const* args);
/// What a call that was refused returns: its code and None for every value, or an exception.
PyObject* failed_result(FunctionObject& function, int code);
int count_outputs(const FunctionRow& row, const ParamRow* params);

}  // namespace cucore::bindings
