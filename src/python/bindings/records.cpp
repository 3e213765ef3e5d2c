// records.cpp: structs and unions. A record object is a place in memory; its fields are descriptors
// over the rendered rows.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../type_table.hpp"
#include "engine.hpp"

namespace cucore::bindings {

PyTypeObject* record_base = nullptr;

namespace {

PyTypeObject* field_type = nullptr;

struct FieldObject {
  PyObject_HEAD const FieldRow* row;
  TypeId record;  // the struct the row belongs to
  std::uint16_t index;
};

RecordObject* self_of(PyObject* o) { return reinterpret_cast<RecordObject*>(o); }

RecordObject* outermost(RecordObject* record) {
  while (record->owner != nullptr && is_record(record->owner)) record = self_of(record->owner);
  return record;
}

RecordObject* allocate(PyTypeObject* type, TypeId id) {
  auto* record = self_of(type->tp_alloc(type, 0));
  if (record == nullptr) return nullptr;
  record->place = nullptr;
  record->owner = nullptr;
  record->keep = nullptr;
  record->type = id;
  record->owns = false;
  record->count = 1;
  return record;
}

bool own_memory(RecordObject* record) {
  const TypeRow& row = row_of(record->type);
  const std::size_t size = (std::size_t{row.size} * record->count + 63) & ~std::size_t{63};
  record->place = std::aligned_alloc(64, size == 0 ? 64 : size);  // CUtensorMap asks for 64
  if (record->place == nullptr) return PyErr_NoMemory(), false;
  std::memset(record->place, 0, size == 0 ? 64 : size);
  for (std::uint32_t i = 0; row.version != 0 && i < record->count; ++i) {
    const std::uint32_t version = row.size | std::uint32_t{row.version} << 24;
    std::memcpy(static_cast<char*>(record->place) + std::size_t{row.size} * i, &version,
                sizeof version);
  }
  record->owns = true;
  return true;
}

PyObject* record_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  const TypeId id = type_of(type);
  if (id == kNoType)
    return PyErr_Format(PyExc_TypeError, "%s cannot be made directly", type->tp_name), nullptr;
  static const char* keywords[] = {"_ptr", nullptr};
  static const char* array_keywords[] = {"size", nullptr};
  PyObject* place = nullptr;
  const bool pythonic = api_of(id).raises != 0;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "|O", const_cast<char**>(pythonic ? array_keywords : keywords), &place)) {
    return nullptr;
  }
  Slot address{}, count{};
  count.u = 1;
  if (pythonic) {
    if (place != nullptr &&
        !to_integer(place, Kind::u32, Where{name_of(id), "(): ", "size"}, &count))
      return nullptr;
    if (count.u == 0 || count.u > 1 << 20) {
      return PyErr_Format(PyExc_ValueError, "%s(): size must be between 1 and 1048576",
                          name_of(id)),
             nullptr;
    }
    place = nullptr;
  }
  if (place != nullptr &&
      !to_integer(place, Kind::u64, Where{name_of(id), "(): ", "_ptr"}, &address))
    return nullptr;
  RecordObject* record = allocate(type, id);
  if (record == nullptr) return nullptr;
  record->count = static_cast<std::uint32_t>(count.u);
  if (address.p != nullptr) {
    record->place = address.p;
  } else if (!own_memory(record)) {
    Py_DECREF(record);
    return nullptr;
  }
  if (address.p == nullptr && std::strcmp(name_of(id), "dim3") == 0) {  // C++ makes it (1, 1, 1)
    for (int i = 0; i < 3; ++i) static_cast<unsigned*>(record->place)[i] = 1;
  }
  return reinterpret_cast<PyObject*>(record);
}

void record_dealloc(PyObject* o) {
  RecordObject* record = self_of(o);
  if (record->owns) std::free(record->place);
  Py_XDECREF(record->owner);
  Py_XDECREF(record->keep);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* get_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(self_of(o)->place); }

/// "name : value" per field, nested records indented.
PyObject* record_repr(PyObject* o) {
  const RecordObject* record = self_of(o);
  const Api& api = api_of(record->type);
  const TypeRow& row = row_of(record->type);
  Ref lines{PyList_New(0)};
  if (!lines) return nullptr;
  for (int i = 0; i < row.count; ++i) {
    const FieldRow& field = api.fields[row.first + i];
    const char* name = api.text + field.name;
    Ref value{PyObject_GetAttrString(o, name)};
    if (!value) return nullptr;
    Ref line;
    if (is_record(value.get())) {
      Ref inner{PyObject_Repr(value.get())};
      Ref newline{PyUnicode_FromString("\n")}, indented{PyUnicode_FromString("\n    ")};
      if (!inner || !newline || !indented) return nullptr;
      Ref moved{PyUnicode_Replace(inner.get(), newline.get(), indented.get(), -1)};
      if (!moved) return nullptr;
      line = Ref{PyUnicode_FromFormat("%s :\n    %U", name, moved.get())};
    } else if (field.kind == Kind::address && PyLong_Check(value.get())) {
      char hex[24];
      std::snprintf(hex, sizeof hex, "%llx", PyLong_AsUnsignedLongLongMask(value.get()));
      PyErr_Clear();
      line = Ref{PyUnicode_FromFormat("%s : 0x%s", name, hex)};
    } else if (field.kind == Kind::bytes && PyBytes_Check(value.get())) {
      Ref hex{PyObject_CallMethod(value.get(), "hex", nullptr)};
      if (!hex) return nullptr;
      line = Ref{PyUnicode_FromFormat("%s : %U", name, hex.get())};
    } else if (field.kind == Kind::chars && PyBytes_Check(value.get())) {
      Ref text{PyUnicode_DecodeUTF8(PyBytes_AS_STRING(value.get()), PyBytes_GET_SIZE(value.get()),
                                    "replace")};
      if (!text) return nullptr;
      line = Ref{PyUnicode_FromFormat("%s : %U", name, text.get())};
    } else {
      line = Ref{PyUnicode_FromFormat("%s : %R", name, value.get())};
    }
    if (!line || PyList_Append(lines.get(), line.get()) < 0) return nullptr;
  }
  Ref newline{PyUnicode_FromString("\n")};
  return newline ? PyUnicode_Join(newline.get(), lines.get()) : nullptr;
}

int record_buffer(PyObject* o, Py_buffer* view, int flags) {
  return PyBuffer_FillInfo(
      view, o, self_of(o)->place,
      static_cast<Py_ssize_t>(row_of(self_of(o)->type).size) * self_of(o)->count, 0, flags);
}

// ---- fields
// ---------------------------------------------------------------------------------------------------------------

bool is_text(Kind kind) {
  return kind == Kind::chars || kind == Kind::bytes || kind == Kind::string;
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

PyObject* load_array(RecordObject* record, const FieldObject& field, void** place) {
  const char* data = static_cast<const char*>(*place);
  const std::uint64_t n = data != nullptr ? element_count(record, field) : 0;
  const TypeId type = field.row->type;
  const Kind kind = static_cast<Kind>(field.row->flags >> 3);
  if (n > 1 << 20) return PyList_New(0);
  Ref list{PyList_New(static_cast<Py_ssize_t>(n))};
  for (std::uint64_t i = 0; list && i < n; ++i) {
    PyObject* item =
        load(kind, type, data + i * size_of(kind, type), reinterpret_cast<PyObject*>(record));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
}

PyObject* element_view(RecordObject* record, std::uint32_t index) {
  char* place = static_cast<char*>(record->place) + std::size_t{row_of(record->type).size} * index;
  return reinterpret_cast<PyObject*>(
      view_record(record->type, place, reinterpret_cast<PyObject*>(record)));
}

PyObject* field_get(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || Py_IsNone(object)) return Py_NewRef(self);
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  if (!is_record(object)) return PyErr_Format(PyExc_TypeError, "not a record"), nullptr;
  RecordObject* record = self_of(object);
  if (record->count > 1) [[unlikely]] {  // a column: one value per element
    Ref column{PyList_New(record->count)};
    for (std::uint32_t i = 0; column && i < record->count; ++i) {
      Ref element{element_view(record, i)};
      PyObject* value = element ? field_get(self, element.get(), nullptr) : nullptr;
      if (value == nullptr) return nullptr;
      PyList_SET_ITEM(column.get(), i, value);
    }
    return column.release();
  }
  const FieldRow& row = *field.row;
  char* place = static_cast<char*>(record->place) + row.offset;
  if (row.kind == Kind::array) return load_array(record, field, reinterpret_cast<void**>(place));
  if ((row.flags & kUserData) != 0) {
    void* pointer = nullptr;
    std::memcpy(&pointer, place, sizeof pointer);
    if (PyObject* user = user_data_of(pointer)) return user;
  }
  if (row.length == 0 || is_text(row.kind)) {
    return load(row.kind, row.type, place, object, row.length);
  }
  Ref list{PyList_New(row.length)};
  for (int i = 0; list && i < row.length; ++i) {
    PyObject* item = load(row.kind, row.type, place + i * size_of(row.kind, row.type), object);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

/// A pointer field set to a sequence: a copy that lives as long as the record, and the count field
/// set to its length.
int store_array(RecordObject* record, const FieldObject& field, PyObject* value, char* place,
                const Where& where) {
  const Api& api = api_of(field.record);
  const Kind kind = static_cast<Kind>(field.row->flags >> 3);
  const std::size_t size = size_of(kind, field.row->type);
  void* data = nullptr;
  Py_ssize_t n = 0;
  if (PyLong_Check(value)) {  // a raw address: the caller answers for it
    Slot slot{};
    if (!to_integer(value, Kind::u64, where, &slot)) return -1;
    std::memcpy(place, &slot.p, sizeof slot.p);
    return keep_alive(record, place, Py_None) ? 0 : -1;
  }
  if (!Py_IsNone(value)) {
    Ref items{PySequence_Fast(value, "")};
    if (!items) {
      PyErr_Format(PyExc_TypeError, "%s%s%s must be a list or tuple, not %s", where.owner,
                   where.joint, where.name, Py_TYPE(value)->tp_name);
      return -1;
    }
    n = PySequence_Fast_GET_SIZE(items.get());
    Ref memory{PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size) * n)};
    if (!memory) return -1;
    char* base = PyByteArray_AS_STRING(memory.get());
    std::memset(base, 0, size * n);
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
      if (!store(item, kind, field.row->type, where, base + i * size, record)) return -1;
    }
    Ref both{Py_BuildValue("(OO)", memory.get(), items.get())};
    if (!both || !keep_alive(record, place, both.get())) return -1;
    data = n != 0 ? base : nullptr;
  } else if (!keep_alive(record, place, Py_None)) {
    return -1;
  }
  std::memcpy(place, &data, sizeof data);
  if (field.row->link >= 0) {
    const FieldRow& count = api.fields[row_of(field.record).first + field.row->link];
    Slot slot{};
    slot.i = n;
    put(slot, count.kind, count.type, static_cast<char*>(record->place) + count.offset);
  }
  return 0;
}

/// A count may not promise more elements than the array that was set has.
bool count_fits(RecordObject* record, const FieldObject& field, PyObject* value,
                const Where& where) {
  const Api& api = api_of(field.record);
  const TypeRow& type = row_of(field.record);
  for (int i = 0; i < type.count; ++i) {
    const FieldRow& other = api.fields[type.first + i];
    if (other.kind != Kind::array || other.link != field.index) continue;
    PyObject* memory = kept(record, static_cast<char*>(record->place) + other.offset);
    if (memory == nullptr || !PyTuple_Check(memory)) continue;
    const Py_ssize_t have = PySequence_Size(PyTuple_GET_ITEM(memory, 1));
    Slot slot{};
    if (!to_integer(value, Kind::u64, where, &slot)) return false;
    if (slot.u > static_cast<std::uint64_t>(have)) {
      PyErr_Format(PyExc_ValueError, "%s%s%s is %llu, but %s has %zd elements", where.owner,
                   where.joint, where.name, static_cast<unsigned long long>(slot.u),
                   api.text + other.name, have);
      return false;
    }
  }
  return true;
}

/// A Python callable as function pointer of a record (CUDA_HOST_NODE_PARAMS.fn): its user data goes
/// where the C API has it.
int store_callback(RecordObject* record, const FieldObject& field, PyObject* value, char* place,
                   const Where& where) {
  Slot slot{};
  HostCall* call = nullptr;
  if (!to_callback(value, CallbackShape::host, where, &slot,
                   field.row->link >= 0 ? &call : nullptr))
    return -1;
  std::memcpy(place, &slot.p, sizeof slot.p);
  if (call != nullptr) {
    const FieldRow& user =
        api_of(field.record).fields[row_of(field.record).first + field.row->link];
    void* pointer = user_pointer(call);
    std::memcpy(static_cast<char*>(record->place) + user.offset, &pointer, sizeof pointer);
    commit(call, false);
  }
  return 0;
}

/// The usual assignment: an int that fits, or a handle of the right type. False: not that, and
/// nothing happened.
bool store_plain(PyObject* value, const FieldRow& row, char* place) {
  Slot slot{};
  if (row.kind == Kind::handle) {
    if (Py_TYPE(value)->tp_dealloc != handle_dealloc) return false;
    const auto* handle = reinterpret_cast<HandleObject*>(value);
    if (handle->root != row_of(row.type).root || handle->size != 8) return false;
    std::memcpy(place, handle->place, 8);
    return true;
  }
  if (!PyLong_CheckExact(value) || !python::as_int64(value, &slot.i)) return false;
  switch (row.kind) {
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
  std::memcpy(place, &slot, 4);  // the low bytes come first
  return true;
}

int field_set(PyObject* self, PyObject* object, PyObject* value) {
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  const FieldRow& row = *field.row;
  RecordObject* record = self_of(object);
  if (value != nullptr && row.flags == 0 && row.length == 0 &&
      store_plain(value, row, static_cast<char*>(record->place) + row.offset)) [[likely]]
    return 0;
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
    if (!keep || !keep_alive(record, place, keep.get())) return -1;
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
  if ((row.flags & kCountsArray) != 0 && !count_fits(record, field, value, where)) return -1;
  if (is_text(row.kind)) {
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
      size = static_cast<Py_ssize_t>(std::strlen(text));
    }
    if (size > row.length) {
      PyErr_Format(PyExc_ValueError, "%s.%s holds %d bytes, got %zd", where.owner, where.name,
                   row.length, size);
      return -1;
    }
    std::memset(place, 0, row.length);
    std::memcpy(place, text, static_cast<std::size_t>(size));
    return 0;
  }
  if (row.length == 0) {
    if (row.kind ==
        Kind::address) {  // a buffer assigned to a pointer field must stay alive with the record
      Frame frame;
      Slot slot{};
      if (!to_address(value, where, frame, 0, false, &slot)) return -1;
      if (!keep_alive(record, place, value)) return -1;
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
  Ref items{PySequence_Fast(value, "")};
  if (!items) {
    PyErr_Format(PyExc_TypeError, "%s.%s must be a sequence of %d values, not %s", where.owner,
                 where.name, row.length, Py_TYPE(value)->tp_name);
    return -1;
  }
  if (PySequence_Fast_GET_SIZE(items.get()) != row.length) {
    PyErr_Format(PyExc_ValueError, "%s.%s takes %d values, got %zd", where.owner, where.name,
                 row.length, PySequence_Fast_GET_SIZE(items.get()));
    return -1;
  }
  for (int i = 0; i < row.length; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
    if (!store(item, row.kind, row.type, where, place + i * size_of(row.kind, row.type), record))
      return -1;
  }
  return 0;
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

void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

// ---- records of the Pythonic modules: arrays, made from memory, compared by content
// -----------------------------------------

Py_ssize_t record_length(PyObject* o) { return self_of(o)->count; }

PyObject* record_item(PyObject* o, Py_ssize_t index) {
  RecordObject* record = self_of(o);
  if (index < 0 || index >= record->count)
    return PyErr_SetString(PyExc_IndexError, "index out of range"), nullptr;
  return element_view(record, static_cast<std::uint32_t>(index));
}

PyObject* record_int(PyObject* o) { return PyLong_FromVoidPtr(self_of(o)->place); }
PyObject* record_ptr(PyObject* o, void*) { return record_int(o); }

PyObject* record_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_record(b)) Py_RETURN_NOTIMPLEMENTED;
  const RecordObject *x = self_of(a), *y = self_of(b);
  const bool same =
      x->type == y->type && x->count == y->count &&
      std::memcmp(x->place, y->place, std::size_t{row_of(x->type).size} * x->count) == 0;
  return PyBool_FromLong(same == (op == Py_EQ));
}

/// from_ptr(ptr, size=1, readonly=False, owner=None): a view of memory the caller answers for.
PyObject* from_ptr(PyObject* cls, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"ptr", "size", "readonly", "owner", nullptr};
  PyObject *pointer = nullptr, *size = nullptr, *owner = nullptr;
  int readonly = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OpO", const_cast<char**>(keywords), &pointer,
                                   &size, &readonly, &owner)) {
    return nullptr;
  }
  const TypeId id = type_of(reinterpret_cast<PyTypeObject*>(cls));
  Slot address{}, count{};
  count.u = 1;
  if (!to_integer(pointer, Kind::u64, Where{name_of(id), ".from_ptr(): ", "ptr"}, &address))
    return nullptr;
  if (size != nullptr &&
      !to_integer(size, Kind::u32, Where{name_of(id), ".from_ptr(): ", "size"}, &count))
    return nullptr;
  if (address.p == nullptr)
    return PyErr_SetString(PyExc_ValueError, "ptr must not be null (0)"), nullptr;
  RecordObject* record =
      view_record(id, address.p, owner != nullptr && !Py_IsNone(owner) ? owner : nullptr);
  if (record != nullptr) record->count = static_cast<std::uint32_t>(count.u);
  return reinterpret_cast<PyObject*>(record);
}

/// from_buffer(buffer) and from_data(array): a copy of the bytes, whose length must be a multiple
/// of the struct's.
PyObject* from_buffer(PyObject* cls, PyObject* object) {
  const TypeId id = type_of(reinterpret_cast<PyTypeObject*>(cls));
  Frame frame;
  Py_buffer* view = frame.buffer(object, PyBUF_ANY_CONTIGUOUS);
  if (view == nullptr) return nullptr;
  const std::size_t each = row_of(id).size, size = static_cast<std::size_t>(view->len);
  if (size == 0 || size % each != 0) {
    return PyErr_Format(PyExc_ValueError, "%s has %zu bytes, the buffer %zd", name_of(id), each,
                        view->len),
           nullptr;
  }
  RecordObject* record = new_record(id, static_cast<std::uint32_t>(size / each));
  if (record != nullptr) std::memcpy(record->place, view->buf, size);
  return reinterpret_cast<PyObject*>(record);
}

PyMethodDef pythonic_methods[] = {
    {"from_ptr", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_ptr)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_ptr(ptr, size=1, readonly=False, owner=None): a view of the memory at ptr"},
    {"from_buffer", from_buffer, METH_O | METH_CLASS,
     "from_buffer(buffer): a copy of a buffer's bytes"},
    {"from_data", from_buffer, METH_O | METH_CLASS,
     "from_data(data): a copy of a NumPy array of this struct's dtype"},
    {},
};

PyGetSetDef pythonic_getset[] = {
    {"ptr", record_ptr, nullptr, "address of the first element", nullptr},
    {},
};

PyMethodDef methods[] = {
    {"getPtr", get_ptr, METH_NOARGS, "getPtr()\n--\n\nAddress of the C struct."},
    {},
};

PyGetSetDef field_getset[] = {
    {"__name__", field_name, nullptr, nullptr, nullptr},
    {},
};

}  // namespace

bool keep_alive(RecordObject* record, const void* field, PyObject* what) {
  record = outermost(record);
  if (record->keep == nullptr) {
    if (Py_IsNone(what) || PyLong_CheckExact(what)) return true;
    record->keep = PyDict_New();
    if (record->keep == nullptr) return false;
  }
  Ref key{PyLong_FromVoidPtr(const_cast<void*>(field))};
  return key && PyDict_SetItem(record->keep, key.get(), what) == 0;
}

PyObject* kept(RecordObject* record, const void* field) {
  record = outermost(record);
  if (record->keep == nullptr) return nullptr;
  Ref key{PyLong_FromVoidPtr(const_cast<void*>(field))};
  return key ? PyDict_GetItem(record->keep, key.get()) : nullptr;
}

RecordObject* new_record(TypeId id, std::uint32_t count) {
  PyObject* type = class_of(id);
  if (type == nullptr) return nullptr;
  RecordObject* record = allocate(reinterpret_cast<PyTypeObject*>(type), id);
  if (record != nullptr) record->count = count;
  if (record != nullptr && !own_memory(record)) {
    Py_DECREF(record);
    return nullptr;
  }
  return record;
}

RecordObject* view_record(TypeId id, void* place, PyObject* owner) {
  PyObject* type = class_of(id);
  if (type == nullptr) return nullptr;
  RecordObject* record = allocate(reinterpret_cast<PyTypeObject*>(type), id);
  if (record == nullptr) return nullptr;
  record->place = place;
  record->owner = Py_XNewRef(owner);
  return record;
}

RecordObject* expect_record(PyObject* value, TypeId id, const Where& where) {
  if (is_record(value) && row_of(self_of(value)->type).root == row_of(id).root) [[likely]]
    return self_of(value);
  PyErr_Format(PyExc_TypeError, "%s%s%s must be %s, not %s", where.owner, where.joint, where.name,
               name_of(id), Py_TYPE(value)->tp_name);
  return nullptr;
}

PyObject* make_record_class(TypeId id, PyObject* base) {
  const Api& api = api_of(id);
  const TypeRow& row = row_of(id);
  PyType_Slot plain_slots[] = {{Py_tp_dealloc, as_slot(record_dealloc)}, {0, nullptr}};
  PyType_Slot pythonic_slots[] = {
      {Py_tp_dealloc, as_slot(record_dealloc)},
      {Py_sq_length, as_slot(record_length)},
      {Py_sq_item, as_slot(record_item)},
      {Py_nb_int, as_slot(record_int)},
      {Py_tp_richcompare, as_slot(record_compare)},
      {Py_tp_hash, as_slot(PyObject_HashNotImplemented)},
      {Py_tp_methods, pythonic_methods},
      {Py_tp_getset, pythonic_getset},
      {0, nullptr},
  };
  PyType_Slot* slots = api.raises != 0 ? pythonic_slots : plain_slots;
  auto* name = new std::string{std::string{api.module} + "." +
                               (api.text + row.name)};  // lives as long as the type
  PyType_Spec spec{name->c_str(), sizeof(RecordObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                   slots};
  Ref type{PyType_FromSpecWithBases(&spec, base)};
  if (!type || row.base != kNoType) return type.release();  // an alias inherits its fields
  for (int i = 0; i < row.count; ++i) {
    auto* field = PyObject_New(FieldObject, field_type);
    if (field == nullptr) return nullptr;
    Ref owner{reinterpret_cast<PyObject*>(field)};
    field->row = &api.fields[row.first + i];
    field->record = id;
    field->index = static_cast<std::uint16_t>(i);
    // Straight into the new class: setting attributes one by one would empty caches each time.
    if (PyDict_SetItemString(reinterpret_cast<PyTypeObject*>(type.get())->tp_dict,
                             api.text + field->row->name, owner.get()) < 0)
      return nullptr;
  }
  PyType_Modified(reinterpret_cast<PyTypeObject*>(type.get()));
  return type.release();
}

bool init_records() {
  PyType_Slot slots[] = {
      {Py_tp_new, as_slot(record_new)},          {Py_tp_dealloc, as_slot(record_dealloc)},
      {Py_tp_repr, as_slot(record_repr)},        {Py_tp_methods, methods},
      {Py_bf_getbuffer, as_slot(record_buffer)}, {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.Record", sizeof(RecordObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  record_base = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  PyType_Slot field_slots[] = {
      {Py_tp_descr_get, as_slot(field_get)},
      {Py_tp_descr_set, as_slot(field_set)},
      {Py_tp_dealloc, as_slot(field_dealloc)},
      {Py_tp_getset, field_getset},
      {0, nullptr},
  };
  PyType_Spec field_spec{"cuda.bindings._bindings.Field", sizeof(FieldObject), 0,
                         Py_TPFLAGS_DEFAULT, field_slots};
  field_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&field_spec));
  return record_base != nullptr && field_type != nullptr;
}

}  // namespace cucore::bindings
