// SPDX-License-Identifier: Apache-2.0
// enums.cpp: fast lookup of enum members by value. The enum classes are implemented in Python
// (cuda/bindings/_fast_enum.py).
#include <atomic>
#include <unordered_map>

#include "../type_table.hpp"
#include "engine.hpp"

namespace cucore::bindings {
namespace {

struct Members {
  std::unordered_map<std::int64_t, PyObject*> by_value;
  PyObject* zero = nullptr;
};

std::atomic<Members*> tables[0x10000];  // indexed by TypeId; never freed

PyObject* fast_enum(const char* name) {
  static std::atomic<PyObject*> known{nullptr};  // all threads store the same module
  PyObject* module = known.load(std::memory_order_acquire);
  if (module == nullptr) {
    module = PyImport_ImportModule("cuda.bindings._fast_enum");
    known.store(module, std::memory_order_release);
  }
  return module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
}

Members* load_members(TypeId id) {
  Ref type = Ref::borrow(class_of(id));
  if (!type) return nullptr;
  Ref values{PyObject_GetAttrString(type.get(), "_by_value")};
  if (!values) return nullptr;
  auto* members = new Members;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(values.get(), &position, &key, &value)) {
    members->by_value.emplace(PyLong_AsLongLong(key), Py_NewRef(value));
  }
  if (const auto zero = members->by_value.find(0); zero != members->by_value.end())
    members->zero = zero->second;
  return members;
}

/// Returns the members by value, read from the class once. Null with an exception set.
Members* members_of(TypeId id) {
  Members* members = tables[id].load(std::memory_order_acquire);
  if (members == nullptr) [[unlikely]] {
    members = load_members(id);
    Members* first = nullptr;
    if (members != nullptr && !tables[id].compare_exchange_strong(first, members))
      members = first;  // another thread was faster
  }
  return members;
}

/// Returns the member with this value, or null. Borrowed.
PyObject* find(const Members& members, std::int64_t value) {
  if (value == 0 && members.zero != nullptr) return members.zero;
  const auto found = members.by_value.find(value);
  return found != members.by_value.end() ? found->second : nullptr;
}

/// vectorcall of enum classes: CUresult(700) with a plain int that is a value of the enum. All
/// other calls are passed to the metaclass, which is implemented in Python.
PyObject* enum_call(PyObject* type, PyObject* const* args, std::size_t flags, PyObject* names) {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
  std::int64_t value = 0;
  if (given == 1 && names == nullptr && PyLong_CheckExact(args[0]) &&
      python::as_int64(args[0], &value)) [[likely]] {
    const TypeId id = type_of(reinterpret_cast<PyTypeObject*>(type));
    const Members* const members = id != kNoType ? members_of(id) : nullptr;
    if (PyObject* const found = members != nullptr ? find(*members, value) : nullptr)
      return Py_NewRef(found);
    if (PyErr_Occurred()) return nullptr;
  }
  Ref tuple, keywords;
  if (!as_tuple_and_dict(args, given, names, &tuple, &keywords)) return nullptr;
  return Py_TYPE(type)->tp_call(type, tuple.get(), keywords.get());
}

}  // namespace

PyObject* make_enum(TypeId id) {
  const Api& api = api_of(id);
  const TypeRow& row = row_of(id);
  Ref make{fast_enum("make_enum")};
  if (!make) return nullptr;
  Ref members{PyDict_New()};
  if (!members) return nullptr;
  for (int i = 0; i < row.count; ++i) {
    const MemberRow& member = api.members[row.first + i];
    Ref value{PyLong_FromLongLong(member.value)};
    if (!value || PyDict_SetItemString(members.get(), api.text + member.name, value.get()) < 0)
      return nullptr;
  }
  PyObject* const made =
      PyObject_CallFunction(make.get(), "ssO", api.text + row.name, api.module, members.get());
  if (made != nullptr && PyType_Check(made)) {
    // The metaclass has a __call__, for which CPython clears the vectorcall flag.
    Py_TYPE(made)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    reinterpret_cast<PyTypeObject*>(made)->tp_vectorcall = enum_call;
  }
  return made;
}

PyObject* enum_member(TypeId id, std::int64_t value) {
  const TypeRow& row = row_of(id);
  if (row.base != kNoType) return enum_member(row.base, value);
  const Members* const members = members_of(id);
  if (members == nullptr) return nullptr;
  if (PyObject* const found = find(*members, value)) return Py_NewRef(found);
  Ref make{fast_enum("unknown_member")};  // a newer library may have more values than the facts
  if (!make) return nullptr;
  return PyObject_CallFunction(make.get(), "OL", class_of(id), static_cast<long long>(value));
}

}  // namespace cucore::bindings
