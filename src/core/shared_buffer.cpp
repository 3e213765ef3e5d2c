// SPDX-License-Identifier: Apache-2.0
// shared_buffer.cpp: shares buffers between processes through plain bytes.
#include "cucore/shared_buffer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/exporter.hpp"
#include "core/ipc_link.hpp"
#include "cucore/device.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

using detail::Exporter;
using detail::IPCLink;
using detail::PoolName;

/// The buffers and pools that this process has exported or opened. Expired entries are removed when
/// their number has doubled since the last removal.
struct Sharing {
  struct Offered {
    std::weak_ptr<Buffer> buffer;
    std::weak_ptr<Exporter> exporter;
    std::uint64_t number;
  };
  struct Named {
    std::weak_ptr<MemoryPool> pool;
    PoolName name;
  };
  std::mutex mutex;
  std::map<const Buffer*, Offered> offered;
  std::map<const MemoryPool*, Named> named;
  std::map<PoolName, std::weak_ptr<MemoryPool>> opened;
  std::size_t most = 64;

  void remove_expired() {
    if (offered.size() < most) return;
    std::erase_if(offered, [](const auto& entry) {
      const Offered& one = entry.second;
      if (!one.buffer.expired()) return false;
      if (const auto exporter = one.exporter.lock()) exporter->withdraw(one.number);
      return true;
    });
    most = std::max<std::size_t>(64, 2 * offered.size());
  }
};
Sharing& sharing() {
  // Never destroyed: other threads may share buffers until the process ends.
  static Sharing& s = *new Sharing;
  return s;
}

/// Returns an owner that keeps a buffer alive for another process, or null if the buffer is closed.
std::shared_ptr<void> hold(const std::weak_ptr<Buffer>& offered) {
  std::shared_ptr<Buffer> buffer = offered.lock();
  return buffer == nullptr || buffer->is_closed() ? nullptr : buffer;
}

std::uint64_t number_of(const std::shared_ptr<Buffer>& buffer,
                        const std::shared_ptr<Exporter>& exporter) {
  Sharing& all = sharing();
  const std::lock_guard lock{all.mutex};
  // A destroyed buffer may have had the same address.
  if (const auto found = all.offered.find(buffer.get()); found != all.offered.end()) {
    const Sharing::Offered& known = found->second;
    if (known.buffer.lock() == buffer && known.exporter.lock() == exporter) return known.number;
    if (const auto before = known.exporter.lock()) before->withdraw(known.number);
  }
  all.remove_expired();
  const std::uint64_t number =
      exporter->offer([offered = std::weak_ptr{buffer}] { return hold(offered); });
  all.offered[buffer.get()] = {buffer, exporter, number};
  return number;
}

/// Returns a buffer that this process itself has exported.
std::shared_ptr<Buffer> own_buffer(std::uint64_t number) {
  Sharing& all = sharing();
  const std::lock_guard lock{all.mutex};
  for (const auto& [at, offered] : all.offered) {
    std::shared_ptr<Buffer> buffer = offered.number == number ? offered.buffer.lock() : nullptr;
    if (buffer != nullptr && !buffer->is_closed()) return buffer;
  }
  throw InvalidStateError{"the buffer was closed before it was opened in its own process"};
}

PoolName name_of(const std::shared_ptr<MemoryPool>& pool) {
  Sharing& all = sharing();
  const std::lock_guard lock{all.mutex};
  std::erase_if(all.named, [](const auto& entry) { return entry.second.pool.expired(); });
  const auto found = all.named.find(pool.get());
  if (found != all.named.end()) return found->second.name;
  PoolName name{};
  detail::fill_randomly(name.data(), name.size());
  all.named[pool.get()] = {pool, name};
  return name;
}

template <std::size_t N>
std::array<char, N> characters(std::string_view text) {
  std::array<char, N> out{};
  if (text.size() >= N) throw std::length_error{"the name is too long: " + std::string{text}};
  std::copy(text.begin(), text.end(), out.begin());
  return out;
}

/// Returns the text of a field received from another process, which need not be null-terminated.
template <std::size_t N>
std::string_view text_of(const std::array<char, N>& field) {
  return {field.data(), strnlen(field.data(), N)};
}

/// Returns the pool of a shared buffer, which this process opens once.
std::shared_ptr<MemoryPool> opened_pool(const SharedBuffer& shared, IPCLink& link) {
  Sharing& all = sharing();
  {
    const std::lock_guard lock{all.mutex};
    std::erase_if(all.opened, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = all.opened.find(shared.pool); found != all.opened.end())
      if (auto pool = found->second.lock()) return pool;
  }
  PoolOptions options;
  options.ipc_enabled = true;
  const std::string_view uuid = text_of(shared.device);
  options.location =
      uuid.empty() ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}}
                   : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, {detail::visible_device(uuid)}};
  const int fd = link.pool({reinterpret_cast<const char*>(shared.pool.data()), shared.pool.size()});
  if (fd < 0)
    throw InvalidStateError{
        "the memory resource was closed before it was opened here: its process must keep it"};
  std::shared_ptr<MemoryPool> pool;
  try {
    pool = MemoryPool::from_file_descriptor(fd, options);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  const std::lock_guard lock{all.mutex};
  std::weak_ptr<MemoryPool>& place = all.opened[shared.pool];
  if (auto known = place.lock()) return known;  // another thread opened it first
  place = pool;
  return pool;
}

}  // namespace

SharedBuffer share_buffer(const std::shared_ptr<Buffer>& buffer) {
  if (buffer == nullptr || buffer->is_closed())
    throw InvalidStateError{"a closed buffer cannot be shared: its memory is gone"};
  SharedBuffer out;
  out.descriptor = export_buffer(*buffer);
  const auto exporter = Exporter::mine();
  if (const auto pool = std::dynamic_pointer_cast<MemoryPool>(buffer->memory_resource())) {
    if (pool->is_mapped())
      throw InvalidStateError{
          "the buffer belongs to another process: send on what it was opened by"};
    out.pool = name_of(pool);
    exporter->offer_pool(out.pool, pool);
    if (pool->device_id() >= 0) out.device = characters<40>(Device{pool->device_id()}.uuid());
  }
  out.exporter = characters<48>(exporter->name());
  std::copy(exporter->key().begin(), exporter->key().end(), out.key.begin());
  out.number = number_of(buffer, exporter);
  return out;
}

Buffer open_shared_buffer(const SharedBuffer& shared, const Stream& stream) {
  const std::string_view name = text_of(shared.exporter);
  if (Exporter::named(name) != nullptr) {
    const std::shared_ptr<Buffer> own = own_buffer(shared.number);
    return Buffer::view(own->handle(), own->size(), own);
  }
  return detail::query_exporter(name, {shared.key.data(), shared.key.size()}, [&](IPCLink& link) {
    std::shared_ptr<MemoryPool> pool;
    if (shared.descriptor.kind == IPCBufferDescriptor::Kind::pool) pool = opened_pool(shared, link);
    return import_buffer(pool, shared.descriptor, stream, detail::leased(link, shared.number));
  });
}

void stop_sharing() noexcept {
  IPCLink::clear_all();
  Exporter::end();
}

}  // namespace cucore
