// SPDX-License-Identifier: Apache-2.0
// cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel.
#include <cstring>

#include "cpu/device/capture.hpp"
#include "cpu/device/event.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/capture.hpp"

using namespace cucpu::driver;

namespace {

/// Events that launch attributes record around the kernel.
std::vector<Ref<Event>> events_for(const KernelOp& op) {
  std::vector<Ref<Event>> events;
  for (const CUlaunchAttribute& attribute : op.attributes) {
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
      events.emplace_back(&object_of<Event>(attribute.value.programmaticEvent.event));
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      events.emplace_back(&object_of<Event>(attribute.value.launchCompletionEvent.event));
  }
  return events;
}

void launch(const CUlaunchConfig& config, CUfunction f, void** kernel_params, void** extra,
            bool cooperative) {
  const Ref<Stream> stream = stream_of(config.hStream);
  Context* const current = peek_context();
  const bool elsewhere =
      current != &context_of(*stream);  // a CUkernel is loaded into the stream's context
  if (elsewhere) push_context(context_of(*stream));
  Ref<KernelOp> op;
  try {
    op = make_kernel(f, config, kernel_params, extra, cooperative);
  } catch (...) {
    if (elsewhere) pop_context();
    throw;
  }
  if (elsewhere) pop_context();
  require(op->module->context() == &context_of(*stream), CUDA_ERROR_INVALID_HANDLE);
  const std::vector<Ref<Event>> events =
      op->attributes.empty() ? std::vector<Ref<Event>>{} : events_for(*op);
  if (is_capture_active() && capture_node(*stream, op)) {
    for (const Ref<Event>& event : events) capture_record(*stream, *event, false);
    return;
  }
  op->ready = op->make_launch(context_of(*stream));
  op->function->is_loaded.store(true, std::memory_order_relaxed);
  const std::uint64_t number = stream->submit(std::move(op));
  for (const Ref<Event>& event : events) event->record(*stream);
  if (has_blocking_launches()) [[unlikely]] {
    stream->wait(number);
    usable(context_of(*stream));
  }
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void** kernel_params, void** extra) {
  const Parameters parameters{f, gx, gy, gz, bx, by, bz, shared, stream, kernel_params, extra};
  return guarded(parameters, [&] {
    launch({gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, f, kernel_params, extra, false);
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernel_params,
                          void** extra) {
  return guarded(Parameters{config, f, kernel_params, extra}, [&] {
    require(config != nullptr);
    launch(*config, f, kernel_params, extra, false);
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                   void** kernel_params) {
  return guarded([&] {
    launch({gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, f, kernel_params, nullptr, true);
  });
}

}  // extern "C"
