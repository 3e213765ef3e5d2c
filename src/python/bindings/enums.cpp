// enums.cpp: enum classes and their members. The class itself is written in Python
// (cuda/bindings/_fast_enum.py); here is the quick way from a value to its member.
#include <atomic>
#include <unordered_map>

#include "engine.hpp"

namespace cucore::bindings {
namespace {

struct Members {
  std::unordered_map<std::int64_t, PyObject*> by_value;
  PyObject* zero = nullptr;
};

std::atomic<Members*> tables[0x10000];  // by TypeId; never freed

PyObject* fast_enum(const char* name) {
  static std::atomic<PyObject*> known{nullptr};  // a second thread finds the same module
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
  return PyObject_CallFunction(make.get(), "ssO", api.text + row.name, api.module, members.get());
}

PyObject* enum_member(TypeId id, std::int64_t value) {
  const TypeRow& row = row_of(id);
  if (row.base != kNoType) return enum_member(row.base, value);
  Members* members = tables[id].load(std::memory_order_acquire);
  if (members == nullptr) [[unlikely]] {
    members = load_members(id);
    if (members == nullptr) return nullptr;
    Members* first = nullptr;
    if (!tables[id].compare_exchange_strong(first, members))
      members = first;  // another thread was faster
  }
  if (value == 0 && members->zero != nullptr) return Py_NewRef(members->zero);
  if (const auto found = members->by_value.find(value); found != members->by_value.end())
    return Py_NewRef(found->second);
  Ref make{fast_enum("unknown_member")};  // a newer library may know more values than the facts
  if (!make) return nullptr;
  return PyObject_CallFunction(make.get(), "OL", class_of(id), static_cast<long long>(value));
}

}  // namespace cucore::bindings
