// SPDX-License-Identifier: Apache-2.0
// type_table.hpp: a lock-free lookup table of values per Python type, keyed by address.
#pragma once
#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "python/at_exit.hpp"

namespace cucore::python {

/// Returns whether a type lives until the process exits: it is a static type, a class of cuda.*, or
/// the class that its module has under its name. A class created in a function is destroyed, with
/// the variables that its methods capture.
inline bool lives_on(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return true;
  PyObject* const object = reinterpret_cast<PyObject*>(type);
  PyObject* const module = PyObject_GetAttrString(object, "__module__");
  PyObject* const name = PyObject_GetAttrString(object, "__qualname__");
  bool found = false;
  if (module != nullptr && name != nullptr && PyUnicode_Check(module) && PyUnicode_Check(name)) {
    const char* const text = PyUnicode_AsUTF8(module);
    found = text != nullptr && std::strncmp(text, "cuda.", 5) == 0;
    if (PyObject* const imported = found ? nullptr : PyImport_GetModule(module)) {
      if (PyModule_Check(imported))
        found = PyDict_GetItemWithError(PyModule_GetDict(imported), name) == object;
      Py_DECREF(imported);
    }
  }
  Py_XDECREF(module);
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}

/// The list of an extension module's nonempty tables. An exit function clears them: a cached class
/// of the main program would keep that program's variables alive forever.
class TypeTables {
 protected:
  constexpr explicit TypeTables(void (*forget)(TypeTables&)) noexcept : forget_{forget} {}
  void list() noexcept {
    if (listed_.exchange(true)) return;
    next_ = first_.load();
    while (!first_.compare_exchange_weak(next_, this)) {
    }
    if (next_ == nullptr) at_exit(&clear_all);
  }
  static bool are_closed() noexcept { return closed_; }

 private:
  static void clear_all() {
    closed_ = true;
    for (TypeTables* table = first_.exchange(nullptr); table != nullptr; table = table->next_)
      table->forget_(*table);
  }
  static inline std::atomic<TypeTables*> first_{nullptr};
  static inline std::atomic<bool> closed_{false};
  void (*forget_)(TypeTables&);
  TypeTables* next_ = nullptr;
  std::atomic<bool> listed_{false};
};

/// Caches a small value per type until the interpreter exits. Entries are immutable and own a
/// reference to their type, so that an address always identifies the same type. Types that do not
/// live until exit (lives_on) are not cached. A full table accepts no more entries: the caller
/// computes the value again. Key and value are adjacent, for one cache miss instead of two.
template <class Value>
class TypeTable : private TypeTables {
 public:
  constexpr TypeTable() noexcept
      : TypeTables{[](TypeTables& self) { static_cast<TypeTable&>(self).clear(); }} {}

  /// Returns the value of this type, or null.
  const Value* find(PyTypeObject* type) const noexcept {
    for (std::size_t probe = 0, at = slot(type); probe < kProbes; ++probe, ++at) {
      const Entry& entry = entries_[at % kSlots];
      const PyTypeObject* const there = entry.type.load(std::memory_order_acquire);
      if (there == type) return &entry.value;
      if (there == nullptr) return nullptr;
    }
    return nullptr;
  }

  void add(PyTypeObject* type, const Value& value) {
    if (!are_closed() && lives_on(type) && insert(type, value)) list();
  }

 private:
  bool insert(PyTypeObject* type, const Value& value) {
    const std::unique_lock lock{adding_, std::try_to_lock};
    if (!lock) return false;  // another thread adds, or added when this process was forked
    for (std::size_t probe = 0, at = slot(type); probe < kProbes; ++probe, ++at) {
      Entry& entry = entries_[at % kSlots];
      const PyTypeObject* const there = entry.type.load(std::memory_order_relaxed);
      if (there == type) return false;  // another thread was faster
      if (there != nullptr) continue;
      entry.value = value;
      Py_INCREF(reinterpret_cast<PyObject*>(type));
      entry.type.store(type, std::memory_order_release);
      return true;
    }
    return false;
  }
  void clear() noexcept {
    for (Entry& entry : entries_)
      Py_XDECREF(reinterpret_cast<PyObject*>(entry.type.exchange(nullptr)));
  }
  struct Entry {
    std::atomic<PyTypeObject*> type{nullptr};
    Value value{};
  };
  static constexpr std::size_t kSlots = 512;
  static constexpr std::size_t kProbes = 8;
  static std::size_t slot(PyTypeObject* type) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(type);
    return (address >> 4) ^ (address >> 13);
  }
  Entry entries_[kSlots];
  std::mutex adding_;  // held only while an entry is written
};

/// Converts a Python int to int64_t; false if it does not fit. `value` must be an int or an
/// instance of a subclass.
inline bool as_int64(PyObject* value, std::int64_t* out) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  const auto* number = reinterpret_cast<const PyLongObject*>(value);
  if (PyUnstable_Long_IsCompact(number)) {
    *out = PyUnstable_Long_CompactValue(number);
    return true;
  }
#else
  const Py_ssize_t size = Py_SIZE(value);  // number of digits, with the sign of the value
  if (size >= -1 && size <= 1) {
    *out = size == 0 ? 0
                     : size * static_cast<std::int64_t>(
                                  reinterpret_cast<const PyLongObject*>(value)->ob_digit[0]);
    return true;
  }
#endif
  int overflow = 0;
  *out = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

}  // namespace cucore::python
