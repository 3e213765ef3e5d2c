// SPDX-License-Identifier: Apache-2.0
// texture.cpp: the C++ arrays, textures and surfaces: the `_native` attribute of the classes of
// cuda.core.texture.
#include "cucore/texture.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "held.hpp"
#include "keep_alive.hpp"
#include "option_values.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// Constructs a C++ object without the GIL, because the driver may wait for the device.
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

constexpr const char* kAddressModes[] = {"wrap", "clamp", "mirror", "border"};
constexpr const char* kFilterModes[] = {"point", "linear"};
constexpr const char* kReadModes[] = {"element_type", "normalized_float"};
/// The names of ArrayFormatType, and their values in the driver.
constexpr const char* kFormats[] = {"uint8", "uint16", "uint32",  "int8",
                                    "int16", "int32",  "float16", "float32"};
constexpr ArrayFormat kFormatNumbers[] = {
    ArrayFormat::uint8, ArrayFormat::uint16, ArrayFormat::uint32,  ArrayFormat::int8,
    ArrayFormat::int16, ArrayFormat::int32,  ArrayFormat::float16, ArrayFormat::float32};

/// Converts the shape of an array: one to three positive ints.
std::vector<std::size_t> shape_value(nb::handle value) {
  const std::vector<std::int64_t> extents = int_values(value, "shape");
  if (extents.empty() || extents.size() > 3)
    throw std::invalid_argument{"shape must have one to three values (width, height, depth), not " +
                                std::to_string(extents.size())};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 1)
      throw std::invalid_argument{"shape[" + std::to_string(i) + "] must be at least 1, not " +
                                  std::to_string(extents[i])};
  }
  return {extents.begin(), extents.end()};
}

ArrayFormat format_value(nb::handle word) {
  return kFormatNumbers[word_value(word, "format", kFormats)];
}

/// Converts one mode for all dimensions, or a sequence; its last mode applies to the remaining
/// dimensions.
std::array<AddressMode, 3> address_modes(nb::handle value) {
  if (PyUnicode_Check(value.ptr()) != 0) {
    const auto mode = static_cast<AddressMode>(word_value(value, "address_mode", kAddressModes));
    return {mode, mode, mode};
  }
  std::array<AddressMode, 3> modes{};
  const auto given = sequence_values(value, "address_mode", "address modes");
  if (given.empty() || given.size() > modes.size())
    throw std::invalid_argument{"address_mode must have one to three values, not " +
                                std::to_string(given.size())};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const std::size_t at = std::min(i, given.size() - 1);
    const std::string name = "address_mode[" + std::to_string(at) + "]";
    modes[i] = static_cast<AddressMode>(word_value(given[at], name.c_str(), kAddressModes));
  }
  return modes;
}

std::array<float, 4> border_color(nb::handle value) {
  std::array<float, 4> color{};
  if (value.is_none()) return color;
  const auto given = sequence_values(value, "border_color", "four numbers");
  if (given.size() != color.size())
    throw std::invalid_argument{"border_color must have four values, not " +
                                std::to_string(given.size())};
  for (std::size_t i = 0; i < color.size(); ++i)
    color[i] = real_value(given[i], ("border_color[" + std::to_string(i) + "]").c_str());
  return color;
}

/// Converts and checks a cuda.core.texture.TextureObjectOptions. Throws TypeError or ValueError.
TextureObjectOptions texture_options(nb::handle given) {
  const auto flag = [&](const char* name) {
    const int is_true = PyObject_IsTrue(nb::object(given.attr(name)).ptr());
    if (is_true < 0) throw nb::python_error();
    return is_true == 1;
  };
  const auto field = [&](const char* name) { return nb::object(given.attr(name)); };
  const auto filter = [&](const char* name) {
    return static_cast<FilterMode>(word_value(field(name), name, kFilterModes));
  };
  const auto real = [&](const char* name) { return real_value(field(name), name); };
  TextureObjectOptions o;
  o.address_mode = address_modes(field("address_mode"));
  o.filter_mode = filter("filter_mode");
  o.read_mode = static_cast<ReadMode>(word_value(field("read_mode"), "read_mode", kReadModes));
  o.normalized_coords = flag("normalized_coords");
  o.srgb = flag("srgb");
  o.disable_trilinear_optimization = flag("disable_trilinear_optimization");
  o.seamless_cubemap = flag("seamless_cubemap");
  o.max_anisotropy = number_value(field("max_anisotropy"), "max_anisotropy", 0);
  o.mipmap_filter_mode = filter("mipmap_filter_mode");
  o.mipmap_level_bias = real("mipmap_level_bias");
  o.min_mipmap_level_clamp = real("min_mipmap_level_clamp");
  o.max_mipmap_level_clamp = real("max_mipmap_level_clamp");
  o.border_color = border_color(field("border_color"));
  return o;
}

void bind_arrays(nb::module_& m) {
  nb::class_<OpaqueArray> array(m, "_OpaqueArray");
  array.def("__init__", [](OpaqueArray* self, nb::handle shape, nb::handle format,
                           nb::handle channels, bool surface) {
    make(self, OpaqueArrayOptions{shape_value(shape), format_value(format),
                                  number_value(channels, "num_channels", 0), surface});
  });
  def_owner(array);
  array.def_prop_ro("shape", [](const OpaqueArray& a) { return a.options().shape; });
  array.def_prop_ro("element_bytes", &OpaqueArray::element_bytes);
  array.def_prop_ro("size_bytes", &OpaqueArray::size_bytes);
  array.def("copy", &copy);

  nb::class_<MipmappedArray> mipmapped(m, "_MipmappedArray");
  mipmapped.def("__init__", [](MipmappedArray* self, nb::handle shape, nb::handle format,
                               nb::handle channels, int levels, bool surface) {
    make(self, MipmappedArrayOptions{shape_value(shape), format_value(format),
                                     number_value(channels, "num_channels", 0), levels, surface});
  });
  def_owner(mipmapped);
  mipmapped.def_prop_ro("shape", [](const MipmappedArray& a) { return a.options().shape; });
  mipmapped.def("get_level", &MipmappedArray::get_level);
}

/// Returns the memory of an open Buffer, or its first `size` bytes.
BufferRef memory_of(nb::handle buffer, nb::handle size) {
  if (buffer_of(buffer.ptr()) == nullptr) {
    PyErr_Format(PyExc_TypeError, "buffer must be a Buffer, not %s",
                 Py_TYPE(buffer.ptr())->tp_name);
    throw nb::python_error();
  }
  const BufferRef all = open_buffer(buffer.ptr()).buffer;
  if (size.is_none()) return all;
  const std::size_t bytes = size_argument(size.ptr(), "size_bytes");
  if (bytes > all.size())
    throw std::invalid_argument{"size_bytes is " + std::to_string(bytes) +
                                ", more than the buffer's " + std::to_string(all.size())};
  return {all.handle(), bytes};
}

void bind_objects(nb::module_& m) {
  nb::class_<ResourceDescriptor> resource(m, "_ResourceDescriptor");
  resource.def_static("from_opaque_array", &ResourceDescriptor::from_opaque_array);
  resource.def_static("from_mipmapped_array", &ResourceDescriptor::from_mipmapped_array);
  resource.def_static(
      "from_linear",
      [](nb::handle buffer, nb::handle size, nb::handle format, nb::handle channels) {
        return ResourceDescriptor::from_linear(memory_of(buffer, size), format_value(format),
                                               number_value(channels, "num_channels", 0));
      },
      "buffer"_a.none(), "size"_a.none(), "format"_a.none(), "channels"_a.none());
  resource.def_static(
      "from_pitch2d",
      [](nb::handle buffer, nb::handle format, nb::handle channels, nb::handle width,
         nb::handle height, nb::handle pitch) {
        return ResourceDescriptor::from_pitch2d(
            memory_of(buffer, nb::none()), format_value(format),
            number_value(channels, "num_channels", 0), size_argument(width.ptr(), "width"),
            size_argument(height.ptr(), "height"), size_argument(pitch.ptr(), "pitch_bytes"));
      },
      "buffer"_a.none(), "format"_a.none(), "channels"_a.none(), "width"_a.none(),
      "height"_a.none(), "pitch"_a.none());

  nb::class_<TextureObjectOptions>(m, "_TextureOptions");
  m.def("texture_options", &texture_options, "options"_a);
  nb::class_<TextureObject> texture(m, "_TextureObject");
  texture.def(
      "__init__",
      [](TextureObject* self, const ResourceDescriptor& described, nb::object keep,
         const TextureObjectOptions& options) {
        // The descriptor owns an array; the Python object keeps the memory of a buffer alive.
        make(self, described, options,
             keep.is_none() ? described.needs() : std::shared_ptr<const void>{keep_alive(keep)});
      },
      "described"_a, "keep"_a.none(), "options"_a);
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
