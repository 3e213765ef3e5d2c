// SPDX-License-Identifier: Apache-2.0
// fields.hpp: the fields of structs and unions: descriptors over the rendered rows that read and
// write a record's memory. fields.cpp finds and reads them and stores the usual values,
// field_store.cpp stores everything else.
#pragma once
#include "engine.hpp"

namespace cucore::bindings {

struct FieldObject {
  PyObject_HEAD const FieldRow* row;
  const TypeRow* type;   // of the field's own type, where it has a class
  std::uint64_t arrays;  // a count: the fields, by their index, whose elements it counts
  TypeId record;         // the struct the row belongs to
  std::uint16_t index;   // in that struct
  Kind read;             // the kind where the field is read as one value; none: any other
  Kind write;            // the same where storing such a value needs nothing else
  std::uint32_t offset;
  std::uint32_t counted;       // a count of one array: where its address lies
  std::uint32_t counted_size;  // bytes of one of its elements; 0: not that
};

bool add_fields(PyObject* type, TypeId id);  // a descriptor per field of the rendered type
bool init_fields();

#ifndef Py_GIL_DISABLED
/// tp_getattro and tp_setattro of records: a field is found without the interpreter's search.
PyObject* get_attribute(PyObject* record, PyObject* name);
int set_attribute(PyObject* record, PyObject* name, PyObject* value);
void set_address_method(PyObject* method);  // Record.getPtr, borrowed for good
#endif

/// Any value, checked and converted; 0, or -1 with an exception that names the field.
int store_field(const FieldObject& field, RecordObject* record, PyObject* value);
/// The usual value of a field, or of an element of one: an int that fits, a float, a handle of the
/// right type. False: not that, and nothing happened.
bool store_plain(PyObject* value, const FieldObject& field, char* place);
/// Assigns a list of structs to the field that holds their address where one as long was before,
/// into its memory. False: nothing happened.
bool overwrite_array(const FieldObject& field, RecordObject* record, PyObject* value, char* place);

inline bool is_text(Kind kind) {
  return kind == Kind::chars || kind == Kind::bytes || kind == Kind::string;
}

}  // namespace cucore::bindings
