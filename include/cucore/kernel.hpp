// SPDX-License-Identifier: Apache-2.0
// cucore/kernel.hpp: a device function that can be launched, and what is known about it.
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

/// What a parameter is, where that is known. Structures, arrays and untyped bits are `unknown`:
/// their size decides what may be passed.
enum class ParamKind : std::uint8_t { unknown, integer, floating, pointer };

/// Where one parameter lies in the kernel's parameter block, and what it is.
///
/// The driver gives offset and size. The kind comes from PTX (code that is PTX, and a cubin that
/// carries its PTX), from the compilation where a Program of this process made the code, and else
/// from a mangled C++ name; a cubin with extern "C" names alone has none.
struct ParamInfo {
  std::size_t offset = 0;               ///< in the parameter block
  std::size_t size = 0;                 ///< in bytes
  ParamKind kind = ParamKind::unknown;  ///< what may be passed
  friend bool operator==(const ParamInfo&, const ParamInfo&) = default;
};

namespace detail {
class Library;       // a loaded CUlibrary; unloaded with its last user
struct CodeImage;    // code before it is loaded
struct KernelState;  // what all copies of one Kernel share
}  // namespace detail

/// What the compiler and the driver know about a kernel on one device. Values are read when asked
/// for; the fixed ones are cached. A plain `device` of -1 means the current device (device 0 where
/// the thread has none).
class CUCORE_EXPORT KernelAttributes {
 public:
  /// Of a kernel on a device.
  explicit KernelAttributes(std::shared_ptr<detail::KernelState> state, int device = -1)
      : state_{std::move(state)}, device_{device} {}

  /// the same kernel on another device
  [[nodiscard]] KernelAttributes on(int device) const { return KernelAttributes{state_, device}; }
  [[nodiscard]] int get(CUfunction_attribute attribute) const;  ///< one of them
  void set(CUfunction_attribute attribute, int value) const;    ///< changes one that can be changed

 private:
  std::shared_ptr<detail::KernelState> state_;
  int device_;
};

/// The block size that fills the device, and the grid that gives every multiprocessor work.
struct MaxPotentialBlockSize {
  int min_grid_size = 0;   ///< blocks that give every multiprocessor work
  int max_block_size = 0;  ///< threads of a block
};

/// How many blocks or clusters of a kernel fit on the current device.
class CUCORE_EXPORT KernelOccupancy {
 public:
  /// Of a kernel.
  explicit KernelOccupancy(std::shared_ptr<detail::KernelState> state) : state_{std::move(state)} {}

  /// Blocks that run on one multiprocessor at once.
  [[nodiscard]] int max_active_blocks_per_multiprocessor(
      int block_size, std::size_t dynamic_shared_memory_size) const;
  /// The block size that fills the device; `block_size_limit` 0 is none.
  [[nodiscard]] MaxPotentialBlockSize max_potential_block_size(
      std::size_t dynamic_shared_memory_needed, int block_size_limit = 0) const;
  /// `shared_memory_of` answers how much dynamic shared memory a block of the given size needs. It
  /// runs on this thread; what it throws is thrown again here, and it is not called any more.
  [[nodiscard]] MaxPotentialBlockSize max_potential_block_size(
      const std::function<std::size_t(int block_size)>& shared_memory_of,
      int block_size_limit = 0) const;
  /// Dynamic shared memory a block may use when so many run on a multiprocessor.
  [[nodiscard]] std::size_t available_dynamic_shared_memory_per_block(
      int num_blocks_per_multiprocessor, int block_size) const;
  /// The most blocks a cluster of such a launch can have.
  [[nodiscard]] int max_potential_cluster_size(const CUlaunchConfig& config) const;
  /// Clusters of such a launch that run at once.
  [[nodiscard]] int max_active_clusters(const CUlaunchConfig& config) const;

 private:
  std::shared_ptr<detail::KernelState> state_;
};

/// A kernel of a loaded library. Copies are cheap and share one state, which keeps the library
/// loaded. Safe to use from several threads.
class CUCORE_EXPORT Kernel {
 public:
  /// Wraps a handle made elsewhere. Code that this process loaded through an ObjectCode stays
  /// loaded with it; of other code the caller keeps the library, unless `owner` does.
  static Kernel from_handle(CUkernel handle, const ObjectCode* owner = nullptr);
  /// For the library itself.
  explicit Kernel(std::shared_ptr<detail::KernelState> state) : state_{std::move(state)} {}

  /// Throws CUDAError where the kernel came from ObjectCode::get_kernel_lazily and is not there.
  [[nodiscard]] CUkernel handle() const;
  /// True for a kernel of this code; false where the driver cannot say.
  [[nodiscard]] bool is_of(const ObjectCode& code) const;
  /// The symbol's name in the library (mangled for C++), empty when the driver cannot say.
  [[nodiscard]] const std::string& name() const noexcept;

  /// The parameter table, read from the driver once and cached; what launches check their arguments
  /// against, whatever context is current. Lives as long as any copy of this kernel. Throws
  /// CUDAError.
  [[nodiscard]] std::span<const ParamInfo> params() const;
  /// The same where it has been read already, else null: what params() then does may take a while.
  [[nodiscard]] const std::vector<ParamInfo>* known_params() const noexcept;
  /// The name of a parameter in hand-written PTX; empty where it is not known. Compilers do not
  /// keep the names of the source. Throws what params() throws.
  [[nodiscard]] std::string param_name(std::size_t index) const;
  /// Size of the parameter block: end of the last parameter.
  [[nodiscard]] std::size_t params_size() const;

  /// how many a launch takes
  [[nodiscard]] std::size_t num_arguments() const { return params().size(); }
  /// params() by the name that Python has for it
  [[nodiscard]] std::span<const ParamInfo> arguments_info() const { return params(); }
  /// What is known about it.
  [[nodiscard]] KernelAttributes attributes() const { return KernelAttributes{state_}; }
  /// How much of it fits.
  [[nodiscard]] KernelOccupancy occupancy() const { return KernelOccupancy{state_}; }

  friend bool operator==(const Kernel& a, const Kernel& b) {
    return a.state_ == b.state_ || a.handle() == b.handle();
  }
  /// What keeps its code loaded.
  [[nodiscard]] const std::shared_ptr<detail::KernelState>& state() const noexcept {
    return state_;
  }

 private:
  std::shared_ptr<detail::KernelState> state_;
};

}  // namespace cucore
