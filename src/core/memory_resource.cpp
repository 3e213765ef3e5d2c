// SPDX-License-Identifier: Apache-2.0
// memory_resource.cpp: memory resources that allocate from the driver.
#include "cucore/memory_resource.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/captured_free.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/device.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

MemoryResource::~MemoryResource() = default;

// ---- pools

static CUmemPoolProps properties_of(const PoolOptions& options) {
  CUmemPoolProps properties{};
  properties.allocType = options.type;
  properties.handleTypes =
      options.ipc_enabled ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties.location = options.location;
  properties.maxSize = options.max_size;
  return properties;
}

void detail::DestroyPool::operator()(CUmemoryPool pool) const noexcept {
  if (!may_free()) return;
  const RelaxedCaptureScope relaxed;
  driver().cuMemPoolDestroy(pool);
}

MemoryPool::MemoryPool(MemoryPoolRef pool, const PoolOptions& options, Origin origin)
    : MemoryPoolRef{pool}, options_{options}, mapped_{origin == Origin::other_process} {
  if (device_id() >= 0) context_ = Context::primary(device_id());
}

MemoryPool::~MemoryPool() = default;

void MemoryPool::own(CUmemoryPool pool) noexcept {
  raw_ = pool;
  owned_.reset(pool);
}

const Context& MemoryPool::home() const { return context_; }

std::shared_ptr<MemoryPool> MemoryPool::current_of(int device) {
  CUdevice handle = 0;
  CUCORE_CALL(cuDeviceGet(&handle, device));
  CUmemoryPool pool = nullptr;
  CUCORE_CALL(cuDeviceGetMemPool(&pool, handle));
  PoolOptions options;
  options.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return std::shared_ptr<MemoryPool>{
      new MemoryPool{MemoryPoolRef{pool}, options, Origin::this_process}};
}

namespace {
/// Grants kernels on all devices access to a pool of pinned host memory, which they do not have by
/// default. If the driver rejects this, the pool remains usable for copies.
void grant_peer_access(CUmemoryPool pool, const CUmemLocation& location, CUmemAllocationType type) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED) return;
  std::vector<CUmemAccessDesc> access(static_cast<std::size_t>(Device::count()));
  for (std::size_t i = 0; i < access.size(); ++i) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = static_cast<int>(i);
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  if (driver().cuMemPoolSetAccess(pool, access.data(), access.size()) == CUDA_SUCCESS) return;
  for (const CUmemAccessDesc& one : access) (void)driver().cuMemPoolSetAccess(pool, &one, 1);
}
}  // namespace

std::shared_ptr<MemoryPool> MemoryPool::default_of(const CUmemLocation& location,
                                                   CUmemAllocationType type) {
  CUmemoryPool pool = nullptr;
  CUmemLocation where = location;
  CUCORE_CALL(cuMemGetDefaultMemPool(&pool, &where, type));
  grant_peer_access(pool, location, type);
  PoolOptions options;
  options.location = location;
  options.type = type;
  return std::shared_ptr<MemoryPool>{
      new MemoryPool{MemoryPoolRef{pool}, options, Origin::this_process}};
}

/// Returns the NUMA node closest to the current device.
static int near_numa_node() {
  return std::max(Device::current().attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID), 0);
}

std::shared_ptr<MemoryPool> MemoryPool::create(const PoolOptions& options) {
  const CUmemPoolProps properties = properties_of(options);
  // Create the owner first, so that a failure after the pool is created does not leak the pool.
  std::shared_ptr<MemoryPool> pool{new MemoryPool{MemoryPoolRef{}, options, Origin::this_process}};
  CUmemoryPool made = nullptr;
  CUCORE_CALL(cuMemPoolCreate(&made, &properties));
  pool->own(made);
  grant_peer_access(made, options.location, options.type);
  return pool;
}

std::shared_ptr<MemoryPool> MemoryPool::create_pinned(const PinnedOptions& options) {
  if (options.numa_id && *options.numa_id < 0)
    throw std::invalid_argument{"numa_id must be at least 0, not " +
                                std::to_string(*options.numa_id)};
  std::optional<int> node = options.numa_id;
  if (!node && options.ipc_enabled)  // only memory of a NUMA node can be shared
    node = near_numa_node();
  PoolOptions made;
  made.ipc_enabled = options.ipc_enabled;
  made.max_size = options.max_size;
  made.location = node ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, {*node}}
                       : CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, {0}};
  return create(made);
}

std::shared_ptr<MemoryPool> MemoryPool::default_pinned() {
  try {
    return default_of({CU_MEM_LOCATION_TYPE_HOST, {0}}, CU_MEM_ALLOCATION_TYPE_PINNED);
  } catch (const CUDAError& error) {
    if (error.code() != CUDA_ERROR_NOT_SUPPORTED) throw;
    return create_pinned({});
  }
}

std::shared_ptr<MemoryPool> MemoryPool::from_file_descriptor(int fd, const PoolOptions& options) {
  // The driver maps the pool for a device, and the importing process may not have a current
  // context.
  const bool on_device = options.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const ScopedContext scope{Context::primary(on_device ? options.location.id : 0)};
  PoolOptions shared = options;
  shared.ipc_enabled = true;
  std::shared_ptr<MemoryPool> pool{new MemoryPool{MemoryPoolRef{}, shared, Origin::other_process}};
  CUmemoryPool opened = nullptr;
  const CUresult code = driver().cuMemPoolImportFromShareableHandle(
      &opened, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_INVALID_HANDLE) {
    throw CUDAError{code, result_name(code),
                    std::string{result_name(code)} + ": file descriptor " + std::to_string(fd) +
                        " is not the handle of a memory pool "
                        "(cuMemPoolImportFromShareableHandle); give one that the pool's process "
                        "has exported",
                    "cuMemPoolImportFromShareableHandle", "file descriptor " + std::to_string(fd)};
  }
  check(code, "cuMemPoolImportFromShareableHandle");
  grant_peer_access(opened, options.location, options.type);
  pool->own(opened);
  return pool;
}

/// True for a stream created in a context: calls with it use that context, not the current one. The
/// default streams belong to the current context.
static bool has_context(StreamRef stream) {
  return reinterpret_cast<std::uintptr_t>(stream.handle()) > 2;
}

bool MemoryPool::is_device_accessible() const noexcept { return true; }

bool MemoryPool::is_host_accessible() const noexcept {
  return is_managed() || options_.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

int MemoryPool::device_id() const noexcept {
  return options_.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? options_.location.id : -1;
}

CUdeviceptr MemoryPool::allocate(std::size_t size, StreamRef stream) {
  if (mapped_) {
    throw InvalidStateError(
        "a memory resource that came from another process cannot allocate: it only maps the "
        "buffers that process shares");
  }
  CUdeviceptr ptr = 0;
  if (size == 0) return ptr;
  if (has_context(stream)) {
    const CUresult code = driver().cuMemAllocFromPoolAsync(&ptr, size, raw_, stream.handle());
    if (code == CUDA_SUCCESS) return ptr;
    if (code != CUDA_ERROR_INVALID_CONTEXT) fail(code, "cuMemAllocFromPoolAsync");
  }
  const ScopedContext scope{home()};
  CUCORE_CALL(cuMemAllocFromPoolAsync(&ptr, size, raw_, stream.handle()));
  return ptr;
}

void MemoryPool::deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) {
  if (ptr == 0) return;
  if (has_context(stream)) {
    const CUresult code = detail::free_in_order(ptr, stream);
    if (code == CUDA_SUCCESS) return;
    if (code != CUDA_ERROR_INVALID_CONTEXT) fail(code, "cuMemFreeAsync");
  }
  const ScopedContext scope{home()};
  check(detail::free_in_order(ptr, stream), "cuMemFreeAsync");
}

std::size_t MemoryPoolRef::attribute(CUmemPool_attribute attribute) const {
  cuuint64_t value = 0;  // the reuse attributes are int and fill the low half
  CUCORE_CALL(cuMemPoolGetAttribute(raw_, attribute, &value));
  return static_cast<std::size_t>(value);
}

void MemoryPoolRef::set_attribute(CUmemPool_attribute attribute, std::size_t value) const {
  cuuint64_t stored = value;
  CUCORE_CALL(cuMemPoolSetAttribute(raw_, attribute, &stored));
}

void MemoryPoolRef::trim_to(std::size_t keep_bytes) const {
  CUCORE_CALL(cuMemPoolTrimTo(raw_, keep_bytes));
}

int MemoryPoolRef::export_file_descriptor() const {
  int fd = -1;
  CUCORE_CALL(
      cuMemPoolExportToShareableHandle(&fd, raw_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return fd;
}

std::vector<int> MemoryPool::peer_accessible_by() const {
  std::vector<int> peers;
  for (const Device& device : Device::all()) {
    const int number = device.device_id();
    if (number != device_id() && access(number) != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      peers.push_back(number);
  }
  return peers;
}

void MemoryPool::add_peer_accessible_by(int device) const {
  if (device == device_id()) return;
  if (!Device{device}.can_access_peer(Device{device_id()})) {
    throw std::invalid_argument{"device " + std::to_string(device) +
                                " cannot access the memory of device " +
                                std::to_string(device_id())};
  }
  set_access(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void MemoryPool::remove_peer_accessible_by(int device) const {
  if (device != device_id()) set_access(device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

void MemoryPool::set_peer_accessible_by(std::span<const int> devices) const {
  const std::vector<int> before = peer_accessible_by();
  const std::set<int> wanted{devices.begin(), devices.end()};
  for (const int device : wanted)
    if (std::ranges::find(before, device) == before.end()) add_peer_accessible_by(device);
  for (const int device : before)
    if (!wanted.contains(device)) remove_peer_accessible_by(device);
}

CUmemPoolPtrExportData MemoryPool::export_pointer(CUdeviceptr ptr) const {
  // The driver exports pointers of a pool only after the pool itself is exported.
  if (!exported_.exchange(true)) ::close(export_file_descriptor());
  CUmemPoolPtrExportData data{};
  CUCORE_CALL(cuMemPoolExportPointer(&data, ptr));
  return data;
}

CUdeviceptr MemoryPool::import_pointer(const CUmemPoolPtrExportData& data) const {
  const ScopedContext scope{context_ ? context_ : Context::primary(0)};
  CUmemPoolPtrExportData copy = data;
  CUdeviceptr ptr = 0;
  CUCORE_CALL(cuMemPoolImportPointer(&ptr, raw_, &copy));
  return ptr;
}

void MemoryPoolRef::set_access(int device, CUmemAccess_flags flags) const {
  CUmemAccessDesc descriptor{};
  descriptor.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  descriptor.flags = flags;
  CUCORE_CALL(cuMemPoolSetAccess(raw_, &descriptor, 1));
}

CUmemAccess_flags MemoryPoolRef::access(int device) const {
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUCORE_CALL(cuMemPoolGetAccess(&flags, raw_, &location));
  return flags;
}

// ---- memory outside pools

CUdeviceptr LegacyPinnedMemory::allocate(std::size_t size, StreamRef) {
  if (size == 0) return 0;
  void* ptr = nullptr;
  CUCORE_CALL(cuMemAllocHost(&ptr, size));
  return reinterpret_cast<CUdeviceptr>(ptr);
}

/// Synchronizes with the stream, then frees the memory. Frees it even if synchronization fails, and
/// then throws that error.
template <class Free>
static void free_after(StreamRef stream, Free free) {
  const CUresult waited =
      stream.handle() != nullptr ? driver().cuStreamSynchronize(stream.handle()) : CUDA_SUCCESS;
  free();
  check(waited, "cuStreamSynchronize");
}

void LegacyPinnedMemory::deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) {
  if (ptr == 0) return;
  const detail::RelaxedCaptureScope relaxed;
  CUcontext current = nullptr;  // a thread without a current context may free as well
  std::optional<ScopedContext> scope;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr)
    scope.emplace(Context::primary(0));
  free_after(stream, [ptr] { CUCORE_CALL(cuMemFreeHost(reinterpret_cast<void*>(ptr))); });
}

CUdeviceptr SynchronousMemory::allocate(std::size_t size, StreamRef) {
  CUdeviceptr ptr = 0;
  if (size == 0) return ptr;
  const ScopedContext scope{Context::primary(device_)};
  CUCORE_CALL(cuMemAlloc(&ptr, size));
  return ptr;
}

void SynchronousMemory::deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) {
  if (ptr == 0) return;
  const detail::RelaxedCaptureScope relaxed;
  const ScopedContext scope{Context::primary(device_)};
  free_after(stream, [ptr] { CUCORE_CALL(cuMemFree(ptr)); });
}

// ---- graphs

CUdeviceptr GraphMemory::allocate(std::size_t size, StreamRef stream) {
  if (!stream.is_capturing()) {
    throw InvalidStateError(
        "a GraphMemoryResource allocates on a stream that is being captured: pass a GraphBuilder "
        "between begin_building() and end_building()");
  }
  CUdeviceptr ptr = 0;
  if (size == 0) return ptr;
  const ScopedContext scope{Context::primary(device_)};
  CUCORE_CALL(cuMemAllocAsync(&ptr, size, stream.handle()));
  return ptr;
}

void GraphMemory::deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) {
  if (ptr == 0) return;
  const ScopedContext scope{Context::primary(device_)};
  CUCORE_CALL(cuMemFreeAsync(ptr, stream.handle()));
}

std::size_t GraphMemory::attribute(CUgraphMem_attribute attribute) const {
  cuuint64_t value = 0;
  CUCORE_CALL(cuDeviceGetGraphMemAttribute(device_, attribute, &value));
  return static_cast<std::size_t>(value);
}

void GraphMemory::reset_attribute(CUgraphMem_attribute attribute) {
  cuuint64_t zero = 0;
  CUCORE_CALL(cuDeviceSetGraphMemAttribute(device_, attribute, &zero));
}

void GraphMemory::trim() { CUCORE_CALL(cuDeviceGraphMemTrim(device_)); }

}  // namespace cucore
