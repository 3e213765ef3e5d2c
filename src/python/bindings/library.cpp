// library.cpp: loads NVIDIA's libraries when one of their functions is first called.
#include "library.hpp"

#include <dlfcn.h>

#include "cucore/pathfinder.hpp"

namespace cucore::bindings {

void* library_symbol(const char* library, const char* symbol) {
  return ::dlsym(pathfinder::load_nvidia_dynamic_lib(library).handle, symbol);
}

}  // namespace cucore::bindings
