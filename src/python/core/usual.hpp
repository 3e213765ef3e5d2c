// SPDX-License-Identifier: Apache-2.0
// usual.hpp: the exact types that the fast paths of calls test for, and the offsets of their
// values. After a driver call of microseconds every line of memory has to come back from the
// outer caches, so all of it is one line.
#pragma once

#include <cstdint>

#include "cucore/launch.hpp"
#include "py_buffer.hpp"
#include "support.hpp"

namespace cucore::python {

struct alignas(64) Usual {
  PyTypeObject *stream_type = nullptr, *config_type = nullptr, *kernel_type = nullptr,
               *buffer_type = nullptr;
  /// The offset of the value of an instance after its head: objects of these classes are all
  /// constructed in place.
  std::int32_t stream_at = 0, config_at = 0, kernel_at = 0, buffer_at = 0;
  std::atomic<decltype(&::cuLaunchKernel)> launch{nullptr};  ///< from the first launch on
  PyObject* stream_name = nullptr;  ///< the keyword, as the interpreter passes it

  void fill();  ///< once the classes are there
};
extern constinit Usual usual __attribute__((visibility("hidden")));

template <class T>
T& value_at(PyObject* object, std::int32_t offset) noexcept {
  return *reinterpret_cast<T*>(reinterpret_cast<char*>(object) + offset);
}

/// The stream of an object that is a Stream and no more, open; null for all others.
inline const Stream* plain_stream(PyObject* object) noexcept {
  if (Py_TYPE(object) != usual.stream_type) return nullptr;
  const auto& stream = value_at<Stream>(object, usual.stream_at);
  return stream.is_closed() ? nullptr : &stream;
}

}  // namespace cucore::python
