// SPDX-License-Identifier: Apache-2.0
// attributes.cpp: values whose type depends on an attribute or an option key.
#include "call.hpp"

namespace cucore::bindings {

const AttributeRow* Call::attribute(int i) const {
  const ParamRow& p = params_[i];
  return attribute_row(*f_.api, p.extra,
                       static_cast<std::int64_t>(static_cast<std::int32_t>(slots_[p.link].u)));
}

bool Call::preset_size(int i) {
  const AttributeRow* row = attribute(i);
  const std::uint64_t size = row == nullptr     ? 8
                             : row->length != 0 ? row->length
                                                : size_of(row->kind, row->type);
  for (int k = 0; k < row_.parameters; ++k) {
    if (params_[k].role == Role::size_of && params_[k].link == i)
      std::memcpy(slots_[k].p, &size, sizeof size);
  }
  return true;
}

void* Call::attribute_room(int i, std::uint64_t bytes) {
  if (bytes > (1u << 20)) {
    PyErr_Format(PyExc_ValueError, "%s(): %s is too large: %llu", f_.name,
                 f_.api->text + params_[i + 1].name, static_cast<unsigned long long>(bytes));
    return nullptr;
  }
  return frame_.take(bytes > 256 ? bytes : 256);
}

PyObject* Call::attribute_value(const AttributeRow* row, const void* place, std::uint64_t bytes) {
  if (row == nullptr) return load(Kind::u64, kNoType, place, nullptr);
  if (row->length != kAsManyAsFit) return load(row->kind, row->type, place, nullptr, row->length);
  const std::size_t each = size_of(row->kind, row->type);
  Ref list{PyList_New(static_cast<Py_ssize_t>(bytes / each))};
  for (std::uint64_t k = 0; list && k < bytes / each; ++k) {
    PyObject* item =
        load(row->kind, row->type, static_cast<const char*>(place) + k * each, nullptr);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), item);
  }
  return list.release();
}

bool Call::attribute_in(int i, PyObject* value) {
  const AttributeRow* row = attribute(i);
  Slot& slot = slots_[i];
  if (row == nullptr) return to_address(value, where(i), frame_, 0, false, &slot);
  if (row->kind == Kind::chars) {
    const char* text = nullptr;
    if (!to_text(value, where(i), frame_, &text)) return false;
    slot.p = const_cast<char*>(text);
    const std::uint64_t size = text != nullptr ? std::strlen(text) + 1 : 0;
    for (int k = 0; k < row_.parameters; ++k) {
      if (params_[k].role == Role::size_of && params_[k].link == i)
        std::memcpy(slots_[k].p, &size, sizeof size);
    }
    return true;
  }
  return fetch_void(slot, frame_.take(64)) && preset_size(i) &&
         store(value, row->kind, row->type, where(i), slot.p, nullptr);
}

bool Call::attributes_out(int i) {
  const ParamRow& p = params_[i];
  const ParamRow& keys = params_[p.link];
  const std::uint64_t n = keys.link >= 0 ? linked_number(keys) : 0;
  if (n > 4096 || (n != 0 && slots_[p.link].p == nullptr)) {
    PyErr_Format(PyExc_ValueError, "%s(): %s is missing or too long: %llu asked for, at most 4096",
                 f_.name, where(p.link).name, static_cast<unsigned long long>(n));
    return false;
  }
  auto** list = static_cast<void**>(frame_.take(sizeof(void*) * (n + 1)));
  if (list == nullptr) return false;
  const auto* sizes =
      static_cast<const std::uint64_t*>(p.kind == Kind::u64 ? slots_[i + 1].p : nullptr);
  for (std::uint64_t k = 0; k < n; ++k) {
    list[k] = attribute_room(i, sizes != nullptr ? sizes[k] : 0);
    if (list[k] == nullptr) return false;
  }
  counts_[i] = static_cast<std::uint32_t>(n);
  slots_[i].p = list;
  return true;
}

PyObject* Call::attribute_list(int i) {
  const ParamRow& p = params_[i];
  Ref list{PyList_New(counts_[i])};
  const auto* sizes =
      static_cast<const std::uint64_t*>(p.kind == Kind::u64 ? slots_[i + 1].p : nullptr);
  for (std::uint32_t k = 0; list && k < counts_[i]; ++k) {
    const auto key = static_cast<const std::int32_t*>(slots_[p.link].p)[k];
    const AttributeRow* row = attribute_row(*f_.api, p.extra, key);
    const void* place = static_cast<void**>(slots_[i].p)[k];
    PyObject* item = attribute_value(row, place, sizes != nullptr ? sizes[k] : 0);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), k, item);
  }
  return list.release();
}

bool Call::options(int i, PyObject* value) {
  const ParamRow& p = params_[i];
  if (value == nullptr || Py_IsNone(value)) {
    slots_[i].p = nullptr;
    return true;
  }
  Ref items = items_of(i, value, PySequence_Check(value) != 0);
  if (!items) return false;
  const auto n = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(items.get()));
  const std::uint64_t count = params_[p.link].link >= 0 ? linked_number(params_[p.link]) : n;
  if (n < count) return short_list(i, n, count);
  auto** list = static_cast<void**>(frame_.take(sizeof(void*) * (n + 1)));
  const auto* keys = static_cast<const std::int32_t*>(slots_[p.link].p);
  if (list == nullptr) return false;
  for (std::uint64_t k = 0; k < n && k < count; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
    const AttributeRow* row = keys != nullptr ? attribute_row(*f_.api, p.extra, keys[k]) : nullptr;
    Slot slot{};
    if (row != nullptr && row->kind == Kind::f32) {
      if (!to_slot(item, Kind::f32, kNoType, where(i), &slot)) return false;
      const auto narrow = static_cast<float>(slot.d);
      std::memcpy(&list[k], &narrow, sizeof narrow);
      continue;
    }
    if (PyList_Check(item) || PyTuple_Check(item)) {  // lists of names or addresses
      if (!nested(item, where(i), &slot)) return false;
    } else if (PyUnicode_Check(item) || PyBytes_Check(item)) {
      const char* text = nullptr;
      if (!to_text(item, where(i), frame_, &text)) return false;
      slot.p = const_cast<char*>(text);
    } else if (PyBool_Check(item)) {
      slot.i = Py_IsTrue(item);
    } else if (!to_address(item, where(i), frame_, 0, false, &slot)) {
      return false;
    }
    list[k] = slot.p;
  }
  slots_[i].p = list;
  return frame_.hold(items.get());
}

bool Call::nested(PyObject* item, const Where& at, Slot* out) {
  const Py_ssize_t n = PySequence_Size(item);
  auto** list = static_cast<void**>(frame_.take(sizeof(void*) * static_cast<std::size_t>(n + 1)));
  if (list == nullptr) return false;
  for (Py_ssize_t k = 0; k < n; ++k) {
    Ref element{PySequence_GetItem(item, k)};
    if (!element || !frame_.hold(element.get())) return false;
    Slot slot{};
    if (PyUnicode_Check(element.get()) || PyBytes_Check(element.get())) {
      const char* text = nullptr;
      if (!to_text(element.get(), at, frame_, &text)) return false;
      slot.p = const_cast<char*>(text);
    } else if (!to_address(element.get(), at, frame_, 0, false, &slot)) {
      return false;
    }
    list[k] = slot.p;
  }
  out->p = list;
  return true;
}

}  // namespace cucore::bindings
