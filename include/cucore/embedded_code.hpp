// SPDX-License-Identifier: Apache-2.0
// cucore/embedded_code.hpp: device code that the build has put into the program.
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

/// Device code inside a program. The CMake function cucore_add_kernels() writes one for each .cu
/// file. PTX and cubins were compiled with the program; C++ source is compiled when it is first
/// asked for, once per architecture. Copies share what was compiled. Safe to use from several
/// threads.
///
///     const Kernel saxpy = kernels::saxpy().get_kernel("saxpy");
class CUCORE_EXPORT EmbeddedCode {
 public:
  /// Compiled code; `bytes` must outlive this.
  EmbeddedCode(std::string name, CodeType type, std::span<const unsigned char> bytes,
               SymbolMapping symbol_mapping = {});
  /// C++ source; `bytes` must outlive this. An `arch` in the options replaces the device's.
  EmbeddedCode(std::string name, std::span<const unsigned char> source, ProgramOptions options,
               std::vector<std::string> name_expressions = {});

  [[nodiscard]] const std::string& name() const noexcept;  ///< the name of its file
  [[nodiscard]] std::string_view bytes() const noexcept;   ///< what was embedded
  [[nodiscard]] bool is_source() const noexcept;           ///< compiled when first asked for
  /// The code for a device. Throws NVRTCError with the compiler's log.
  [[nodiscard]] ObjectCode object_code(Device device) const;
  /// The same for the current device.
  [[nodiscard]] ObjectCode object_code() const { return object_code(Device::current()); }
  /// A kernel of it, for the current device.
  [[nodiscard]] Kernel get_kernel(std::string_view kernel) const {
    return object_code().get_kernel(kernel);
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cucore
