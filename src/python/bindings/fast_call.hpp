// SPDX-License-Identifier: Apache-2.0
// fast_call.hpp: the fast path for calls whose arguments are numbers, handles and addresses.
#pragma once
#include "rows.hpp"

typedef struct _object PyObject;

namespace cucore::bindings {

struct FunctionObject;

/// One C parameter of a function with a fast path.
struct FastParam {
  enum class Op : std::uint8_t { integer, real, handle, address, text, kernel, out, constant };
  Op op;
  std::int8_t argument;  // position among the Python arguments
  std::uint8_t output;   // out: position among the returned values
  std::uint8_t size;     // handle: size in bytes
  Kind kind;
  TypeId type;
  TypeId root;
  std::int64_t low;    // integer: the minimum
  std::uint64_t high;  // integer: the maximum; constant: the value
};

/// Returns the parameters of a function with a fast path, valid until the process exits; otherwise
/// null.
const FastParam* fast_plan(const FunctionObject& function);

/// Performs the whole call. All other cases (other types of objects, values out of range, a failed
/// call) take the general path, which also creates the error message. Python calls fast_entry: a
/// built-in function whose self is a FunctionObject with a plan. entry_of() returns it, or an entry
/// specialized for the function's shape.
PyObject* fast_call(FunctionObject& function, PyObject* const* args);
using FastEntry = PyObject* (*)(PyObject* self, PyObject* const* args, std::intptr_t given,
                                PyObject* names);
FastEntry entry_of(const FunctionObject& function);

}  // namespace cucore::bindings
