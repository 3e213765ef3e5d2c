// types.cpp: classes of the rendered types, made when first touched, and the way back from a class
// to its row.
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "engine.hpp"

namespace cucore::bindings {
namespace {

struct Registry {
  std::recursive_mutex mutex;
  std::unordered_map<PyTypeObject*, TypeId> type_ids;
};

std::atomic<PyObject*> classes[0x10000];  // by TypeId; owned for the life of the process

Registry& registry() {
  static Registry* const instance =
      new Registry;  // never destroyed: classes outlive static destructors
  return *instance;
}

/// Locks without ever waiting for the mutex and holding the GIL at once: making a class runs Python
/// code.
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

PyObject* class_of(TypeId id) {
  if (PyObject* known = classes[id].load(std::memory_order_acquire)) [[likely]]
    return known;
  Registry& r = registry();
  const Lock lock{r.mutex};
  if (PyObject* known = classes[id].load(std::memory_order_acquire)) return known;
  const TypeRow& row = row_of(id);
  if (row.kind == TypeClass::enumeration && row.base != kNoType) {  // a second name of one enum
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
  Registry& r = registry();
  const Lock lock{r.mutex};
  for (; type != nullptr; type = type->tp_base) {
    if (const auto found = r.type_ids.find(type); found != r.type_ids.end()) return found->second;
  }
  return kNoType;
}

}  // namespace cucore::bindings
