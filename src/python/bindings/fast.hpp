// SPDX-License-Identifier: Apache-2.0
// fast.hpp: the short way through a call whose arguments are numbers, handles and addresses.
#pragma once
#include "rows.hpp"

typedef struct _object PyObject;

namespace cucore::bindings {

struct FunctionObject;

/// One C parameter of a function that has a short way.
struct FastParam {
  enum class Op : std::uint8_t { integer, real, handle, address, text, kernel, out, constant };
  Op op;
  std::int8_t argument;  // position among the Python arguments
  std::uint8_t output;   // out: position among the returned values
  std::uint8_t size;     // handle: bytes
  Kind kind;
  TypeId type;
  TypeId root;
  std::int64_t low;    // integer: the least value
  std::uint64_t high;  // integer: the greatest; constant: the value
};

/// The parameters of a function that has a short way, for the life of the process; null for others.
const FastParam* fast_plan(const FunctionObject& function);

/// The whole call. All other cases (other kinds of objects, values out of range, a failed call)
/// take the general path, which also builds the error message. fast_entry is what Python calls: a
/// built-in whose self is a FunctionObject with a plan; entry_of() names it, or one made for the
/// function's shape.
PyObject* fast_call(FunctionObject& function, PyObject* const* args);
using FastEntry = PyObject* (*)(PyObject* self, PyObject* const* args, std::intptr_t given,
                                PyObject* names);
FastEntry entry_of(const FunctionObject& function);

}  // namespace cucore::bindings
