// SPDX-License-Identifier: Apache-2.0
// field_store.cpp: assignment to fields, general path: arrays, text, callables, addresses, and the
// errors of values that the fast path rejects.
#include <bit>

#include "fields.hpp"

namespace cucore::bindings {
namespace {

/// Returns the address and size in bytes of the array assigned to a pointer field; null if there is
/// none.
const char* array_of(RecordObject* record, const char* place, std::size_t* size) {
  PyObject* const memory = kept(record, place);
  if (memory == nullptr || !PyBytes_CheckExact(memory)) return nullptr;
  const char* now = nullptr;  // the pointer may have been changed by other means
  std::memcpy(&now, place, sizeof now);
  if (now != PyBytes_AS_STRING(memory)) return nullptr;
  *size = static_cast<std::size_t>(PyBytes_GET_SIZE(memory));
  return PyBytes_AS_STRING(memory);
}

/// Releases the objects kept for the elements of a field's array, unless a view of an element or a
/// copy of the record exists.
void erase_array(RecordObject* record, const char* place) {
  std::size_t size = 0;
  const char* const data = array_of(record, place, &size);
  if (data != nullptr && Py_REFCNT(kept(record, place)) == 1) erase_kept(record, data, size);
}

void set_count(const FieldObject& field, RecordObject* record, Py_ssize_t n) {
  if (field.row->link < 0) return;
  const FieldRow& count = api_of(field.record).fields[row_of(field.record).first + field.row->link];
  Slot slot{};
  slot.i = n;
  put(slot, count.kind, count.type, static_cast<char*>(record->place) + count.offset);
}

/// Assigns a sequence to a pointer field: stores a copy with the lifetime of the record, and sets
/// the count field to its length.
int store_array(RecordObject* record, const FieldObject& field, PyObject* value, char* place,
                const Where& where) {
  const Kind kind = static_cast<Kind>(field.row->flags >> 3);
  const std::size_t size = size_of(kind, field.row->type);
  if (PyLong_Check(value)) {  // a raw address: the caller is responsible for its lifetime
    Slot slot{};
    if (!to_integer(value, Kind::u64, where, &slot)) return -1;
    erase_array(record, place);
    std::memcpy(place, &slot.p, sizeof slot.p);
    return keep_alive(record, place, Py_None) ? 0 : -1;
  }
  void* data = nullptr;
  Py_ssize_t n = 0;
  Ref memory = Ref::borrow(Py_None);
  if (!Py_IsNone(value)) {
    Ref items{PySequence_Tuple(value)};
    if (!items) {
      PyErr_Format(PyExc_TypeError, "%s%s%s must be a list or tuple, not %s", where.owner,
                   where.joint, where.name, Py_TYPE(value)->tp_name);
      return -1;
    }
    n = PyTuple_GET_SIZE(items.get());
    // A private bytes object: one memory block, where a bytearray has two.
    if (n != 0) memory = Ref{PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size) * n)};
    if (!memory) return -1;
    if (n != 0) data = PyBytes_AS_STRING(memory.get());
    if (n != 0) std::memset(data, 0, size * static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const item = PyTuple_GET_ITEM(items.get(), i);
      if (!store(item, kind, field.row->type, where,
                 static_cast<char*>(data) + static_cast<std::size_t>(i) * size, record))
        return -1;
    }
  }
  erase_array(record, place);
  if (!keep_alive(record, place, memory.get())) return -1;
  std::memcpy(place, &data, sizeof data);
  set_count(field, record, n);
  return 0;
}

/// Assigns a Python callable to a function pointer (CUDA_HOST_NODE_PARAMS.fn). Also sets the user
/// data field of the C API.
int store_callback(RecordObject* record, const FieldObject& field, PyObject* value, char* place,
                   const Where& where) {
  Slot slot{};
  HostCall* call = nullptr;
  const bool recaptures = std::strstr(name_of(field.row->type), "Recapture") != nullptr;
  if (!to_callback(value, recaptures ? CallbackShape::runtime_recapture : CallbackShape::host,
                   where, &slot, field.row->link >= 0 ? &call : nullptr))
    return -1;
  if (call == nullptr) {
    std::memcpy(place, &slot.p, sizeof slot.p);
    return keep_alive(record, place, Py_None) ? 0 : -1;
  }
  commit(call, false);
  Ref capsule{capsule_of(call)};
  if (!capsule || !keep_alive(record, place, capsule.get())) return -1;
  const FieldRow& user = api_of(field.record).fields[row_of(field.record).first + field.row->link];
  void* pointer = user_pointer(call);
  std::memcpy(static_cast<char*>(record->place) + user.offset, &pointer, sizeof pointer);
  std::memcpy(place, &slot.p, sizeof slot.p);
  return 0;
}

/// Assigns text to an array of characters in the record; pads with zeros.
int store_text(const FieldObject& field, RecordObject* record, PyObject* value, char* place,
               const Where& where) {
  const FieldRow& row = *field.row;
  Frame frame;
  const char* text = nullptr;
  Py_ssize_t size = 0;
  if (row.kind == Kind::bytes && PyObject_CheckBuffer(value)) {
    Py_buffer* view = frame.buffer(value, PyBUF_SIMPLE);
    if (view == nullptr) return -1;
    text = static_cast<const char*>(view->buf);
    size = view->len;
  } else {
    if (!to_text(value, where, frame, &text)) return -1;
    if (text == nullptr) {  // None: an array cannot be null
      PyErr_Format(PyExc_TypeError, "%s.%s must be bytes or str, not None", where.owner,
                   where.name);
      return -1;
    }
    size = static_cast<Py_ssize_t>(std::strlen(text));
  }
  if (size > row.length) {
    PyErr_Format(PyExc_ValueError, "%s.%s holds %d bytes, got %zd", where.owner, where.name,
                 row.length, size);
    return -1;
  }
  std::memset(place, 0, row.length);
  std::memcpy(place, text, static_cast<std::size_t>(size));
  if (is_counted(row)) set_count(field, record, size);
  return 0;
}

/// Assigns to a field that is one value.
int store_one(const FieldObject& field, RecordObject* record, PyObject* value, char* place,
              const Where& where) {
  const FieldRow& row = *field.row;
  if (row.kind == Kind::address) {  // the record keeps a buffer alive
    Frame frame;
    Slot slot{};
    if (!to_address(value, where, frame, 0, false, &slot)) return -1;
    if (!keep_alive(record, place, PyLong_CheckExact(value) ? Py_None : value)) return -1;
    std::memcpy(place, &slot.p, sizeof slot.p);
    return 0;
  }
  if (row.kind == Kind::text) {
    Ref bytes = PyUnicode_Check(value) ? Ref{PyUnicode_AsUTF8String(value)} : Ref::borrow(value);
    if (!bytes) return -1;
    if (PyBytes_Check(bytes.get())) {
      const char* data = PyBytes_AS_STRING(bytes.get());
      std::memcpy(place, &data, sizeof data);
      return keep_alive(record, place, bytes.get()) ? 0 : -1;
    }
  }
  return store(value, row.kind, row.type, where, place, record) ? 0 : -1;
}

int store_items(const FieldObject& field, RecordObject* record, PyObject* value, char* place,
                const Where& where) {
  const FieldRow& row = *field.row;
  Ref items{PySequence_Tuple(value)};
  if (!items) {
    PyErr_Format(PyExc_TypeError, "%s.%s must be a sequence of %d values, not %s", where.owner,
                 where.name, row.length, Py_TYPE(value)->tp_name);
    return -1;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  if (is_counted(row) ? n > row.length : n != row.length) {
    PyErr_Format(PyExc_ValueError, "%s.%s takes %s%d values, got %zd", where.owner, where.name,
                 is_counted(row) ? "at most " : "", row.length, n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!store(item, row.kind, row.type, where,
               place + static_cast<std::size_t>(i) * size_of(row.kind, row.type), record))
      return -1;
  }
  if (is_counted(row)) set_count(field, record, n);
  return 0;
}

/// Rejects a count that is larger than the length of the assigned arrays.
bool check_count(const FieldObject& field, RecordObject* record, PyObject* value,
                 const Where& where) {
  const FieldRow* const fields = api_of(field.record).fields + row_of(field.record).first;
  for (std::uint64_t left = field.arrays; left != 0; left &= left - 1) {
    const FieldRow& array = fields[std::countr_zero(left)];
    std::size_t size = 0;
    if (array_of(record, static_cast<char*>(record->place) + array.offset, &size) == nullptr)
      continue;
    Slot slot{};
    if (!to_integer(value, Kind::u64, where, &slot)) return false;
    const std::size_t have = size / size_of(static_cast<Kind>(array.flags >> 3), array.type);
    if (slot.u <= have) continue;
    PyErr_Format(PyExc_ValueError, "%s%s%s is %llu, but %s has %zu elements", where.owner,
                 where.joint, where.name, static_cast<unsigned long long>(slot.u),
                 api_of(field.record).text + array.name, have);
    return false;
  }
  return true;
}

}  // namespace

bool overwrite_array([[maybe_unused]] const FieldObject& field,
                     [[maybe_unused]] RecordObject* record, [[maybe_unused]] PyObject* value,
                     [[maybe_unused]] char* place) {
#ifdef Py_GIL_DISABLED
  return false;
#else
  if (static_cast<Kind>(field.row->flags >> 3) != Kind::record || has_foreign_keeps()) return false;
  Py_ssize_t n = 0;
  PyObject** items = nullptr;
  if (PyList_CheckExact(value)) {
    n = PyList_GET_SIZE(value);
    items = reinterpret_cast<PyListObject*>(value)->ob_item;
  } else if (PyTuple_CheckExact(value)) {
    n = PyTuple_GET_SIZE(value);
    items = reinterpret_cast<PyTupleObject*>(value)->ob_item;
  }
  const Keeps* const keep = outermost(record)->keep;
  const std::size_t size = field.type->size;
  if (n == 0) {  // an empty list has no item array
    void* now = nullptr;
    std::memcpy(&now, place, sizeof now);
    if (!(PyList_CheckExact(value) || PyTuple_CheckExact(value)) || now != nullptr ||
        keep != nullptr)
      return false;
    set_count(field, record, 0);
    return true;
  }
  if (keep == nullptr || keep->size() != 1) return false;  // elements keep nothing
  PyObject* const memory = keep->find(place);
  // No copy of the record and no view of an element may refer to the memory.
  if (memory == nullptr || !PyBytes_CheckExact(memory) || Py_REFCNT(memory) != 1 ||
      PyBytes_GET_SIZE(memory) != n * static_cast<Py_ssize_t>(size))
    return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!is_plain_record(items[i]) || points_to_kept(items[i])) return false;
    if (row_of(reinterpret_cast<RecordObject*>(items[i])->type).root != field.type->root)
      return false;
  }
  char* to = PyBytes_AS_STRING(memory);
  std::memcpy(place, &to, sizeof to);
  for (Py_ssize_t i = 0; i < n; ++i, to += size)
    std::memcpy(to, reinterpret_cast<RecordObject*>(items[i])->place, size);
  set_count(field, record, n);
  return true;
#endif
}

int store_field(const FieldObject& field, RecordObject* record, PyObject* value) {
  const FieldRow& row = *field.row;
  const Where where{name_of(record->type), ".", api_of(field.record).text + row.name};
  if (value == nullptr) {
    PyErr_Format(PyExc_AttributeError, "%s.%s cannot be deleted", where.owner, where.name);
    return -1;
  }
  char* place = static_cast<char*>(record->place) + row.offset;
  if (row.kind == Kind::array) return store_array(record, field, value, place, where);
  if (row.kind == Kind::kernel) {
    void* address = nullptr;
    Ref keep{kernel_params_object(value, where, &address)};
    if (!keep || !keep_alive(record, place, PyLong_CheckExact(keep.get()) ? Py_None : keep.get()))
      return -1;
    std::memcpy(place, &address, sizeof address);
    return 0;
  }
  if ((row.flags & kCallback) != 0) return store_callback(record, field, value, place, where);
  if ((row.flags & kUserData) != 0) {
    void* pointer = nullptr;
    std::memcpy(&pointer, place, sizeof pointer);
    if (Ref mine{user_data_of(pointer)}; mine)
      return set_user_data(static_cast<HostCall*>(pointer), value), 0;
  }
  if ((row.flags & kCountsArray) != 0 && !check_count(field, record, value, where)) return -1;
  if (is_text(row.kind)) return store_text(field, record, value, place, where);
  if (row.length == 0) return store_one(field, record, value, place, where);
  return store_items(field, record, value, place, where);
}

}  // namespace cucore::bindings
