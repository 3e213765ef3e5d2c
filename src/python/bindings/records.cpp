// SPDX-License-Identifier: Apache-2.0
// records.cpp: structs and unions. A record object refers to memory, and owns the objects that its
// pointer fields keep alive; the fields are in fields.cpp.
#include <new>
#include <string>

#include "bound_address.hpp"
#include "fields.hpp"

namespace cucore::bindings {

PyTypeObject* record_base = nullptr;
std::atomic<bool> any_foreign_keeps{false};

namespace {

RecordObject* self_of(PyObject* o) { return reinterpret_cast<RecordObject*>(o); }

FreeList<RecordObject, record_dealloc> free_list;

/// Objects kept alive by pointer fields that were set through a non-owning view (created with _ptr=
/// or from_ptr()). They must live as long as the memory, not as long as the view. The record that
/// owns the memory takes them over on its next use; for memory that no record owns they stay here
/// until the field is set again.
Keeps& foreign = *new Keeps;

std::size_t bytes_of(const RecordObject* record) {
  return std::size_t{row_of(record->type).size} * record->count;
}

/// Runs `use` with exclusive access to the global table.
template <class Use>
auto with_foreign(Use use) {
  decltype(use()) result{};
#ifdef Py_GIL_DISABLED  // a critical section, because released objects may run any code, including
                        // this
  Py_BEGIN_CRITICAL_SECTION(reinterpret_cast<PyObject*>(record_base));
#endif
  result = use();
  any_foreign_keeps.store(foreign.size() != 0, std::memory_order_relaxed);
#ifdef Py_GIL_DISABLED
  Py_END_CRITICAL_SECTION();
#endif
  return result;
}

/// Removes the entries that views have added for this memory.
[[gnu::noinline]] void erase_foreign(const void* from, std::size_t size) {
  with_foreign([=] { return foreign.erase(from, size), true; });
}

/// Returns the record's table of kept objects, created on first use. Null with MemoryError set.
Keeps* own_keeps(RecordObject* record) {
  if (record->keep == nullptr) record->keep = new (std::nothrow) Keeps;
  if (record->keep == nullptr) PyErr_NoMemory();
  return record->keep;
}

/// Takes over the entries that views have added for the record's own memory.
[[gnu::noinline]] void take_over(RecordObject* record) {
  with_foreign([record] {
    Keeps* const keep = own_keeps(record);
    if (keep == nullptr || !keep->copy(foreign, record->place, bytes_of(record), record->place)) {
      PyErr_Clear();  // they stay in `foreign` until the memory is freed
      return true;
    }
    foreign.erase(record->place, bytes_of(record));
    for (std::uint32_t i = 0; i < keep->size(); ++i)
      record->calls = record->calls || PyCapsule_CheckExact((*keep)[i].what);
    return true;
  });
}

/// Returns the table of kept objects of an outermost record; null if it is empty.
Keeps* keeps_of(RecordObject* record) {
  if (!record->owns) return &foreign;
  if (has_foreign_keeps()) [[unlikely]]
    take_over(record);
  return record->keep;
}

RecordObject* allocate(PyTypeObject* type, TypeId id) {
  auto* record = free_list.take(type);
  if (record == nullptr) return nullptr;
  record->place = nullptr;
  record->owner = nullptr;
  record->keep = nullptr;
  record->type = id;
  record->owns = record->aligned = record->calls = false;
  record->count = 1;
  return record;
}

bool own_memory(RecordObject* record) {
  const TypeRow& row = row_of(record->type);
  const std::size_t size = std::size_t{row.size} * record->count;
  // CUtensorMap requires an alignment of 64 bytes; its size is a multiple of 64. The address of
  // Python's memory block is stored before it.
  const bool aligned = row.size != 0 && row.size % 64 == 0;
  auto* const memory = static_cast<char*>(PyMem_Malloc(aligned ? size + 64 + sizeof(void*) : size));
  if (memory == nullptr) return PyErr_NoMemory(), false;
  record->place = memory;
  if (aligned) {
    const auto from = reinterpret_cast<std::uintptr_t>(memory) + sizeof(void*);
    record->place = reinterpret_cast<void*>((from + 63) / 64 * 64);
    std::memcpy(static_cast<char*>(record->place) - sizeof(void*), &memory, sizeof memory);
  }
  std::memset(record->place, 0, size);
  if (has_foreign_keeps()) [[unlikely]]
    erase_foreign(record->place, size);
  record->aligned = aligned;
  for (std::uint32_t i = 0; row.version != 0 && i < record->count; ++i) {
    const std::uint32_t version = row.size | std::uint32_t{row.version} << 24;
    std::memcpy(static_cast<char*>(record->place) + std::size_t{row.size} * i, &version,
                sizeof version);
  }
  record->owns = true;
  return true;
}

bool is_dim3(TypeId id) {
  const char* const name = name_of(id);
  return name[0] == 'd' && std::strcmp(name, "dim3") == 0;
}

/// `place`: the address to view; in the Pythonic modules, the number of elements.
PyObject* make(PyTypeObject* type, PyObject* place) {
  const TypeId id = type_of(type);
  if (id == kNoType)
    return PyErr_Format(PyExc_TypeError, "%s cannot be made directly", type->tp_name), nullptr;
  const bool pythonic = api_of(id).raises != 0;
  Slot address{}, count{};
  count.u = 1;
  if (pythonic) {
    if (place != nullptr &&
        !to_integer(place, Kind::u32, Where{name_of(id), "(): ", "size"}, &count))
      return nullptr;
    if (count.u > 1 << 20) {
      return PyErr_Format(PyExc_ValueError, "%s(): size must be between 0 and 1048576, not %llu",
                          name_of(id), static_cast<unsigned long long>(count.u)),
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
  if (address.p == nullptr && is_dim3(id)) {  // the default in C++ is (1, 1, 1)
    for (int i = 0; i < 3; ++i) static_cast<unsigned*>(record->place)[i] = 1;
  }
  return reinterpret_cast<PyObject*>(record);
}

PyObject* record_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"_ptr", nullptr};
  static const char* array_keywords[] = {"size", nullptr};
  const TypeId id = type_of(type);
  const bool pythonic = id != kNoType && api_of(id).raises != 0;
  PyObject* place = nullptr;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "|O", const_cast<char**>(pythonic ? array_keywords : keywords), &place))
    return nullptr;
  return make(type, place);
}

/// vectorcall of record classes. Most records are created without arguments: CUDA_MEMCPY3D().
PyObject* record_call(PyObject* type, PyObject* const* args, std::size_t flags, PyObject* names) {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  auto* const cls = reinterpret_cast<PyTypeObject*>(type);
  if (names == nullptr && given <= 1) return make(cls, given == 1 ? args[0] : nullptr);
  Ref tuple, keywords;
  if (!as_tuple_and_dict(args, given, names, &tuple, &keywords)) return nullptr;
  return record_new(cls, tuple.get(), keywords.get());
}

PyObject* get_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(self_of(o)->place); }

int record_buffer(PyObject* o, Py_buffer* view, int flags) {
  return PyBuffer_FillInfo(
      view, o, self_of(o)->place,
      static_cast<Py_ssize_t>(row_of(self_of(o)->type).size) * self_of(o)->count, 0, flags);
}

void* as_slot(auto* function) { return reinterpret_cast<void*>(function); }

// ---- records of the Pythonic modules: arrays, created from memory, compared by content
// -----------------------------------------

Py_ssize_t record_length(PyObject* o) { return self_of(o)->count; }

PyObject* record_item(PyObject* o, Py_ssize_t index) {
  RecordObject* record = self_of(o);
  if (index < 0 || index >= record->count)
    return PyErr_Format(PyExc_IndexError, "index out of range: %zd of %u elements", index,
                        record->count),
           nullptr;
  return element_view(record, static_cast<std::uint32_t>(index));
}

/// array[i] = record: copies the record's bytes.
int record_set_item(PyObject* o, Py_ssize_t index, PyObject* value) {
  RecordObject* record = self_of(o);
  const char* const name = name_of(record->type);
  if (value == nullptr)
    return PyErr_Format(PyExc_TypeError, "elements of %s cannot be deleted", name), -1;
  if (index < 0 || index >= record->count)
    return PyErr_Format(PyExc_IndexError, "index out of range: %zd of %u elements", index,
                        record->count),
           -1;
  RecordObject* const given = expect_record(value, record->type, Where{name, "", "[...]"});
  if (given == nullptr) return -1;
  if (given->count != 1)
    return PyErr_Format(PyExc_ValueError, "%s[%zd] takes one element, got %u", name, index,
                        given->count),
           -1;
  const std::size_t size = row_of(record->type).size;
  std::memmove(static_cast<char*>(record->place) + size * static_cast<std::size_t>(index),
               given->place, size);
  return 0;
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

/// from_ptr(ptr, size=1, readonly=False, owner=None): a view of memory whose validity the caller
/// guarantees. NVIDIA's classes that are not arrays have no `size`: a bool in its position is
/// `readonly`, and the next argument is `owner`.
PyObject* from_ptr(PyObject* cls, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"ptr", "size", "readonly", "owner", nullptr};
  PyObject *pointer = nullptr, *size = nullptr, *readonly = nullptr, *owner = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOO", const_cast<char**>(keywords), &pointer,
                                   &size, &readonly, &owner)) {
    return nullptr;
  }
  if (size != nullptr && PyBool_Check(size) != 0) {
    size = nullptr;
    if (owner == nullptr) owner = readonly;
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
    return PyErr_Format(PyExc_ValueError, "%s.from_ptr(): ptr must not be null (0)", name_of(id)),
           nullptr;
  RecordObject* record =
      view_record(id, address.p, owner != nullptr && !Py_IsNone(owner) ? owner : nullptr);
  if (record != nullptr) record->count = static_cast<std::uint32_t>(count.u);
  return reinterpret_cast<PyObject*>(record);
}

/// Creates a record with a copy of a buffer, whose size must be a multiple of the struct's.
PyObject* copy_of_bytes(PyObject* cls, PyObject* object) {
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

PyObject* from_buffer(PyObject* cls, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"buffer", nullptr};
  PyObject* buffer = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:from_buffer", const_cast<char**>(keywords),
                                   &buffer))
    return nullptr;
  return copy_of_bytes(cls, buffer);
}

PyObject* from_data(PyObject* cls, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"data", nullptr};
  PyObject* data = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:from_data", const_cast<char**>(keywords),
                                   &data))
    return nullptr;
  return copy_of_bytes(cls, data);
}

/// Sets both lists of a batch of copies, which share one count.
PyObject* set_dsts_srcs(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"dsts", "srcs", nullptr};
  PyObject *dsts = nullptr, *srcs = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", const_cast<char**>(keywords), &dsts, &srcs))
    return nullptr;
  const Ref to{PySequence_Tuple(dsts)};
  const Ref from{to ? PySequence_Tuple(srcs) : nullptr};
  if (!from) return nullptr;
  if (PyTuple_GET_SIZE(to.get()) != PyTuple_GET_SIZE(from.get()))
    return PyErr_Format(PyExc_ValueError, "%s: %zd destinations, but %zd sources",
                        name_of(self_of(o)->type), PyTuple_GET_SIZE(to.get()),
                        PyTuple_GET_SIZE(from.get()));
  if (PyObject_SetAttrString(o, "dsts", to.get()) < 0 ||
      PyObject_SetAttrString(o, "srcs", from.get()) < 0)
    return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef batch_methods[] = {
    {"set_dsts_srcs", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_dsts_srcs)),
     METH_VARARGS | METH_KEYWORDS,
     "set_dsts_srcs($self, dsts, srcs)\n--\n\nSets where the copies go to and come from: as many "
     "destinations as sources."},
    {},
};

PyMethodDef pythonic_methods[] = {
    {"from_ptr", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_ptr)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_ptr($type, ptr, size=1, readonly=False, owner=None)\n--\n\nA view of the memory at "
     "ptr."},
    {"from_buffer", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_buffer)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_buffer($type, buffer)\n--\n\nA copy of a buffer's bytes."},
    {"from_data", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_data)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "from_data($type, data)\n--\n\nA copy of a NumPy array of this struct's dtype."},
    {},
};

PyGetSetDef pythonic_getset[] = {
    {"ptr", record_ptr, nullptr, "address of the first element", nullptr},
    {},
};

PyMethodDef methods[] = {
    {"getPtr", get_ptr, METH_NOARGS, "getPtr($self, /)\n--\n\nAddress of the C struct."},
    {},
};

}  // namespace

void record_dealloc(PyObject* o) {
  RecordObject* const record = self_of(o);
  if (record->owns) {
    if (has_foreign_keeps()) [[unlikely]]
      erase_foreign(record->place, bytes_of(record));
    void* memory = record->place;
    if (record->aligned)
      std::memcpy(&memory, static_cast<char*>(record->place) - sizeof(void*), sizeof memory);
    PyMem_Free(memory);
  }
  if (record->keep != nullptr) [[unlikely]]
    delete record->keep;
  Py_XDECREF(record->owner);
  free_list.give(o);
}

bool points_to_kept(PyObject* value) {
  const RecordObject* record = outermost(self_of(value));
  return record->owner != nullptr || (record->keep != nullptr && record->keep->size() != 0) ||
         has_foreign_keeps();
}

namespace {

/// Runs `use` with the table of kept objects of an outermost record, created if necessary. False
/// with MemoryError set.
template <class Use>
bool change_keeps(RecordObject* record, Use use) {
  if (!record->owns) [[unlikely]]
    return with_foreign([&] { return use(foreign); });
  Keeps* keep = keeps_of(record);
  if (keep == nullptr) keep = own_keeps(record);
  return keep != nullptr && use(*keep);
}

}  // namespace

bool keep_alive(RecordObject* record, const void* field, PyObject* what) {
  record = outermost(record);
  if (record->owns && keeps_of(record) == nullptr && Py_IsNone(what)) return true;
  if (PyCapsule_CheckExact(what)) record->calls = true;
  return change_keeps(record, [&](Keeps& keep) { return keep.set(field, what); });
}

bool keep_itself(RecordObject* element, PyObject* memory) {
  Keeps* const keep = own_keeps(element);
  return keep != nullptr && keep->set(element->place, memory);
}

bool keep_copied(RecordObject* into, const void* place, RecordObject* value) {
  into = outermost(into);
  RecordObject* const from = outermost(value);
  const std::size_t size = row_of(value->type).size;
  const Keeps* const has = keeps_of(from);
  if (from == into && has == nullptr) return true;
  // Memory with another owner, which keeps the targets of its pointers alive. A pointer field is
  // never at an odd address, so this key is distinct from those of fields.
  const void* const whole = static_cast<const char*>(place) + 1;
  const bool is_foreign = from->owner != nullptr;
  erase_kept(into, place, size);
  if (!is_foreign && (has == nullptr || has->size() == 0)) return true;
  into->calls = into->calls || from->calls;
  return change_keeps(into, [&](Keeps& keep) {
    return (has == nullptr || keep.copy(*has, value->place, size, place)) &&
           (!is_foreign || keep.set(whole, from->owner));
  });
}

void erase_kept(RecordObject* record, const void* from, std::size_t size) {
  record = outermost(record);
  if (!record->owns)
    erase_foreign(from, size);
  else if (Keeps* const keep = keeps_of(record))
    keep->erase(from, size);
}

void keep_calls_in_graph(RecordObject* record, CUgraph_st* graph, void* executable) {
  record = outermost(record);
  const auto keep = [=](HostCall* call) {
    if (executable == nullptr) return graph != nullptr && keep_in_graph(call, graph);
    hold(call);
    keep_for(call, executable);
    return true;
  };
  if (!record->owns) {  // the owner of the memory has the calls; their user pointers identify them
    for (std::size_t at = 0; at + sizeof(void*) <= bytes_of(record); at += sizeof(void*)) {
      void* pointer = nullptr;
      std::memcpy(&pointer, static_cast<const char*>(record->place) + at, sizeof pointer);
      HostCall* const call = live_call(pointer);
      if (call != nullptr && !keep(call)) hold(call);
    }
    return;
  }
  const Keeps* const keeps = keeps_of(record);
  if (!record->calls || keeps == nullptr) return;
  for (std::uint32_t i = 0; i < keeps->size(); ++i) {
    PyObject* const held = (*keeps)[i].what;
    HostCall* const call = call_in(held);
    // Leaked if the graph cannot be determined (an older driver).
    if (call != nullptr && !keep(call)) Py_INCREF(held);
  }
}

PyObject* kept(RecordObject* record, const void* field) {
  const Keeps* const keep = keeps_of(outermost(record));
  return keep != nullptr ? keep->find(field) : nullptr;
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

PyObject* element_view(RecordObject* record, std::uint32_t index) {
  char* place = static_cast<char*>(record->place) + std::size_t{row_of(record->type).size} * index;
  return reinterpret_cast<PyObject*>(
      view_record(record->type, place, reinterpret_cast<PyObject*>(record)));
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
  const std::string short_name = api.text + row.name;
  const bool is_pythonic = api.raises != 0;
  std::string doc =
      short_name + (is_pythonic ? "(size=1)" : "(_ptr=0)") + "\n--\n\nThe C struct " + short_name;
  doc += is_pythonic ? ", or an array of them." : ": a new one, or the one at the address _ptr.";
  const PyType_Slot doc_slot{Py_tp_doc, doc.data()};
  PyType_Slot plain_slots[] = {{Py_tp_dealloc, as_slot(record_dealloc)}, doc_slot, {0, nullptr}};
  PyType_Slot pythonic_slots[] = {
      {Py_tp_dealloc, as_slot(record_dealloc)},
      {Py_sq_length, as_slot(record_length)},
      {Py_sq_item, as_slot(record_item)},
      {Py_sq_ass_item, as_slot(record_set_item)},
      {Py_nb_int, as_slot(record_int)},
      {Py_tp_richcompare, as_slot(record_compare)},
      {Py_tp_hash, as_slot(PyObject_HashNotImplemented)},
      {Py_tp_methods, pythonic_methods},
      {Py_tp_getset, pythonic_getset},
      doc_slot,
      {0, nullptr},
  };
  PyType_Slot batch_slots[] = {{Py_tp_dealloc, as_slot(record_dealloc)},
                               {Py_tp_methods, batch_methods},
                               doc_slot,
                               {0, nullptr}};
  const bool is_batch = short_name.starts_with("CUDA_MEMCPY_BATCH_NODE_PARAMS");
  PyType_Slot* slots = is_pythonic ? pythonic_slots : is_batch ? batch_slots : plain_slots;
  // Must outlive the type.
  auto* name = new std::string{std::string{api.module} + "." + short_name};
  PyType_Spec spec{name->c_str(), sizeof(RecordObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                   slots};
  Ref type{PyType_FromSpecWithBases(&spec, base)};
  if (type) reinterpret_cast<PyTypeObject*>(type.get())->tp_vectorcall = record_call;
  if (!type || row.base != kNoType) return type.release();  // an alias inherits its fields
  if (!add_fields(type.get(), id)) return nullptr;
  return type.release();
}

bool init_records() {
  PyType_Slot slots[] = {
      {Py_tp_new, as_slot(record_new)},
      {Py_tp_dealloc, as_slot(record_dealloc)},
      {Py_tp_repr, as_slot(record_repr)},
      {Py_tp_methods, methods},
      {Py_bf_getbuffer, as_slot(record_buffer)},
#ifndef Py_GIL_DISABLED
      {Py_tp_getattro, as_slot(get_attribute)},
      {Py_tp_setattro, as_slot(set_attribute)},
#endif
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.Record", sizeof(RecordObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  record_base = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (record_base == nullptr || !init_fields() || !init_bound_address()) return false;
#ifndef Py_GIL_DISABLED
  set_address_method(PyDict_GetItemString(record_base->tp_dict, "getPtr"));
#endif
  return true;
}

}  // namespace cucore::bindings
