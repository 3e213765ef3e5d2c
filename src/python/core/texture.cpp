// SPDX-License-Identifier: Apache-2.0
// texture.cpp: the C++ arrays, textures and surfaces, as the `_native` attribute of the classes of
// cuda.core.texture.
#include "cucore/texture.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "held.hpp"
#include "kept.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

/// Makes an object of C++ without the GIL: the driver may wait for the device.
template <class T, class... Args>
void make(T* place, const Args&... args) {
  const WithoutGil release;
  new (place) T{args...};
}

template <class Class>
void def_owner(Class& cls) {
  using T = typename Class::Type;
  cls.def_prop_ro("handle", [](const T& object) {
    if constexpr (std::is_pointer_v<decltype(object.handle())>) {
      return reinterpret_cast<std::uintptr_t>(object.handle());
    } else {
      return object.handle();
    }
  });
  cls.def_prop_ro("is_closed", [](const T& object) { return object.is_closed(); });
  cls.def(
      "close", [](T& object) { object.close(); }, nb::lock_self());
  cls.def(
      "hold", [](const T& object) { return Held{object.hold()}; }, nb::lock_self());
}

void copy(const OpaqueArray& array, std::size_t ptr, std::size_t size, bool to_array,
          nb::handle stream) {
  const OpaqueArray held = array;  // another thread may close the object meanwhile
  const Stream on = stream_argument(stream.ptr(), "copy");
  const WithoutGil release;
  if (to_array) {
    held.copy_from(BufferRef{ptr, size}, on);
  } else {
    held.copy_to(BufferRef{ptr, size}, on);
  }
}

void bind_arrays(nb::module_& m) {
  nb::class_<OpaqueArray> array(m, "_OpaqueArray");
  array.def("__init__", [](OpaqueArray* self, std::vector<std::size_t> shape, int format,
                           unsigned channels, bool surface) {
    make(self,
         OpaqueArrayOptions{std::move(shape), static_cast<ArrayFormat>(format), channels, surface});
  });
  def_owner(array);
  array.def_prop_ro("shape", [](const OpaqueArray& a) { return a.options().shape; });
  array.def_prop_ro("element_bytes", &OpaqueArray::element_bytes);
  array.def_prop_ro("size_bytes", &OpaqueArray::size_bytes);
  array.def("copy", &copy);

  nb::class_<MipmappedArray> mipmapped(m, "_MipmappedArray");
  mipmapped.def("__init__", [](MipmappedArray* self, std::vector<std::size_t> shape, int format,
                               unsigned channels, int levels, bool surface) {
    make(self, MipmappedArrayOptions{std::move(shape), static_cast<ArrayFormat>(format), channels,
                                     levels, surface});
  });
  def_owner(mipmapped);
  mipmapped.def("get_level", &MipmappedArray::get_level);
}

void bind_objects(nb::module_& m) {
  nb::class_<ResourceDescriptor> resource(m, "_ResourceDescriptor");
  resource.def_static("from_opaque_array", &ResourceDescriptor::from_opaque_array);
  resource.def_static("from_mipmapped_array", &ResourceDescriptor::from_mipmapped_array);
  resource.def_static("from_linear", [](std::size_t ptr, std::size_t size, int format,
                                        unsigned channels) {
    return ResourceDescriptor::from_linear({ptr, size}, static_cast<ArrayFormat>(format), channels);
  });
  resource.def_static(
      "from_pitch2d", [](std::size_t ptr, std::size_t size, int format, unsigned channels,
                         std::size_t width, std::size_t height, std::size_t pitch) {
        return ResourceDescriptor::from_pitch2d({ptr, size}, static_cast<ArrayFormat>(format),
                                                channels, width, height, pitch);
      });

  nb::class_<TextureObject> texture(m, "_TextureObject");
  texture.def(
      "__init__",
      [](TextureObject* self, const ResourceDescriptor& described, nb::object keep,
         std::array<int, 3> address_modes, int filter, int read_mode, bool normalized, bool srgb,
         bool no_trilinear, bool seamless, unsigned anisotropy, int mip_filter, float bias,
         float min_clamp, float max_clamp, std::vector<float> border) {
        TextureObjectOptions o;
        for (std::size_t i = 0; i < 3; ++i)
          o.address_mode[i] = static_cast<AddressMode>(address_modes[i]);
        o.filter_mode = static_cast<FilterMode>(filter);
        o.read_mode = static_cast<ReadMode>(read_mode);
        o.normalized_coords = normalized;
        o.srgb = srgb;
        o.disable_trilinear_optimization = no_trilinear;
        o.seamless_cubemap = seamless;
        o.max_anisotropy = anisotropy;
        o.mipmap_filter_mode = static_cast<FilterMode>(mip_filter);
        o.mipmap_level_bias = bias;
        o.min_mipmap_level_clamp = min_clamp;
        o.max_mipmap_level_clamp = max_clamp;
        std::copy_n(border.begin(), std::min<std::size_t>(border.size(), 4),
                    o.border_color.begin());
        // An array is kept by its descriptor, the memory of a buffer by its Python object.
        make(self, described, o,
             keep.is_none() ? described.needs() : std::shared_ptr<const void>{keep_alive(keep)});
      },
      "described"_a, "keep"_a.none(), "address_modes"_a, "filter"_a, "read_mode"_a, "normalized"_a,
      "srgb"_a, "no_trilinear"_a, "seamless"_a, "anisotropy"_a, "mip_filter"_a, "bias"_a,
      "min_clamp"_a, "max_clamp"_a, "border"_a);
  def_owner(texture);

  nb::class_<SurfaceObject> surface(m, "_SurfaceObject");
  surface.def("__init__", [](SurfaceObject* self, const ResourceDescriptor& described) {
    make(self, described);
  });
  def_owner(surface);
}

}  // namespace

void bind_texture(nb::module_& m) {
  nb::class_<Held>(m, "_Held", "Keeps an object of the driver's for as long as it lives.");
  bind_arrays(m);
  bind_objects(m);
}
CUCORE_BIND(kBindRest, bind_texture)

}  // namespace cucore::python
