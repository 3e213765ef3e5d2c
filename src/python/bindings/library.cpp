// SPDX-License-Identifier: Apache-2.0
// library.cpp: loads NVIDIA's libraries at the first call of one of their functions.
#include "library.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string_view>

#include "core/nvml.hpp"
#include "cucore/pathfinder.hpp"
#include "engine.hpp"

namespace cucore::bindings {
namespace {

/// Passes the directories of Python packages to the search, once per process; cuda.pathfinder does
/// so at every lookup.
void prepare_search() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  Ref environment{PyImport_ImportModule("cuda.pathfinder._environment")};
  Ref result{environment ? PyObject_CallMethod(environment.get(), "refresh", nullptr) : nullptr};
  if (!result) PyErr_Clear();  // the search then uses only environment variables
}

}  // namespace

void* library_symbol(const char* library, const char* symbol) {
  prepare_search();
  if (std::string_view{library} == "nvml") {
    return ::dlsym(detail::nvml_library(), symbol);
  }
  return ::dlsym(pathfinder::load_nvidia_dynamic_lib(library).handle, symbol);
}

}  // namespace cucore::bindings
