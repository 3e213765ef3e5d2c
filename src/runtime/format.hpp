// SPDX-License-Identifier: Apache-2.0
// format.hpp: converts between channel descriptors of the runtime API and array formats of the
// driver.
#pragma once
#include "runtime/state.hpp"

namespace cucore::rt {

struct Format {
  CUarray_format format;
  unsigned channels;
};

/// Returns false for a descriptor that no array format matches.
bool to_format(const cudaChannelFormatDesc& desc, Format* out);
cudaChannelFormatDesc from_format(CUarray_format format, unsigned channels);
std::size_t format_bytes(CUarray_format format);
/// Size of one array element in bytes.
CUresult element_bytes(const DriverTable& d, CUarray array, std::size_t* bytes);

inline CUarray as_array(cudaArray_const_t array) noexcept {
  return reinterpret_cast<CUarray>(const_cast<cudaArray*>(array));
}

/// Converts a 3D copy to the driver's struct. Positions and widths are in elements if the source or
/// destination is an array, else in bytes.
CUresult to_copy_3d(const DriverTable& d, const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* out);
void from_copy_3d(const DriverTable& d, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* out);
/// Converts a linear copy to a 3D copy of one row.
CUDA_MEMCPY3D flat_copy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind);

}  // namespace cucore::rt
