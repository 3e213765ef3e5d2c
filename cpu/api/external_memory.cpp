// SPDX-License-Identifier: Apache-2.0
// cuImportExternalMemory, cuExternalMemoryGetMapped*.
#include "cpu/device/external_memory.hpp"

#include "cpu/device/array.hpp"
#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuImportExternalMemory(CUexternalMemory* out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* desc) {
  return guarded([&] {
    require(out && desc);
    current_context();
    require(desc->size > 0 &&
            (desc->flags & ~static_cast<unsigned>(CUDA_EXTERNAL_MEMORY_DEDICATED)) == 0);
    require(desc->type >= CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
            desc->type <= CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD);
    require(desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
                desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD,
            CUDA_ERROR_NOT_SUPPORTED);  // handle types of Windows and NvSci
    require(desc->size <= file_bytes(desc->handle.fd));
    *out = make_object<ExternalMemory>(desc->handle.fd, static_cast<std::size_t>(desc->size))
               ->publish();  // owns the descriptor
  });
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
  return guarded([&] {
    current_context();
    require(nonnull_object_of<ExternalMemory>(handle).retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* desc) {
  return guarded([&] {
    require(out && desc && desc->flags == 0);
    ExternalMemory& memory = nonnull_object_of<ExternalMemory>(handle);
    Context& context = current_context();
    require_capture_safe();
    const AllocationRef record = map_part(memory, desc->offset, desc->size);
    record->kind = MemoryKind::device;
    record->device = context.device.ordinal;
    record->context_id = context.id;
    MemoryMap::instance().insert(record);
    *out = record->base;
  });
}

CUresult cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray* out, CUexternalMemory handle,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* desc) {
  return guarded([&] {
    require(out && desc && desc->numLevels > 0);
    Context& context = current_context();
    require_capture_safe();
    const ExternalMemory& memory = object_of<ExternalMemory>(handle);
    require(desc->offset < memory.size);
    *out = make_mipmapped_array(context, desc->arrayDesc, desc->numLevels, [&](std::size_t bytes) {
             return map_part(memory, desc->offset, bytes);
           })->publish();
  });
}

}  // extern "C"
