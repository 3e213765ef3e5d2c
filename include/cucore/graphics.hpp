// SPDX-License-Identifier: Apache-2.0
// cucore/graphics.hpp: memory of OpenGL that CUDA uses in place.
#pragma once

#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Owns the registration of a buffer or image of OpenGL: map it for CUDA, unmap it for OpenGL.
/// Moves, never copies.
class CUCORE_EXPORT GraphicsResource {
 public:
  /// Registers a buffer object; its OpenGL context must be current in this thread. Throws CUDAError
  /// that says what is needed.
  static GraphicsResource from_gl_buffer(unsigned gl_buffer, unsigned flags = 0);
  /// Registers a texture or renderbuffer object.
  static GraphicsResource from_gl_image(unsigned image, unsigned target, unsigned flags = 0);
  GraphicsResource(GraphicsResource&& other) noexcept;
  GraphicsResource& operator=(GraphicsResource&& other) noexcept;
  GraphicsResource(const GraphicsResource&) = delete;
  GraphicsResource& operator=(const GraphicsResource&) = delete;
  ~GraphicsResource();

  /// null when closed
  [[nodiscard]] CUgraphicsResource handle() const noexcept { return handle_; }
  [[nodiscard]] bool is_closed() const noexcept { return handle_ == nullptr; }  ///< after close()
  [[nodiscard]] bool is_mapped() const noexcept { return memory_.handle() != 0; }  ///< for CUDA
  /// The memory between map() and unmap(). Throws InvalidStateError where it is not mapped.
  [[nodiscard]] BufferRef memory() const;
  /// Maps the memory for CUDA until unmap(). Throws InvalidStateError when closed or mapped.
  BufferRef map(StreamRef stream);
  /// Returns the memory to OpenGL. Throws InvalidStateError where it is not mapped.
  void unmap(StreamRef stream);
  /// Unmaps, on the stream given, and unregisters; does nothing the second time.
  void close(StreamRef stream = StreamRef{nullptr});

 private:
  explicit GraphicsResource(CUgraphicsResource handle) : handle_{handle} {}
  CUgraphicsResource handle_;
  BufferRef memory_;
};

}  // namespace cucore
