// SPDX-License-Identifier: Apache-2.0
// cpu/device/texture.hpp: the state of texture objects, surface objects and texture references.
#pragma once

#include <memory>
#include <vector>

#include "cpu/device/array.hpp"
#include "cpu/engine/runtime/texture.hpp"

namespace cucpu::driver {

inline constexpr unsigned kTextureFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                          CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                          CU_TRSF_SEAMLESS_CUBEMAP;

/// The program's descriptions, and the state that device code reads.
struct TextureEntry {
  cucpu::TextureObject state{};
  std::vector<cucpu::TextureObject> levels;  ///< states of the levels of a mipmapped array
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false, is_surface = false;
  Ref<Object> keep;  ///< the array
  std::uint64_t context_id =
      0;  ///< context of a texture or surface object, which destroys it; 0 for references
};

/// Fills `state` from the descriptions. Fails with 1 for invalid descriptions, with 400 for an
/// invalid array.
void resolve_texture(TextureEntry& entry);
void resolve_surface(TextureEntry& entry);

/// Registers an object; its handle is the address of its state.
unsigned long long publish_texture(std::shared_ptr<TextureEntry> entry);
/// Ends the handle. The state that device code reads, and the array, stay until the work queued
/// before has ended, as on a GPU. Fails with 1 for an unknown handle.
void destroy_texture(unsigned long long handle, bool surface);
/// A copy of the descriptions of an object. Fails with 1 for an unknown handle.
TextureEntry texture_description(unsigned long long handle, bool surface);

/// Whether a handle is one of an object, or of a destroyed one that queued work may use. The latter
/// is known in check mode only.
bool is_texture(unsigned long long handle);

/// Ends the texture and surface objects of a destroyed context.
void destroy_textures_of(std::uint64_t context_id) noexcept;

}  // namespace cucpu::driver
