// SPDX-License-Identifier: Apache-2.0
// cucore/embedded_code.hpp: device code embedded in the program at build time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/export.hpp"
#include "cucore/kernel.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"

namespace cucore {

/// Device code embedded in a program. The CMake function cucore_add_kernels() generates an object
/// for each .cu file. PTX and cubins are compiled at build time. C++ source is compiled at first
/// use, once per architecture. Copies share the compiled code. Thread-safe.
///
///     const Kernel saxpy = kernels::saxpy().get_kernel("saxpy");
class CUCORE_EXPORT EmbeddedCode {
 public:
  /// Wraps compiled code; `bytes` must outlive this object.
  EmbeddedCode(std::string name, CodeType type, std::span<const unsigned char> bytes,
               SymbolMapping symbol_mapping = {});
  /// Wraps C++ source; `source` must outlive this object. An `arch` in `options` overrides the
  /// device's.
  EmbeddedCode(std::string name, std::span<const unsigned char> source, ProgramOptions options,
               std::vector<std::string> name_expressions = {});

  [[nodiscard]] const std::string& name() const noexcept;  ///< the file name
  [[nodiscard]] std::string_view bytes() const noexcept;   ///< the embedded code or source
  /// True for C++ source, which is compiled at first use.
  [[nodiscard]] bool is_source() const noexcept;
  /// Returns the code for `device`; compiles source at first use. Throws NVRTCError with the
  /// compilation log.
  [[nodiscard]] ObjectCode object_code(Device device) const;
  /// Returns the code for the current device.
  [[nodiscard]] ObjectCode object_code() const { return object_code(Device::current()); }
  /// Returns a kernel for the current device.
  [[nodiscard]] Kernel get_kernel(std::string_view kernel) const {
    return object_code().get_kernel(kernel);
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cucore
