// SPDX-License-Identifier: Apache-2.0
// cucore/typed_kernel.hpp: a kernel whose parameter types the C++ compiler knows.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cucore/buffer.hpp"
#include "cucore/kernel.hpp"
#include "cucore/launch.hpp"
#include "cucore/stream.hpp"

namespace cucore {

namespace detail {
/// Conversions that keep the value: an integer for a floating-point parameter, a narrower or wider
/// number of the same sort; never a fraction for an integer.
template <class From, class To>
concept ConvertsTo =
    std::convertible_to<const From&, To> &&
    !(std::is_floating_point_v<From> && (std::is_integral_v<To> || std::is_enum_v<To>)) &&
    !(std::is_same_v<From, bool> && std::is_pointer_v<To>);
}  // namespace detail

/// What may be passed for a parameter of type `Param`: for a pointer a Buffer, an address
/// (CUdeviceptr) or a pointer that converts; else a value that converts and keeps its value.
template <class Arg, class Param>
concept ArgumentFor = (std::is_pointer_v<Param> &&
                       (std::same_as<std::remove_cvref_t<Arg>, Buffer> ||
                        std::same_as<std::remove_cvref_t<Arg>, CUdeviceptr>)) ||
                      detail::ConvertsTo<std::remove_cvref_t<Arg>, Param>;

/// A kernel that takes these parameters:
///
///     const TypedKernel<float*, float, std::size_t> scale{code.get_kernel("scale")};
///     launch(stream, config, scale, buffer, 3, 1000u);  // 3 becomes 3.0F
///
/// Arguments are checked and converted when the program is compiled; number, sizes and, where they
/// are known, kinds of the parameters are compared with the kernel's once, when this is made.
template <class... Params>
class TypedKernel {
  static_assert((KernelArgument<Params> && ...),
                "a kernel's parameters are pointers and values that are copied byte by byte");

 public:
  /// Throws std::invalid_argument that names the parameter where the kernel has others.
  explicit TypedKernel(Kernel kernel) : kernel_{std::move(kernel)} {
    static constexpr std::array<detail::ArgumentType, sizeof...(Params)> types{
        detail::argument_type<Params>()...};
    detail::check_arguments(kernel_, types.data(), types.size());
  }
  /// The kernel itself.
  [[nodiscard]] const Kernel& kernel() const noexcept { return kernel_; }

 private:
  Kernel kernel_;
};

namespace detail {
template <class Param, class Arg>
Param as_param(const Arg& arg) {
  if constexpr (std::same_as<Arg, Buffer>) {
    return reinterpret_cast<Param>(arg.handle());
  } else if constexpr (std::is_pointer_v<Param> && std::same_as<Arg, CUdeviceptr>) {
    return reinterpret_cast<Param>(arg);
  } else {
    return static_cast<Param>(arg);
  }
}
}  // namespace detail

/// Starts a kernel; an argument of another type than its parameter is converted as in a call, or
/// is an error of the compiler.
template <class... Params, class... Args>
requires(sizeof...(Params) == sizeof...(Args) &&
         (ArgumentFor<Args, Params> &&
          ...)) void launch(StreamRef stream, const LaunchConfig& config,
                            const TypedKernel<Params...>& kernel, const Args&... args) {
  const auto run = [&](Params... values) {
    std::array<void*, sizeof...(Params) + 1> pointers{
        const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    launch_raw(stream, config, kernel.kernel(), pointers.data());
  };
  run(detail::as_param<Params>(args)...);
}

}  // namespace cucore
