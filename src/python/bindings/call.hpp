// SPDX-License-Identifier: Apache-2.0
// call.hpp: one call of a rendered function in progress. Its parts: call.cpp (plain arguments, the
// call, the result), arguments.cpp (arguments that depend on others), attributes.cpp (values whose
// type depends on an attribute).
#pragma once
#include "function.hpp"

namespace cucore::bindings {

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

  PyObject* operator()(PyObject* const* args);

 private:
  static constexpr int kMost = 32;  // parameters of one function

  Where where(int i) const { return {f_.name, "(): ", f_.api->text + params_[i].name}; }

  static bool fetch_void(Slot& slot, void* memory) {
    slot.p = memory;
    return memory != nullptr;
  }

  // arguments
  /// Parameters that need no other one; the rest is noted for the second round.
  bool simple(int i, PyObject* const* args);
  /// A float for an integer of a function loses its fraction, as with int(): published programs
  /// compute grid sizes with "/".
  bool fraction(int i, PyObject* value);
  /// Value of an integer parameter, by value or through a pointer.
  std::uint64_t number(int i) const;
  bool linked(int i, PyObject* const* args);
  std::uint64_t linked_number(const ParamRow& p) const;
  /// Bytes of a rectangle of rows; 0 when the parameter is none.
  std::uint64_t rectangle(unsigned packed) const;
  bool sequence(int i, PyObject* value, std::uint64_t count);
  bool short_list(int i, std::uint64_t have, std::uint64_t count);
  bool texts(int i, PyObject* value, std::uint64_t count);
  /// Calls a function that tells a size, with this call's leading arguments; 0 when it fails: the
  /// call itself will say why.
  bool ask(const FunctionRow& sizer, int arguments, std::uint64_t* answer);
  /// nvrtcGetPTX(prog, buffer) fills the buffer; nvrtcGetPTX(prog, size) makes one and returns it.
  bool fill(int i, PyObject* value);
  /// An argument that is a field of a composed record.
  bool set_field(int i, PyObject* const* args);

  // attributes
  const AttributeRow* attribute(int i) const;
  bool preset_size(int i);
  bool attribute_in(int i, PyObject* value);
  bool attributes_out(int i);
  PyObject* attribute_list(int i);
  /// `bytes`: the size the caller gave, where the function has one.
  PyObject* attribute_value(const AttributeRow* row, const void* place, std::uint64_t bytes);
  /// Room for a value of which the caller asks for this many bytes; null with an exception set.
  void* attribute_room(int i, std::uint64_t bytes);
  /// Option values (CUjit_option): numbers are stored in the pointer itself, text and buffers by
  /// address.
  bool options(int i, PyObject* value);
  bool nested(PyObject* item, const Where& at, Slot* out);

  // the call and its results
  std::uint64_t invoke();
  int status();
  /// Asks for the number of elements first, then for the elements; a list that grew in between is
  /// asked for again.
  int ask_twice();
  /// After the library took (or refused) a Python callback: on a capturing stream it belongs to the
  /// graph from now on.
  void settle(int code);
  /// After the library took a record with Python callables: the graph it went into holds them.
  void settle_record();
  /// The handle given for a parameter of this type, or null.
  [[nodiscard]] void* handle_argument(const char* type) const;
  /// The handle of this type that the call has made, or null.
  [[nodiscard]] void* made_handle(const char* type) const;
  PyObject* value_of(int i);
  PyObject* list_of(const ParamRow& p, const char* data, std::uint64_t n);
  PyObject* result(int code);
  PyObject* bare(int code);
  /// Functions without a result code: the value itself, with success before it in the tuple style.
  PyObject* plain();

  FunctionObject& f_;
  const FunctionRow& row_;
  const ParamRow* params_;
  HostCall* host_call_ = nullptr;
  RecordObject* record_with_calls_ = nullptr;
  PyObject* filled_ = nullptr;
  std::uint32_t deferred_ = 0;
  int fresh_count_ = 0;
  Slot slots_[kMost];
  std::uint32_t counts_[kMost];
  std::uint8_t index_[kMost];
  PyObject* fresh_[8];
  Frame frame_;
};

}  // namespace cucore::bindings
