// SPDX-License-Identifier: Apache-2.0
// cpu/device/texture_reference.hpp: texture and surface references. A reference is a variable of a
// module that holds the handle of a texture object. Every setter makes a new object after the
// context's work has ended, because kernels in flight may read the old one.
#pragma once

#include <memory>
#include <mutex>

#include "cpu/device/module.hpp"
#include "cpu/device/texture.hpp"

namespace cucpu::driver {

class TextureReference final : public Handled<TextureReference, CUtexref, Kind::texture>,
                               public ModuleReference {
 public:
  /// `variable` is null for a reference without a module.
  TextureReference(Context* context, void* variable)
      : context_{context}, variable_{static_cast<std::uint64_t*>(variable)} {
    texture.addressMode[0] = texture.addressMode[1] = texture.addressMode[2] =
        CU_TR_ADDRESS_MODE_CLAMP;
  }
  void end() noexcept override { retire(); }
  [[nodiscard]] bool is_owned_by_module() const noexcept { return variable_ != nullptr; }

  std::mutex mutex;
  bool is_bound = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;

  /// Applies the settings; changes nothing when they are invalid. Call with the lock held.
  void apply(const CUDA_RESOURCE_DESC& r, const CUDA_TEXTURE_DESC& t, bool bound) {
    std::unique_ptr<TextureEntry> next;
    if (bound) {
      next = std::make_unique<TextureEntry>();
      next->resource = r;
      next->texture = t;
      // A reference may have a mipmapped array without normalized coordinates until it is used.
      if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        next->texture.flags |= CU_TRSF_NORMALIZED_COORDINATES;
      resolve_texture(*next);
    }
    if (variable_) {
      if (context_->is_live) context_->synchronize();  // kernels in flight read the old object
      *variable_ = next ? reinterpret_cast<std::uint64_t>(&next->state) : 0;
    }
    entry_ = std::move(next);
    resource = r;
    texture = t;
    is_bound = bound;
  }
  void bind(const CUDA_RESOURCE_DESC& r) { apply(r, texture, true); }
  template <class F>
  void set(F change) {
    CUDA_TEXTURE_DESC t = texture;
    change(t);
    apply(resource, t, is_bound);
  }

 private:
  Ref<Context> context_;
  std::uint64_t* variable_;
  std::unique_ptr<TextureEntry> entry_;
};

class SurfaceReference final : public Handled<SurfaceReference, CUsurfref, Kind::surface>,
                               public ModuleReference {
 public:
  SurfaceReference(Context* context, void* variable)
      : context_{context}, variable_{static_cast<std::uint64_t*>(variable)} {}
  void end() noexcept override { retire(); }
  std::mutex mutex;
  CUarray array = nullptr;

  void bind(CUarray handle) {
    auto next = std::make_unique<TextureEntry>();
    next->resource.resType = CU_RESOURCE_TYPE_ARRAY;
    next->resource.res.array.hArray = handle;
    resolve_surface(*next);
    if (context_->is_live) context_->synchronize();
    *variable_ = reinterpret_cast<std::uint64_t>(&next->state);
    entry_ = std::move(next);
    array = handle;
  }

 private:
  Ref<Context> context_;
  std::uint64_t* variable_;
  std::unique_ptr<TextureEntry> entry_;
};

}  // namespace cucpu::driver
