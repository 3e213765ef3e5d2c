// SPDX-License-Identifier: Apache-2.0
// arguments.hpp: Python values as the parameter block of a kernel.
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

/// What is known of a Python type whose instances go by value.
struct ValueType {
  enum Kind : std::uint8_t {
    unknown,
    in_object,
    by_buffer,
    by_int,
    by_handle,
    by_address,
    array,  // of another library: is not passed
    buffer  // a class derived from Buffer
  } kind = unknown;
  // What a value of this type is; unknown for structures, which their size alone describes.
  ParamKind value = ParamKind::unknown;
  std::uint8_t usual = 0;   // in_object: detail::usual_values(), 0 for a complex number
  std::uint8_t offset = 0;  // in_object: where the value lies in the instance
  std::uint16_t size = 0;
  bool is_integer : 1 = false;
  bool is_signed : 1 = false;
  bool is_complex : 1 = false;  // two numbers: passed for no parameter that is known to be one
};
static_assert(sizeof(ValueType) == 8, "an entry of the table has 16 bytes: finding it is a shift");

extern TypeTable<ValueType> known_types;

/// Whether a value of a type may be passed for a parameter, as far as kinds are known.
constexpr bool accepts(ParamKind parameter, const ValueType& type) noexcept {
  return detail::is_compatible(type.value, parameter) &&
         !(type.is_complex && parameter != ParamKind::unknown);
}

/// Holds the values of one launch. pointers() is valid as long as this and the Python arguments
/// live.
class PackedArguments {
 public:
  PackedArguments() {}  // leaves the arrays as they are: a launch writes what it uses
  PackedArguments(const PackedArguments&) = delete;
  PackedArguments& operator=(const PackedArguments&) = delete;
  ~PackedArguments() {
    if (!views_.empty()) [[unlikely]]
      release_views();
  }

  /// Throws TypeError, ValueError or OverflowError that names the argument and the kernel.
  void pack(const Kernel& kernel, PyObject* const* args, std::size_t count);
  [[nodiscard]] void** pointers() noexcept { return pointers_; }

 private:
  /// Makes pointers_[index] point to the value: to `place`, where it is copied, or to where it is.
  void pack_one(const Kernel& kernel, std::size_t index, PyObject* value, const ParamInfo& param,
                void* place);
  void pack_other(const Kernel& kernel, std::size_t index, PyObject* value, const ParamInfo& param,
                  void* place);
  void release_views() noexcept;

  // Values lie as in the kernel's parameter block.
  static constexpr std::size_t kFew = 32;
  void* few_pointers_[kFew];
  alignas(16) std::byte few_bytes_[kFew * 16];
  void** pointers_ = few_pointers_;
  std::unique_ptr<std::byte[]> many_;
  std::vector<Py_buffer> views_;
};

/// Tells a GraphBuilder to keep what a captured call used.
void retain_in_graph(PyObject* builder, PyObject* const* objects, Py_ssize_t count);
/// The same with the list of the builder.
void retain_in_list(PyObject* list, PyObject* const* objects, Py_ssize_t count);

}  // namespace cucore::python
