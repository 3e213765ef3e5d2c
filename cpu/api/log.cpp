// SPDX-License-Identifier: Apache-2.0
// cuLogs*.
#include "cpu/base/log.hpp"

#include <cstdio>
#include <cstring>
#include <string>

#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void* data, CUlogsCallbackHandle* out) {
  return guarded_without_init([&] {
    require(callback && out);
    *out = register_log_callback(callback, data);
  });
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return guarded_without_init([&] { require(unregister_log_callback(callback)); });
}

CUresult cuLogsCurrent(CUlogIterator* out, unsigned int flags) {
  return guarded_without_init([&] {
    require(out && flags == 0);
    *out = log_end();
  });
}

CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned int flags) {
  return guarded_without_init([&] {
    require(path && flags == 0);
    std::FILE* file = std::fopen(path, "w");
    require(file != nullptr);
    const std::string text = log_text_since(iterator);
    const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    require((std::fclose(file) == 0) & good, CUDA_ERROR_OPERATING_SYSTEM);
  });
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size,
                            unsigned int flags) {
  return guarded_without_init([&] {
    require(buffer && size && *size > 0 && flags == 0);
    std::string text = log_text_since(iterator);
    if (text.size() + 1 > *size) text.erase(0, text.size() + 1 - *size);  // keeps the newest part
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
  });
}

}  // extern "C"
