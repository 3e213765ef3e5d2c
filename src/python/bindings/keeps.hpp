// SPDX-License-Identifier: Apache-2.0
// keeps.hpp: the objects that pointer fields of a record keep alive, keyed by the field's address.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace cucore::bindings {

/// A vector sorted by address; most records have at most one entry.
class Keeps {
 public:
  struct Entry {
    const void* field;
    PyObject* what;  // owned
  };

  Keeps() = default;
  Keeps(const Keeps&) = delete;
  Keeps& operator=(const Keeps&) = delete;
  ~Keeps() {
    for (std::uint32_t i = 0; i < count_; ++i) Py_DECREF(entries_[i].what);
    if (entries_ != &first_) PyMem_Free(entries_);
  }

  [[nodiscard]] std::uint32_t size() const { return count_; }
  [[nodiscard]] const Entry& operator[](std::uint32_t i) const { return entries_[i]; }

  /// Returns the object of a field, or null. Borrowed.
  [[nodiscard]] PyObject* find(const void* field) const {
    const Entry* const at = place_of(field);
    return at != entries_ + count_ && at->field == field ? at->what : nullptr;
  }

  /// Sets the object of a field and releases the previous one. None removes the entry. Takes a new
  /// reference to `what`. False with MemoryError set.
  bool set(const void* field, PyObject* what) {
    Entry* at = place_of(field);
    PyObject* before = nullptr;
    if (at != entries_ + count_ && at->field == field) {
      before = at->what;
      if (Py_IsNone(what))
        std::move(at + 1, entries_ + count_--, at);
      else
        at->what = Py_NewRef(what);
    } else if (!Py_IsNone(what)) {
      const auto index = static_cast<std::uint32_t>(at - entries_);
      if (!make_room()) return false;
      at = entries_ + index;
      std::move_backward(at, entries_ + count_, entries_ + count_ + 1);
      *at = {field, Py_NewRef(what)};
      ++count_;
    }
    Py_XDECREF(before);  // last, because it may run arbitrary code
    return true;
  }

  /// Releases the objects of the fields in [from, from + size).
  void erase(const void* from, std::size_t size) {
    const char* const end = static_cast<const char*>(from) + size;
    for (Entry* at = place_of(from);
         at != entries_ + count_ && std::less<>{}(at->field, static_cast<const void*>(end));
         at = place_of(from))
      set(at->field, Py_None);
  }

  /// Copies the entries of `other` (which may be *this) for the fields in [from, from + size) to
  /// the corresponding fields at `to`. False with MemoryError set.
  bool copy(const Keeps& other, const void* from, std::size_t size, const void* to) {
    // The copy's entries are all before or all after those of the original, which may move.
    for (std::ptrdiff_t n = 0;; ++n) {
      const Entry* const at = other.place_of(from) + n;
      if (at == other.entries_ + other.count_) break;
      const auto offset = static_cast<const char*>(at->field) - static_cast<const char*>(from);
      if (offset >= static_cast<std::ptrdiff_t>(size)) break;
      if (!set(static_cast<const char*>(to) + offset, at->what)) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] Entry* place_of(const void* field) const {
    if (count_ == 0 || !std::less<>{}(entries_->field, field)) return entries_;
    return std::lower_bound(
        entries_, entries_ + count_, field,
        [](const Entry& entry, const void* wanted) { return std::less<>{}(entry.field, wanted); });
  }
  bool make_room() {
    if (count_ < room_) return true;
    auto* const more = static_cast<Entry*>(PyMem_Malloc(sizeof(Entry) * 2 * room_));
    if (more == nullptr) return PyErr_NoMemory(), false;
    std::copy(entries_, entries_ + count_, more);
    if (entries_ != &first_) PyMem_Free(entries_);
    entries_ = more;
    room_ *= 2;
    return true;
  }

  std::uint32_t count_ = 0, room_ = 1;
  Entry* entries_ = &first_;
  Entry first_{};
};

}  // namespace cucore::bindings
