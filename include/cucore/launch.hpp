// cucore/launch.hpp: how many threads run a kernel, and starting it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
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
/// table says.
CUCORE_EXPORT void launch_raw(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
                              void** arguments);

/// What can be handed to a kernel: a Buffer (its address), or a value that can be copied byte by
/// byte. Not what only names memory of the host: arrays, spans, string views.
template <class T>
concept KernelArgument = std::same_as<std::remove_cvref_t<T>, Buffer> ||
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

/// Throws std::invalid_argument that names the argument when the kernel's parameters differ.
CUCORE_EXPORT void check_arguments(const Kernel& kernel, const std::size_t* sizes,
                                   std::size_t count);

template <class T>
struct Argument {
  T value;
  static constexpr std::size_t size = sizeof(T);
};
inline Argument<CUdeviceptr> as_argument(const Buffer& buffer) { return {buffer.handle()}; }
template <class T>
requires(!std::same_as<T, Buffer>) Argument<T> as_argument(const T& value) { return {value}; }
/// Calls `use(void** pointers)` with the addresses of copies of the arguments, after checking their
/// number and sizes against the kernel's parameters.
template <class Use, class... Args>
void with_arguments(const Kernel& kernel, Use use, const Args&... args) {
  const auto run = [&](auto... held) {
    const std::array<std::size_t, sizeof...(held)> sizes{held.size...};
    check_arguments(kernel, sizes.data(), sizes.size());
    std::array<void*, sizeof...(held) + 1> pointers{static_cast<void*>(&held.value)..., nullptr};
    use(pointers.data());
  };
  run(as_argument(args)...);
}
}  // namespace detail

/// Starts a kernel with these arguments, after checking their number and sizes against the kernel's
/// parameters.
template <KernelArgument... Args>
void launch(StreamRef stream, const LaunchConfig& config, const Kernel& kernel,
            const Args&... args) {
  detail::with_arguments(
      kernel, [&](void** pointers) { launch_raw(stream, config, kernel, pointers); }, args...);
}

}  // namespace cucore
