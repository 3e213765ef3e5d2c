// SPDX-License-Identifier: Apache-2.0
// cuTexRef*, cuSurfRef*, cuModuleGetTexRef, cuModuleGetSurfRef.
#include "cpu/device/texture_reference.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/device/guard.hpp"
#include "cpu/device/module.hpp"
#include "cpu/device/texture.hpp"

using namespace cucpu::driver;

namespace {

constexpr std::size_t kAlignment = 512;  // CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT

TextureReference& texture_of(CUtexref handle) {
  auto& reference = object_of<TextureReference>(handle);
  current_context();
  return reference;
}

template <class Reference>
auto reference_in(CUmodule handle, const char* name, cucpu::ReferenceKind kind) {
  require(name != nullptr);
  LoadedModule& module = object_of<LoadedModule>(handle);
  const cucpu::Variable* variable = module.code().find_variable(name);
  require(variable && variable->reference == kind, CUDA_ERROR_NOT_FOUND);
  return static_cast<Reference&>(module.reference(*variable,
                                                  [&]() -> LoadedModule::Reference {
                                                    auto made = make_object<Reference>(
                                                        module.context(), variable->address);
                                                    made->publish();
                                                    return {made, made.get()};
                                                  }))
      .handle();
}

/// Calls `f` with the reference's lock held.
template <class F>
CUresult read(CUtexref handle, const void* out, F f, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        TextureReference& r = texture_of(handle);
        require(out != nullptr);
        const std::lock_guard lock{r.mutex};
        f(r);
      },
      function);
}

template <class F>
CUresult change(CUtexref handle, F f, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        TextureReference& r = texture_of(handle);
        const std::lock_guard lock{r.mutex};
        f(r);
      },
      function);
}

bool is_filter(CUfilter_mode mode) {
  return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
}

}  // namespace

extern "C" {

CUresult cuModuleGetTexRef(CUtexref* out, CUmodule module, const char* name) {
  return guarded([&] {
    require(out != nullptr);
    *out = reference_in<TextureReference>(module, name, cucpu::ReferenceKind::texture);
  });
}

CUresult cuModuleGetSurfRef(CUsurfref* out, CUmodule module, const char* name) {
  return guarded([&] {
    require(out != nullptr);
    *out = reference_in<SurfaceReference>(module, name, cucpu::ReferenceKind::surface);
  });
}

CUresult cuTexRefCreate(CUtexref* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = make_object<TextureReference>(&current_context(), nullptr)->publish();
  });
}

CUresult cuTexRefDestroy(CUtexref handle) {
  return guarded([&] {
    TextureReference& r = texture_of(handle);
    require(!r.is_owned_by_module() && r.retire());
  });
}

CUresult cuTexRefSetArray(CUtexref handle, CUarray array, unsigned int flags) {
  return change(handle, [&](TextureReference& r) {
    require(flags == CU_TRSA_OVERRIDE_FORMAT);
    require(array != nullptr, CUDA_ERROR_INVALID_HANDLE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    r.bind(resource);
    const auto& desc = object_of<Array>(array).desc;
    r.format = desc.Format;
    r.channels = desc.NumChannels;
  });
}

CUresult cuTexRefSetMipmappedArray(CUtexref handle, CUmipmappedArray array, unsigned int flags) {
  return change(handle, [&](TextureReference& r) {
    require(flags == CU_TRSA_OVERRIDE_FORMAT);
    require(array != nullptr, CUDA_ERROR_INVALID_HANDLE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = array;
    r.bind(resource);
    const auto& desc = object_of<MipmappedArray>(array).desc;
    r.format = desc.Format;
    r.channels = desc.NumChannels;
  });
}

CUresult cuTexRefSetAddress(size_t* offset, CUtexref handle, CUdeviceptr address, size_t bytes) {
  return change(handle, [&](TextureReference& r) {
    // Fetches start at an aligned address; the program adds the returned offset.
    const std::size_t beyond = address % kAlignment;
    require(address != 0 && bytes > 0 && (offset || beyond == 0));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = address - beyond;
    resource.res.linear.format = r.format;
    resource.res.linear.numChannels = r.channels;
    resource.res.linear.sizeInBytes = bytes + beyond;
    r.bind(resource);
    if (offset) *offset = beyond;
  });
}

CUresult cuTexRefSetAddress2D(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR* desc,
                              CUdeviceptr address, size_t pitch) {
  return change(handle, [&](TextureReference& r) {
    require(desc && address % kAlignment == 0);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    auto& p = resource.res.pitch2D;
    p.devPtr = address, p.format = desc->Format, p.numChannels = desc->NumChannels;
    p.width = desc->Width, p.height = desc->Height, p.pitchInBytes = pitch;
    r.bind(resource);
    r.format = desc->Format;
    r.channels = desc->NumChannels;
  });
}

CUresult cuTexRefSetFormat(CUtexref handle, CUarray_format format, int channels) {
  return change(handle, [&](TextureReference& r) {
    require(format_bytes(format) > 0 && (channels == 1 || channels == 2 || channels == 4));
    r.format = format;
    r.channels = static_cast<unsigned>(channels);
    if (r.is_bound && r.resource.resType == CU_RESOURCE_TYPE_LINEAR) {
      CUDA_RESOURCE_DESC resource = r.resource;
      resource.res.linear.format = format;
      resource.res.linear.numChannels = r.channels;
      r.bind(resource);
    }
  });
}

CUresult cuTexRefSetAddressMode(CUtexref handle, int dim, CUaddress_mode mode) {
  return change(handle, [&](TextureReference& r) {
    require(dim >= 0 && dim < 3 && mode >= CU_TR_ADDRESS_MODE_WRAP &&
            mode <= CU_TR_ADDRESS_MODE_BORDER);
    r.set([&](CUDA_TEXTURE_DESC& t) { t.addressMode[dim] = mode; });
  });
}

CUresult cuTexRefSetFilterMode(CUtexref handle, CUfilter_mode mode) {
  return change(handle, [&](TextureReference& r) {
    require(is_filter(mode));
    r.set([&](CUDA_TEXTURE_DESC& t) { t.filterMode = mode; });
  });
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref handle, CUfilter_mode mode) {
  return change(handle, [&](TextureReference& r) {
    require(is_filter(mode));
    r.set([&](CUDA_TEXTURE_DESC& t) { t.mipmapFilterMode = mode; });
  });
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref handle, float bias) {
  return change(handle, [&](TextureReference& r) {
    r.set([&](CUDA_TEXTURE_DESC& t) { t.mipmapLevelBias = bias; });
  });
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref handle, float low, float high) {
  return change(handle, [&](TextureReference& r) {
    r.set([&](CUDA_TEXTURE_DESC& t) { t.minMipmapLevelClamp = low, t.maxMipmapLevelClamp = high; });
  });
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref handle, unsigned int most) {
  return change(handle, [&](TextureReference& r) {
    r.set([&](CUDA_TEXTURE_DESC& t) { t.maxAnisotropy = std::clamp(most, 1u, 16u); });
  });
}

CUresult cuTexRefSetBorderColor(CUtexref handle, float* color) {
  return change(handle, [&](TextureReference& r) {
    require(color != nullptr);
    r.set([&](CUDA_TEXTURE_DESC& t) { std::memcpy(t.borderColor, color, sizeof t.borderColor); });
  });
}

CUresult cuTexRefSetFlags(CUtexref handle, unsigned int flags) {
  return change(handle, [&](TextureReference& r) {
    require((flags & ~kTextureFlags) == 0);
    r.set([&](CUDA_TEXTURE_DESC& t) { t.flags = flags; });
  });
}

CUresult cuTexRefGetAddress(CUdeviceptr* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) {
    require(r.is_bound && (r.resource.resType == CU_RESOURCE_TYPE_LINEAR ||
                           r.resource.resType == CU_RESOURCE_TYPE_PITCH2D));
    *out = r.resource.resType == CU_RESOURCE_TYPE_LINEAR ? r.resource.res.linear.devPtr
                                                         : r.resource.res.pitch2D.devPtr;
  });
}

CUresult cuTexRefGetArray(CUarray* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) {
    require(r.is_bound && r.resource.resType == CU_RESOURCE_TYPE_ARRAY);
    *out = r.resource.res.array.hArray;
  });
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) {
    require(r.is_bound && r.resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    *out = r.resource.res.mipmap.hMipmappedArray;
  });
}

CUresult cuTexRefGetAddressMode(CUaddress_mode* out, CUtexref handle, int dim) {
  return read(handle, out, [&](TextureReference& r) {
    require(dim >= 0 && dim < 3);
    *out = r.texture.addressMode[dim];
  });
}

CUresult cuTexRefGetFilterMode(CUfilter_mode* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) { *out = r.texture.filterMode; });
}

CUresult cuTexRefGetFormat(CUarray_format* format, int* channels, CUtexref handle) {
  return read(handle, format, [&](TextureReference& r) {
    require(channels != nullptr);
    *format = r.format;
    *channels = static_cast<int>(r.channels);
  });
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) { *out = r.texture.mipmapFilterMode; });
}

CUresult cuTexRefGetMipmapLevelBias(float* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) { *out = r.texture.mipmapLevelBias; });
}

CUresult cuTexRefGetMipmapLevelClamp(float* low, float* high, CUtexref handle) {
  return read(handle, low, [&](TextureReference& r) {
    require(high != nullptr);
    *low = r.texture.minMipmapLevelClamp;
    *high = r.texture.maxMipmapLevelClamp;
  });
}

CUresult cuTexRefGetMaxAnisotropy(int* out, CUtexref handle) {
  return read(handle, out,
              [&](TextureReference& r) { *out = static_cast<int>(r.texture.maxAnisotropy); });
}

CUresult cuTexRefGetBorderColor(float* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) {
    std::memcpy(out, r.texture.borderColor, sizeof r.texture.borderColor);
  });
}

CUresult cuTexRefGetFlags(unsigned int* out, CUtexref handle) {
  return read(handle, out, [&](TextureReference& r) { *out = r.texture.flags; });
}

CUresult cuSurfRefSetArray(CUsurfref handle, CUarray array, unsigned int flags) {
  return guarded([&] {
    auto& r = object_of<SurfaceReference>(handle);
    current_context();
    require(flags == 0);
    const std::lock_guard lock{r.mutex};
    r.bind(array);
  });
}

CUresult cuSurfRefGetArray(CUarray* out, CUsurfref handle) {
  return guarded([&] {
    auto& r = object_of<SurfaceReference>(handle);
    current_context();
    require(out != nullptr);
    const std::lock_guard lock{r.mutex};
    require(r.array != nullptr);
    *out = r.array;
  });
}

CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref handle) {
  return guarded([&] {
    current_context();
    function_of(function);
    texture_of(handle);
    require(unit == CU_PARAM_TR_DEFAULT);  // references are found by name, so nothing is set
  });
}

}  // extern "C"
