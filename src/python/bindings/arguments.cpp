// SPDX-License-Identifier: Apache-2.0
// arguments.cpp: arguments that depend on other arguments: buffers with a size, sequences with a
// count, buffers to fill.
#include <algorithm>

#include "call.hpp"

namespace cucore::bindings {

bool Call::linked(int i, PyObject* const* args) {
  const ParamRow& p = params_[i];
  Slot& slot = slots_[i];
  PyObject* value = p.argument < 0 ? nullptr : args[p.argument];
  const std::uint64_t wanted =
      p.link >= 0 && p.role != Role::user_data ? linked_number(p) : p.extra;
  switch (p.role) {
    case Role::in_void:
      return to_address(value, where(i), frame_, p.link >= 0 ? wanted : rectangle(p.extra), false,
                        &slot);
    case Role::out_void:
      return to_address(value, where(i), frame_, p.link >= 0 ? wanted : 0, true, &slot);
    case Role::image: {
      // A module with a size (NVVM): the library would read from a null pointer.
      if (Py_IsNone(value) && f_.api->raises != 0)
        return PyErr_Format(PyExc_ValueError, "%s(): %s must be bytes or text, not None", f_.name,
                            where(i).name),
               false;
      const Py_ssize_t have =
          PyUnicode_Check(value) || PyLong_Check(value) || !PyObject_CheckBuffer(value)
              ? -1
              : PyObject_Size(value);
      if (PyErr_Occurred()) PyErr_Clear();
      if (have >= 0 &&
          static_cast<std::uint64_t>(have) + 1 < wanted) {  // the size may include the NUL
        PyErr_Format(PyExc_ValueError, "%s(): %s has %zd bytes, but the call uses %llu", f_.name,
                     where(i).name, have, static_cast<unsigned long long>(wanted));
        return false;
      }
      if (PyUnicode_Check(value)) {
        Py_ssize_t length = 0;
        if (PyUnicode_AsUTF8AndSize(value, &length) == nullptr) return false;
        if (static_cast<std::uint64_t>(length) + 1 < wanted) {
          PyErr_Format(PyExc_ValueError, "%s(): %s has %zd bytes, but the call uses %llu", f_.name,
                       where(i).name, length, static_cast<unsigned long long>(wanted));
          return false;
        }
      }
      return to_image(value, where(i), frame_, &slot);
    }
    case Role::in_array:
      return sequence(i, value,
                      p.link < 0 ? UINT64_MAX : wanted - std::min<std::uint64_t>(p.extra, wanted));
    case Role::text_array:
      return texts(i, value, p.link >= 0 ? wanted : UINT64_MAX);
    case Role::user_data:
      if (host_call_ != nullptr) {
        set_user_data(host_call_, value);
        slot.p = user_pointer(host_call_);
        return true;
      }
      return to_address(value, where(i), frame_, 0, false, &slot);
    case Role::out_chars:
    case Role::out_array:
    case Role::out_counted: {
      const std::size_t each = p.role == Role::out_chars ? 1 : size_of(p.kind, p.type);
      if (wanted > (std::uint64_t{1} << 28) / (each == 0 ? 1 : each)) {
        PyErr_Format(PyExc_ValueError, "%s(): %s is too large: %llu", f_.name,
                     f_.api->text + params_[p.link >= 0 ? p.link : i].name,
                     static_cast<unsigned long long>(wanted));
        return false;
      }
      counts_[i] = static_cast<std::uint32_t>(wanted);
      if (wanted == 0 && p.role == Role::out_counted) {
        slot.p = nullptr;
        return true;
      }
      return fetch_void(slot, frame_.take(each * (wanted == 0 ? 1 : wanted) + 1));
    }
    case Role::attribute_in:
      return attribute_in(i, value);
    case Role::attribute_out: {
      const AttributeRow* row = attribute(i);
      const std::uint64_t bytes = p.kind == Kind::u64 ? slots_[i + 1].u
                                  : row != nullptr    ? row->length
                                                      : 0;
      return fetch_void(slot, attribute_room(i, bytes)) && preset_size(i);
    }
    case Role::fill:
      return fill(i, value);
    case Role::out_asked: {
      std::uint64_t count = 0;
      if (!ask(f_.api->functions[p.extra], 0, &count)) return false;
      counts_[i] = static_cast<std::uint32_t>(count);
      return fetch_void(slot, frame_.take(size_of(p.kind, p.type) * (count + 1)));
    }
    case Role::attributes_out:
      return attributes_out(i);
    case Role::options:
      return options(i, value);
    default:
      PyErr_Format(PyExc_SystemError, "%s(): %s has no conversion", f_.name, where(i).name);
      return false;
  }
}

std::uint64_t Call::linked_number(const ParamRow& p) const {
  const ParamRow& other = params_[p.link];
  switch (other.role) {
    case Role::in:
      return slots_[p.link].u;
    case Role::in_out:
    case Role::count:
    case Role::in_pointer:
      return slots_[p.link].p != nullptr ? number(p.link) : 0;
    default:
      return 0;
  }
}

std::uint64_t Call::rectangle(unsigned packed) const {
  if ((packed & 1) == 0) return 0;
  const std::uint64_t pitch = slots_[packed >> 1 & 31].u, width = slots_[packed >> 6 & 31].u,
                      height = slots_[packed >> 11 & 31].u;
  if (width == 0 || height == 0) return 0;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(pitch, height - 1, &bytes) ||
      __builtin_add_overflow(bytes, width, &bytes))
    return UINT64_MAX;
  return bytes;
}

bool Call::sequence(int i, PyObject* value, std::uint64_t count) {
  const ParamRow& p = params_[i];
  if (value == nullptr || Py_IsNone(value)) {
    if (count != 0 && count != UINT64_MAX && p.extra == 0) {
      // None with a count is allowed if NULL has a meaning in the API (edge data); otherwise it is
      // an error.
      slots_[i].p = nullptr;
      return true;
    }
    slots_[i].p = nullptr;
    return true;
  }
  if (PyLong_Check(value) || is_handle(value) ||
      is_record(value)) {  // a single record is a list of one element
    if (is_record(value) || is_handle(value)) {
      if (count > 1 && count != UINT64_MAX) return short_list(i, 1, count);
      if (!fetch_void(slots_[i], frame_.take(size_of(p.kind, p.type)))) return false;
      return store(value, p.kind, p.type, where(i), slots_[i].p, nullptr);
    }
    const long number = PyLong_AsLong(value);
    PyErr_Clear();
    if (number == 0) {
      slots_[i].p = nullptr;
      return true;
    }
    if (f_.api->raises != 0) return to_integer(value, Kind::u64, where(i), &slots_[i]);  // address
  }
  Ref items = items_of(
      i, value, !PyUnicode_Check(value) && !PyBytes_Check(value) && PySequence_Check(value) != 0);
  if (!items) return false;
  const auto n = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(items.get()));
  if (count != UINT64_MAX && n < count) return short_list(i, n, count);
  const std::size_t each = size_of(p.kind, p.type);
  if (!fetch_void(slots_[i], frame_.take(each * (n == 0 ? 1 : n)))) return false;
  for (std::uint64_t k = 0; k < n; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
    if (!store(item, p.kind, p.type, where(i), static_cast<char*>(slots_[i].p) + k * each, nullptr))
      return false;
  }
  return frame_.hold(items.get());
}

Ref Call::items_of(int i, PyObject* value, bool accepted) {
  Ref items{accepted ? PySequence_Tuple(value) : nullptr};
  if (!items)
    PyErr_Format(PyExc_TypeError, "%s(): %s must be a list or tuple, not %s", f_.name,
                 where(i).name, Py_TYPE(value)->tp_name);
  return items;
}

bool Call::short_list(int i, std::uint64_t have, std::uint64_t count) {
  if (params_[i].role == Role::in_array) count += params_[i].extra;  // as given
  int counter = params_[i].link;
  if (params_[i].role == Role::options) counter = params_[counter].link;  // the count of the keys
  PyErr_Format(PyExc_ValueError, "%s(): %s has %llu elements, but %s is %llu", f_.name,
               where(i).name, static_cast<unsigned long long>(have),
               f_.api->text + params_[counter].name, static_cast<unsigned long long>(count));
  return false;
}

bool Call::texts(int i, PyObject* value, std::uint64_t count) {
  if (value == nullptr || Py_IsNone(value)) {
    if (count != 0 && count != UINT64_MAX) return short_list(i, 0, count);
    slots_[i].p = nullptr;
    return true;
  }
  if (PyUnicode_Check(value) || PyBytes_Check(value) || PyLong_Check(value)) {
    PyErr_Format(PyExc_TypeError, "%s(): %s must be a list or tuple of bytes or str, not %s",
                 f_.name, where(i).name, Py_TYPE(value)->tp_name);
    return false;
  }
  Ref items = items_of(i, value);
  if (!items) return false;
  const auto n = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(items.get()));
  if (count != UINT64_MAX && n < count) return short_list(i, n, count);
  auto** list = static_cast<const char**>(frame_.take(sizeof(char*) * (n + 1)));
  if (list == nullptr) return false;
  for (std::uint64_t k = 0; k < n; ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
    if (Py_IsNone(item)) {
      PyErr_Format(PyExc_TypeError, "%s(): %s[%llu] must be bytes or str, not None", f_.name,
                   where(i).name, static_cast<unsigned long long>(k));
      return false;
    }
    if (!to_text(item, where(i), frame_, &list[k])) return false;
  }
  slots_[i].p = list;
  return true;
}

bool Call::ask(const FunctionRow& sizer, int arguments, std::uint64_t* answer) {
  if (f_.address == nullptr && !resolve(f_)) return false;  // the library is loaded from here on
  void* function = f_.api->resolve(*f_.api, sizer);
  if (function != nullptr)
    if (void* own = in_place_of(c_name(*f_.api, sizer), function)) function = own;
  Slot slots[4] = {};
  for (int k = 0; k < arguments; ++k) slots[k] = slots_[k];
  slots[arguments].p = answer;
  if (function == nullptr || sizer.invoke(function, slots) != 0) *answer = 0;
  return true;
}

/// Returns whether a bytes object is one of CPython's shared ones (empty or a single byte). Writing
/// to them would change them for the whole process.
static bool is_shared_bytes(PyObject* value) {
  return PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) <= 1;
}

bool Call::fill(int i, PyObject* value) {
  Slot ignored{};  // reports an invalid argument before a missing library or function
  if (f_.address == nullptr && !PyLong_Check(value) && !is_shared_bytes(value) &&
      !to_address(value, where(i), frame_, 0, true, &ignored))
    return false;
  std::uint64_t needed = 0;
  if (!ask(f_.api->functions[params_[i].extra], 1, &needed)) return false;
  if (is_shared_bytes(value)) {
    if (needed <= static_cast<std::uint64_t>(PyBytes_GET_SIZE(value)))
      return fetch_void(slots_[i], frame_.take(1));  // only the terminator: no text
    PyErr_Format(PyExc_ValueError, "%s(): %s has %zd bytes, but the call uses %llu", f_.name,
                 where(i).name, PyBytes_GET_SIZE(value), static_cast<unsigned long long>(needed));
    return false;
  }
  if (!PyLong_Check(value)) return to_address(value, where(i), frame_, needed, true, &slots_[i]);
  Slot size{};
  if (!to_integer(value, Kind::u64, where(i), &size)) return false;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // larger than any program
  if (size.u > kMostBytes) {
    PyErr_Format(PyExc_TypeError,
                 "%s(): %s must be a writable buffer or a size, not the address %llu", f_.name,
                 where(i).name, static_cast<unsigned long long>(size.u));
    return false;
  }
  if (size.u < needed) {
    PyErr_Format(PyExc_ValueError, "%s(): %s is %llu, but %llu bytes are needed", f_.name,
                 where(i).name, static_cast<unsigned long long>(size.u),
                 static_cast<unsigned long long>(needed));
    return false;
  }
  filled_ = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size.u));
  if (filled_ == nullptr) return false;
  fresh_[fresh_count_++] = filled_;
  std::memset(PyBytes_AS_STRING(filled_), 0, size.u);
  slots_[i].p = PyBytes_AS_STRING(filled_);
  return true;
}

bool Call::set_field(int i, PyObject* const* args) {
  const ParamRow& p = params_[i];
  char* place = static_cast<char*>(slots_[p.link].p) + p.extra;
  PyObject* value = args[p.argument];
  if (p.kind == Kind::bytes) {  // `type` is the capacity
    Py_buffer* view = PyObject_CheckBuffer(value) ? frame_.buffer(value, PyBUF_SIMPLE) : nullptr;
    if (view == nullptr) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s(): %s must be bytes, not %s", f_.name, where(i).name,
                     Py_TYPE(value)->tp_name);
      return false;
    }
    if (view->len > p.type) {
      PyErr_Format(PyExc_ValueError, "%s(): %s holds %d bytes, got %zd", f_.name, where(i).name,
                   p.type, view->len);
      return false;
    }
    std::memcpy(place, view->buf, static_cast<std::size_t>(view->len));
    return true;
  }
  if (p.kind != Kind::string) return store(value, p.kind, p.type, where(i), place, nullptr);
  const char* text = nullptr;  // `type` is the capacity
  if (!to_text(value, where(i), frame_, &text)) return false;
  if (text != nullptr && std::strlen(text) >= p.type) {
    PyErr_Format(PyExc_ValueError, "%s(): %s is too long: %zu bytes, there is room for %d", f_.name,
                 where(i).name, std::strlen(text), p.type - 1);
    return false;
  }
  if (text != nullptr) std::strcpy(place, text);
  return true;
}

}  // namespace cucore::bindings
