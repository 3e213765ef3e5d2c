// SPDX-License-Identifier: Apache-2.0
// fields.cpp: lookup and loads of fields, and stores of common values.
#include "fields.hpp"

#include <algorithm>

#include "../type_table.hpp"
#include "bound_address.hpp"

namespace cucore::bindings {
namespace {

PyTypeObject* field_type = nullptr;

RecordObject* self_of(PyObject* o) { return reinterpret_cast<RecordObject*>(o); }
void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

template <class T>
T value_at(const char* place) {
  T value{};
  std::memcpy(&value, place, sizeof value);
  return value;
}

/// load() for the most common kinds of fields; `type` is the row of the field's type.
[[gnu::always_inline]] inline PyObject* load_single(Kind kind, TypeId id, const TypeRow* type,
                                                    const char* place, PyObject* owner) {
  switch (kind) {
    case Kind::i32:
      return PyLong_FromLong(value_at<std::int32_t>(place));
    case Kind::u32:
      return PyLong_FromLong(static_cast<long>(value_at<std::uint32_t>(place)));
    case Kind::u64:
    case Kind::address:
      return PyLong_FromUnsignedLongLong(value_at<std::uint64_t>(place));
    case Kind::f32:
      return PyFloat_FromDouble(static_cast<double>(value_at<float>(place)));
    case Kind::handle:
      if (type->size == 8) [[likely]] {
        PyObject* const cls = class_of(id);
        if (cls == nullptr) return nullptr;
        return new_handle(cls, id, *type, value_at<std::uint64_t>(place));
      }
      return load(kind, id, place, owner);
    case Kind::record:
      return reinterpret_cast<PyObject*>(view_record(id, const_cast<char*>(place), owner));
    default:
      return load(kind, id, place, owner);
  }
}

std::uint64_t element_count(RecordObject* record, const FieldObject& field) {
  if (field.row->link < 0) return 0;
  const Api& api = api_of(field.record);
  const FieldRow& count = api.fields[row_of(field.record).first + field.row->link];
  Ref number{
      load(count.kind, count.type, static_cast<char*>(record->place) + count.offset, nullptr)};
  const std::uint64_t n = number ? PyLong_AsUnsignedLongLongMask(number.get()) : 0;
  PyErr_Clear();
  return n;
}

/// Returns the null graphs of a conditional node that is not added yet.
PyObject* load_null_handles(TypeId type, std::uint64_t n) {
  Ref list{PyList_New(n <= 1 << 10 ? static_cast<Py_ssize_t>(n) : 0)};
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* const item = new_handle(type, 0);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

/// Returns the elements of a pointer field's array. Structs are views, which keep the array's
/// memory alive: the field may be set to another list while they exist.
PyObject* load_array(RecordObject* record, const FieldObject& field, const char* place) {
  const char* data = value_at<const char*>(place);
  const std::uint64_t n = data != nullptr ? element_count(record, field) : 0;
  const TypeId type = field.row->type;
  const Kind kind = static_cast<Kind>(field.row->flags >> 3);
  if (field.row->link < 0 && kind == Kind::handle && row_of(type).kind == TypeClass::integer)
    return PyLong_FromVoidPtr(const_cast<char*>(data));  // an address as a number
  if (n > 1 << 20) return PyList_New(0);
  if (data == nullptr &&
      std::strcmp(api_of(field.record).text + field.row->name, "phGraph_out") == 0)
    return load_null_handles(type, element_count(record, field));
  Ref list{PyList_New(static_cast<Py_ssize_t>(n))};
  const Ref memory = Ref::borrow(kept(record, place));
  for (std::uint64_t i = 0; list && i < n; ++i) {
    PyObject* item =
        load(kind, type, data + i * size_of(kind, type), reinterpret_cast<PyObject*>(record));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
    if (kind == Kind::record && memory && !keep_itself(self_of(item), memory.get())) return nullptr;
  }
  return list.release();
}

/// Returns the used elements of an array in the record, whose number is in the count field.
PyObject* load_counted(RecordObject* record, const FieldObject& field, const char* place) {
  const FieldRow& row = *field.row;
  const auto n = std::min<std::uint64_t>(element_count(record, field), row.length);
  if (row.kind == Kind::bytes) return PyBytes_FromStringAndSize(place, static_cast<Py_ssize_t>(n));
  RecordObject* const view =
      view_record(row.type, const_cast<char*>(place), reinterpret_cast<PyObject*>(record));
  if (view != nullptr) view->count = static_cast<std::uint32_t>(n);
  return reinterpret_cast<PyObject*>(view);
}

/// Returns a column: one value per element of an array of structs.
PyObject* load_column(const FieldObject& field, RecordObject* record);

/// Loads a field that is not one value.
[[gnu::noinline]] PyObject* load_other(const FieldObject& field, RecordObject* record) {
  const Ref hold = Ref::borrow(reinterpret_cast<PyObject*>(const_cast<FieldObject*>(&field)));
  if (record->count != 1) return load_column(field, record);
  const FieldRow& row = *field.row;
  PyObject* const object = reinterpret_cast<PyObject*>(record);
  const char* place = static_cast<const char*>(record->place) + row.offset;
  if (row.kind == Kind::array) return load_array(record, field, place);
  if (is_counted(row)) return load_counted(record, field, place);
  if ((row.flags & kUserData) != 0) {
    if (PyObject* user = user_data_of(value_at<void*>(place))) return user;
  }
  if (row.length == 0 || is_text(row.kind))
    return load(row.kind, row.type, place, object, row.length);
  Ref list{PyList_New(row.length)};
  const std::size_t size = size_of(row.kind, row.type);
  for (int i = 0; list && i < row.length; ++i, place += size) {
    PyObject* item = load_single(row.kind, row.type, field.type, place, object);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

[[gnu::always_inline]] inline PyObject* read(const FieldObject& field, RecordObject* record) {
  if (field.read == Kind::none || record->count != 1) [[unlikely]]
    return load_other(field, record);
  return load_single(field.read, field.row->type, field.type,
                     static_cast<const char*>(record->place) + field.offset,
                     reinterpret_cast<PyObject*>(record));
}

PyObject* load_column(const FieldObject& field, RecordObject* record) {
  Ref column{PyList_New(record->count)};
  for (std::uint32_t i = 0; column && i < record->count; ++i) {
    Ref element{element_view(record, i)};
    PyObject* value = element ? read(field, self_of(element.get())) : nullptr;
    if (value == nullptr) return nullptr;
    PyList_SET_ITEM(column.get(), i, value);
  }
  return column.release();
}

/// Stores a tuple or list of plain values with the length of an array in the record.
bool store_plain_items(PyObject* value, const FieldObject& field, char* place) {
  const FieldRow& row = *field.row;
  PyObject** items = nullptr;
  if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == row.length)
    items = &PyTuple_GET_ITEM(value, 0);
#ifndef Py_GIL_DISABLED  // under the GIL, no other thread runs until all are read
  else if (PyList_CheckExact(value) && PyList_GET_SIZE(value) == row.length)
    items = &PyList_GET_ITEM(value, 0);
#endif
  if (items == nullptr) return false;
  const std::size_t size = size_of(row.kind, row.type);
  for (int i = 0; i < row.length; ++i, place += size) {
    if (!store_plain(items[i], field, place)) return false;  // the caller stores all again
  }
  return true;
}

/// Stores common values that need more than a type test. Returns false, without side effects, for
/// other values.
[[gnu::noinline]] bool store_usual(const FieldObject& field, RecordObject* record, PyObject* value,
                                   char* place) {
  const FieldRow& row = *field.row;
  if (row.kind == Kind::array) return overwrite_array(field, record, value, place);
  if (row.length != 0) return row.flags == 0 && store_plain_items(value, field, place);
  if (has_foreign_keeps()) [[unlikely]]
    return false;  // objects kept for another record may belong to this one
  const Keeps* const keep = outermost(record)->keep;
  if (row.flags == kCountsArray) {
    std::int64_t count = 0;
    if (!PyLong_CheckExact(value) || !python::as_int64(value, &count)) return false;
    if (keep != nullptr) {
      if (field.counted_size == 0) return false;
      PyObject* const array = keep->find(static_cast<char*>(record->place) + field.counted);
      if (array != nullptr && (!PyBytes_CheckExact(array) || count > PyBytes_GET_SIZE(array) ||
                               count * field.counted_size > PyBytes_GET_SIZE(array)))
        return false;
    }
    return store_plain(value, field, place);
  }
  if (keep != nullptr) return false;  // the object kept for the field must be released
  if (row.flags == kCallback) return is_plain_handle(value) && store_plain(value, field, place);
  if (row.flags != 0) return false;
  if (row.kind == Kind::address || row.kind == Kind::kernel) {
    std::int64_t address = 0;
    if (!PyLong_CheckExact(value) || !python::as_int64(value, &address) || address < 0)
      return false;
    std::memcpy(place, &address, sizeof address);
    return true;
  }
  if (row.kind != Kind::record || !is_plain_record(value)) return false;
  RecordObject* const given = self_of(value);
  if (row_of(given->type).root != field.type->root || points_to_kept(value)) return false;
  std::memmove(place, given->place, field.type->size);
  return true;
}

int store_column(const FieldObject& field, RecordObject* record, PyObject* value);

[[gnu::always_inline]] inline int write(const FieldObject& field, RecordObject* record,
                                        PyObject* value) {
  if (record->count != 1) [[unlikely]]
    return store_column(field, record, value);
  if (value != nullptr) [[likely]] {
    char* const place = static_cast<char*>(record->place) + field.offset;
    if (field.write != Kind::none && store_plain(value, field, place)) return 0;
    if (store_usual(field, record, value, place)) return 0;
  }
  const Ref hold = Ref::borrow(reinterpret_cast<PyObject*>(const_cast<FieldObject*>(&field)));
  return store_field(field, record, value);
}

/// Assigns to a field of all elements of an array of structs: one value for each, or the same for
/// all.
[[gnu::noinline]] int store_column(const FieldObject& field, RecordObject* record,
                                   PyObject* value) {
  const bool is_one = value == nullptr || PyUnicode_Check(value) || PyBytes_Check(value) ||
                      is_record(value) || !PySequence_Check(value) || field.row->length != 0;
  Ref items{is_one ? nullptr : PySequence_Tuple(value)};
  if (!is_one && !items) return -1;
  if (items && PyTuple_GET_SIZE(items.get()) != static_cast<Py_ssize_t>(record->count)) {
    PyErr_Format(PyExc_ValueError, "%s.%s takes %u values, got %zd", name_of(record->type),
                 api_of(field.record).text + field.row->name, record->count,
                 PyTuple_GET_SIZE(items.get()));
    return -1;
  }
  for (std::uint32_t i = 0; i < record->count; ++i) {
    Ref element{element_view(record, i)};
    PyObject* const item = items ? PyTuple_GET_ITEM(items.get(), i) : value;
    if (!element || write(field, self_of(element.get()), item) < 0) return -1;
  }
  return 0;
}

// ---- the descriptor: CUuuid.__dict__["bytes"].__get__(uuid)

bool belongs(const FieldObject& field, PyObject* object) {
  if (is_record(object) && row_of(self_of(object)->type).root == row_of(field.record).root)
    return true;
  PyErr_Format(PyExc_TypeError, "%s is a field of %s, not of %s",
               api_of(field.record).text + field.row->name, name_of(field.record),
               Py_TYPE(object)->tp_name);
  return false;
}

PyObject* field_get(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || Py_IsNone(object)) return Py_NewRef(self);
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  return belongs(field, object) ? read(field, self_of(object)) : nullptr;
}

int field_set(PyObject* self, PyObject* object, PyObject* value) {
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  return belongs(field, object) ? write(field, self_of(object), value) : -1;
}

PyObject* field_name(PyObject* self, void*) {
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  return PyUnicode_FromString(api_of(field.record).text + field.row->name);
}

void field_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyGetSetDef field_getset[] = {
    {"__name__", field_name, nullptr, nullptr, nullptr},
    {},
};

#ifndef Py_GIL_DISABLED
/// A cache entry of the attribute lookup: what a name is in a version of a class (a field, the
/// method getPtr, or something else). The version tag of a class changes with every change of the
/// class or its bases, and is unique.
struct Known {
  PyObject* name;  // owned, so that its address is not reused
  FieldObject* field;
  unsigned tag;
  bool is_address;
};
Known known[1024];

PyObject* address_method = nullptr;  // Record.getPtr

unsigned tag_of(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030B0000  // a stale version tag stays in the class
  if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
  return type->tp_version_tag;
}

[[gnu::noinline]] Known find(PyTypeObject* type, PyObject* name, Known& place) {
  PyObject* const found = _PyType_Lookup(type, name);  // also assigns a version tag to the class
  Known now{};
  if (found != nullptr && Py_IS_TYPE(found, field_type))
    now.field = reinterpret_cast<FieldObject*>(found);
  now.is_address = found == address_method;
  now.tag = tag_of(type);
  now.name = name;
  if (now.tag != 0 && PyUnicode_CHECK_INTERNED(name)) {
    PyObject* const before = place.name;
    place = now;
    Py_INCREF(name);
    Py_XDECREF(before);
  }
  return now;
}

[[gnu::always_inline]] inline Known& place_of(unsigned tag, PyObject* name) {
  return known[(reinterpret_cast<std::uintptr_t>(name) / 16 + tag * 31) % std::size(known)];
}

[[gnu::noinline]] PyObject* get_other(PyObject* object, PyObject* name) {
  const unsigned tag = tag_of(Py_TYPE(object));
  const Known found = find(Py_TYPE(object), name, place_of(tag, name));
  if (found.field != nullptr) return read(*found.field, self_of(object));
  if (found.is_address) return bound_address(self_of(object));
  return PyObject_GenericGetAttr(object, name);
}

[[gnu::noinline]] int set_other(PyObject* object, PyObject* name, PyObject* value) {
  const unsigned tag = tag_of(Py_TYPE(object));
  const Known found = find(Py_TYPE(object), name, place_of(tag, name));
  if (found.field != nullptr) return write(*found.field, self_of(object), value);
  return PyObject_GenericSetAttr(object, name, value);
}
#endif

}  // namespace

#ifndef Py_GIL_DISABLED
PyObject* get_attribute(PyObject* object, PyObject* name) {
  const unsigned tag = tag_of(Py_TYPE(object));
  const Known& found = place_of(tag, name);
  if (found.name == name && found.tag == tag && tag != 0) [[likely]] {
    if (found.field != nullptr) [[likely]]
      return read(*found.field, self_of(object));
    if (found.is_address) return bound_address(self_of(object));
    return PyObject_GenericGetAttr(object, name);
  }
  return get_other(object, name);
}

int set_attribute(PyObject* object, PyObject* name, PyObject* value) {
  const unsigned tag = tag_of(Py_TYPE(object));
  const Known& found = place_of(tag, name);
  if (found.name == name && found.tag == tag && found.field != nullptr) [[likely]]
    return write(*found.field, self_of(object), value);
  return set_other(object, name, value);
}

void set_address_method(PyObject* method) { address_method = method; }
#endif

bool store_plain(PyObject* value, const FieldObject& field, char* place) {
  const Kind kind = field.row->kind;
  Slot slot{};
  if (kind == Kind::handle) {
    if (is_plain_handle(value)) {
      const auto* handle = reinterpret_cast<HandleObject*>(value);
      if (handle->root != field.type->root || handle->size != 8) return false;
      std::memcpy(place, handle->place, 8);
      return true;
    }
    if (field.type->size != 8 || !PyLong_CheckExact(value) || !python::as_int64(value, &slot.i) ||
        slot.i < 0)
      return false;
    std::memcpy(place, &slot, 8);
    return true;
  }
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    const auto narrow = static_cast<float>(number);
    if (kind == Kind::f64) return std::memcpy(place, &number, 8), true;
    return kind == Kind::f32 && (std::memcpy(place, &narrow, 4), true);
  }
  if (kind == Kind::enumeration ? !PyLong_Check(value) : !PyLong_CheckExact(value)) return false;
  if (!python::as_int64(value, &slot.i)) return false;
  switch (kind) {
    case Kind::enumeration:
      if (slot.i < INT32_MIN || slot.i > static_cast<std::int64_t>(UINT32_MAX)) return false;
      break;
    case Kind::i32:
      if (slot.i < INT32_MIN || slot.i > INT32_MAX) return false;
      break;
    case Kind::u32:
      if (slot.i < 0 || slot.i > static_cast<std::int64_t>(UINT32_MAX)) return false;
      break;
    case Kind::u64:
      if (slot.i < 0) return false;
      [[fallthrough]];
    case Kind::i64:
      std::memcpy(place, &slot, 8);
      return true;
    default:
      return false;
  }
  std::memcpy(place, &slot, 4);  // little-endian: the low bytes come first
  return true;
}

bool add_fields(PyObject* type, TypeId id) {
  const Api& api = api_of(id);
  const TypeRow& row = row_of(id);
  for (int i = 0; i < row.count; ++i) {
    const FieldRow& f = api.fields[row.first + i];
    if (is_hidden(f)) continue;  // accessed through the array that it counts
    auto* field = PyObject_New(FieldObject, field_type);
    if (field == nullptr) return false;
    Ref owner{reinterpret_cast<PyObject*>(field)};
    field->row = &f;
    field->type = f.type != kNoType ? &row_of(f.type) : nullptr;
    field->arrays = 0;
    field->counted = field->counted_size = 0;
    for (int j = 0; (f.flags & kCountsArray) != 0 && f.kind != Kind::array && j < row.count; ++j) {
      const FieldRow& other = api.fields[row.first + j];
      if (other.kind != Kind::array || other.link != i) continue;
      field->counted = other.offset;
      field->counted_size =
          field->arrays == 0
              ? static_cast<std::uint32_t>(size_of(static_cast<Kind>(other.flags >> 3), other.type))
              : 0;
      field->arrays |= std::uint64_t{1} << j;
    }
    field->record = id;
    field->index = static_cast<std::uint16_t>(i);
    const bool single = f.length == 0 && f.kind != Kind::array;
    field->read = single && (f.flags & kUserData) == 0 ? f.kind : Kind::none;
    field->write = single && f.flags == 0 && f.kind != Kind::kernel ? f.kind : Kind::none;
    field->offset = f.offset;
    // Directly into the dict of the new class: setting attributes would invalidate caches each
    // time.
    if (PyDict_SetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict, api.text + f.name,
                             owner.get()) < 0)
      return false;
  }
  PyType_Modified(reinterpret_cast<PyTypeObject*>(type));
  return true;
}

bool init_fields() {
  PyType_Slot slots[] = {
      {Py_tp_descr_get, as_slot(field_get)},
      {Py_tp_descr_set, as_slot(field_set)},
      {Py_tp_dealloc, as_slot(field_dealloc)},
      {Py_tp_getset, field_getset},
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.Field", sizeof(FieldObject), 0, Py_TPFLAGS_DEFAULT,
                   slots};
  field_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return field_type != nullptr;
}

}  // namespace cucore::bindings
