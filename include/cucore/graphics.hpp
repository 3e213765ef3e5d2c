// SPDX-License-Identifier: Apache-2.0
// cucore/graphics.hpp: OpenGL interoperability: buffers and images that CUDA maps.
#pragma once

#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Owns the registration of an OpenGL buffer or image: map() gives CUDA access, unmap() returns it
/// to OpenGL. Move-only.
class CUCORE_EXPORT GraphicsResource {
 public:
  /// Registers a buffer object. Its OpenGL context must be current on the calling thread. Throws
  /// CUDAError that explains the requirements.
  static GraphicsResource from_gl_buffer(unsigned gl_buffer, unsigned flags = 0);
  /// As above, for a texture or renderbuffer object.
  static GraphicsResource from_gl_image(unsigned image, unsigned target, unsigned flags = 0);
  GraphicsResource(GraphicsResource&& other) noexcept;
  GraphicsResource& operator=(GraphicsResource&& other) noexcept;
  GraphicsResource(const GraphicsResource&) = delete;
  GraphicsResource& operator=(const GraphicsResource&) = delete;
  ~GraphicsResource();

  /// The driver's handle; null if the resource is closed.
  [[nodiscard]] CUgraphicsResource handle() const noexcept { return handle_; }
  /// True after close().
  [[nodiscard]] bool is_closed() const noexcept { return handle_ == nullptr; }
  /// True while the resource is mapped for CUDA.
  [[nodiscard]] bool is_mapped() const noexcept { return memory_.handle() != 0; }
  /// Returns the mapped memory. Throws InvalidStateError if the resource is not mapped.
  [[nodiscard]] BufferRef memory() const;
  /// Maps the resource for CUDA until unmap() and returns its memory. Throws InvalidStateError if
  /// the resource is closed or mapped.
  BufferRef map(StreamRef stream);
  /// Returns the memory to OpenGL. Throws InvalidStateError if the resource is not mapped.
  void unmap(StreamRef stream);
  /// Unmaps the resource in order on `stream` if it is mapped, and unregisters it. Idempotent.
  void close(StreamRef stream = StreamRef{nullptr});

 private:
  explicit GraphicsResource(CUgraphicsResource handle) : handle_{handle} {}
  CUgraphicsResource handle_;
  BufferRef memory_;
};

}  // namespace cucore
