// cuImportExternalMemory: memory that came as a file descriptor: what cuMemExportToShareableHandle
// gave, any memfd, a dma-buf.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/device/array.hpp"
#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/mem/address_space.hpp"

namespace cucpu::driver {
namespace {

class ExternalMemory final
    : public Handled<ExternalMemory, CUexternalMemory, Kind::external_memory> {
 public:
  ExternalMemory(int fd, std::size_t size) : fd{fd}, size{size} {}
  ~ExternalMemory() override { close(fd); }
  const int fd;
  const std::size_t size;
};

/// A part of the file in the device's address space. The mapping outlives the imported object.
AllocationRef map_part(const ExternalMemory& memory, std::size_t offset, std::size_t size) {
  require(size > 0 && offset <= memory.size && size <= memory.size - offset);
  AddressSpace& space = AddressSpace::instance();
  const std::size_t lead = offset % space.page();
  const std::size_t pages = space.round_to_pages(lead + size);
  const std::uintptr_t start = space.take(pages, space.page());
  if (mmap(reinterpret_cast<void*>(start), pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           memory.fd, static_cast<off_t>(offset - lead)) == MAP_FAILED) {
    space.give(start, pages);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  auto record = std::make_shared<Allocation>();
  record->base = start + lead;
  record->size = size;
  record->release = [start, pages](Allocation&) { AddressSpace::instance().give(start, pages); };
  return record;
}

std::size_t file_bytes(int fd) {
  struct stat info;
  require(fstat(fd, &info) == 0);
  if (S_ISREG(info.st_mode)) return static_cast<std::size_t>(info.st_size);
  const off_t end = lseek(fd, 0, SEEK_END);  // dma-bufs answer this
  require(end > 0);
  return static_cast<std::size_t>(end);
}

}  // namespace
}  // namespace cucpu::driver

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
            CUDA_ERROR_NOT_SUPPORTED);  // Windows' and NvSci's
    require(desc->size <= file_bytes(desc->handle.fd));
    *out = make_object<ExternalMemory>(desc->handle.fd, static_cast<std::size_t>(desc->size))
               ->publish();  // owns it now
  });
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
  return guarded([&] {
    current_context();
    require(given<ExternalMemory>(handle).retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* desc) {
  return guarded([&] {
    require(out && desc && desc->flags == 0);
    ExternalMemory& memory = given<ExternalMemory>(handle);
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
