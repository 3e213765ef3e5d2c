// SPDX-License-Identifier: Apache-2.0
// bound_address.hpp: the bound method record.getPtr.
#pragma once
#include "engine.hpp"

namespace cucore::bindings {

/// Returns the bound method `record.getPtr`, as an object that is cheaper to create and call than
/// the interpreter's. Records have their own tp_getattro (fields.cpp); for such classes the
/// interpreter creates a bound method for every call. New reference.
PyObject* bound_address(RecordObject* record);
bool init_bound_address();

}  // namespace cucore::bindings
