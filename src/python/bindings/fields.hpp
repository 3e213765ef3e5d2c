// SPDX-License-Identifier: Apache-2.0
// fields.hpp: descriptors of the fields of structs and unions, which read and write a record's
// memory according to the rendered rows. fields.cpp implements lookup, loads and stores of common
// values, field_store.cpp all other stores.
#pragma once
#include "engine.hpp"

namespace cucore::bindings {

struct FieldObject {
  PyObject_HEAD const FieldRow* row;
  const TypeRow* type;   // row of the field's type, if that has a class
  std::uint64_t arrays;  // for a count: bit mask of the array fields that it counts
  TypeId record;         // the struct of the row
  std::uint16_t index;   // index in that struct
  Kind read;             // the kind if the field is read as one value; otherwise none
  Kind write;            // the kind if storing such a value needs nothing else; otherwise none
  std::uint32_t offset;
  std::uint32_t counted;       // for the count of one array: offset of the array's pointer
  std::uint32_t counted_size;  // size of its elements in bytes; 0: not such a count
};

bool add_fields(PyObject* type, TypeId id);  // a descriptor per field of the rendered type
bool init_fields();

#ifndef Py_GIL_DISABLED
/// tp_getattro and tp_setattro of records, which find a field without the generic lookup.
PyObject* get_attribute(PyObject* record, PyObject* name);
int set_attribute(PyObject* record, PyObject* name, PyObject* value);
void set_address_method(PyObject* method);  // Record.getPtr; borrowed, never freed
#endif

/// Checks, converts and stores any value. Returns 0, or -1 with an exception that names the field.
int store_field(const FieldObject& field, RecordObject* record, PyObject* value);
/// Stores a common value to a field or an element of one: an int in range, a float, a handle of the
/// right type. Returns false, without side effects, for other values.
bool store_plain(PyObject* value, const FieldObject& field, char* place);
/// Assigns a list of structs to a pointer field by overwriting the array of the same length that it
/// points to. Returns false, without side effects, if that is not possible.
bool overwrite_array(const FieldObject& field, RecordObject* record, PyObject* value, char* place);

inline bool is_text(Kind kind) {
  return kind == Kind::chars || kind == Kind::bytes || kind == Kind::string;
}

}  // namespace cucore::bindings
