// SPDX-License-Identifier: Apache-2.0
// What the back ends of a linker share.
#pragma once

#include <mutex>

#include "cucore/linker.hpp"
#include "driver/mutex.hpp"

namespace cucore {

/// One linking job: link() at most once, then the logs.
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

/// Both fill the logs of `job` and throw CUDAError with them on failure. The result's bytes.
std::string link_with_nvjitlink(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                                CodeType target);
std::string link_with_driver(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                             CodeType target);

/// The first fault wins: `what` is the library's own name for it.
[[noreturn]] void fail_link(int code, const std::string& what, const Linker::Implementation& job);

}  // namespace detail
}  // namespace cucore
