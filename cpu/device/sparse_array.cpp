// SPDX-License-Identifier: Apache-2.0
// Tiles of sparse arrays.
#include "cpu/device/sparse_array.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/mem/address_space.hpp"

namespace cucpu::driver {

namespace {

/// Init checks: the memory of a tile is uninitialized when it is mapped for the first time, and
/// nothing else can write it. A second mapping may write what the first one reads.
void note_mapped(PhysicalMemory& memory, const TileMap& piece) {
  if ((check::kinds_in_environment() & check::kInit) == 0) return;
  const std::lock_guard lock{memory.tiles.mutex};
  const bool shared = memory.tiles.is_shared || memory.prop.requestedHandleTypes != 0;
  for (std::size_t done = 0; done < piece.bytes; done += kTileBytes) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(piece.at) + done;
    const auto [known, is_first] = memory.tiles.at.try_emplace(piece.offset + done, at);
    if (is_first && !shared) {
      check_host_clear(at, kTileBytes);
      continue;
    }
    check_host_write(std::exchange(known->second, at), kTileBytes);
    check_host_write(at, kTileBytes);
  }
}

}  // namespace

void note_mapped_outside_of_arrays(PhysicalMemory& memory) {
  if ((check::kinds_in_environment() & check::kInit) == 0) return;
  const std::lock_guard lock{memory.tiles.mutex};
  memory.tiles.is_shared = true;
  for (const auto& [offset, at] : memory.tiles.at) check_host_write(at, kTileBytes);
}

void TileRequest::perform() const {
  for (const TileMap& piece : pieces) {
    tiles->mark(piece.at, piece.bytes, static_cast<bool>(memory));
    if (!memory) {
      AddressSpace::instance().decommit(reinterpret_cast<std::uintptr_t>(piece.at), piece.bytes);
      AddressSpace::instance().commit(reinterpret_cast<std::uintptr_t>(piece.at), piece.bytes);
      continue;
    }
    require(mmap(piece.at, piece.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd,
                 static_cast<off_t>(piece.offset)) != MAP_FAILED,
            CUDA_ERROR_OUT_OF_MEMORY);
    note_mapped(*memory, piece);
  }
}

namespace {

/// Adds the tiles of a box in one level, in row-major order, which is their order in the memory.
void add_box(TileRequest& request, const CUDA_ARRAY3D_DESCRIPTOR& desc, const ArrayLayout& layout,
             char* data, const CUarrayMapInfo& info) {
  const auto& box = info.subresource.sparseLevel;
  const bool layered = desc.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  require(box.extentWidth > 0 && box.extentHeight > 0 && box.extentDepth > 0);
  require(layered ? box.offsetZ == 0 && box.extentDepth == 1 && box.layer < layout.slices
                  : box.layer == 0 && box.offsetZ + std::size_t{box.extentDepth} <= layout.slices);
  require(box.offsetX + std::size_t{box.extentWidth} <= desc.Width &&
          box.offsetY + std::size_t{box.extentHeight} <= layout.rows);
  require(box.offsetX % layout.tile_width == 0 && box.offsetY % layout.tile_height == 0);
  const auto whole = [](std::size_t from, std::size_t count, std::size_t tile, std::size_t end) {
    return count % tile == 0 || from + count == end;  // only the edge of the array may cut a tile
  };
  require(whole(box.offsetX, box.extentWidth, layout.tile_width, desc.Width) &&
          whole(box.offsetY, box.extentHeight, layout.tile_height, layout.rows));
  std::size_t offset = info.offset;
  for (std::size_t z = 0; z < box.extentDepth; ++z)
    for (std::size_t y = box.offsetY; y < box.offsetY + std::size_t{box.extentHeight};
         y += layout.tile_height)
      for (std::size_t x = box.offsetX; x < box.offsetX + std::size_t{box.extentWidth};
           x += layout.tile_width) {
        const std::size_t slice = layered ? box.layer : box.offsetZ + z;
        request.pieces.push_back(
            {data + slice * layout.slice_bytes + y * layout.pitch + x * layout.element, kTileBytes,
             offset});
        offset += kTileBytes;
      }
}

/// An array with deferred mapping is mapped as a whole: as one level from edge to edge, or as
/// `size` bytes from the start, as cuArrayGetMemoryRequirements reports.
void add_whole(TileRequest& request, const CUDA_ARRAY3D_DESCRIPTOR& desc, char* data,
               std::size_t bytes, const CUarrayMapInfo& info) {
  const auto& box = info.subresource.sparseLevel;
  const auto& part = info.subresource.miptail;
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
    require(part.layer == 0 && part.offset == 0 && part.size == bytes);
  else
    require(box.level == 0 && box.layer == 0 && box.offsetX == 0 && box.offsetY == 0 &&
            box.offsetZ == 0 && box.extentWidth == desc.Width &&
            box.extentHeight == std::max<std::size_t>(desc.Height, 1) &&
            box.extentDepth == std::max<std::size_t>(desc.Depth, 1));
  request.pieces.push_back({data, bytes, static_cast<std::size_t>(info.offset)});
}

}  // namespace

TileRequest tile_request_of(const CUarrayMapInfo& info, const Stream& stream) {
  TileRequest request;
  require(info.flags == 0 && info.offset % kTileBytes == 0);
  const int device = context_of(stream).device.ordinal;
  require(device < 32 && info.deviceBitMask == 1u << device);
  require(info.memOperationType == CU_MEM_OPERATION_TYPE_MAP ||
          info.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP);
  require(info.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC);
  if (info.memOperationType == CU_MEM_OPERATION_TYPE_MAP)
    request.memory = Ref<PhysicalMemory>{&memory_of(info.memHandle.memHandle)};
  if (request.memory) {  // it must allow mapping into arrays
    require(request.memory->prop.location.id == device);
    require(request.memory->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL);
  }
  const bool tail = info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  require(tail || info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL);
  if (info.resourceType == CU_RESOURCE_TYPE_ARRAY) {
    Array& array = object_of<Array>(info.resource.array, CUDA_ERROR_INVALID_HANDLE);
    require(array.tiles && !array.is_level());
    request.array = Ref<Object>{&array};
    request.tiles = array.tiles;
    if (array.desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) {
      add_whole(request, array.desc, array.data, array.tile_bytes(), info);
    } else {
      require(!tail && info.subresource.sparseLevel.level == 0);
      add_box(request, array.desc, ArrayLayout{array.desc}, array.data, info);
    }
  } else {
    require(info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    MipmappedArray& array =
        object_of<MipmappedArray>(info.resource.mipmap, CUDA_ERROR_INVALID_HANDLE);
    require(static_cast<bool>(array.tiles));
    request.array = Ref<Object>{&array};
    request.tiles = array.tiles;
    const bool deferred = array.desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (deferred) {
      require(tail);  // a single level is not the whole array
      add_whole(request, array.desc, array.tiles->base, array.bytes, info);
    } else if (tail) {
      const auto& part = info.subresource.miptail;
      require(part.layer == 0 && part.size > 0 && part.offset % kTileBytes == 0 &&
              part.size % kTileBytes == 0);
      require(part.offset < array.tail_bytes && part.size <= array.tail_bytes - part.offset);
      request.pieces.push_back({array.tail + part.offset, static_cast<std::size_t>(part.size),
                                static_cast<std::size_t>(info.offset)});
    } else {
      const unsigned level = info.subresource.sparseLevel.level;
      require(level < array.tail_level);
      add_box(request, array.levels[level].desc, array.levels[level].layout,
              array.levels[level].data, info);
    }
  }
  if (request.memory) {
    const TileMap& last = request.pieces.back();
    require(last.offset + last.bytes <= request.memory->size);
  }
  return request;
}

}  // namespace cucpu::driver
