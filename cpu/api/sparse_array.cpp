// SPDX-License-Identifier: Apache-2.0
// cuMemMapArrayAsync, cuArrayGetSparseProperties, cuMipmappedArrayGetSparseProperties.
#include "cpu/device/sparse_array.hpp"

#include "cpu/device/array.hpp"
#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/exec/ops.hpp"

using namespace cucpu::driver;

namespace {

void put_properties(CUDA_ARRAY_SPARSE_PROPERTIES* out, const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  require(desc.Flags & CUDA_ARRAY3D_SPARSE);
  const ArrayLayout layout{desc};
  *out = {};
  out->tileExtent.width = static_cast<unsigned>(layout.tile_width);
  out->tileExtent.height = static_cast<unsigned>(layout.tile_height);
  out->tileExtent.depth = 1;
}

}  // namespace

extern "C" {

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    put_properties(out, nonnull_object_of<Array>(handle).desc);
  });
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out,
                                             CUmipmappedArray handle) {
  return guarded([&] {
    require(out != nullptr);
    const MipmappedArray& array = nonnull_object_of<MipmappedArray>(handle);
    put_properties(out, array.desc);
    out->miptailFirstLevel = array.tail_level;
    out->miptailSize = array.tail_bytes;
    out->flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
  });
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned int count, CUstream handle) {
  return guarded([&] {
    require(list && count > 0);
    const Ref<Stream> stream = stream_of(handle);
    require_not_capturing(*stream);
    std::vector<TileRequest> requests;
    for (unsigned i = 0; i < count; ++i) requests.push_back(tile_request_of(list[i], *stream));
    stream->submit(make_object<CallOp>([requests = std::move(requests)] {
      for (const TileRequest& request : requests) request.perform();
    }));
  });
}

}  // extern "C"
