// SPDX-License-Identifier: Apache-2.0
// arguments.hpp: conversion of Python values to the parameter block of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../type_table.hpp"
#include "cucore/kernel.hpp"
#include "cucore/launch.hpp"
#include "support.hpp"

namespace cucore::python {

/// Describes a Python type whose instances are passed by value.
struct ValueType {
  enum Kind : std::uint8_t {
    unknown,
    in_object,
    by_buffer,
    by_int,
    by_handle,
    by_address,
    array,  // of another library: rejected
    buffer  // a class derived from Buffer
  } kind = unknown;
  // The kind of a value; unknown for structures, of which only the size is known.
  ParamKind value = ParamKind::unknown;
  std::uint8_t usual = 0;   // in_object: detail::usual_values(), 0 for a complex number
  std::uint8_t offset = 0;  // in_object: offset of the value in the instance
  std::uint16_t size = 0;
  bool is_integer : 1 = false;
  bool is_signed : 1 = false;
  bool is_complex : 1 = false;  // two numbers: rejected for a parameter that is one number
};
static_assert(sizeof(ValueType) == 8, "an entry of the table has 16 bytes: finding it is a shift");

extern TypeTable<ValueType> known_types;

/// Returns whether a value of a type may be passed for a parameter; true if a kind is unknown.
constexpr bool accepts(ParamKind parameter, const ValueType& type) noexcept {
  return detail::is_compatible(type.value, parameter) &&
         !(type.is_complex && parameter != ParamKind::unknown);
}

/// Owns the argument values of one launch. pointers() is valid for the lifetime of this object and
/// of the Python arguments.
class PackedArguments {
 public:
  PackedArguments() {}  // arrays are left uninitialized: a launch writes what it uses
  PackedArguments(const PackedArguments&) = delete;
  PackedArguments& operator=(const PackedArguments&) = delete;
  ~PackedArguments() {
    if (!views_.empty()) [[unlikely]]
      release_views();
  }

  /// Converts the arguments. Throws TypeError, ValueError or OverflowError that names the argument
  /// and the kernel.
  void pack(const Kernel& kernel, PyObject* const* args, std::size_t count);
  [[nodiscard]] void** pointers() noexcept { return pointers_; }

 private:
  /// Sets pointers_[index] to the value's copy at `place`, or to the value in the Python object.
  void pack_one(const Kernel& kernel, std::size_t index, PyObject* value, const ParamInfo& param,
                void* place);
  void pack_other(const Kernel& kernel, std::size_t index, PyObject* value, const ParamInfo& param,
                  void* place);
  void release_views() noexcept;

  // Values have the layout of the kernel's parameter block.
  static constexpr std::size_t kFew = 32;
  void* few_pointers_[kFew];
  alignas(16) std::byte few_bytes_[kFew * 16];
  void** pointers_ = few_pointers_;
  std::unique_ptr<std::byte[]> many_;
  std::vector<Py_buffer> views_;
};

/// Makes a GraphBuilder keep the objects of a captured call alive.
void retain_in_graph(PyObject* builder, PyObject* const* objects, Py_ssize_t count);
/// Like retain_in_graph(), given the builder's list.
void retain_in_list(PyObject* list, PyObject* const* objects, Py_ssize_t count);

}  // namespace cucore::python
