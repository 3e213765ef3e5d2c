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
  static constexpr int kMost = 32;  // maximum number of parameters of a function

  Where where(int i) const { return {f_.name, "(): ", f_.api->text + params_[i].name}; }

  static bool fetch_void(Slot& slot, void* memory) {
    slot.p = memory;
    return memory != nullptr;
  }

  // arguments
  /// Converts a parameter that depends on no other one; defers the others to the second pass.
  bool simple(int i, PyObject* const* args);
  /// Truncates a float for an integer parameter, like int(): published programs compute grid sizes
  /// with "/".
  bool fraction(int i, PyObject* value);
  /// Returns the value of an integer parameter, passed by value or through a pointer.
  std::uint64_t number(int i) const;
  bool linked(int i, PyObject* const* args);
  std::uint64_t linked_number(const ParamRow& p) const;
  /// Returns the size in bytes of a pitched 2D region; 0 if the parameter is not one.
  std::uint64_t rectangle(unsigned packed) const;
  bool sequence(int i, PyObject* value, std::uint64_t count);
  /// Returns a list argument as a tuple. Null with TypeError set if it is none, or not `accepted`.
  Ref items_of(int i, PyObject* value, bool accepted = true);
  bool short_list(int i, std::uint64_t have, std::uint64_t count);
  bool texts(int i, PyObject* value, std::uint64_t count);
  /// Calls a function that returns a size, with the leading arguments of this call. The size is 0
  /// if it fails: the call itself then reports the error.
  bool ask(const FunctionRow& sizer, int arguments, std::uint64_t* answer);
  /// nvrtcGetPTX(prog, buffer) fills the buffer; nvrtcGetPTX(prog, size) allocates and returns one.
  bool fill(int i, PyObject* value);
  /// Stores an argument that is a field of a composed record.
  bool set_field(int i, PyObject* const* args);

  // attributes
  const AttributeRow* attribute(int i) const;
  bool preset_size(int i);
  bool attribute_in(int i, PyObject* value);
  bool attributes_out(int i);
  PyObject* attribute_list(int i);
  /// `bytes`: the size that the caller gave, if the function has a size parameter.
  PyObject* attribute_value(const AttributeRow* row, const void* place, std::uint64_t bytes);
  /// Allocates memory for a value of which the caller requests this many bytes; null with an
  /// exception set.
  void* attribute_room(int i, std::uint64_t bytes);
  /// Converts option values (CUjit_option): numbers are stored in the pointer itself, text and
  /// buffers by address.
  bool options(int i, PyObject* value);
  bool nested(PyObject* item, const Where& at, Slot* out);

  // the call and its results
  std::uint64_t invoke();
  int status();
  /// Queries the number of elements first, then the elements; repeats if the list grew in between.
  int call_twice();
  /// After the library has accepted (or rejected) a Python callback: on a capturing stream the
  /// graph becomes its owner.
  void settle(int code);
  /// After the library has accepted a record with Python callables: the graph becomes their owner.
  void settle_record();
  /// Returns the handle given for a parameter of this type, or null.
  [[nodiscard]] void* handle_argument(const char* type) const;
  /// Returns the handle of this type that the call has created, or null.
  [[nodiscard]] void* made_handle(const char* type) const;
  PyObject* value_of(int i);
  PyObject* list_of(const ParamRow& p, const char* data, std::uint64_t n);
  PyObject* result(int code);
  PyObject* bare(int code);
  /// Returns the result of a function without a result code: the value, after success in tuple
  /// style.
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
