// SPDX-License-Identifier: Apache-2.0
// cucore/kernel.hpp: kernels: parameters, attributes and occupancy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

class ObjectCode;

/// Kind of a kernel parameter, if known. Structures, arrays and untyped bits are `unknown`:
/// arguments are then checked by size only.
enum class ParamKind : std::uint8_t { unknown, integer, floating, pointer };

/// Offset, size and kind of a kernel parameter.
///
/// The driver reports offset and size. The kind comes from PTX (PTX code, or a cubin that contains
/// its PTX), from the compilation if a Program of this process compiled the code, or else from a
/// mangled C++ name. A cubin with extern "C" names only has no kinds.
struct ParamInfo {
  std::size_t offset = 0;               ///< offset in the parameter block, in bytes
  std::size_t size = 0;                 ///< size in bytes
  ParamKind kind = ParamKind::unknown;  ///< kind of argument that may be passed
  friend bool operator==(const ParamInfo&, const ParamInfo&) = default;
};

namespace detail {
class Library;       // a loaded CUlibrary, unloaded with its last owner
struct CodeImage;    // code before loading
struct KernelState;  // state shared by all copies of a Kernel
}  // namespace detail

/// Attributes of a kernel on one device. Values are read from the driver at each call. A `device`
/// of -1 is the current device (device 0 if the thread has none).
class CUCORE_EXPORT KernelAttributes {
 public:
  /// Attributes of a kernel on a device.
  explicit KernelAttributes(std::shared_ptr<detail::KernelState> state, int device = -1)
      : state_{std::move(state)}, device_{device} {}

  /// Returns the attributes of the same kernel on another device.
  [[nodiscard]] KernelAttributes on(int device) const { return KernelAttributes{state_, device}; }
  /// Returns the value of an attribute.
  [[nodiscard]] int get(CUfunction_attribute attribute) const;
  /// Sets the value of a writable attribute.
  void set(CUfunction_attribute attribute, int value) const;

 private:
  std::shared_ptr<detail::KernelState> state_;
  int device_;
};

/// The block size with maximum occupancy, and the grid size that reaches it.
struct MaxPotentialBlockSize {
  int min_grid_size = 0;   ///< minimum number of blocks for maximum occupancy
  int max_block_size = 0;  ///< threads per block
};

/// Occupancy of a kernel on the current device.
class CUCORE_EXPORT KernelOccupancy {
 public:
  /// Occupancy of a kernel.
  explicit KernelOccupancy(std::shared_ptr<detail::KernelState> state) : state_{std::move(state)} {}

  /// Returns the maximum number of blocks that run concurrently on one multiprocessor.
  [[nodiscard]] int max_active_blocks_per_multiprocessor(
      int block_size, std::size_t dynamic_shared_memory_size) const;
  /// Returns the block size with maximum occupancy; a `block_size_limit` of 0 means no limit.
  [[nodiscard]] MaxPotentialBlockSize max_potential_block_size(
      std::size_t dynamic_shared_memory_needed, int block_size_limit = 0) const;
  /// As above, where `shared_memory_of` returns the dynamic shared memory, in bytes, of a block of
  /// the given size. It runs on the calling thread. If it throws, it is not called again and the
  /// exception is rethrown here.
  [[nodiscard]] MaxPotentialBlockSize max_potential_block_size(
      const std::function<std::size_t(int block_size)>& shared_memory_of,
      int block_size_limit = 0) const;
  /// Returns the dynamic shared memory, in bytes, that is available to each block if
  /// `num_blocks_per_multiprocessor` blocks run on a multiprocessor.
  [[nodiscard]] std::size_t available_dynamic_shared_memory_per_block(
      int num_blocks_per_multiprocessor, int block_size) const;
  /// Returns the maximum number of blocks per cluster for a launch configuration.
  [[nodiscard]] int max_potential_cluster_size(const CUlaunchConfig& config) const;
  /// Returns the maximum number of clusters that run concurrently for a launch configuration.
  [[nodiscard]] int max_active_clusters(const CUlaunchConfig& config) const;

 private:
  std::shared_ptr<detail::KernelState> state_;
};

/// A kernel of a loaded library. Copies are cheap and share one state, which keeps the library
/// loaded. Thread-safe.
class CUCORE_EXPORT Kernel {
 public:
  /// Wraps an existing handle. Code that this process loaded through an ObjectCode stays loaded as
  /// long as the kernel. Other code must be kept loaded by the caller, unless `owner` keeps it.
  /// Throws CUDAError if `handle` is known not to be a kernel.
  static Kernel from_handle(CUkernel handle, const ObjectCode* owner = nullptr);
  /// Used by the library.
  explicit Kernel(std::shared_ptr<detail::KernelState> state) : state_{std::move(state)} {}

  /// Returns the driver's handle. Throws CUDAError if the kernel came from
  /// ObjectCode::get_kernel_lazily() and does not exist.
  [[nodiscard]] CUkernel handle() const;
  /// Returns whether the kernel belongs to `code`; false if the driver cannot report it.
  [[nodiscard]] bool is_of(const ObjectCode& code) const;
  /// The symbol in the library (mangled for C++); empty if the driver cannot report it.
  [[nodiscard]] const std::string& name() const noexcept;

  /// Returns the parameter table, against which launches check their arguments. It is read from the
  /// driver once, independently of the current context, and cached. Valid as long as any copy of
  /// this kernel. Throws CUDAError.
  [[nodiscard]] std::span<const ParamInfo> params() const;
  /// Returns the parameter table if params() has cached it, otherwise null. The first call of
  /// params() may take long.
  [[nodiscard]] const std::vector<ParamInfo>* known_params() const noexcept;
  /// Returns the name of a parameter in hand-written PTX; empty if unknown. Compilers do not keep
  /// the names of the source. Throws as params() does.
  [[nodiscard]] std::string param_name(std::size_t index) const;
  /// Returns the size of the parameter block in bytes: the end of the last parameter.
  [[nodiscard]] std::size_t params_size() const;

  /// Number of parameters.
  [[nodiscard]] std::size_t num_arguments() const { return params().size(); }
  /// As params(), by its name in Python.
  [[nodiscard]] std::span<const ParamInfo> arguments_info() const { return params(); }
  /// Returns the attributes.
  [[nodiscard]] KernelAttributes attributes() const { return KernelAttributes{state_}; }
  /// Returns the occupancy queries.
  [[nodiscard]] KernelOccupancy occupancy() const { return KernelOccupancy{state_}; }

  friend bool operator==(const Kernel& a, const Kernel& b) {
    return a.state_ == b.state_ || a.handle() == b.handle();
  }
  /// The shared state, which keeps the code loaded.
  [[nodiscard]] const std::shared_ptr<detail::KernelState>& state() const noexcept {
    return state_;
  }

 private:
  std::shared_ptr<detail::KernelState> state_;
};

}  // namespace cucore
