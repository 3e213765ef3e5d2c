// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/ids.cpp: numbers of API functions, threads, contexts, streams and devices.
#include "cpu/cupti/ids.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <unordered_map>

namespace cucpu::cupti {
namespace {

struct Row {
  const char* name;      ///< as cuptiGetCallbackName returns it
  const char* function;  ///< without the version
  std::uint32_t id;
};

constexpr Row kDriver[] = {
#define CUCPU_DRIVER_ID(name, id) {name, name, id},
#include "cupti_tables.inc"
#undef CUCPU_DRIVER_ID
};

constexpr Row kRuntime[] = {
#define CUCPU_RUNTIME_ID(name, function, id) {name, function, id},
#include "cupti_tables.inc"
#undef CUCPU_RUNTIME_ID
};

struct Table {
  template <std::size_t n>
  explicit Table(const Row (&rows)[n]) {
    for (const Row& row : rows) {
      ids[row.function] = row.id;  // the newest version of a function comes last
      names[row.id] = row.name;
    }
  }
  std::unordered_map<std::string_view, std::uint32_t> ids;
  std::unordered_map<std::uint32_t, const char*> names;
};

const Table& table(bool is_runtime) {
  static const Table& driver = *new Table{kDriver};
  static const Table& runtime = *new Table{kRuntime};
  return is_runtime ? runtime : driver;
}

std::atomic<CUpti_ActivityThreadIdType> g_thread_id_type{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};

/// Makes a context current for a scope; null: the current one.
class Current {
 public:
  explicit Current(CUcontext context) : pushed_{context != nullptr} {
    if (pushed_)
      require(Driver::instance().cuCtxPushCurrent(context) == CUDA_SUCCESS,
              CUPTI_ERROR_INVALID_CONTEXT);
  }
  ~Current() {
    CUcontext last = nullptr;
    if (pushed_) Driver::instance().cuCtxPopCurrent(&last);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const bool pushed_;
};

}  // namespace

std::uint32_t callback_id(bool is_runtime, std::string_view function) {
  const auto found = table(is_runtime).ids.find(function);
  return found == table(is_runtime).ids.end() ? 0 : found->second;
}

const char* callback_name(bool is_runtime, std::uint32_t id) {
  const auto found = table(is_runtime).names.find(id);
  return found == table(is_runtime).names.end() ? nullptr : found->second;
}

std::uint32_t thread_id() noexcept {
  if (g_thread_id_type.load() == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
    return static_cast<std::uint32_t>(syscall(SYS_gettid));
  return static_cast<std::uint32_t>(pthread_self());
}

}  // namespace cucpu::cupti

using namespace cucpu::cupti;

extern "C" {

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  return guarded([&] {
    require(type < CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE, CUPTI_ERROR_NOT_SUPPORTED);
    g_thread_id_type = type;
  });
}

CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  return guarded([&] {
    require(type != nullptr);
    *type = g_thread_id_type;
  });
}

CUptiResult cuptiGetContextId(CUcontext context, std::uint32_t* id) {
  return guarded([&] {
    require(id != nullptr);
    const Current scope{context};
    const CurrentContext current = current_context();
    require(current.handle != nullptr, CUPTI_ERROR_INVALID_CONTEXT);
    *id = current.id;
  });
}

CUptiResult cuptiGetDeviceId(CUcontext context, std::uint32_t* id) {
  return guarded([&] {
    require(id != nullptr);
    const Current scope{context};
    const CurrentContext current = current_context();
    require(current.handle != nullptr, CUPTI_ERROR_INVALID_CONTEXT);
    *id = current.device;
  });
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, std::uint8_t per_thread,
                               std::uint32_t* id) {
  return guarded([&] {
    require(id != nullptr);
    const Current scope{context};
    if (!stream) stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    const std::uint32_t found = stream_id(stream);
    require(found != CUPTI_INVALID_STREAM_ID, CUPTI_ERROR_INVALID_STREAM);
    *id = found;
  });
}

CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, std::uint32_t* id) {
  return cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name) {
  return guarded([&] {
    require(name &&
            (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API));
    const char* const found = callback_name(domain == CUPTI_CB_DOMAIN_RUNTIME_API, id);
    require(found != nullptr);
    *name = found;
  });
}

}  // extern "C"
