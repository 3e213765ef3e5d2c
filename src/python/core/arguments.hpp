// arguments.hpp: Python values as the parameter block of a kernel.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "cucore/kernel.hpp"
#include "support.hpp"

namespace cucore::python {

/// Holds the values of one launch. pointers() is valid as long as this and the Python arguments
/// live.
class PackedArguments {
 public:
  PackedArguments() = default;
  PackedArguments(const PackedArguments&) = delete;
  PackedArguments& operator=(const PackedArguments&) = delete;
  ~PackedArguments();

  /// Throws TypeError, ValueError or OverflowError that names the argument and the kernel.
  void pack(const Kernel& kernel, PyObject* const* args, std::size_t count);
  [[nodiscard]] void** pointers() noexcept { return pointers_; }

 private:
  void pack_one(const Kernel& kernel, std::size_t index, PyObject* value, std::size_t size);
  void pack_slow(const Kernel& kernel, std::size_t index, PyObject* value, std::size_t size);
  [[nodiscard]] void* room(std::size_t size);

  static constexpr std::size_t kFew = 16;
  void* few_pointers_[kFew];
  alignas(16) std::byte few_bytes_[kFew * 16];
  void** pointers_ = few_pointers_;
  std::size_t used_ = 0;
  std::vector<void*> many_pointers_;
  std::vector<std::unique_ptr<std::byte[]>> more_;
  std::vector<Py_buffer> views_;
};

/// Tells a GraphBuilder to keep what a captured call used.
void retain_in_graph(PyObject* builder, PyObject* const* objects, Py_ssize_t count);

}  // namespace cucore::python
