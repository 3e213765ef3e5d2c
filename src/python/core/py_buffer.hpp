// SPDX-License-Identifier: Apache-2.0
// py_buffer.hpp: the value of a cuda.core.Buffer object.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/query.hpp"
#include "cucore/buffer.hpp"
#include "keep_alive.hpp"
#include "shared_owners.hpp"
#include "submission.hpp"
#include "support.hpp"

namespace cucore::python {

/// The origin of an imported buffer: its memory resource (invalid for a plain allocation) and its
/// descriptor. A closed buffer can still be pickled from them: a multiprocessing queue pickles
/// later, on its own thread.
struct ImportedFrom {
  nb::object resource;
  nb::object descriptor;
};

/// The registration of an exported buffer, until the buffer is destroyed: shared_buffer.cpp.
struct Offer;
struct Withdraw {
  void operator()(Offer* offer) const noexcept;
};

struct PyBuffer {
  SharedOwnersRef
      owners;  ///< if set, owns the stream and resource; `buffer` then has non-owning copies
  Buffer buffer;
  nb::object resource;     ///< the Python memory resource; invalid for a view
  nb::object owner;        ///< the object that from_handle() keeps alive
  bool mapped = false;     ///< imported from another process
  bool is_plain = false;   ///< device or pinned memory of a built-in resource: copies do not block
  bool is_pooled = false;  ///< from a pool of the driver: freed by cuMemFreeAsync
  bool readonly = false;   ///< neither the host nor copies may write to it
  bool discarded = false;  ///< contents discarded, and not prefetched since
  std::uint64_t capture = 0;  ///< ID of the capture that allocated it; 0: none
  std::int64_t extent = 0;    ///< the shape of a tensor that C code has borrowed (DLPack)
  int views = 0;              ///< number of memoryviews, arrays and strided views of the memory
  std::unique_ptr<ImportedFrom> imported;  ///< set for imported buffers
  std::unique_ptr<Offer, Withdraw> offer;  ///< set for exported buffers
  std::unique_ptr<PyBuffer> left;          ///< closed, but viewed: freed with the last view

  /// Ends a discard. Must run before discarded memory returns to its pool.
  void revive(StreamRef stream) noexcept {
    if (!std::exchange(discarded, false)) return;
    const WithoutGil unlocked;
    cucore::detail::end_discard(buffer, stream);
  }
  /// Frees the memory, or leaves it to its remaining views. If it must wait for work, it releases
  /// the GIL, which host callbacks among that work need.
  void close() {
    if (close_plainly()) return;
    settle();
    if (views > 0 && !buffer.is_closed()) {
      left = std::make_unique<PyBuffer>(std::move(buffer), resource, std::move(owner), mapped);
      left->discarded = std::exchange(discarded, false);
      left->readonly = readonly;
      return;
    }
    if (discarded) revive(buffer.deallocation_stream());
    const auto& from = buffer.memory_resource();
    if (from != nullptr && (from->deallocation_waits() || host_calls_are_pending())) {
      Buffer going = std::move(buffer);
      const WithoutGil unlocked;
      going.close();
    } else {
      buffer.close();
    }
    owner.reset();
  }
  /// The fast path of close(), which needs only the driver's call. Returns false, without side
  /// effects, if it does not apply or the driver fails.
  bool close_plainly() noexcept {
    if (!is_pooled || buffer.is_closed() || views != 0 || discarded || host_calls_are_pending() ||
        allocation_fast_path.free.load(std::memory_order_relaxed)(
            buffer.handle(), buffer.deallocation_stream().handle()) != CUDA_SUCCESS)
      return false;
    (void)buffer.release();
    owners.reset();
    return true;
  }
  /// Makes the buffer itself the owner of its stream and resource. Must run before its deallocation
  /// stream changes or it is moved.
  void settle() {
    if (owners == nullptr) return;
    const std::size_t size = buffer.size();
    const CUdeviceptr ptr = buffer.release();
    buffer = Buffer::adopt(ptr, size, owners->resource, owners->stream);
    owners.reset();
  }
  /// Returns whether the buffer is closed and owns nothing but the memory resource.
  [[nodiscard]] bool is_bare() const noexcept {
    return buffer.is_closed() && left == nullptr && !owner.is_valid() && owners == nullptr &&
           imported == nullptr && offer == nullptr;
  }
  void end_view() noexcept {
    if (--views == 0) left.reset();
  }
  PyBuffer() = default;
  PyBuffer(Buffer b, nb::object r, nb::object o = {}, bool m = false)
      : buffer{std::move(b)}, resource{std::move(r)}, owner{std::move(o)}, mapped{m} {}
  /// Allocates memory from a resource; `r` is its Python object.
  PyBuffer(std::shared_ptr<MemoryResource> from, std::size_t size, const Stream& stream,
           nb::object r)
      : buffer{Buffer::allocate(std::move(from), size, stream)}, resource{std::move(r)} {}
  /// Adopts memory that was allocated from a pool.
  PyBuffer(CUdeviceptr ptr, std::size_t size, SharedOwnersRef taken, nb::object r)
      : owners{std::move(taken)},
        buffer{Buffer::adopt(ptr, size, owners->unheld_resource, owners->unheld_stream)},
        resource{std::move(r)},
        is_plain{true},
        is_pooled{true} {}
  PyBuffer(PyBuffer&&) noexcept = default;
  PyBuffer& operator=(PyBuffer&&) = delete;
  ~PyBuffer() {
    if (buffer.is_closed() || interpreter_is_ending()) return;
    try {
      close();
    } catch (...) {  // a destructor does not throw; close() reports errors
    }
  }
};

/// A Buffer that owns a reference to an object of the user (an owner, a memory resource written in
/// Python), which may refer to the buffer. It has its own type, which supports garbage collection;
/// other buffers avoid that cost.
struct KeepingBuffer : PyBuffer {
  explicit KeepingBuffer(PyBuffer&& buffer) noexcept : PyBuffer{std::move(buffer)} {}
};

/// A C++ memory resource: the attribute `_native` of a Python memory resource.
struct Native {
  std::shared_ptr<MemoryResource> resource;
  CUmemoryPool plain = nullptr;            ///< its pool if that is neither imported nor managed
  [[nodiscard]] MemoryPool& pool() const;  ///< throws if it is closed or not a pool
};

/// Returns the C++ resource (`_native`) of a Python one; invalid for a class written in Python.
nb::object native_object(nb::handle resource);

/// Returns the resource of a Native. The caller copies it while it uses it, because another thread
/// may close it.
const std::shared_ptr<MemoryResource>& open_native(nb::handle native);

/// Returns the result of `resource.allocate(size, stream=stream)`; calls a built-in resource
/// directly, without Python. `native` is native_object(resource).
nb::object allocate_from(nb::handle resource, nb::handle native, PyObject* size, PyObject* stream,
                         const char* function);
nb::object allocate_from(nb::handle resource, PyObject* size, PyObject* stream,
                         const char* function);

/// The fast path for an allocation from a pool on a Stream. Returns null without an exception, and
/// without side effects, if it does not apply or the driver fails.
PyObject* allocate_usually(nb::handle resource, nb::handle native, PyObject* size,
                           PyObject* stream);

/// Creates a Buffer, or a ManagedBuffer if the memory is managed.
nb::object make_buffer(PyBuffer&& value, bool managed);

/// Creates a Buffer from an address. `stream` is None for the default stream, null for memory that
/// needs no stream order. Host memory needs no driver, and has no default stream before a driver is
/// loaded.
nb::object buffer_from_handle(nb::handle type, nb::handle ptr, nb::handle size, nb::handle resource,
                              nb::handle owner, nb::handle stream);

/// Returns the value of a Buffer object, or null for other objects.
PyBuffer* buffer_of(PyObject* object) noexcept;
PyBuffer& open_buffer(PyObject* object);
/// Returns the value of a Buffer that is to be written. Throws if it is read-only.
PyBuffer& writable_buffer(PyObject* object);

/// Returns the traits of the memory. For a resource written in Python, which need not report
/// managed memory, the driver is queried.
MemoryTraits traits_of(const PyBuffer& buffer);
/// Returns an owner that keeps an open buffer's memory valid, even after the buffer is closed.
nb::object hold_memory(PyObject* buffer);

/// Ends a view of the memory. May be called with a Python exception set, which it preserves.
void end_view(PyObject* buffer);

/// Returns an owner that keeps an object in its current state for a graph, even after it is closed:
/// the memory of a Buffer, an event, a texture; for a tuple, the owners of its elements. Any other
/// object is returned as it is.
nb::object hold(nb::handle thing);
/// Returns whether `held` is the result of hold() for this buffer.
bool is_held_memory_of(PyObject* held, PyObject* buffer) noexcept;

// Methods of Buffer, in buffer_copy.cpp.
PyObject* buffer_copy_from(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames);
PyObject* buffer_copy_to(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames);
PyObject* buffer_fill(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

/// Converts an int, a CUdeviceptr or None to an address.
CUdeviceptr pointer_argument(PyObject* object);

}  // namespace cucore::python
