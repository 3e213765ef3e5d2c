// SPDX-License-Identifier: Apache-2.0
// cpu/device/sparse_array.hpp: memory of cuMemCreate under tiles of a sparse array, or under the
// whole of an array with deferred mapping. A tile is 64 KiB of contiguous memory, so mapping a tile
// is mapping pages; a tile without memory reads as zeros.
#pragma once

#include <memory>
#include <vector>

#include "cpu/device/array.hpp"
#include "cpu/device/physical_memory.hpp"

namespace cucpu::driver {

/// A part of an array and its memory; no memory unmaps it.
struct TileMap {
  char* at;
  std::size_t bytes;
  std::size_t offset;  // offset in the memory
};
struct TileRequest {
  std::vector<TileMap> pieces;
  Ref<PhysicalMemory> memory;
  Ref<Object> array;
  std::shared_ptr<TileSet> tiles;

  void perform() const;  ///< maps or unmaps the pieces
};

/// Init checks: a mapping outside of arrays can write the memory from now on.
void note_mapped_outside_of_arrays(PhysicalMemory& memory);

/// Checks one request of cuMemMapArrayAsync. Fails with 1 or 400.
TileRequest tile_request_of(const CUarrayMapInfo& info, const Stream& stream);

}  // namespace cucpu::driver
