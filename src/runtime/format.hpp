// format.hpp: channel descriptions of the runtime API and array formats of the driver.
#pragma once
#include "runtime/state.hpp"

namespace cucore::rt {

struct Format {
  CUarray_format format;
  unsigned channels;
};

/// False for a description no array can have.
bool to_format(const cudaChannelFormatDesc& desc, Format* out);
cudaChannelFormatDesc from_format(CUarray_format format, unsigned channels);
std::size_t format_bytes(CUarray_format format);
/// Bytes of one element of an array.
CUresult element_bytes(const DriverTable& d, CUarray array, std::size_t* bytes);

inline CUarray as_array(cudaArray_const_t array) noexcept {
  return reinterpret_cast<CUarray>(const_cast<cudaArray*>(array));
}

/// A runtime 3D copy as the driver's. Positions and widths count elements when an array takes part,
/// else bytes.
CUresult to_copy_3d(const DriverTable& d, const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* out);
void from_copy_3d(const DriverTable& d, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* out);
/// A flat copy as a 3D copy of one row.
CUDA_MEMCPY3D flat_copy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind);

}  // namespace cucore::rt
