// SPDX-License-Identifier: Apache-2.0
// engine.hpp: the declarations shared by the parts of the binding engine (docs/design/bindings.md).
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "core/blocking_calls.hpp"
#include "keeps.hpp"
#include "rows.hpp"

struct CUgraph_st;  // the driver's graph

namespace cucore::bindings {

/// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* stolen) : object_{stolen} {}
  static Ref borrow(PyObject* object) { return Ref{Py_XNewRef(object)}; }
  Ref(Ref&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  [[nodiscard]] PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// ---- the rendered APIs
// ------------------------------------------------------------------------------------------------

extern const Api* const kApis[16];  // indexed by the upper bits of a TypeId; null after the last
inline const Api& api_of(TypeId id) { return *kApis[id >> 12]; }
inline const TypeRow& row_of(TypeId id) { return api_of(id).types[id & 0x0FFF]; }
inline const char* name_of(TypeId id) { return api_of(id).text + row_of(id).name; }
const Api* find_api(const char* module);

/// Identifies the argument in an error message: "cuMemAlloc(): bytesize" or "CUDA_MEMCPY3D.Height".
struct Where {
  const char* owner;
  const char* joint;  // "(): " or "."
  const char* name;
};

// ---- types (types.cpp, enums.cpp, handles.cpp, records.cpp)
// -----------------------------------------------------------

extern std::atomic<PyObject*> classes[0x10000];  // indexed by TypeId; owned until the process exits
PyObject* make_class_of(TypeId id);
/// Returns the class of a rendered type, created on first use. Borrowed; null with an exception
/// set.
inline PyObject* class_of(TypeId id) {
  if (PyObject* known = classes[id].load(std::memory_order_acquire)) [[likely]]
    return known;
  return make_class_of(id);
}
/// Returns the rendered type of a class or of its base class, or kNoType.
TypeId type_of(PyTypeObject* type);
/// Converts the arguments of a vectorcall to those of tp_new; false with an exception set.
bool as_tuple_and_dict(PyObject* const* args, std::size_t given, PyObject* names, Ref* tuple,
                       Ref* keywords);
PyObject* make_enum(TypeId id);
PyObject* make_handle_class(TypeId id, PyObject* base);
PyObject* make_record_class(TypeId id, PyObject* base);
PyObject* record_repr(PyObject* record);  // "name : value" per field, nested records indented
bool init_handles();
bool init_records();

/// Returns the member of an enum with this value; an UNKNOWN_ member if the facts have none. New
/// reference.
PyObject* enum_member(TypeId id, std::int64_t value);

/// A free list for objects of one layout and any class, which are created and destroyed frequently.
/// `dealloc` is the tp_dealloc of these classes; a class derived in Python, whose objects may be
/// larger, has another one. A freed object keeps its reference to its class, because it is usually
/// reused for the same class.
template <class Object, destructor dealloc>
class FreeList {
 public:
  /// Returns a new object of a class with uninitialized fields. Null with MemoryError set.
  Object* take(PyTypeObject* type) {
    if (count_ == 0 || type->tp_dealloc != dealloc) [[unlikely]]
      return take_new(type);
    PyObject* const object = free_list_[--count_];
    if (PyTypeObject* const before = Py_TYPE(object); before != type) {
      Py_INCREF(reinterpret_cast<PyObject*>(type));
      Py_SET_TYPE(object, type);
      Py_DECREF(reinterpret_cast<PyObject*>(before));
    }
    Py_SET_REFCNT(object, 1);
    return reinterpret_cast<Object*>(object);
  }
  /// Frees an object; the last step of tp_dealloc.
  void give(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    if (count_ < kMost && type->tp_dealloc == dealloc) [[likely]] {
      free_list_[count_++] = object;
    } else {
      type->tp_free(object);
      Py_DECREF(reinterpret_cast<PyObject*>(type));
    }
  }

 private:
#if defined(Py_GIL_DISABLED) || defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS)
  static constexpr unsigned kMost = 0;  // no lock guards the list, or CPython counts objects
#else
  static constexpr unsigned kMost = 64;
#endif
  [[gnu::noinline]] static Object* take_new(PyTypeObject* type) {
    if (type->tp_dealloc != dealloc) return reinterpret_cast<Object*>(type->tp_alloc(type, 0));
    return PyObject_New(Object, type);
  }
  unsigned count_ = 0;
  PyObject* free_list_[kMost + 1];
};

struct HandleObject {
  PyObject_HEAD std::uint64_t* place;  // &value, or memory that the caller gave with _ptr
  std::uint64_t value;
  TypeId type;
  TypeId root;
  std::uint8_t size;
};
extern PyTypeObject* handle_base;
void handle_dealloc(PyObject* handle);  // tp_dealloc of every handle class created here
extern FreeList<HandleObject, handle_dealloc> handle_spares;
/// Creates a handle of the row's class. Null with MemoryError set.
inline PyObject* new_handle(PyObject* type, TypeId id, const TypeRow& row, std::uint64_t value) {
  HandleObject* const handle = handle_spares.take(reinterpret_cast<PyTypeObject*>(type));
  if (handle == nullptr) return nullptr;
  handle->value = value;
  handle->place = &handle->value;
  handle->type = id;
  handle->root = row.root;
  handle->size = static_cast<std::uint8_t>(row.size);
  return reinterpret_cast<PyObject*>(handle);
}
inline PyObject* new_handle(TypeId id, std::uint64_t value) {
  PyObject* const type = class_of(id);
  return type != nullptr ? new_handle(type, id, row_of(id), value) : nullptr;
}
/// Returns whether an object is a handle of a rendered class, and not of a class derived in Python.
inline bool is_plain_handle(PyObject* value) {
  return Py_TYPE(value)->tp_dealloc == handle_dealloc;
}
/// Returns the kind that has the range of an integer with its own class, or of a handle.
inline Kind range_kind(const TypeRow& row) {
  if (row.size != 4) return Kind::u64;
  return row.version != 0 ? Kind::u32 : Kind::i32;
}
inline std::uint64_t handle_value(const HandleObject* handle) {
  if (handle->size == 8) return *handle->place;
  if (range_kind(row_of(handle->type)) == Kind::u32) {
    std::uint32_t narrow = 0;
    std::memcpy(&narrow, handle->place, sizeof narrow);
    return narrow;
  }
  std::int32_t narrow = 0;
  std::memcpy(&narrow, handle->place, sizeof narrow);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(narrow));
}
inline bool is_handle(PyObject* o) {
  return is_plain_handle(o) || PyObject_TypeCheck(o, handle_base);
}

struct RecordObject {
  PyObject_HEAD void* place;
  PyObject* owner;  // the record that contains this one, or null
  Keeps* keep;  // owners of the memory that pointer fields refer to, also of nested records; set on
                // the outermost record, and on an element of an array (the array's memory)
  TypeId type;
  bool owns;     // this object owns the memory at place
  bool aligned;  // over-aligned: the address of the block precedes it; see own_memory
  bool calls;    // a field is a Python callable, owned by `keep`; set on the outermost record only
  std::uint32_t count;  // number of elements; greater than one only in the Pythonic modules
};
extern PyTypeObject* record_base;
RecordObject* new_record(TypeId id, std::uint32_t count = 1);  // zero-initialized, owns its memory
RecordObject* view_record(TypeId id, void* place, PyObject* owner);
void record_dealloc(PyObject* record);  // tp_dealloc of every record class created here
/// Returns whether an object is a record of a rendered class, and not of a class derived in Python.
inline bool is_plain_record(PyObject* value) {
  return Py_TYPE(value)->tp_dealloc == record_dealloc;
}
PyObject* element_view(RecordObject* record, std::uint32_t index);  // one element of an array
inline bool is_record(PyObject* o) {
  return is_plain_record(o) || PyObject_TypeCheck(o, record_base);
}
/// Returns the record of an argument for a parameter of type `id`; null with an exception set.
RecordObject* expect_record(PyObject* value, TypeId id, const Where& where);
/// Returns the outermost record that contains this one; the record itself if there is none.
inline RecordObject* outermost(RecordObject* record) {
  while (record->owner != nullptr && is_record(record->owner))
    record = reinterpret_cast<RecordObject*>(record->owner);
  return record;
}
/// True if a pointer field was set through a record that is a view of memory, and the owner of that
/// memory has not taken over the reference yet.
extern std::atomic<bool> any_foreign_keeps;
inline bool has_foreign_keeps() { return any_foreign_keeps.load(std::memory_order_relaxed); }
/// Returns whether the record, or a record that contains it, may have a field with a Python
/// callable.
inline bool holds_calls(RecordObject* record) {
  record = outermost(record);
  return record->calls || !record->owns || has_foreign_keeps();
}
/// Makes the graph to which a call has passed a record an owner of the record's Python callables;
/// the executable graph if there is one.
void keep_calls_in_graph(RecordObject* record, CUgraph_st* graph, void* executable);
/// Returns whether a record, or a record that contains it, may keep anything alive.
bool points_to_kept(PyObject* record);
/// Keeps `what` alive for a field for the lifetime of the record's memory, and releases what the
/// field kept before. None releases only.
bool keep_alive(RecordObject* record, const void* field, PyObject* what);
/// Keeps the memory of an array alive for an element, which is a view of it.
bool keep_itself(RecordObject* element, PyObject* memory);
/// Keeps the owners of `value`'s pointers alive for its copy at `place` in the record `into`.
bool keep_copied(RecordObject* into, const void* place, RecordObject* value);
/// Returns the object that the record keeps alive for `field`, or null. Borrowed.
PyObject* kept(RecordObject* record, const void* field);
/// Releases the objects that the record keeps alive for the fields in [from, from + size).
void erase_kept(RecordObject* record, const void* from, std::size_t size);

// ---- values (convert.cpp)
// ---------------------------------------------------------------------------------------------

std::size_t size_of(Kind kind, TypeId type);
/// Converts a Python value to a C value; false with an exception that names `where`.
bool to_slot(PyObject* value, Kind kind, TypeId type, const Where& where, Slot* out);
/// Writes a slot to memory as the C type.
void put(const Slot& slot, Kind kind, TypeId type, void* place);
/// Stores a Python value to memory. Records are copied; `into` (may be null) also keeps the owners
/// of their pointers alive.
bool store(PyObject* value, Kind kind, TypeId type, const Where& where, void* place,
           RecordObject* into);
/// Loads a Python value from memory. A record becomes a view that keeps `owner` alive; if `owner`
/// is null, it is copied.
PyObject* load(Kind kind, TypeId type, const void* place, PyObject* owner, std::size_t length = 0);
bool to_integer(PyObject* value, Kind kind, const Where& where, Slot* out);

/// Returns the type of an attribute's value, or null if the facts do not have the attribute.
const AttributeRow* attribute_row(const Api& api, std::uint16_t table, std::int64_t value);

/// Owns the memory and references of one call.
class Frame {
 public:
  Frame() = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (first_ != nullptr) [[unlikely]]
      clear();
  }
  /// Allocates zero-initialized memory; null with MemoryError set.
  void* take(std::size_t bytes) {
    bytes = (bytes + 15) & ~std::size_t{15};
    if (bytes <= sizeof inline_ - used_) [[likely]] {
      void* p = inline_ + used_;
      used_ += bytes;
      std::memset(p, 0, bytes);
      return p;
    }
    return take_heap(bytes);
  }
  bool hold(PyObject* object);                     // keeps a reference until the call ends
  Py_buffer* buffer(PyObject* object, int flags);  // released when the call ends
 private:
  struct Node;
  void* take_heap(std::size_t bytes);
  void clear();
  Node* first_ = nullptr;
  std::size_t used_ = 0;
  alignas(16) char inline_[496];
};

/// Converts None, an integer, handle, record or buffer (of at least `needed` bytes) to a void*.
/// `writes`: the callee writes to the memory.
bool to_address(PyObject* value, const Where& where, Frame& frame, std::uint64_t needed,
                bool writes, Slot* out);
bool to_text(PyObject* value, const Where& where, Frame& frame, const char** out);
/// Converts a code image: like to_address, but text, and data without a terminating NUL, is copied
/// with a NUL appended.
bool to_image(PyObject* value, const Where& where, Frame& frame, Slot* out);

// ---- kernel arguments (kernel_params.cpp)
// -----------------------------------------------------------------------------

/// Converts every documented form of `kernelParams` to a void**. The frame owns temporary memory.
bool to_kernel_params(PyObject* value, const Where& where, Frame& frame, Slot* out);
/// Converts the most common form on the caller's stack: (values, types) as tuples of plain ints and
/// floats with simple ctypes types. Returns the number of values; -1, without side effects, for
/// other forms.
struct PlainParams {
  static constexpr Py_ssize_t kMost = 16;
  void* pointers[kMost];
  Slot values[kMost];
};
Py_ssize_t to_plain_params(PyObject* value, PlainParams& out);

/// Cached facts of kernels, keyed by handle and number of arguments (-1: unknown); 0 if nothing is
/// cached. The bits `quiet` and `asked` are properties that a launch may rely on.
struct KernelFacts {
  static constexpr std::uint64_t known = 1;  // the kernel takes this number of arguments
  static constexpr std::uint64_t quiet =
      2;  // has run and needs no local memory, so a launch never blocks to allocate it
  static constexpr std::uint64_t asked = 4;  // `quiet` has been queried
};
std::uint64_t facts_of(void* kernel, Py_ssize_t arguments);
/// Queries the driver, after the first launch of a kernel, for the facts of later launches.
void query_facts(void* kernel, Py_ssize_t arguments);
/// Returns whether the number of values in a tuple is the kernel's number of parameters; sets
/// TypeError if not. A driver would read past the end of a shorter list.
bool kernel_takes(const char* function, void* kernel, PyObject* given);
/// Like to_kernel_params, for a field of a record that outlives the call. Returns an object that
/// owns the memory.
PyObject* kernel_params_object(PyObject* value, const Where& where, void** address);

// ---- callbacks (callbacks.cpp)
// ----------------------------------------------------------------------------------------

struct HostCall;  // a Python callable that the library will call
using cucore::detail::host_calls_are_pending;
/// Converts a handle, address, ctypes function or Python callable to a function pointer. For a
/// callable, sets `call`: the caller sets its user data, then calls commit() or drop().
bool to_callback(PyObject* value, CallbackShape shape, const Where& where, Slot* out,
                 HostCall** call);
CallbackShape shape_of(const HostCall* call);
/// Reraises the exception that the callable raised during the call; false if there is none.
bool raise_pending(HostCall* call);
void set_user_data(HostCall* call, PyObject* user);
void* user_pointer(HostCall* call);
void commit(HostCall* call,
            bool once);     // the library has accepted it; `once`: it is freed after its first run
void drop(HostCall* call);  // releases one ownership: rejected by the library, or no longer used
/// Makes a graph, and all graphs created from it, an owner; false if the driver rejects that.
bool keep_in_graph(HostCall* call, CUgraph_st* graph);
/// Adds an owner. The caller releases it later with drop().
void hold(HostCall* call);
/// Transfers ownership to an object of the driver, identified by its handle (callback_owners.cpp).
/// It ends when a function of these modules destroys the object.
void keep_for(HostCall* call, void* owner);
/// Returns a function's C name without the version suffix of the driver's symbols.
inline const char* c_name(const Api& api, const FunctionRow& row) {
  return api.text + (api.raises != 0 ? row.symbol : row.name);
}
/// Returns the function to call instead of the one at `address`, or null.
void* in_place_of(const char* function, void* address);
/// Creates an object that owns a call for a record; takes the caller's ownership. New reference.
PyObject* capsule_of(HostCall* call);
HostCall* call_in(PyObject* capsule);  // null for any other object
/// Returns the call with this user pointer, if it still has an owner; otherwise null.
HostCall* live_call(void* pointer);
PyObject* user_data_of(void* pointer);  // of a committed call, or null

// ---- calls (call.cpp)
// -------------------------------------------------------------------------------------------------

/// Raises an exception whose class is defined in Python.
void raise_from(const char* module, const char* exception, const char* text);
/// Creates the Python function of a row. `raising`: raises exceptions and returns bare values.
PyObject* make_function(const Api& api, const FunctionRow& row, bool raising);
bool init_functions();
/// Creates the value of `module.name`; null without an exception if the API has no such name.
PyObject* make_attribute(const Api& api, const char* name, bool raising);
/// Creates the class of modules whose names are created on first use. New reference.
PyObject* make_lazy_module_type();
[[noreturn]] void unreachable_kind();

extern PyObject*
    raise_status;  // Python callable: (module, result member, function name) -> exception to raise

}  // namespace cucore::bindings
