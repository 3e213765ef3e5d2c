// SPDX-License-Identifier: Apache-2.0
// strided.cpp: DLPack export, addresses and copies of cuda.core.utils.StridedMemoryView.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "cucore/strided_memory_view.hpp"
#include "dlpack.hpp"
#include "py_buffer.hpp"

namespace cucore::python {

void bind_strided(nb::module_& m) {
  m.def(
      "export_dlpack",
      [](std::uintptr_t ptr, std::vector<std::int64_t> shape,
         std::optional<std::vector<std::int64_t>> strides, int code, int bits, int lanes,
         int device_type, int device_id, bool readonly, nb::handle max_version,
         nb::handle dl_device, nb::handle copy, nb::handle stream, nb::object keep) {
        check_dlpack_stream(stream.ptr());
        DLTensor t{};
        t.data = reinterpret_cast<void*>(ptr);
        t.device = {static_cast<DLDeviceType>(device_type), device_id};
        t.ndim = static_cast<std::int32_t>(shape.size());
        t.dtype = {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits),
                   static_cast<std::uint16_t>(lanes)};
        std::vector<std::int64_t> dense(shape.size(), 1);
        for (std::size_t i = shape.size(); i > 1; --i) dense[i - 2] = dense[i - 1] * shape[i - 1];
        t.shape = shape.data();
        t.strides = strides ? strides->data() : dense.data();
        check_dlpack_request(t.device, dl_device.ptr(), copy.ptr());
        return make_dlpack_capsule(t, wants_versioned(max_version.ptr()), readonly,
                                   std::move(keep));
      },
      "ptr"_a, "shape"_a, "strides"_a.none(), "code"_a, "bits"_a, "lanes"_a, "device_type"_a,
      "device_id"_a, "readonly"_a, "max_version"_a.none(), "dl_device"_a.none(), "copy"_a.none(),
      "stream"_a.none(), "keep"_a);
  m.def("host_address", [](nb::handle object, bool writable) {
    Py_buffer view{};
    if (PyObject_GetBuffer(object.ptr(), &view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0) {
      throw nb::python_error();
    }
    const auto address = reinterpret_cast<std::uintptr_t>(view.buf);
    PyBuffer_Release(&view);
    return address;
  });
  m.def("dense_strides", [](const std::vector<std::int64_t>& shape) {
    return nb::tuple(nb::cast(dense_strides(shape)));
  });
  m.def("is_contiguous",
        [](const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
          return is_contiguous(shape, strides);
        });
  m.def("check_layout",
        [](const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
           std::size_t bits, std::size_t size) { check_layout(shape, strides, bits, size); });
  // Copies elements of `bits` bits between two layouts of the same shape.
  m.def("copy_strided",
        [](std::size_t dst, const std::vector<std::int64_t>& dst_strides, std::size_t src,
           const std::vector<std::int64_t>& src_strides, const std::vector<std::int64_t>& shape,
           std::size_t bits, nb::handle stream) {
          const Stream on = stream_argument(stream.ptr(), "copy");
          try {
            const WithoutGil release;
            copy_strided(dst, dst_strides, src, src_strides, shape, bits, on);
          } catch (const std::domain_error& error) {
            PyErr_SetString(PyExc_NotImplementedError, error.what());
            throw nb::python_error();
          }
        });
}
CUCORE_BIND(kBindRest, bind_strided)

}  // namespace cucore::python
