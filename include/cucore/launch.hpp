// SPDX-License-Identifier: Apache-2.0
// cucore/launch.hpp: launch configurations and kernel launches.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/export.hpp"
#include "cucore/kernel.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// The extents of a grid, cluster or block.
struct Dim3 {
  unsigned x = 1;  ///< extent of the fastest-varying dimension
  unsigned y = 1;  ///< extent of the second dimension
  unsigned z = 1;  ///< extent of the slowest-varying dimension
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

/// A launch configuration. If `cluster` is set, `grid` is the number of clusters, not of blocks.
struct LaunchConfig {
  Dim3 grid{};                    ///< grid dimensions in blocks, or in clusters if `cluster` is set
  Dim3 block{};                   ///< block dimensions in threads
  std::optional<Dim3> cluster{};  ///< cluster dimensions in blocks; unset: no clusters
  unsigned shmem_size = 0;        ///< dynamic shared memory per block, in bytes
  bool is_cooperative = false;    ///< all blocks are co-resident, so that the grid can synchronize
  /// The kernel may start before the preceding kernel in the stream completes (programmatic
  /// dependent launch).
  bool programmatic_stream_serialization = false;
  friend bool operator==(const LaunchConfig&, const LaunchConfig&) = default;
};

/// Converts a LaunchConfig to the driver's structure. The result points into `attributes`, which
/// must outlive it.
CUCORE_EXPORT CUlaunchConfig to_driver(const LaunchConfig& config, CUstream stream,
                                       std::array<CUlaunchAttribute, 4>& attributes);

/// Launches a kernel on a stream. `arguments[i]` points to the value of parameter i, which has the
/// size that Kernel::params() gives. Throws CUDAError if the launch fails, and
/// std::invalid_argument if the blocks of a cooperative grid cannot be co-resident.
CUCORE_EXPORT void launch_raw(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                              void** arguments);

namespace detail {
/// A type whose kernel_argument() returns the value to pass, for example a texture's handle.
template <class T>
concept HasKernelArgument = requires(const T& object) {
  requires std::is_trivially_copyable_v<std::remove_cvref_t<decltype(object.kernel_argument())>>;
};
}  // namespace detail

/// A type that can be passed to a kernel: a Buffer (passed as its address), a texture, surface or
/// tensor map, or a trivially copyable value. Arrays and views of host memory (spans, string views)
/// are excluded.
template <class T>
concept KernelArgument = std::same_as<std::remove_cvref_t<T>, Buffer> ||
    detail::HasKernelArgument<std::remove_cvref_t<T>> ||
    (std::is_trivially_copyable_v<std::remove_cvref_t<T>> &&
     !std::is_array_v<std::remove_reference_t<T>> &&
     !std::ranges::borrowed_range<std::remove_cvref_t<T>>);

namespace detail {
/// launch_raw() with the CUkernel instead of its CUfunction in the current context, so that a
/// captured kernel node refers to the CUkernel.
CUCORE_EXPORT void launch_kernel(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                                 void** arguments);

/// launch_raw() with `function`, which must be the kernel's CUfunction in the stream's context.
CUCORE_EXPORT void launch_function(StreamRef stream, const LaunchConfig& config,
                                   const Kernel& kernel, CUfunction function, void** arguments);

/// The type of an argument. `kind` is unknown unless it is a number, an enumeration or a pointer.
struct ArgumentType {
  std::size_t size = 0;
  ParamKind kind = ParamKind::unknown;
};
template <class T>
constexpr ArgumentType argument_type() {
  using Kind = ParamKind;
  if constexpr (std::is_floating_point_v<T>) return {sizeof(T), Kind::floating};
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return {sizeof(T), Kind::integer};
  if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>)
    return {sizeof(T), Kind::pointer};
  return {sizeof(T), Kind::unknown};
}
/// Returns whether an argument of one kind may be passed to a parameter of another. Pointers and
/// integers (CUdeviceptr, texture objects) are interchangeable. An unknown kind matches every kind:
/// only its size is checked.
constexpr bool is_compatible(ParamKind argument, ParamKind parameter) noexcept {
  if (argument == ParamKind::unknown || parameter == ParamKind::unknown) return true;
  return (argument == ParamKind::floating) == (parameter == ParamKind::floating);
}

/// Throws std::invalid_argument if the number, a size or a kind of the arguments differs from the
/// kernel's parameters. The message names the first argument that differs.
CUCORE_EXPORT void check_arguments(const Kernel& kernel, const ArgumentType* types,
                                   std::size_t count);
/// Returns the message for an argument of the wrong kind, for example "argument 1 of kernel scale:
/// parameter 1 'factor' is float, got int".
[[nodiscard]] CUCORE_EXPORT std::string wrong_kind_text(const Kernel& kernel, std::size_t index,
                                                        std::string_view got);

template <class T>
struct Argument {
  T value;
  static constexpr ArgumentType type = argument_type<T>();
};
inline Argument<CUdeviceptr> as_argument(const Buffer& buffer) { return {buffer.handle()}; }
template <HasKernelArgument T>
auto as_argument(const T& object) {
  return Argument<std::remove_cvref_t<decltype(object.kernel_argument())>>{
      object.kernel_argument()};
}
template <class T>
requires(!std::same_as<T, Buffer> &&
         !HasKernelArgument<T>) Argument<T> as_argument(const T& value) {
  return {value};
}
/// Checks the arguments with check_arguments(), then calls `use(void** pointers)` with pointers to
/// copies of them.
template <class Use, class... Args>
void with_arguments(const Kernel& kernel, Use use, const Args&... args) {
  const auto run = [&](auto&&... held) {  // by reference: a tensor map has 128 bytes
    const std::array<ArgumentType, sizeof...(held)> types{held.type...};
    check_arguments(kernel, types.data(), types.size());
    std::array<void*, sizeof...(held) + 1> pointers{static_cast<void*>(&held.value)..., nullptr};
    use(pointers.data());
  };
  run(as_argument(args)...);
}
}  // namespace detail

/// Launches a kernel. Throws std::invalid_argument if the number, a size or a kind of the arguments
/// differs from the kernel's parameters, for example for an int passed to a float parameter.
/// Arguments are not converted; TypedKernel converts them.
template <KernelArgument... Args>
void launch(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
            const Args&... args) {
  detail::with_arguments(
      kernel, [&](void** pointers) { launch_raw(stream, config, kernel, pointers); }, args...);
}

}  // namespace cucore
