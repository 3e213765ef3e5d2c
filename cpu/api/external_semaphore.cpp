// SPDX-License-Identifier: Apache-2.0
// cuImportExternalSemaphore, cuSignalExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync.
#include "cpu/device/external_semaphore.hpp"

#include "cpu/device/guard.hpp"
#include "cpu/device/submit.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuImportExternalSemaphore(CUexternalSemaphore* out,
                                   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* desc) {
  return guarded([&] {
    require(out && desc && desc->flags == 0);
    current_context();
    switch (desc->type) {
      case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD:
        *out = ExternalSemaphore::import_binary(desc->handle.fd)->publish();
        return;
      case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD:
        *out = ExternalSemaphore::import_timeline(desc->handle.fd)->publish();
        return;
      default:
        require(desc->type >= CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD &&
                desc->type <= CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32);
        fail(CUDA_ERROR_NOT_SUPPORTED);  // handle types of Windows and NvSci
    }
  });
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore handle) {
  return guarded([&] {
    current_context();
    require(nonnull_object_of<ExternalSemaphore>(handle).retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore* semaphores,
                                         const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* params,
                                         unsigned int count, CUstream stream) {
  return guarded([&] {
    const Ref<Stream> queue = stream_of(stream);
    require(count > 0);
    submit(*queue, make_object<SignalSemaphoresOp>(semaphores, params, count));
  });
}

CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore* semaphores,
                                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* params,
                                       unsigned int count, CUstream stream) {
  return guarded([&] {
    const Ref<Stream> queue = stream_of(stream);
    require(count > 0);
    submit(*queue, make_object<WaitSemaphoresOp>(semaphores, params, count));
  });
}

}  // extern "C"
