// SPDX-License-Identifier: Apache-2.0
// cucore/typed_kernel.hpp: a kernel with static parameter types.
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
/// Implicit conversions from `From` to `To`, except from floating-point types to integers and from
/// bool to pointers.
template <class From, class To>
concept ConvertsTo =
    std::convertible_to<const From&, To> &&
    !(std::is_floating_point_v<From> && (std::is_integral_v<To> || std::is_enum_v<To>)) &&
    !(std::is_same_v<From, bool> && std::is_pointer_v<To>);
}  // namespace detail

/// A type that can be passed to a parameter of type `Param`: for a pointer a Buffer, a CUdeviceptr
/// or a convertible pointer; otherwise a convertible value, but not a floating-point value for an
/// integer.
template <class Arg, class Param>
concept ArgumentFor = (std::is_pointer_v<Param> &&
                       (std::same_as<std::remove_cvref_t<Arg>, Buffer> ||
                        std::same_as<std::remove_cvref_t<Arg>, CUdeviceptr>)) ||
                      detail::ConvertsTo<std::remove_cvref_t<Arg>, Param>;

/// A kernel with these parameter types:
///
///     const TypedKernel<float*, float, std::size_t> scale{code.get_kernel("scale")};
///     launch(stream, config, scale, buffer, 3, 1000u);  // 3 becomes 3.0F
///
/// Arguments are checked and converted at compile time. The number, the sizes and, if known, the
/// kinds of the parameters are compared with the kernel's once, by the constructor.
template <class... Params>
class TypedKernel {
  static_assert((KernelArgument<Params> && ...),
                "a kernel's parameters are pointers and values that are copied byte by byte");

 public:
  /// Throws std::invalid_argument, naming the parameter, if the kernel's parameters differ.
  explicit TypedKernel(Kernel kernel) : kernel_{std::move(kernel)} {
    static constexpr std::array<detail::ArgumentType, sizeof...(Params)> types{
        detail::argument_type<Params>()...};
    detail::check_arguments(kernel_, types.data(), types.size());
  }
  /// Returns the untyped kernel.
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

/// Launches a kernel. An argument is converted to the type of its parameter as in a function call;
/// if that is not possible, the call does not compile. Throws as launch_raw() does.
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
