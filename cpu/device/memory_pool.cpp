// SPDX-License-Identifier: Apache-2.0
// Memory pools.
#include "cpu/device/memory_pool.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>

#include "cpu/device/deferred.hpp"
#include "cpu/device/location.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/exec/ops.hpp"

namespace cucpu::driver {
namespace {

/// Size classes in steps of an eighth, so that a freed block fits the next request of similar size.
struct SizeClass {
  std::size_t bytes = 0;
  std::size_t index = 0;  ///< index of the size class
};
SizeClass size_class(std::size_t bytes) {
  if (bytes > std::size_t{1} << 62)
    throw std::bad_alloc{};  // too large; rounding below cannot overflow
  std::size_t step = 512, doublings = 0;
  for (; step * 16 < bytes; step *= 2) ++doublings;
  const std::size_t steps = (bytes + step - 1) / step;
  return {steps * step, doublings * 16 + steps - 1};
}

std::atomic<std::size_t> g_trimmable{0};  // unused bytes in all pools

struct Registry {
  std::mutex mutex;
  std::set<MemPool*> pools;
};
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

void enter(MemPool& pool) {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.pools.insert(&pool);
}

/// A GPU keeps the mapping of an imported block with its pool, so work of any stream queued before
/// the free can still use it. Here it is unmapped once all of that work is complete.
void unmap_after_work(const AllocationRef& memory) noexcept {
  std::shared_ptr<OwnedMemory> owner;
  try {
    owner = std::make_shared<OwnedMemory>(memory);
    release_after_queued_work(owner);
  } catch (const std::bad_alloc&) {
    memory->release = nullptr;  // it stays mapped until the pool is destroyed
  }
}

MemPool& made_pool(Device& device, Ref<Object>& place, bool is_default) {
  if (!place) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.ordinal}};
    auto pool = make_object<MemPool>(props, is_default);
    pool->publish();
    place = pool;
  }
  return static_cast<MemPool&>(*place);
}

}  // namespace

void drop_after(Stream& stream, const AllocationRef& memory, std::uint64_t number) noexcept {
  try {
    stream.submit(make_object<CallOp>([memory] { MemoryMap::drop(memory); }, true));
  } catch (...) {
    stream.wait(number);
    MemoryMap::drop(memory);
  }
}

MemPool::MemPool(const CUmemPoolProps& props, bool is_default)
    : props{props}, is_default{is_default} {
  if (props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    const std::size_t limit =
        device() >= 0 ? device_of(device()).budget.limit : host_memory_bytes();
    arena_ = std::make_shared<SharedArena>(std::max(props.maxSize, limit) * 2);
  }
  enter(*this);
}

MemPool::MemPool(const CUmemPoolProps& props, std::shared_ptr<SharedArena> imported)
    : props{props}, is_default{false}, imported_{true}, arena_{std::move(imported)} {
  enter(*this);
}

MemPool::~MemPool() {
  {
    Registry& r = registry();
    const std::lock_guard lock{r.mutex};
    r.pools.erase(this);
  }
  for (Bin& bin : free_)
    for (auto* list : {&bin.over, &bin.pending})
      for (Block& block : *list) {
        g_trimmable -= block.bytes;
        if (block.is_over())
          MemoryMap::drop(block.memory);
        else
          drop_after(*block.stream, block.memory, block.number);
      }
}

MemPool::Bin& MemPool::bin_of(std::size_t bytes) {
  const std::size_t index = size_class(bytes).index;
  if (index >= free_.size()) free_.resize(index + 1);
  return free_[index];
}

AllocationRef MemPool::new_block(std::size_t bytes) {
  Budget* budget = device() >= 0 ? &device_of(device()).budget : nullptr;
  if (!arena_) return allocate_memory(bytes, 512, budget);
  auto memory = std::make_shared<Allocation>();
  memory->size = bytes;
  memory->release = [arena = arena_, bytes,
                     budget](Allocation& a) {  // made first: nothing may throw after the allocation
    arena->give(a.base - arena->base(), bytes);
    if (budget) budget->give(bytes);
  };
  if (budget && !budget->take(bytes)) throw std::bad_alloc{};
  try {
    memory->base = arena_->base() + arena_->take(bytes);
  } catch (...) {
    if (budget) budget->give(bytes);
    throw;
  }
  return memory;
}

bool MemPool::take_free(std::size_t bytes, Stream& stream, Block& out, bool may_wait) {
  // A use after free must be detected, and race checks do not know what orders a reuse.
  if ((check::kinds_in_environment() & (check::kMemory | check::kRace)) != 0) return false;
  if (!find_free(bin_of(bytes), stream, out, may_wait)) return false;
  g_trimmable -= out.bytes;
  return true;
}

bool MemPool::find_free(Bin& bin, Stream& stream, Block& out, bool may_wait) {
  const auto close_gap = [](std::vector<Block>& list, std::size_t at) {
    if (at + 1 != list.size()) list[at] = std::move(list.back());
    list.pop_back();
  };
  const auto take = [&](std::vector<Block>& list, std::size_t at) {
    out = std::move(list[at]);
    close_gap(list, at);
    return true;
  };
  auto& [over, pending] = bin;
  if (!pending.empty() && pending.back().stream.get() == &stream)
    return take(pending, pending.size() - 1);
  if (!over.empty()) return take(over, over.size() - 1);
  for (std::size_t at = pending.size(); at-- > 0;) {
    if (pending[at].stream.get() == &stream) return take(pending, at);
    if (!opportunistic_ || !pending[at].is_over()) continue;
    over.push_back(std::move(pending[at]));
    over.back().stream = nullptr;
    close_gap(pending, at);
  }
  if (!over.empty()) return take(over, over.size() - 1);
  for (std::size_t at = 0; follow_events_ && at < pending.size(); ++at)
    if (stream.comes_after(*pending[at].stream, pending[at].number)) return take(pending, at);
  return may_wait && internal_dependencies_ && !pending.empty() && take(pending, 0);
}

CUdeviceptr MemPool::allocate(std::size_t bytes, Stream& stream) {
  const std::size_t rounded = size_class(bytes).bytes;
  auto record = std::make_shared<Allocation>();
  Block block;
  std::unique_lock lock{mutex_};
  if (props.maxSize && (rounded > props.maxSize || in_use_ > props.maxSize - rounded))
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  // A wait for work of another stream is the last resort: that work may wait for this program.
  const bool is_full = props.maxSize && reserved_ + rounded > props.maxSize;
  bool found = take_free(rounded, stream, block, is_full);
  if (is_full && !found) trim_locked(props.maxSize - rounded);
  in_use_ += rounded;  // counted first, so that concurrent allocations stay within the limit
  if (!found) {
    reserved_ += rounded;
    lock.unlock();
    try {
      try {
        block.memory = new_block(rounded);
      } catch (const std::bad_alloc&) {  // unused memory of pools may be enough
        lock.lock();
        found = take_free(rounded, stream, block, true);
        if (found) reserved_ -= rounded;
        lock.unlock();
      }
      if (!found && !block.memory) {
        trim_all_pools();
        block.memory = new_block(rounded);
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      in_use_ -= rounded;
      reserved_ -= rounded;
      throw;
    }
    lock.lock();
    if (!found) block.bytes = rounded;
    reserved_high_ = std::max(reserved_high_, reserved_);
  }
  const bool must_wait = block.stream && block.stream.get() != &stream && !block.is_over() &&
                         !stream.comes_after(*block.stream, block.number);
  const Ref<Stream> earlier = block.stream;
  const std::uint64_t number = block.number;
  block.stream = nullptr;
  record->base = block.memory->base;
  record->size = bytes;
  record->kind = MemoryKind::pool;
  record->device = device();
  record->pool = this;
  record->handle_types = props.handleTypes;
  const std::uintptr_t base = record->base;
  const AllocationRef memory = block.memory;
  try {
    used_[base] = std::move(block);
    lock.unlock();
    MemoryMap::instance().insert(record);
    if (must_wait) stream.submit(make_object<WaitOp>(earlier, number));
    lock.lock();
  } catch (...) {  // the memory is removed from the pool
    if (!lock.owns_lock()) lock.lock();
    used_.erase(base);
    in_use_ -= rounded;
    reserved_ -= rounded;
    lock.unlock();
    MemoryMap::instance().erase(base);
    if (must_wait)
      drop_after(*earlier, memory, number);
    else
      MemoryMap::drop(memory);
    throw;
  }
  retain();  // released by the free
  in_use_high_ = std::max(in_use_high_, in_use_);
  if (trace::is_on()) [[unlikely]]
    trace::add_counter("memory of pools in use", in_use_);
  return base;
}

void MemPool::free(const AllocationRef& record, Stream* stream) noexcept {
  AllocationRef removed;
  {
    const std::lock_guard lock{mutex_};
    const auto at = used_.find(record->base);
    if (at == used_.end()) return;
    Block block = std::move(at->second);
    used_.erase(at);
    in_use_ -= std::min<std::uint64_t>(in_use_, block.bytes);
    if (trace::is_on()) [[unlikely]]
      trace::add_counter("memory of pools in use", in_use_);
    if (imported_) {
      removed = block.memory;
    } else {
      const std::size_t bytes = block.bytes;
      if (stream && !stream->drained()) {
        block.stream = Ref<Stream>{stream};
        block.number = stream->submitted();
      }
      try {
        Bin& bin = bin_of(bytes);
        (block.stream ? bin.pending : bin.over).push_back(std::move(block));
        g_trimmable += bytes;
      } catch (const std::bad_alloc&) {
        reserved_ -= block.bytes;
        removed = block.memory;
      }
    }
  }
  if (removed && imported_)
    unmap_after_work(removed);
  else if (removed && stream && !stream->drained())
    drop_after(*stream, removed, stream->submitted());
  else
    MemoryMap::drop(removed);
  release();
}

void MemPool::trim(std::size_t keep) noexcept {
  const std::lock_guard lock{mutex_};
  trim_locked(keep);
}

void MemPool::trim_locked(std::size_t keep) noexcept {
  if (reserved_ <= keep) return;
  for (Bin& bin : free_)
    for (auto* list : {&bin.over, &bin.pending})
      std::erase_if(*list, [&](Block& block) {
        if (reserved_ <= keep || !block.is_over()) return false;
        reserved_ -= block.bytes;
        g_trimmable -= block.bytes;
        MemoryMap::drop(block.memory);  // freed here: a list of blocks to free would need memory
        return true;
      });
}

void MemPool::trim_to_threshold() noexcept {
  std::uint64_t threshold;
  {
    const std::lock_guard lock{mutex_};
    threshold = threshold_;
  }
  trim(threshold);
}

void MemPool::get_attribute(CUmemPool_attribute attribute, void* value) {
  const std::lock_guard lock{mutex_};
  const auto put_int = [&](int v) { std::memcpy(value, &v, sizeof v); };
  const auto put = [&](std::uint64_t v) { std::memcpy(value, &v, sizeof v); };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      put_int(follow_events_);
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      put_int(opportunistic_);
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      put_int(internal_dependencies_);
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      put(threshold_);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      put(reserved_);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      put(reserved_high_);
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      put(in_use_);
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      put(in_use_high_);
      break;
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
      put_int(props.allocType);
      break;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
      put_int(props.handleTypes);
      break;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
      put_int(props.location.id);
      break;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
      put_int(props.location.type);
      break;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
      put(props.maxSize);
      break;
    case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
      put_int(0);
      break;
    case CU_MEMPOOL_ATTR_LOCALITY_DOMAIN_ID:
      put_int(0);
      break;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void MemPool::set_attribute(CUmemPool_attribute attribute, const void* value) {
  const std::lock_guard lock{mutex_};
  const auto get_flag = [&] {
    int v;
    std::memcpy(&v, value, sizeof v);
    require(v == 0 || v == 1);
    return v;
  };
  std::uint64_t number = 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      follow_events_ = get_flag();
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      opportunistic_ = get_flag();
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      internal_dependencies_ = get_flag();
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&threshold_, value, sizeof threshold_);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      std::memcpy(&number, value, sizeof number);
      require(number == 0);  // only a reset is allowed
      reserved_high_ = reserved_;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      std::memcpy(&number, value, sizeof number);
      require(number == 0);
      in_use_high_ = in_use_;
      break;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void MemPool::set_access(const CUmemAccessDesc& access) {
  require(access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  require(access.location.type == CU_MEM_LOCATION_TYPE_DEVICE, not_on(access.location.type));
  device_of(access.location.id);
  if (access.location.id == device()) {
    require(access.flags ==
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE);  // the pool's own device always has access
    return;
  }
  const std::lock_guard lock{mutex_};
  access_[access.location.id] = access.flags;
  MemoryMap::instance().mark_changed();
}

CUmemAccess_flags MemPool::access_of(const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    require(is_host(location.type));
    return device() < 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  require(is_device(location.id));
  if (location.id == device()) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::lock_guard lock{mutex_};
  const auto at = access_.find(location.id);
  return at == access_.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : at->second;
}

CUdeviceptr MemPool::import_block(std::size_t offset, std::size_t bytes) {
  require(imported_);
  const std::uintptr_t base = arena_->base() + offset;
  const std::lock_guard lock{mutex_};
  require(!used_.contains(base), CUDA_ERROR_ALREADY_MAPPED);
  auto memory = std::make_shared<Allocation>();
  memory->base = base;
  memory->size = bytes;
  memory->release = [arena = arena_, offset](Allocation& a) { arena->unmap(offset, a.size); };
  auto record = std::make_shared<Allocation>();
  record->base = base;
  record->size = bytes;
  record->kind = MemoryKind::pool;
  record->device = device();
  record->pool = this;
  try {
    arena_->map(offset, bytes);
  } catch (const std::invalid_argument&) {
    fail(CUDA_ERROR_INVALID_VALUE);
  }
  try {
    Block& block = used_[base];
    block.memory = memory;
    block.bytes = bytes;
    MemoryMap::instance().insert(record);
  } catch (...) {
    used_.erase(base);
    MemoryMap::drop(memory);
    throw;
  }
  in_use_ += bytes;
  retain();  // until it is freed
  return base;
}

void free_pool_memory(CUdeviceptr address) {
  const AllocationRef record = MemoryMap::instance().remove(
      address, [](const Allocation& a) { return a.kind == MemoryKind::pool && a.pool; });
  require(record != nullptr);
  static_cast<MemPool*>(record->pool)->free(record, nullptr);
}

CUmemoryPool pool_handle(const Allocation& a) {
  return a.kind == MemoryKind::pool && a.pool ? static_cast<MemPool*>(a.pool)->handle() : nullptr;
}

bool is_managed(const Allocation& a) {
  if (a.kind != MemoryKind::pool || !a.pool) return a.kind == MemoryKind::managed;
  return static_cast<MemPool*>(a.pool)->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

MemPool& default_pool(Device& device) {
  const std::lock_guard lock{device.pool_mutex};
  return made_pool(device, device.default_pool, true);
}

MemPool& current_pool(Device& device) {
  const std::lock_guard lock{device.pool_mutex};
  MemPool& standard = made_pool(device, device.default_pool, true);
  return device.current_pool ? static_cast<MemPool&>(*device.current_pool) : standard;
}

bool trim_all_pools() noexcept {
  if (g_trimmable.load(std::memory_order_relaxed) == 0) return false;
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  for (MemPool* pool : r.pools) pool->trim(0);
  return true;
}

void trim_pools_after_wait() noexcept {
  release_deferred();
  if (g_trimmable.load(std::memory_order_relaxed) == 0) return;
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  for (MemPool* pool : r.pools) pool->trim_to_threshold();
}

}  // namespace cucpu::driver
