// SPDX-License-Identifier: Apache-2.0
// types.cpp: classes of the rendered types, created on first use, and the lookup of a class's row.
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "engine.hpp"

namespace cucore::bindings {

std::atomic<PyObject*> classes[0x10000];

namespace {

struct Registry {
  std::recursive_mutex mutex;
  std::unordered_map<PyTypeObject*, TypeId> type_ids;
};

/// Hints for the TypeId of a class, indexed by a hash of its address; `classes` confirms a hint.
std::atomic<TypeId> guesses[1024];
std::atomic<TypeId>& guess_of(const PyTypeObject* type) {
  return guesses[reinterpret_cast<std::uintptr_t>(type) / 64 % std::size(guesses)];
}

Registry& registry() {
  static Registry* const instance =
      new Registry;  // never destroyed: classes outlive static destructors
  return *instance;
}

/// A lock that never waits for the mutex while it holds the GIL, because the creation of a class
/// runs Python code.
class Lock {
 public:
  explicit Lock(std::recursive_mutex& mutex) : mutex_{mutex} {
    if (mutex_.try_lock()) return;
    Py_BEGIN_ALLOW_THREADS mutex_.lock();
    Py_END_ALLOW_THREADS
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { mutex_.unlock(); }

 private:
  std::recursive_mutex& mutex_;
};

PyObject* make_class(TypeId id) {
  const TypeRow& row = row_of(id);
  PyObject* base = nullptr;
  if (row.base != kNoType) {
    base = class_of(row.base);
    if (base == nullptr) return nullptr;
  }
  switch (row.kind) {
    case TypeClass::enumeration:
      return make_enum(id);
    case TypeClass::record:
      return make_record_class(id,
                               base != nullptr ? base : reinterpret_cast<PyObject*>(record_base));
    default:
      return make_handle_class(id,
                               base != nullptr ? base : reinterpret_cast<PyObject*>(handle_base));
  }
}

}  // namespace

PyObject* make_class_of(TypeId id) {
  Registry& r = registry();
  const Lock lock{r.mutex};
  if (PyObject* known = classes[id].load(std::memory_order_acquire)) return known;
  const TypeRow& row = row_of(id);
  if (row.kind == TypeClass::enumeration && row.base != kNoType) {  // an alias of an enum
    PyObject* same = class_of(row.base);
    if (same != nullptr) classes[id].store(Py_NewRef(same), std::memory_order_release);
    return same;
  }
  PyObject* made = make_class(id);
  if (made == nullptr) return nullptr;
  r.type_ids.emplace(reinterpret_cast<PyTypeObject*>(made), id);
  classes[id].store(made, std::memory_order_release);
  return made;
}

TypeId type_of(PyTypeObject* type) {
  std::atomic<TypeId>& guess = guess_of(type);
  const TypeId guessed = guess.load(std::memory_order_relaxed);
  if (classes[guessed].load(std::memory_order_acquire) == reinterpret_cast<PyObject*>(type))
    return guessed;
  Registry& r = registry();
  const Lock lock{r.mutex};
  for (; type != nullptr; type = type->tp_base) {
    if (const auto found = r.type_ids.find(type); found != r.type_ids.end()) {
      guess.store(found->second, std::memory_order_relaxed);
      return found->second;
    }
  }
  return kNoType;
}

bool as_tuple_and_dict(PyObject* const* args, std::size_t given, PyObject* names, Ref* tuple,
                       Ref* keywords) {
  *tuple = Ref{PyTuple_New(static_cast<Py_ssize_t>(given))};
  *keywords = Ref{names != nullptr ? PyDict_New() : nullptr};
  if (!*tuple || (names != nullptr && !*keywords)) return false;
  for (std::size_t i = 0; i < given; ++i)
    PyTuple_SET_ITEM(tuple->get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(keywords->get(), PyTuple_GET_ITEM(names, i),
                       args[given + static_cast<std::size_t>(i)]) < 0)
      return false;
  }
  return true;
}

}  // namespace cucore::bindings
