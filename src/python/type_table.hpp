// SPDX-License-Identifier: Apache-2.0
// type_table.hpp: what is known of a Python type, found by its address without a lock.
#pragma once
#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "python/at_exit.hpp"

namespace cucore::python {

/// Whether a type lives as long as the process anyway: it is built in, or the one that its module
/// has under its name. A class made in a function is destroyed, with the variables that its methods
/// capture.
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

/// The tables of one extension module that have an entry. They are emptied when Python ends: a
/// class of the main program that was remembered would keep that program's variables, and all that
/// is in them, for ever.
class TypeTables {
 protected:
  constexpr explicit TypeTables(void (*forget)(TypeTables&)) noexcept : forget_{forget} {}
  void list() noexcept {
    if (listed_.exchange(true)) return;
    next_ = first_.load();
    while (!first_.compare_exchange_weak(next_, this)) {
    }
    if (next_ == nullptr) at_exit(&forget_all);
  }
  static bool are_closed() noexcept { return closed_; }

 private:
  static void forget_all() {
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

/// Remembers a small value per type until the interpreter ends. Entries are never changed or
/// freed before, and keep their type alive, so that an address never comes to mean another type;
/// types that do not live on are not remembered. A full table remembers nothing more: the caller
/// finds out again. Key and value lie together: a call that comes after other work finds neither in
/// the nearest cache.
template <class Value>
class TypeTable : private TypeTables {
 public:
  constexpr TypeTable() noexcept
      : TypeTables{[](TypeTables& self) { static_cast<TypeTable&>(self).forget(); }} {}

  /// The value added for this type, or null.
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
    if (!lock) return false;  // another thread adds, or did when this process was forked
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
  void forget() noexcept {
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
  std::mutex adding_;  // nothing else is done while it is held
};

/// The value of a Python int when it fits in 64 bits, signed. `value` must be an int (or derived).
inline bool as_int64(PyObject* value, std::int64_t* out) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  const auto* number = reinterpret_cast<const PyLongObject*>(value);
  if (PyUnstable_Long_IsCompact(number)) {
    *out = PyUnstable_Long_CompactValue(number);
    return true;
  }
#else
  const Py_ssize_t size = Py_SIZE(value);  // one digit or none, with the sign of the number
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
