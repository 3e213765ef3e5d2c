// SPDX-License-Identifier: Apache-2.0
// linker_implementation.hpp: state and functions that the linker's back ends share.
#pragma once

#include <mutex>

#include "cucore/linker.hpp"
#include "driver/mutex.hpp"

namespace cucore {

/// A link: link() may be called once, after which the logs are available.
class Linker::Implementation {
 public:
  cucore::detail::Mutex mutex;
  std::vector<ObjectCode> inputs;
  LinkerOptions options;
  CompilerBackend backend = CompilerBackend::driver;
  std::string error_log;
  std::string info_log;
  bool linked = false;
  bool closed = false;
  std::shared_ptr<void> state;  ///< the back end's handle, freed with the linker
};

namespace detail {

/// Both return the linked code and store the logs in `job`. Throw CUDAError with the logs on
/// failure.
std::string link_with_nvjitlink(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                                CodeType target);
std::string link_with_driver(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                             CodeType target);

/// Throws the link error. `what` is the library's name for the error code.
[[noreturn]] void fail_link(int code, const std::string& what, const Linker::Implementation& job);

}  // namespace detail
}  // namespace cucore
