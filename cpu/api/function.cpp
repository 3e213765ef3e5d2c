// SPDX-License-Identifier: Apache-2.0
// cuFunc*.
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/module.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuFuncGetAttribute(int* out, CUfunction_attribute attribute, CUfunction handle) {
  return guarded([&] {
    require(out != nullptr);
    const Function& function = function_of(handle);
    *out = function_attribute(limits_of(function), function.kernel.info(), function.settings,
                              attribute);
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return guarded([&] {
    Function& function = function_of(handle);
    set_function_attribute(limits_of(function), function.kernel.info(), function.settings,
                           attribute, value);
  });
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  return guarded([&] {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    function_of(handle).settings.cache_config = config;
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  return guarded([&] {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
            config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    function_of(handle);
  });
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  return guarded([&] {
    require(out && handle);
    *out = function_of(handle).module.handle();
  });
}

CUresult cuFuncGetName(const char** out, CUfunction handle) {
  return guarded([&] {
    require(out && handle);
    *out = function_of(handle).kernel.info().name.c_str();
  });
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  return guarded([&] {
    require(handle != nullptr);
    const auto& params = function_of(handle).kernel.info().params;
    require(offset && index < params.size());
    *offset = params[index].offset;
    if (size) *size = params[index].size;
  });
}

CUresult cuFuncGetParamCount(CUfunction handle, size_t* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = function_of(handle).kernel.info().params.size();
  });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* out, CUfunction handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = function_of(handle).is_loaded ? CU_FUNCTION_LOADING_STATE_LOADED
                                         : CU_FUNCTION_LOADING_STATE_UNLOADED;
  });
}

CUresult cuFuncLoad(CUfunction handle) {
  return guarded([&] { function_of(handle).is_loaded = true; });
}

}  // extern "C"
