// fields.cpp: the fields of structs and unions: descriptors over the rendered rows that read and
// write a record's memory.
#include "../type_table.hpp"
#include "engine.hpp"

namespace cucore::bindings {
namespace {

PyTypeObject* field_type = nullptr;

struct FieldObject {
  PyObject_HEAD const FieldRow* row;
  TypeId record;  // the struct the row belongs to
  std::uint16_t index;
};

RecordObject* self_of(PyObject* o) { return reinterpret_cast<RecordObject*>(o); }
void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

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
    Ref items{PySequence_Tuple(value)};
    if (!items) {
      PyErr_Format(PyExc_TypeError, "%s%s%s must be a list or tuple, not %s", where.owner,
                   where.joint, where.name, Py_TYPE(value)->tp_name);
      return -1;
    }
    n = PySequence_Fast_GET_SIZE(items.get());
    // Bytes that nobody else ever sees: one block, where a bytearray would be two.
    Ref memory{PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size) * n)};
    if (!memory) return -1;
    char* base = PyBytes_AS_STRING(memory.get());
    std::memset(base, 0, size * n);
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
      if (!store(item, kind, field.row->type, where, base + i * size, record)) return -1;
    }
    Ref both{PyTuple_Pack(2, memory.get(), items.get())};
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
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    const auto narrow = static_cast<float>(number);
    if (row.kind == Kind::f64) return std::memcpy(place, &number, 8), true;
    return row.kind == Kind::f32 && (std::memcpy(place, &narrow, 4), true);
  }
  if (row.kind == Kind::enumeration ? !PyLong_Check(value) : !PyLong_CheckExact(value))
    return false;
  if (!python::as_int64(value, &slot.i)) return false;
  switch (row.kind) {
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
  std::memcpy(place, &slot, 4);  // the low bytes come first
  return true;
}

/// The same for an array in the record: a tuple or list of as many such values.
bool store_plain_items(PyObject* value, const FieldRow& row, char* place) {
  PyObject** items = nullptr;
  if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == row.length)
    items = &PyTuple_GET_ITEM(value, 0);
#ifndef Py_GIL_DISABLED  // no other thread runs until all are read
  else if (PyList_CheckExact(value) && PyList_GET_SIZE(value) == row.length)
    items = &PyList_GET_ITEM(value, 0);
#endif
  if (items == nullptr) return false;
  const std::size_t size = size_of(row.kind, row.type);
  for (int i = 0; i < row.length; ++i, place += size) {
    if (!store_plain(items[i], row, place)) return false;  // all are stored again
  }
  return true;
}

int field_set(PyObject* self, PyObject* object, PyObject* value) {
  const auto& field = *reinterpret_cast<FieldObject*>(self);
  const FieldRow& row = *field.row;
  RecordObject* record = self_of(object);
  if (value != nullptr && row.flags == 0) [[likely]] {
    char* const place = static_cast<char*>(record->place) + row.offset;
    if (row.length == 0 ? store_plain(value, row, place) : store_plain_items(value, row, place))
      return 0;
  }
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
      if (text == nullptr) {  // None: there is no null in an array
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
  Ref items{PySequence_Tuple(value)};
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

PyGetSetDef field_getset[] = {
    {"__name__", field_name, nullptr, nullptr, nullptr},
    {},
};

}  // namespace

bool add_fields(PyObject* type, TypeId id) {
  const Api& api = api_of(id);
  const TypeRow& row = row_of(id);
  for (int i = 0; i < row.count; ++i) {
    auto* field = PyObject_New(FieldObject, field_type);
    if (field == nullptr) return false;
    Ref owner{reinterpret_cast<PyObject*>(field)};
    field->row = &api.fields[row.first + i];
    field->record = id;
    field->index = static_cast<std::uint16_t>(i);
    // Straight into the new class: setting attributes one by one would empty caches each time.
    if (PyDict_SetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict,
                             api.text + field->row->name, owner.get()) < 0)
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
