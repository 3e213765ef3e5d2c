// SPDX-License-Identifier: Apache-2.0
// fast_path_types.hpp: the exact types that the fast paths of calls test for, and the offsets of
// their values, in one cache line: after a driver call of microseconds every line is a cache miss.
#pragma once

#include <cstdint>

#include "cucore/launch.hpp"
#include "py_buffer.hpp"
#include "support.hpp"

namespace cucore::python {

struct alignas(64) FastPathTypes {
  PyTypeObject *stream_type = nullptr, *config_type = nullptr, *kernel_type = nullptr,
               *buffer_type = nullptr;
  /// The offset of the value in an instance: objects of these classes are constructed in place,
  /// after the object header.
  std::int32_t stream_at = 0, config_at = 0, kernel_at = 0, buffer_at = 0;
  std::atomic<decltype(&::cuLaunchKernel)> launch{nullptr};  ///< set by the first launch
  PyObject* stream_name = nullptr;                           ///< the interned keyword "stream"

  void fill();  ///< called after the registration of the classes
};
extern constinit FastPathTypes fast_path_types __attribute__((visibility("hidden")));

template <class T>
T& value_at(PyObject* object, std::int32_t offset) noexcept {
  return *reinterpret_cast<T*>(reinterpret_cast<char*>(object) + offset);
}

/// Returns the value of an open Stream object (not of a derived class); null for all other objects.
inline const Stream* plain_stream(PyObject* object) noexcept {
  if (Py_TYPE(object) != fast_path_types.stream_type) return nullptr;
  const auto& stream = value_at<Stream>(object, fast_path_types.stream_at);
  return stream.is_closed() ? nullptr : &stream;
}

}  // namespace cucore::python
