// SPDX-License-Identifier: Apache-2.0
// py_buffer.hpp: what a cuda.core.Buffer object holds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/query.hpp"
#include "cucore/buffer.hpp"
#include "kept.hpp"
#include "loan.hpp"
#include "submission.hpp"
#include "support.hpp"

namespace cucore::python {

/// What a buffer of another process was opened with: its memory resource (invalid for a plain
/// allocation) and its descriptor. A closed buffer still pickles from them: a queue of
/// multiprocessing pickles later, on a thread of its own.
struct ImportedFrom {
  nb::object resource;
  nb::object descriptor;
};

/// What other processes know a buffer by, until it is destroyed: shared_buffer.cpp.
struct Offer;
struct Withdraw {
  void operator()(Offer* offer) const noexcept;
};

struct PyBuffer {
  LoanHolder loan;  ///< holds the stream and the resource that `buffer` only names then
  Buffer buffer;
  nb::object resource;     ///< the Python memory resource; invalid for a view
  nb::object owner;        ///< what from_handle() was told to keep alive
  bool mapped = false;     ///< came from another process
  bool is_plain = false;   ///< device or pinned memory of a built-in resource: copies do not wait
  bool is_pooled = false;  ///< from a pool of the driver: freed by cuMemFreeAsync
  bool readonly = false;   ///< neither the host nor copies may write to it
  bool discarded = false;  ///< told that its contents are not needed, and not prefetched since
  std::uint64_t capture = 0;  ///< the capture it was allocated in; 0: in none
  std::int64_t extent = 0;    ///< the shape of a tensor that C code has borrowed (DLPack)
  int views = 0;              ///< memoryviews, arrays and strided views that see the memory
  std::unique_ptr<ImportedFrom> imported;  ///< set in buffers of another process
  std::unique_ptr<Offer, Withdraw> offer;  ///< set in buffers that other processes were told of
  std::unique_ptr<PyBuffer> left;          ///< closed, but viewed: destroyed with the last view

  /// Must run before discarded memory returns to its pool.
  void revive(StreamRef stream) noexcept {
    if (!std::exchange(discarded, false)) return;
    const WithoutGil unlocked;
    cucore::detail::end_discard(buffer, stream);
  }
  /// Gives the memory back, or leaves that to the views that still see it. Where it waits for work
  /// it does so without the GIL, which the host callbacks among that work need.
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
  /// The same where nothing but the driver's call is needed. False when it is more than that, or
  /// the driver refuses, and nothing has happened.
  bool close_plainly() noexcept {
    if (!is_pooled || buffer.is_closed() || views != 0 || discarded || host_calls_are_pending() ||
        memory_line.free.load(std::memory_order_relaxed)(
            buffer.handle(), buffer.deallocation_stream().handle()) != CUDA_SUCCESS)
      return false;
    (void)buffer.release();
    loan.reset();
    return true;
  }
  /// Makes the buffer hold its stream and its resource itself. Must run before it gets another
  /// stream or is moved.
  void settle() {
    if (loan == nullptr) return;
    const std::size_t size = buffer.size();
    const CUdeviceptr ptr = buffer.release();
    buffer = Buffer::adopt(ptr, size, loan->resource, loan->stream);
    loan.reset();
  }
  /// Closed, and left with nothing but the memory resource.
  [[nodiscard]] bool is_bare() const noexcept {
    return buffer.is_closed() && left == nullptr && !owner.is_valid() && loan == nullptr &&
           imported == nullptr && offer == nullptr;
  }
  void end_view() noexcept {
    if (--views == 0) left.reset();
  }
  PyBuffer() = default;
  PyBuffer(Buffer b, nb::object r, nb::object o = {}, bool m = false)
      : buffer{std::move(b)}, resource{std::move(r)}, owner{std::move(o)}, mapped{m} {}
  /// Memory from a resource; `r` is its Python object.
  PyBuffer(std::shared_ptr<MemoryResource> from, std::size_t size, const Stream& stream,
           nb::object r)
      : buffer{Buffer::allocate(std::move(from), size, stream)}, resource{std::move(r)} {}
  /// Memory that has come from a pool.
  PyBuffer(CUdeviceptr ptr, std::size_t size, LoanHolder taken, nb::object r)
      : loan{std::move(taken)},
        buffer{Buffer::adopt(ptr, size, loan->unheld_resource, loan->unheld_stream)},
        resource{std::move(r)},
        is_plain{true},
        is_pooled{true} {}
  PyBuffer(PyBuffer&&) noexcept = default;
  PyBuffer& operator=(PyBuffer&&) = delete;
  ~PyBuffer() {
    if (buffer.is_closed() || interpreter_is_ending()) return;
    try {
      close();
    } catch (...) {  // a destructor stays silent; close() is for those who want to know
    }
  }
};

/// A Buffer that keeps an object of the user's (an owner, a memory resource written in Python),
/// which may hold the buffer in turn: of a type of its own, which the collector sees through. All
/// others do without its costs.
struct KeepingBuffer : PyBuffer {
  explicit KeepingBuffer(PyBuffer&& buffer) noexcept : PyBuffer{std::move(buffer)} {}
};

/// A C++ memory resource as an attribute (`_native`) of the Python class around it.
struct Native {
  std::shared_ptr<MemoryResource> resource;
  CUmemoryPool plain = nullptr;  ///< its pool, where that is of this process and not managed
  [[nodiscard]] MemoryPool& pool() const;  ///< throws when it is closed or no pool
};

/// The C++ resource of a Python one: its `_native`; invalid for a class written in Python.
nb::object native_object(nb::handle resource);

/// The resource of a Native, which a call keeps while it uses it: another thread may close it.
const std::shared_ptr<MemoryResource>& open_native(nb::handle native);

/// What `resource.allocate(size, stream=stream)` returns; calls a built-in resource without going
/// through Python. `native` is native_object(resource).
nb::object allocate_from(nb::handle resource, nb::handle native, PyObject* size, PyObject* stream,
                         const char* function);
nb::object allocate_from(nb::handle resource, PyObject* size, PyObject* stream,
                         const char* function);

/// The same for the usual allocation: bytes of a pool on a Stream. Null without an exception when
/// it is not that, or the driver refuses: nothing has happened then.
PyObject* allocate_usually(nb::handle resource, nb::handle native, PyObject* size,
                           PyObject* stream);

/// A new Buffer around memory: a ManagedBuffer when the memory is managed.
nb::object make_buffer(PyBuffer&& value, bool managed);

/// A Buffer around memory by its address. `stream` is None for the default stream, null for memory
/// that needs no order. Memory of the host needs no driver, and has no default stream before one is
/// loaded.
nb::object buffer_from_handle(nb::handle type, nb::handle ptr, nb::handle size, nb::handle resource,
                              nb::handle owner, nb::handle stream);

/// The Python object of a Buffer argument, or null when it is none.
PyBuffer* buffer_of(PyObject* object) noexcept;
PyBuffer& open_buffer(PyObject* object);
/// The same for a buffer that is written to.
PyBuffer& writable_buffer(PyObject* object);

/// What the memory is. A resource written in Python need not say that its memory is managed; the
/// driver knows.
MemoryTraits traits_of(const PyBuffer& buffer);
/// What keeps an open buffer's memory where it is, also when the buffer is closed meanwhile.
nb::object hold_memory(PyObject* buffer);

/// The end of a view of the memory, also while an exception is raised.
void end_view(PyObject* buffer);

/// What keeps a thing that work of a graph uses as it is now, also when it is closed meanwhile: the
/// memory of a Buffer, an event, a texture; of a tuple what keeps its elements. Anything else keeps
/// itself.
nb::object hold(nb::handle thing);
/// Whether `held` is what hold() made of this buffer.
bool is_held_memory_of(PyObject* held, PyObject* buffer) noexcept;

// Methods of Buffer, in buffer_copy.cpp.
PyObject* buffer_copy_from(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames);
PyObject* buffer_copy_to(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames);
PyObject* buffer_fill(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

/// The address an int, a CUdeviceptr or None stands for.
CUdeviceptr pointer_argument(PyObject* object);

}  // namespace cucore::python
