// SPDX-License-Identifier: Apache-2.0
// bound_address.hpp: record.getPtr, before it is called.
#pragma once
#include "engine.hpp"

namespace cucore::bindings {

/// What `record.getPtr` is: the bound method, as an object that costs less to make and to call than
/// the interpreter's. Records look their attributes up themselves (fields.cpp), and where a class
/// does so the interpreter makes such an object for every call. New reference.
PyObject* bound_address(RecordObject* record);
bool init_bound_address();

}  // namespace cucore::bindings
