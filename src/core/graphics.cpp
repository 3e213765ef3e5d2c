// SPDX-License-Identifier: Apache-2.0
// graphics.cpp: registers and maps OpenGL resources.
#include "cucore/graphics.hpp"

#include <string>

#include "core/blocking_calls.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

/// Throws on a failed registration, with a note on its requirements.
void check_registration(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  try {
    fail(code, call);
  } catch (const CUDAError& error) {
    throw CUDAError{error,
                    std::string{error.what()} +
                        ": an OpenGL object can be registered while an OpenGL context of the same "
                        "GPU is current in this thread (make the window's context current first); "
                        "the CPU device shares no memory with OpenGL: copy through host memory "
                        "there"};
  }
}

}  // namespace

GraphicsResource GraphicsResource::from_gl_buffer(unsigned gl_buffer, unsigned flags) {
  CUgraphicsResource resource = nullptr;
  check_registration(driver().cuGraphicsGLRegisterBuffer(&resource, gl_buffer, flags),
                     "cuGraphicsGLRegisterBuffer");
  return GraphicsResource{resource};
}

GraphicsResource GraphicsResource::from_gl_image(unsigned image, unsigned target, unsigned flags) {
  CUgraphicsResource resource = nullptr;
  check_registration(driver().cuGraphicsGLRegisterImage(&resource, image, target, flags),
                     "cuGraphicsGLRegisterImage");
  return GraphicsResource{resource};
}

GraphicsResource::GraphicsResource(GraphicsResource&& other) noexcept
    : handle_{std::exchange(other.handle_, nullptr)},
      memory_{std::exchange(other.memory_, BufferRef{})} {}

GraphicsResource& GraphicsResource::operator=(GraphicsResource&& other) noexcept {
  GraphicsResource old{std::move(*this)};
  handle_ = std::exchange(other.handle_, nullptr);
  memory_ = std::exchange(other.memory_, BufferRef{});
  return *this;
}

GraphicsResource::~GraphicsResource() {
  if (handle_ == nullptr || !detail::may_free()) return;
  try {
    close();
  } catch (...) {  // destructors do not throw; close() reports errors
  }
}

BufferRef GraphicsResource::memory() const {
  if (!is_mapped()) throw InvalidStateError{"the resource is not mapped: call map() first"};
  return memory_;
}

BufferRef GraphicsResource::map(StreamRef stream) {
  if (is_closed()) throw InvalidStateError{"the resource is closed"};
  if (is_mapped())
    throw InvalidStateError{"the resource is mapped already: call unmap() before map()"};
  CUCORE_CALL(cuGraphicsMapResources(1, &handle_, stream.handle()));
  CUdeviceptr ptr = 0;
  std::size_t size = 0;
  const CUresult code = driver().cuGraphicsResourceGetMappedPointer(&ptr, &size, handle_);
  if (code != CUDA_SUCCESS) {  // an image is an array and has no address
    (void)driver().cuGraphicsUnmapResources(1, &handle_, stream.handle());
    fail(code, "cuGraphicsResourceGetMappedPointer");
  }
  memory_ = {ptr, size};
  return memory_;
}

void GraphicsResource::unmap(StreamRef stream) {
  if (!is_mapped())
    throw InvalidStateError{"the resource is not mapped: there is nothing to unmap"};
  CUCORE_CALL(cuGraphicsUnmapResources(1, &handle_, stream.handle()));
  memory_ = {};
}

void GraphicsResource::close(StreamRef stream) {
  if (is_closed()) return;
  const detail::Waiting waiting;
  const detail::RelaxedCaptureScope relaxed;
  if (is_mapped()) unmap(stream);
  CUCORE_CALL(cuGraphicsUnregisterResource(std::exchange(handle_, nullptr)));
}

}  // namespace cucore
