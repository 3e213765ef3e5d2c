// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmapped arrays: layout and memory.
#include "cpu/device/array.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <shared_mutex>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/immortal.hpp"

namespace cucpu::driver {

std::size_t format_bytes(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

unsigned format_channels(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return 1;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
      return 2;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 4;
    default:
      return 0;
  }
}

namespace {

constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                 kMappedLater;

/// The memory of arrays, by address. Never destroyed: host threads may outlive static objects.
struct TrackedArrays {
  std::shared_mutex mutex;
  struct Entry {
    AllocationView view;
    std::shared_ptr<const TileSet> tiles;
  };
  std::map<std::uintptr_t, Entry> by_base;
  std::uint64_t next_id = std::uint64_t{1} << 63;  ///< of memory that is in no MemoryMap

  /// The caller holds the mutex.
  [[nodiscard]] const Entry* find(std::uintptr_t address) const {
    const auto after = by_base.upper_bound(address);
    if (after == by_base.begin()) return nullptr;
    const Entry& before = std::prev(after)->second;
    return address - before.view.base < before.view.size ? &before : nullptr;
  }
};

std::size_t round_up(std::size_t value, std::size_t align) {
  return (value + align - 1) / align * align;
}

void check(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  require(d.Width > 0 && format_bytes(d.Format) > 0);
  require(d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4);
  if (const unsigned packed = format_channels(d.Format)) require(d.NumChannels == packed);
  require((d.Flags & ~kKnownFlags) == 0);
  if (d.Flags & CUDA_ARRAY3D_SPARSE) require(d.Height > 0);  // no 1-D sparse arrays
  require((d.Flags & kMappedLater) != kMappedLater);
  const bool layered = d.Flags & CUDA_ARRAY3D_LAYERED, cube = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  if (cube)
    require(d.Width == d.Height && (layered ? d.Depth > 0 && d.Depth % 6 == 0 : d.Depth == 6));
  else if (layered)
    require(d.Depth > 0);
  else if (d.Depth > 0)
    require(d.Height > 0);  // 3-D
  if (d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) require(d.Height > 0 && (layered || d.Depth == 0));
  const std::size_t limit = d.Depth > 0 && !layered && !cube ? 16384 : 131072;
  require(d.Width <= limit && d.Height <= 65536 && d.Depth <= 16384);
}

/// Reserves address space for tiles: reads as zeros, and uses no memory until tiles are mapped.
AllocationRef reserve_tiles(std::size_t bytes) {
  AddressSpace& space = AddressSpace::instance();
  auto record = std::make_shared<Allocation>();  // may throw, so it comes first
  const std::uintptr_t start = space.take(bytes, kTileBytes);
  try {
    space.commit(start, bytes);
  } catch (...) {
    space.give(start, bytes);
    throw;
  }
  record->base = start;
  record->size = bytes;
  record->release = [start, bytes](Allocation&) { AddressSpace::instance().give(start, bytes); };
  return record;
}

}  // namespace

TrackedArray::TrackedArray(const Allocation& memory, std::shared_ptr<const TileSet> tiles) {
  if (check::kinds_in_environment() == 0) return;
  TrackedArrays& all = Immortal<TrackedArrays>::get();
  const std::lock_guard lock{all.mutex};
  const std::uint64_t id = memory.id != 0 ? memory.id : all.next_id++;
  all.by_base[memory.base] = {{memory.base, memory.size, id, true}, std::move(tiles)};
  base_ = memory.base;
}

TrackedArray::~TrackedArray() {
  if (base_ == 0) return;
  TrackedArrays& all = Immortal<TrackedArrays>::get();
  const std::lock_guard lock{all.mutex};
  all.by_base.erase(base_);
}

std::optional<AllocationView> TrackedArray::find(std::uintptr_t address) {
  TrackedArrays& all = Immortal<TrackedArrays>::get();
  const std::shared_lock lock{all.mutex};
  const TrackedArrays::Entry* const found = all.find(address);
  return found ? std::optional{found->view} : std::nullopt;
}

bool TrackedArray::is_unmapped(std::uintptr_t address) {
  TrackedArrays& all = Immortal<TrackedArrays>::get();
  const std::shared_lock lock{all.mutex};
  const TrackedArrays::Entry* const found = all.find(address);
  return found && found->tiles && !found->tiles->is_mapped(address);
}

ArrayLayout::ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& d)
    : element{format_bytes(d.Format) * d.NumChannels},
      rows{std::max<std::size_t>(d.Height, 1)},
      slices{std::max<std::size_t>(d.Depth, 1)} {
  pitch = round_up(d.Width * element, 64);
  if (d.Flags & CUDA_ARRAY3D_SPARSE) {
    // The pitch is a power of two or a multiple of the tile size; either way a tile is contiguous.
    pitch = pitch > kTileBytes ? round_up(pitch, kTileBytes) : std::bit_ceil(pitch);
    tile_width = std::min(pitch, kTileBytes) / element;
    tile_height = pitch > kTileBytes ? 1 : kTileBytes / pitch;
    slice_bytes = pitch * round_up(rows, tile_height);
  } else {
    slice_bytes = pitch * rows;
  }
}

ArrayLayout::ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& d, const ArrayLayout& base, bool in_tail)
    : ArrayLayout{d} {
  if (base.tile_width == 0) return;
  tile_width = base.tile_width, tile_height = base.tile_height;
  if (in_tail) {
    pitch = round_up(d.Width * element, 64);
    slice_bytes = pitch * rows;
  } else {
    if (base.pitch <= kTileBytes) pitch = base.pitch;
    slice_bytes = pitch * round_up(rows, tile_height);
  }
}

Array::Array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d, const ArrayLayout& layout,
             char* inside, Object* owner)
    : desc{d},
      element{layout.element},
      width{d.Width},
      height{layout.rows},
      slices{layout.slices},
      pitch{layout.pitch},
      slice_bytes{layout.slice_bytes},
      context_{&context},
      owner_{owner} {
  if (inside) {
    data = inside;
  } else {
    const bool later = desc.Flags & kMappedLater;
    memory_ = OwnedMemory{later ? reserve_tiles(tile_bytes())
                                : allocate_memory(bytes(), 512, &context.device.budget)};
    data = reinterpret_cast<char*>(memory_->base);
    if (later) tiles = std::make_shared<TileSet>(data, memory_->size);
    tracked_ = TrackedArray{*memory_.record(), tiles};
  }
  context.adopt(*this);
}

Array::~Array() { context_->disown(*this); }

MipmappedArray::MipmappedArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned count,
                               const ArrayMemory& place)
    : desc{d}, context_{&context} {
  CUDA_ARRAY3D_DESCRIPTOR level = d;
  const bool sliced = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  const bool sparse = d.Flags & CUDA_ARRAY3D_SPARSE, later = d.Flags & kMappedLater;
  const ArrayLayout base{d};
  tail_level = count;
  for (unsigned i = 0; i < count; ++i) {
    const bool small =
        base.pitch > kTileBytes ? level.Width < base.tile_width : level.Height < base.tile_height;
    if (sparse && tail_level == count && small) {
      tail_level = i;
      tail = reinterpret_cast<char*>(bytes);
    }
    const ArrayLayout layout{level, base, i >= tail_level};
    levels.push_back({level, reinterpret_cast<char*>(bytes), layout});
    bytes += round_up(layout.bytes(), 512);
    level.Width = std::max<std::size_t>(level.Width / 2, 1);
    if (level.Height) level.Height = std::max<std::size_t>(level.Height / 2, 1);
    if (level.Depth && !sliced) level.Depth = std::max<std::size_t>(level.Depth / 2, 1);
  }
  if (sparse) {
    tail_bytes = tail_level < count
                     ? round_up(bytes - reinterpret_cast<std::uintptr_t>(tail), kTileBytes)
                     : 0;
  }
  if (later) {
    bytes = round_up(bytes, kTileBytes);
    require(!place, CUDA_ERROR_NOT_SUPPORTED);
    memory_ = OwnedMemory{reserve_tiles(bytes)};
    tiles = std::make_shared<TileSet>(reinterpret_cast<char*>(memory_->base), bytes);
    if (tail_bytes) tail += memory_->base;
  } else {
    memory_ =
        OwnedMemory{place ? place(bytes) : allocate_memory(bytes, 512, &context.device.budget)};
  }
  tracked_ = TrackedArray{*memory_.record(), tiles};
  for (Level& l : levels)
    l.data = reinterpret_cast<char*>(memory_->base + reinterpret_cast<std::uintptr_t>(l.data));
  handles_.resize(count);
  context.adopt(*this);
}

MipmappedArray::~MipmappedArray() { context_->disown(*this); }

Ref<Array> make_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  check(desc);
  return make_object<Array>(context, desc, ArrayLayout{desc}, nullptr, nullptr);
}

Ref<MipmappedArray> make_mipmapped_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc,
                                         unsigned levels, const ArrayMemory& place) {
  check(desc);
  const std::size_t largest =
      std::max({desc.Width, desc.Height, desc.Flags & CUDA_ARRAY3D_LAYERED ? 0 : desc.Depth});
  unsigned most = 1;
  while (largest >> most) ++most;
  return make_object<MipmappedArray>(context, desc, std::clamp(levels, 1u, most), place);
}

CUarray MipmappedArray::level_handle(unsigned level) {
  require(level < levels.size());
  const std::lock_guard lock{mutex_};
  CUarray& handle = handles_[level];
  if (!find_object<Array>(handle)) {
    const auto array = make_object<Array>(*context_, levels[level].desc, levels[level].layout,
                                          levels[level].data, this);
    array->tiles = tiles;
    handle = array->publish();
  }
  return handle;
}

void MipmappedArray::drop_levels() noexcept {
  const std::lock_guard lock{mutex_};
  for (CUarray& handle : handles_) {
    if (Array* array = find_object<Array>(handle)) array->retire();
    handle = nullptr;
  }
}

}  // namespace cucpu::driver
