// SPDX-License-Identifier: Apache-2.0
// cucore/launch.hpp: how many threads run a kernel, and starting it.
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

/// Three extents; those not given are 1.
struct Dim3 {
  unsigned x = 1;  ///< varies fastest
  unsigned y = 1;  ///< then this
  unsigned z = 1;  ///< slowest
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

/// The shape of a launch. With a cluster, the grid counts clusters, a cluster counts blocks and a
/// block threads.
struct LaunchConfig {
  Dim3 grid{};                    ///< blocks, or clusters where there are some
  Dim3 block{};                   ///< threads of a block
  std::optional<Dim3> cluster{};  ///< blocks of a cluster; none: no clusters
  unsigned shmem_size = 0;        ///< dynamic shared memory per block, in bytes
  bool is_cooperative = false;    ///< all blocks run at once, so that the grid can synchronise
  bool programmatic_stream_serialization =
      false;  ///< may start before the kernel ahead of it has ended
  friend bool operator==(const LaunchConfig&, const LaunchConfig&) = default;
};

/// A LaunchConfig as the driver takes it. `attributes` must outlive the use of the result.
CUCORE_EXPORT CUlaunchConfig to_driver(const LaunchConfig& config, CUstream stream,
                                       std::array<CUlaunchAttribute, 4>& attributes);

/// Starts a kernel; `arguments[i]` points to the i-th argument, as large as the kernel's parameter
/// table says. Throws std::invalid_argument for a cooperative grid whose blocks cannot run at once.
CUCORE_EXPORT void launch_raw(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                              void** arguments);

namespace detail {
/// An object that a kernel is given by a value of its own: a texture by its handle.
template <class T>
concept HasKernelArgument = requires(const T& object) {
  requires std::is_trivially_copyable_v<std::remove_cvref_t<decltype(object.kernel_argument())>>;
};
}  // namespace detail

/// Types that can be passed to a kernel: a Buffer (its address), a texture, surface or tensor map,
/// or a value that can be copied byte by byte. Views of host memory (arrays, spans, string views)
/// are not among them.
template <class T>
concept KernelArgument = std::same_as<std::remove_cvref_t<T>, Buffer> ||
    detail::HasKernelArgument<std::remove_cvref_t<T>> ||
    (std::is_trivially_copyable_v<std::remove_cvref_t<T>> &&
     !std::is_array_v<std::remove_reference_t<T>> &&
     !std::ranges::borrowed_range<std::remove_cvref_t<T>>);

namespace detail {
/// launch_raw() by the kernel itself, not by its function in the current context: what a stream
/// captures then names the kernel.
CUCORE_EXPORT void launch_kernel(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                                 void** arguments);

/// launch_raw() of a function that is known to be the kernel's in the stream's context.
CUCORE_EXPORT void launch_function(StreamRef stream, const LaunchConfig& config,
                                   const Kernel& kernel, CUfunction function, void** arguments);

/// The type of an argument: `kind` is unknown for what is copied byte by byte, such as a structure.
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
/// Whether a value of one kind may be passed for a parameter of another. Addresses and integers
/// (CUdeviceptr, texture objects) stand for each other; what is unknown is checked by its size.
constexpr bool is_compatible(ParamKind argument, ParamKind parameter) noexcept {
  if (argument == ParamKind::unknown || parameter == ParamKind::unknown) return true;
  return (argument == ParamKind::floating) == (parameter == ParamKind::floating);
}

/// Throws std::invalid_argument that names the argument where number, sizes or kinds differ from
/// the kernel's parameters.
CUCORE_EXPORT void check_arguments(const Kernel& kernel, const ArgumentType* types,
                                   std::size_t count);
/// "argument 1 of kernel scale: parameter 1 'factor' is float, got int"
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
/// Calls `use(void** pointers)` with the addresses of copies of the arguments, after checking their
/// number, sizes and kinds against the kernel's parameters.
template <class Use, class... Args>
void with_arguments(const Kernel& kernel, Use use, const Args&... args) {
  const auto run = [&](auto&&... held) {  // temporaries, not copied: a tensor map has 128 bytes
    const std::array<ArgumentType, sizeof...(held)> types{held.type...};
    check_arguments(kernel, types.data(), types.size());
    std::array<void*, sizeof...(held) + 1> pointers{static_cast<void*>(&held.value)..., nullptr};
    use(pointers.data());
  };
  run(as_argument(args)...);
}
}  // namespace detail

/// Starts a kernel with these arguments, after checking their number, sizes and kinds against the
/// kernel's parameters: an int for a float parameter throws std::invalid_argument. Values are not
/// converted; TypedKernel does that.
template <KernelArgument... Args>
void launch(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
            const Args&... args) {
  detail::with_arguments(
      kernel, [&](void** pointers) { launch_raw(stream, config, kernel, pointers); }, args...);
}

}  // namespace cucore
