// call.cpp: one call of a rendered function: Python arguments to C arguments, the call, the result
// tuple.
#include <string>

#include "cucore/driver.hpp"
#include "engine.hpp"
#include "function.hpp"

namespace cucore::bindings {

PyObject* raise_status = nullptr;

namespace {

constexpr int kMost = 32;  // parameters of one function

/// One call in progress.
class Call {
 public:
  explicit Call(FunctionObject& function)
      : f_{function}, row_{*function.row}, params_{function.params} {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (host_call_ != nullptr) drop(host_call_);
    for (int i = 0; i < fresh_count_; ++i) Py_XDECREF(fresh_[i]);
  }

  PyObject* operator()(PyObject* const* args) {
    for (int i = 0; i < row_.parameters; ++i) {
      if (!simple(i, args)) return nullptr;
    }
    for (int i = row_.parameters; i < row_.parameters + row_.extras; ++i) {
      if (params_[i].role == Role::field && !set_field(i, args)) return nullptr;
    }
    if (deferred_) {
      for (int i = 0; i < row_.parameters; ++i) {
        if (((deferred_ >> i) & 1) != 0 && !linked(i, args)) return nullptr;
      }
    }
    if (f_.address == nullptr && !resolve(f_)) [[unlikely]]
      return nullptr;
    if (row_.flags & kNoResult) return plain();
    const int code = (row_.flags & kAskTwice) != 0 ? ask_twice() : status();
    if ((row_.flags & kAskTwice) != 0 && PyErr_Occurred()) return nullptr;
    if (host_call_ != nullptr) settle(code);
    return result(code);
  }

 private:
  Where where(int i) const { return {f_.name, "(): ", f_.api->text + params_[i].name}; }

  static bool fetch_void(Slot& slot, void* memory) {
    slot.p = memory;
    return memory != nullptr;
  }

  /// Parameters that need no other one; the rest is noted for the second round.
  bool simple(int i, PyObject* const* args) {
    const ParamRow& p = params_[i];
    Slot& slot = slots_[i];
    switch (p.role) {
      case Role::in:
        return to_slot(args[p.argument], p.kind, p.type, where(i), &slot);
      case Role::out:
        if (p.kind == Kind::record) {
          RecordObject* record = new_record(p.type);
          if (record == nullptr) return false;
          fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
          index_[i] = static_cast<std::uint8_t>(fresh_count_ - 1);
          slot.p = record->place;
          return true;
        }
        [[fallthrough]];
      case Role::size_of:
      case Role::asked:
        return fetch_void(slot, frame_.take(8));
      case Role::in_pointer: {
        PyObject* value = args[p.argument];
        if (Py_IsNone(value)) {
          slot.p = nullptr;
          return true;
        }
        if (p.kind == Kind::record) {
          RecordObject* record = expect_record(value, p.type, where(i));
          if (record == nullptr) return false;
          slot.p = record->place;
          return true;
        }
        if (p.kind == Kind::handle && is_handle(value)) {
          slot.p = reinterpret_cast<HandleObject*>(value)->place;  // the callee may write to it
          Slot ignored{};
          return to_slot(value, p.kind, p.type, where(i), &ignored);
        }
        if (PySequence_Check(value) && p.kind != Kind::handle)
          return sequence(i, value, UINT64_MAX);
        return fetch_void(slot, frame_.take(8)) &&
               store(value, p.kind, p.type, where(i), slot.p, nullptr);
      }
      case Role::in_out:
      case Role::count: {
        if (!fetch_void(slot, frame_.take(8))) return false;
        PyObject* value = p.argument < 0 ? nullptr : args[p.argument];
        return value == nullptr || store(value, p.kind, p.type, where(i), slot.p, nullptr);
      }
      case Role::image:
        if (p.link >= 0) {
          deferred_ |= 1u << i;
          return true;
        }
        return to_image(args[p.argument], where(i), frame_, &slot);
      case Role::text: {
        const char* text = nullptr;
        if (!to_text(args[p.argument], where(i), frame_, &text)) return false;
        slot.p = const_cast<char*>(text);
        return true;
      }
      case Role::kernel:
        return to_kernel_params(args[p.argument], where(i), frame_, &slot);
      case Role::callback:
        return to_callback(args[p.argument], static_cast<CallbackShape>(p.extra), where(i), &slot,
                           &host_call_);
      case Role::out_owned:
        return fetch_void(slot, frame_.take(8));
      case Role::null:
        slot.u = 0;
        return true;
      case Role::constant:
        slot.u = p.extra;
        return true;
      case Role::elements: {
        PyObject* value = args[params_[p.link].argument];
        slot.u = is_record(value) ? reinterpret_cast<RecordObject*>(value)->count : 1;
        return true;
      }
      case Role::compose: {
        RecordObject* record = new_record(p.type);
        if (record == nullptr) return false;
        fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
        slot.p = record->place;
        return true;
      }
      default:
        deferred_ |= 1u << i;
        return true;
    }
  }

  /// Value of an integer parameter, by value or behind a pointer.
  std::uint64_t number(int i) const {
    const ParamRow& p = params_[i];
    if (p.role == Role::in) return slots_[i].u;
    std::uint64_t wide = 0;
    std::memcpy(&wide, slots_[i].p, size_of(p.kind, p.type));
    return wide;
  }

  bool linked(int i, PyObject* const* args) {
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
        const Py_ssize_t have =
            PyUnicode_Check(value) || PyLong_Check(value) || !PyObject_CheckBuffer(value)
                ? -1
                : PyObject_Size(value);
        if (PyErr_Occurred()) PyErr_Clear();
        if (have >= 0 &&
            static_cast<std::uint64_t>(have) + 1 < wanted) {  // the terminating NUL may be counted
          PyErr_Format(PyExc_ValueError, "%s(): %s has %zd bytes, but the call uses %llu", f_.name,
                       where(i).name, have, static_cast<unsigned long long>(wanted));
          return false;
        }
        if (PyUnicode_Check(value)) {
          Py_ssize_t length = 0;
          if (PyUnicode_AsUTF8AndSize(value, &length) == nullptr) return false;
          if (static_cast<std::uint64_t>(length) + 1 < wanted) {
            PyErr_Format(PyExc_ValueError, "%s(): %s has %zd bytes, but the call uses %llu",
                         f_.name, where(i).name, length, static_cast<unsigned long long>(wanted));
            return false;
          }
        }
        return to_image(value, where(i), frame_, &slot);
      }
      case Role::in_array:
        return sequence(i, value, p.link >= 0 ? wanted : UINT64_MAX);
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
        return fetch_void(slot,
                          frame_.take(row != nullptr && row->length > 256 ? row->length : 256)) &&
               preset_size(i);
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

  std::uint64_t linked_number(const ParamRow& p) const {
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

  /// Bytes of a rectangle of rows; 0 when the parameter is none.
  std::uint64_t rectangle(unsigned packed) const {
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

  bool sequence(int i, PyObject* value, std::uint64_t count) {
    const ParamRow& p = params_[i];
    if (value == nullptr || Py_IsNone(value)) {
      if (count != 0 && count != UINT64_MAX && p.extra == 0) {
        // None with a count: allowed where the API gives NULL a meaning (edge data); otherwise a
        // mistake
        slots_[i].p = nullptr;
        return true;
      }
      slots_[i].p = nullptr;
      return true;
    }
    if (PyLong_Check(value) || is_handle(value) ||
        is_record(value)) {  // one element stands for a list of one
      if (is_record(value) || is_handle(value)) {
        if (count > 1 && count != UINT64_MAX) return short_list(i, 1, count);
        if (!fetch_void(slots_[i], frame_.take(size_of(p.kind, p.type)))) return false;
        return store(value, p.kind, p.type, where(i), slots_[i].p, nullptr);
      }
      if (PyLong_AsLong(value) == 0) {
        PyErr_Clear();
        slots_[i].p = nullptr;
        return true;
      }
      PyErr_Clear();
    }
    if (PyUnicode_Check(value) || PyBytes_Check(value) ||
        !(PyList_Check(value) || PyTuple_Check(value) || PySequence_Check(value))) {
      PyErr_Format(PyExc_TypeError, "%s(): %s must be a list or tuple, not %s", f_.name,
                   where(i).name, Py_TYPE(value)->tp_name);
      return false;
    }
    Ref items{PySequence_Fast(value, "a list or tuple is needed")};
    if (!items) return false;
    const auto n = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(items.get()));
    if (count != UINT64_MAX && n < count) return short_list(i, n, count);
    const std::size_t each = size_of(p.kind, p.type);
    if (!fetch_void(slots_[i], frame_.take(each * (n == 0 ? 1 : n)))) return false;
    for (std::uint64_t k = 0; k < n; ++k) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
      if (!store(item, p.kind, p.type, where(i), static_cast<char*>(slots_[i].p) + k * each,
                 nullptr))
        return false;
    }
    return frame_.hold(items.get());
  }

  bool short_list(int i, std::uint64_t have, std::uint64_t count) {
    PyErr_Format(PyExc_ValueError, "%s(): %s has %llu elements, but %s is %llu", f_.name,
                 where(i).name, static_cast<unsigned long long>(have),
                 f_.api->text + params_[params_[i].link].name,
                 static_cast<unsigned long long>(count));
    return false;
  }

  bool texts(int i, PyObject* value, std::uint64_t count) {
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
    Ref items{PySequence_Fast(value, "a list or tuple is needed")};
    if (!items) {
      PyErr_Format(PyExc_TypeError, "%s(): %s must be a list or tuple, not %s", f_.name,
                   where(i).name, Py_TYPE(value)->tp_name);
      return false;
    }
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

  /// Calls a function that tells a size, with this call's leading arguments; 0 when it fails: the
  /// call itself will say why.
  bool ask(const FunctionRow& sizer, int arguments, std::uint64_t* answer) {
    if (f_.address == nullptr && !resolve(f_)) return false;  // the library is there from here on
    void* function = f_.api->resolve(*f_.api, sizer);
    Slot slots[4] = {};
    for (int k = 0; k < arguments; ++k) slots[k] = slots_[k];
    slots[arguments].p = answer;
    if (function == nullptr || sizer.invoke(function, slots) != 0) *answer = 0;
    return true;
  }

  /// nvrtcGetPTX(prog, buffer) fills the buffer; nvrtcGetPTX(prog, size) makes one and returns it.
  bool fill(int i, PyObject* value) {
    std::uint64_t needed = 0;
    if (!ask(f_.api->functions[params_[i].extra], 1, &needed)) return false;
    if (!PyLong_Check(value)) return to_address(value, where(i), frame_, needed, true, &slots_[i]);
    Slot size{};
    if (!to_integer(value, Kind::u64, where(i), &size)) return false;
    if (size.u > PY_SSIZE_T_MAX / 2) {
      slots_[i].u = size.u;  // an address, as the C API has it: no program text is that long
      return true;
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

  // ---- values whose type depends on an attribute
  // ----------------------------------------------------------------------

  const AttributeRow* attribute(int i) const {
    const ParamRow& p = params_[i];
    return attribute_row(*f_.api, p.extra,
                         static_cast<std::int64_t>(static_cast<std::int32_t>(slots_[p.link].u)));
  }

  bool preset_size(int i) {
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

  bool attribute_in(int i, PyObject* value) {
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

  bool attributes_out(int i) {
    const ParamRow& p = params_[i];
    const ParamRow& keys = params_[p.link];
    const std::uint64_t n = keys.link >= 0 ? linked_number(keys) : 0;
    if (n > 4096 || (n != 0 && slots_[p.link].p == nullptr)) {
      PyErr_Format(PyExc_ValueError, "%s(): %s is missing or too long", f_.name,
                   where(p.link).name);
      return false;
    }
    auto** list = static_cast<void**>(frame_.take(sizeof(void*) * (n + 1)));
    if (list == nullptr) return false;
    for (std::uint64_t k = 0; k < n; ++k) {
      list[k] = frame_.take(256);
      if (list[k] == nullptr) return false;
    }
    counts_[i] = static_cast<std::uint32_t>(n);
    slots_[i].p = list;
    return true;
  }

  PyObject* attribute_list(int i) {
    const ParamRow& p = params_[i];
    Ref list{PyList_New(counts_[i])};
    for (std::uint32_t k = 0; list && k < counts_[i]; ++k) {
      const auto key = static_cast<const std::int32_t*>(slots_[p.link].p)[k];
      const AttributeRow* row = attribute_row(*f_.api, p.extra, key);
      const void* place = static_cast<void**>(slots_[i].p)[k];
      PyObject* item = row != nullptr ? load(row->kind, row->type, place, nullptr, row->length)
                                      : load(Kind::u64, kNoType, place, nullptr);
      if (item == nullptr) return nullptr;
      PyList_SET_ITEM(list.get(), k, item);
    }
    return list.release();
  }

  /// Option values (CUjit_option): numbers are stored in the pointer itself, text and buffers by
  /// address.
  bool options(int i, PyObject* value) {
    const ParamRow& p = params_[i];
    if (value == nullptr || Py_IsNone(value)) {
      slots_[i].p = nullptr;
      return true;
    }
    Ref items{PySequence_Fast(value, "the option values must be a list or tuple")};
    if (!items) return false;
    const auto n = static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(items.get()));
    const std::uint64_t count = params_[p.link].link >= 0 ? linked_number(params_[p.link]) : n;
    if (n < count) return short_list(i, n, count);
    auto** list = static_cast<void**>(frame_.take(sizeof(void*) * (n + 1)));
    const auto* keys = static_cast<const std::int32_t*>(slots_[p.link].p);
    if (list == nullptr) return false;
    for (std::uint64_t k = 0; k < n && k < count; ++k) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
      const AttributeRow* row =
          keys != nullptr ? attribute_row(*f_.api, p.extra, keys[k]) : nullptr;
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

  bool nested(PyObject* item, const Where& at, Slot* out) {
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

  /// An argument that is a field of a composed record.
  bool set_field(int i, PyObject* const* args) {
    const ParamRow& p = params_[i];
    char* place = static_cast<char*>(slots_[p.link].p) + p.extra;
    PyObject* value = args[p.argument];
    if (p.kind != Kind::string) return store(value, p.kind, p.type, where(i), place, nullptr);
    const char* text = nullptr;  // `type` is the room
    if (!to_text(value, where(i), frame_, &text)) return false;
    if (text != nullptr && std::strlen(text) >= p.type) {
      PyErr_Format(PyExc_ValueError, "%s(): %s is too long", f_.name, where(i).name);
      return false;
    }
    if (text != nullptr) std::strcpy(place, text);
    return true;
  }

  // ---- the call and its results
  // -------------------------------------------------------------------------------------------

  std::uint64_t invoke() {
    const bool release =
        (row_.flags & kBlocking) != 0 || pending_host_calls.load(std::memory_order_relaxed) != 0;
    if (!release) return row_.invoke(f_.address, slots_);
    PyThreadState* state = PyEval_SaveThread();
    const std::uint64_t value = row_.invoke(f_.address, slots_);
    PyEval_RestoreThread(state);
    return value;
  }

  int status() {
    if ((row_.flags & kStatusRecord) == 0) return static_cast<int>(invoke());
    int pair[4] = {};  // CUfileError_t: the operation's error, then the driver's
    slots_[row_.parameters].p = pair;
    invoke();
    return pair[0];
  }

  /// Asks for the number of elements first, then for the elements; a list that grew in between is
  /// asked for again.
  int ask_twice() {
    int code = status();
    for (int attempt = 0; attempt < 8 && (code == 0 || code == 7);
         ++attempt) {  // 7: NVML_ERROR_INSUFFICIENT_SIZE
      bool fits = true;
      for (int i = 0; i < row_.parameters; ++i) {
        const ParamRow& p = params_[i];
        if (p.role != Role::out_counted) continue;
        const std::uint64_t wanted = number(p.link);
        if (wanted <= counts_[i]) continue;
        fits = false;
        counts_[i] = static_cast<std::uint32_t>(wanted + 4);
        if (!fetch_void(slots_[i], frame_.take(size_of(p.kind, p.type) * counts_[i]))) return code;
        const std::uint32_t room = counts_[i];
        std::memcpy(slots_[p.link].p, &room, sizeof room);
      }
      if (fits) return code;
      code = status();
    }
    return code;
  }

  /// After the library took (or refused) a Python callback: on a capturing stream it belongs to the
  /// graph from now on.
  void settle(int code) {
    HostCall* call = std::exchange(host_call_, nullptr);
    if (code != 0) return drop(call);
    bool once = false;
    for (int i = 0; i < row_.parameters; ++i) {
      const ParamRow& p = params_[i];
      if (p.role != Role::in || p.kind != Kind::handle ||
          std::strcmp(name_of(row_of(p.type).root), "CUstream") != 0)
        continue;
      CUstreamCaptureStatus status{};
      once = driver().cuStreamIsCapturing(static_cast<CUstream>(slots_[i].p), &status) ==
                 CUDA_SUCCESS &&
             status == CU_STREAM_CAPTURE_STATUS_NONE;
    }
    commit(call, once);
  }

  bool returned(const ParamRow& p) const {
    switch (p.role) {
      case Role::out:
      case Role::out_chars:
      case Role::out_array:
      case Role::out_counted:
      case Role::out_owned:
      case Role::count:
      case Role::in_out:
      case Role::attribute_out:
      case Role::attributes_out:
      case Role::out_asked:
        return true;
      case Role::size_of:
        return p.extra != 0;
      case Role::result_field:
        return true;
      default:
        return false;
    }
  }

  PyObject* value_of(int i) {
    const ParamRow& p = params_[i];
    switch (p.role) {
      case Role::out:
        if (p.kind == Kind::record) return std::exchange(fresh_[index_[i]], nullptr);
        [[fallthrough]];
      case Role::in_out:
      case Role::count:
      case Role::size_of:
        return load(p.kind, p.type, slots_[i].p, nullptr);
      case Role::out_chars: {
        const auto* text = static_cast<const char*>(slots_[i].p);
        if (p.kind == Kind::bytes) return PyBytes_FromStringAndSize(text, counts_[i]);
        if (p.kind == Kind::string) return load(Kind::string, kNoType, text, nullptr, counts_[i]);
        return PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(strnlen(text, counts_[i])));
      }
      case Role::out_asked:
      case Role::out_array:
        return list_of(p, static_cast<const char*>(slots_[i].p), counts_[i]);
      case Role::out_counted: {
        const std::uint64_t have = number(p.link);
        return list_of(p, static_cast<const char*>(slots_[i].p),
                       have < counts_[i] ? have : counts_[i]);
      }
      case Role::out_owned: {
        const char* data = nullptr;
        std::memcpy(&data, slots_[i].p, sizeof data);
        return list_of(p, data, data != nullptr ? number(p.link) : 0);
      }
      case Role::attribute_out: {
        const AttributeRow* row = attribute(i);
        if (row == nullptr) return load(Kind::u64, kNoType, slots_[i].p, nullptr);
        return load(row->kind, row->type, slots_[i].p, nullptr, row->length);
      }
      case Role::attributes_out:
        return attribute_list(i);
      case Role::result_field: {
        const std::size_t room = p.kind == Kind::string ? p.type : 0;
        return load(p.kind, p.type, static_cast<char*>(slots_[p.link].p) + p.extra, nullptr, room);
      }
      default:
        Py_RETURN_NONE;
    }
  }

  PyObject* list_of(const ParamRow& p, const char* data, std::uint64_t n) {
    if (p.kind == Kind::record && f_.api->raises != 0) {  // one object with n elements
      if (n == 0) return PyList_New(0);
      RecordObject* array = new_record(p.type, static_cast<std::uint32_t>(n));
      if (array != nullptr) std::memcpy(array->place, data, n * size_of(p.kind, p.type));
      return reinterpret_cast<PyObject*>(array);
    }
    Ref list{PyList_New(static_cast<Py_ssize_t>(n))};
    for (std::uint64_t k = 0; list && k < n; ++k) {
      PyObject* item = load(p.kind, p.type, data + k * size_of(p.kind, p.type), nullptr);
      if (item == nullptr) return nullptr;
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), item);
    }
    return list.release();
  }

  PyObject* result(int code) {
    if (f_.raising) return bare(code);
    if (filled_ != nullptr) [[unlikely]] {
      Ref member{enum_member(f_.api->result, code)};
      return member ? Py_BuildValue("(OO)", member.get(), code == 0 ? filled_ : Py_None) : nullptr;
    }
    const int outs = f_.outs;
    PyObject* tuple = PyTuple_New(1 + outs);
    if (tuple == nullptr) return nullptr;
    Ref owner{tuple};
    PyObject* member = code == 0 ? Py_NewRef(f_.success) : enum_member(f_.api->result, code);
    if (member == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple, 0, member);
    int k = 1;
    for (int i = 0; k <= outs; ++i) {
      if (!returned(params_[i])) continue;
      PyObject* value = code == 0 ? value_of(i) : Py_NewRef(Py_None);
      if (value == nullptr) return nullptr;
      PyTuple_SET_ITEM(tuple, k++, value);
    }
    return owner.release();
  }

  PyObject* bare(int code) {
    if (code != 0) [[unlikely]] {
      Ref member{enum_member(f_.api->result, code)};
      if (!member) return nullptr;
      return PyObject_CallFunction(raise_status, "sOs", f_.api->module, member.get(), f_.name);
    }
    if (filled_ != nullptr) return Py_NewRef(filled_);
    if (f_.outs == 0) Py_RETURN_NONE;
    Ref tuple{f_.outs > 1 ? PyTuple_New(f_.outs) : nullptr};
    if (f_.outs > 1 && !tuple) return nullptr;
    int k = 0;
    for (int i = 0; i < row_.parameters + row_.extras; ++i) {
      if (!returned(params_[i])) continue;
      PyObject* value = value_of(i);
      if (value == nullptr || f_.outs == 1) return value;
      PyTuple_SET_ITEM(tuple.get(), k++, value);
    }
    return tuple.release();
  }

  /// Functions without a result code: the value itself, with success before it in the tuple style.
  PyObject* plain() {
    RecordObject* record = nullptr;
    if (row_.returns == Kind::record) {
      record = new_record(row_.returns_type);
      if (record == nullptr) return nullptr;
      fresh_[fresh_count_++] = reinterpret_cast<PyObject*>(record);
      slots_[row_.parameters].p = record->place;
    }
    std::uint64_t raw = invoke();
    if (f_.raising && row_.returns == Kind::i64 &&
        static_cast<std::int64_t>(raw) < 0) {  // cuFileRead: minus an error
      Ref member{enum_member(f_.api->result, -static_cast<std::int64_t>(raw))};
      return member
                 ? PyObject_CallFunction(raise_status, "sOs", f_.api->module, member.get(), f_.name)
                 : nullptr;
    }
    PyObject* value = record != nullptr ? std::exchange(fresh_[fresh_count_ - 1], nullptr)
                                        : load(row_.returns, row_.returns_type, &raw, nullptr);
    if (value == nullptr || f_.raising) return value;
    Ref held{value};
    return Py_BuildValue("(OO)", f_.success, value);
  }

  FunctionObject& f_;
  const FunctionRow& row_;
  const ParamRow* params_;
  HostCall* host_call_ = nullptr;
  PyObject* filled_ = nullptr;
  std::uint32_t deferred_ = 0;
  int fresh_count_ = 0;
  Slot slots_[kMost];
  std::uint32_t counts_[kMost];
  std::uint8_t index_[kMost];
  PyObject* fresh_[8];
  Frame frame_;
};

}  // namespace

PyObject* call_function(FunctionObject& function, PyObject* const* args) {
  return Call{function}(args);
}

int count_outputs(const FunctionRow& row, const ParamRow* params) {
  int outs = 0;
  for (int i = 0; i < row.parameters + row.extras; ++i) {
    switch (params[i].role) {
      case Role::out:
      case Role::out_chars:
      case Role::out_array:
      case Role::out_counted:
      case Role::out_owned:
      case Role::count:
      case Role::in_out:
      case Role::attribute_out:
      case Role::attributes_out:
      case Role::out_asked:
        ++outs;
        break;
      case Role::size_of:
        outs += params[i].extra != 0;
        break;
      case Role::result_field:
        ++outs;
        break;
      default:
        break;
    }
  }
  return outs;
}

}  // namespace cucore::bindings
