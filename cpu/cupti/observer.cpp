// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/observer.cpp: what the driver calls.
#include <cstring>
#include <mutex>
#include <string_view>

#include "cpu/cupti/activity.hpp"
#include "cpu/cupti/callbacks.hpp"
#include "cpu/cupti/ids.hpp"
#include "cpu/cupti/records.hpp"

namespace cucpu::cupti {
namespace {

CUpti_CallbackDomain domain_of(const trace::ApiCall& call) {
  return call.is_runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
}

/// The kernel that a call of the driver launches; null for other calls.
const char* launched_kernel(const trace::ApiCall& call) {
  const std::string_view name = call.function;
  if (!call.parameters || call.is_runtime) return nullptr;
  if (name != "cuLaunchKernel" && name != "cuLaunchKernelEx") return nullptr;
  CUfunction function{};
  const std::size_t offset = name == "cuLaunchKernel" ? 0 : sizeof(void*);
  std::memcpy(&function, static_cast<const std::byte*>(call.parameters) + offset,
              sizeof(CUfunction));
  const char* kernel = nullptr;
  return Driver::instance().cuFuncGetName(&kernel, function) == CUDA_SUCCESS ? kernel : nullptr;
}

void call_back(trace::ApiCall& call, std::uint32_t id, CUpti_ApiCallbackSite site) noexcept {
  const Subscriber& subscriber = Subscriber::instance();
  if (!subscriber.wants(domain_of(call), id)) return;
  const CurrentContext context = current_context();
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = call.function;
  data.functionParams = call.parameters;
  data.functionReturnValue = site == CUPTI_API_EXIT ? &call.result : nullptr;
  data.symbolName = launched_kernel(call);
  data.context = context.handle;
  data.contextUid = context.id;
  data.correlationData = &call.data;
  data.correlationId = call.correlation;
  subscriber.call(domain_of(call), id, &data);
}

/// Callbacks of other domains that follow from a call of the driver.
void call_back_of_resources(const trace::ApiCall& call, const CurrentContext& context,
                            bool is_new_context) {
  const Subscriber& subscriber = Subscriber::instance();
  if (is_new_context) {
    CUpti_ResourceData data{};
    data.context = context.handle;
    if (subscriber.wants(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED))
      subscriber.call(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &data);
  }
  const std::string_view name = call.function;
  if (call.result != CUDA_SUCCESS) return;
  if (name.starts_with("cuStreamCreate") && call.parameters &&
      subscriber.wants(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED)) {
    const CUstream* made = nullptr;
    std::memcpy(&made, call.parameters, sizeof made);
    CUpti_ResourceData data{};
    data.context = context.handle;
    data.resourceHandle.stream = *made;
    subscriber.call(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED, &data);
  }
  CUpti_SynchronizeData data{};
  data.context = context.handle;
  if (name == "cuStreamSynchronize" && call.parameters) {
    std::memcpy(&data.stream, call.parameters, sizeof(CUstream));
    if (subscriber.wants(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED))
      subscriber.call(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED,
                      &data);
  } else if (name.starts_with("cuCtxSynchronize") &&
             subscriber.wants(CUPTI_CB_DOMAIN_SYNCHRONIZE,
                              CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED)) {
    subscriber.call(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED,
                    &data);
  }
}

void call_begins(trace::ApiCall& call) noexcept {
  call_back(call, callback_id(call.is_runtime, call.function), CUPTI_API_ENTER);
}

void call_ended(trace::ApiCall& call) noexcept try {
  const std::uint32_t id = callback_id(call.is_runtime, call.function);
  const CurrentContext context = current_context();
  const bool is_new_context = add_context(context, call);
  add_record(call, id);
  if (Subscriber::instance().is_there()) {
    call_back_of_resources(call, context, is_new_context);
    call_back(call, id, CUPTI_API_EXIT);
  }
  Activities::instance().deliver_if_due();
} catch (...) {  // no memory: the records are lost
}

void work_ended(const trace::Work& work) noexcept { add_record(work); }

constexpr trace::Observer kObserver{
    .call_begins = call_begins, .call_ended = call_ended, .work_ended = work_ended};

}  // namespace

void update_observation() {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock{mutex};
  static bool observes = false;
  const bool wanted = Activities::instance().any_enabled() || Subscriber::instance().is_there();
  if (wanted == observes) return;
  require(Driver::instance().cucoreObserve(wanted ? &kObserver : nullptr) == 1,
          CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  observes = wanted;
}

}  // namespace cucpu::cupti
