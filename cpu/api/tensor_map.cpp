// SPDX-License-Identifier: Apache-2.0
// cuTensorMap*: descriptors of tensors for bulk tensor copies.
#include "cpu/device/tensor_map.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

namespace {

constexpr std::uint64_t kMaxDim = std::uint64_t{1} << 32, kMaxStride = std::uint64_t{1} << 40;

std::uint32_t element_bytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);  // packed 4- and 6-bit types require a compute capability
                                       // above 9.0
  }
}

/// The common part of tiled and im2col maps, with the documented checks.
TensorMap common(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                 const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* steps,
                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  // The map itself may be unaligned: kernels require 64 bytes, but this may be a copy that becomes
  // a parameter, and packages of NVIDIA encode into unaligned memory.
  require(out != nullptr);
  require(rank >= 1 && rank <= 5 && dims && steps && (strides || rank == 1));
  require(interleave >= CU_TENSOR_MAP_INTERLEAVE_NONE &&
          interleave <= CU_TENSOR_MAP_INTERLEAVE_32B);
  require(interleave == CU_TENSOR_MAP_INTERLEAVE_NONE || rank >= 3);
  require(interleave != CU_TENSOR_MAP_INTERLEAVE_32B || swizzle == CU_TENSOR_MAP_SWIZZLE_32B);
  const bool blackwell = target_of(current_context().device) >= 100;
  require(swizzle >= CU_TENSOR_MAP_SWIZZLE_NONE &&
          swizzle <=
              (blackwell ? CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B : CU_TENSOR_MAP_SWIZZLE_128B));
  require(swizzle != CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, CUDA_ERROR_NOT_SUPPORTED);
  require(promotion >= CU_TENSOR_MAP_L2_PROMOTION_NONE &&
          promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  require(fill >= CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
          fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  const bool floating =
      type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  require(floating || fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const std::uint64_t align = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  require(reinterpret_cast<std::uintptr_t>(address) % align ==
          0);  // null is allowed: the address can be replaced later
  TensorMap map{};
  std::memcpy(map.magic, kTensorMapMagic, sizeof map.magic);
  map.address = reinterpret_cast<std::uint64_t>(address);
  map.rank = static_cast<std::uint8_t>(rank);
  map.element = static_cast<std::uint8_t>(element_bytes(type));
  map.type = static_cast<std::uint8_t>(type);
  map.interleave = static_cast<std::uint8_t>(interleave);
  map.swizzle = static_cast<std::uint8_t>(std::min(swizzle, CU_TENSOR_MAP_SWIZZLE_128B));
  map.atomicity = static_cast<std::uint8_t>(swizzle - map.swizzle);
  map.fill = static_cast<std::uint8_t>(fill);
  for (cuuint32_t i = 0; i < rank; ++i) {
    require(dims[i] >= 1 && dims[i] <= kMaxDim);
    require(steps[i] >= 1 && steps[i] <= 8);
    map.dims[i] = static_cast<std::uint32_t>(dims[i] - 1);
    map.steps[i] = static_cast<std::uint8_t>(steps[i]);
    if (i + 1 < rank) {
      require(strides[i] % align == 0 && strides[i] < kMaxStride);
      map.strides[i] = strides[i];
    }
  }
  return map;
}

}  // namespace

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return guarded([&] {
    current_context();
    require(box != nullptr);
    TensorMap map = common(out, type, rank, address, dims, strides, steps, interleave, swizzle,
                           promotion, fill);
    map.mode = TensorMap::tiled;
    for (cuuint32_t i = 0; i < rank; ++i) {
      require(box[i] >= 1 && box[i] <= 256);
      map.box[i] = static_cast<std::uint16_t>(box[i]);
    }
    const std::uint32_t inner = box[0] * map.element;
    require(inner % 16 == 0);  // also when interleaved, as on an H200
    if (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) {
      const std::uint32_t spans[] = {0, 32, 64, 128};
      if (map.swizzle != 0) require(inner <= spans[map.swizzle]);
    }
    write_tensor_map(out, map);
  });
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return guarded([&] {
    current_context();
    require(rank >= 3 && lower && upper && channels <= 256 && pixels <= 1024);
    TensorMap map = common(out, type, rank, address, dims, strides, steps, interleave, swizzle,
                           promotion, fill);
    map.mode = TensorMap::im2col;
    map.box[0] = static_cast<std::uint16_t>(channels);
    map.box[1] = static_cast<std::uint16_t>(pixels);
    for (cuuint32_t i = 0; i + 2 < rank; ++i) {
      map.lower[i] = static_cast<std::int16_t>(lower[i]);
      map.upper[i] = static_cast<std::int16_t>(upper[i]);
    }
    write_tensor_map(out, map);
  });
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                     void* address, const cuuint64_t* dims,
                                     const cuuint64_t* strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
  return guarded([&] {
    current_context();
    require(rank >= 3 && channels <= 256 && pixels <= 1024);
    require(mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ||
            mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128);
    require(interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && lower >= -32768 && lower <= 32767 &&
            upper >= -32768 && upper <= 32767);
    TensorMap map = common(out, type, rank, address, dims, strides, steps, interleave, swizzle,
                           promotion, fill);
    map.mode =
        mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ? TensorMap::im2col_w : TensorMap::im2col_w128;
    map.box[0] = static_cast<std::uint16_t>(channels);
    map.box[1] = static_cast<std::uint16_t>(pixels);
    map.lower[0] = static_cast<std::int16_t>(lower);  // only for the width
    map.upper[0] = static_cast<std::int16_t>(upper);
    write_tensor_map(out, map);
  });
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return guarded([&] {
    current_context();
    require(map && address);
    TensorMap inside;
    std::memcpy(&inside, map, sizeof inside);
    require(std::memcmp(inside.magic, kTensorMapMagic, sizeof inside.magic) == 0);
    require(reinterpret_cast<std::uintptr_t>(address) %
                (inside.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16) ==
            0);
    inside.address = reinterpret_cast<std::uint64_t>(address);
    write_tensor_map(map, inside);
  });
}

}  // extern "C"
