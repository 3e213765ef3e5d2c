// SPDX-License-Identifier: Apache-2.0
// engine.hpp: what the parts of the binding engine share. See docs/design/bindings.md for how they
// fit together.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "core/waiting.hpp"
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

extern const Api* const kApis[16];  // by the upper bits of a TypeId; null after the last
inline const Api& api_of(TypeId id) { return *kApis[id >> 12]; }
inline const TypeRow& row_of(TypeId id) { return api_of(id).types[id & 0x0FFF]; }
inline const char* name_of(TypeId id) { return api_of(id).text + row_of(id).name; }
const Api* find_api(const char* module);

/// Names the argument in an error text: "cuMemAlloc(): bytesize" or "CUDA_MEMCPY3D.Height".
struct Where {
  const char* owner;
  const char* joint;  // "(): " or "."
  const char* name;
};

// ---- types (types.cpp, enums.cpp, handles.cpp, records.cpp)
// -----------------------------------------------------------

extern std::atomic<PyObject*> classes[0x10000];  // by TypeId; owned for the life of the process
PyObject* make_class_of(TypeId id);
/// The class of a rendered type, made when first asked for. Borrowed; null with an exception set.
inline PyObject* class_of(TypeId id) {
  if (PyObject* known = classes[id].load(std::memory_order_acquire)) [[likely]]
    return known;
  return make_class_of(id);
}
/// The rendered type a class (or a class derived from it) stands for, or kNoType.
TypeId type_of(PyTypeObject* type);
/// The arguments of a vector call as those of tp_new; false with an exception set.
bool as_tuple_and_dict(PyObject* const* args, std::size_t given, PyObject* names, Ref* tuple,
                       Ref* keywords);
PyObject* make_enum(TypeId id);
PyObject* make_handle_class(TypeId id, PyObject* base);
PyObject* make_record_class(TypeId id, PyObject* base);
PyObject* record_repr(PyObject* record);  // "name : value" per field, nested records indented
bool init_handles();
bool init_records();

/// The member of an enum with this value; a nameless one where the facts know none. New reference.
PyObject* enum_member(TypeId id, std::int64_t value);

/// Objects of one layout that were freed, whatever their class: they come and go quickly. `dealloc`
/// is the tp_dealloc of those classes; one derived in Python, whose objects may have more to them,
/// has another. A freed object holds its class, and mostly becomes one of the same.
template <class Object, destructor dealloc>
class Spares {
 public:
  /// A new object of a class; its fields hold anything. Null with MemoryError set.
  Object* take(PyTypeObject* type) {
    if (count_ == 0 || type->tp_dealloc != dealloc) [[unlikely]]
      return take_new(type);
    PyObject* const object = spares_[--count_];
    if (PyTypeObject* const before = Py_TYPE(object); before != type) {
      Py_INCREF(reinterpret_cast<PyObject*>(type));
      Py_SET_TYPE(object, type);
      Py_DECREF(reinterpret_cast<PyObject*>(before));
    }
    Py_SET_REFCNT(object, 1);
    return reinterpret_cast<Object*>(object);
  }
  /// The last step of tp_dealloc.
  void give(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    if (count_ < kMost && type->tp_dealloc == dealloc) [[likely]] {
      spares_[count_++] = object;
    } else {
      type->tp_free(object);
      Py_DECREF(reinterpret_cast<PyObject*>(type));
    }
  }

 private:
#if defined(Py_GIL_DISABLED) || defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS)
  static constexpr unsigned kMost = 0;  // nothing guards them, or others count objects too
#else
  static constexpr unsigned kMost = 64;
#endif
  [[gnu::noinline]] static Object* take_new(PyTypeObject* type) {
    if (type->tp_dealloc != dealloc) return reinterpret_cast<Object*>(type->tp_alloc(type, 0));
    return PyObject_New(Object, type);
  }
  unsigned count_ = 0;
  PyObject* spares_[kMost + 1];
};

struct HandleObject {
  PyObject_HEAD std::uint64_t* place;  // &value, or memory the caller named with _ptr
  std::uint64_t value;
  TypeId type;
  TypeId root;
  std::uint8_t size;
};
extern PyTypeObject* handle_base;
void handle_dealloc(PyObject* handle);  // tp_dealloc of every handle class made here
extern Spares<HandleObject, handle_dealloc> handle_spares;
/// A handle of the class that stands for the row. Null with MemoryError set.
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
/// A handle of one of our classes; objects of classes derived from them in Python are not.
inline bool is_plain_handle(PyObject* value) {
  return Py_TYPE(value)->tp_dealloc == handle_dealloc;
}
/// What fits an integer with a class of its own, or a handle.
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
  PyObject* owner;  // the record this one is a part of, or null
  Keeps* keep;      // what pointer fields point to, those of parts too; on the outermost record,
                    // and on an element of an array, which keeps the array's memory
  TypeId type;
  bool owns;     // place was allocated for this object
  bool aligned;  // placed after the address of the whole block; see own_memory
  bool calls;    // a field is a Python callable, held in `keep`; on the outermost record only
  std::uint32_t count;  // elements: more than one in the Pythonic modules only
};
extern PyTypeObject* record_base;
RecordObject* new_record(TypeId id, std::uint32_t count = 1);  // zeroed, owns its memory
RecordObject* view_record(TypeId id, void* place, PyObject* owner);
void record_dealloc(PyObject* record);  // tp_dealloc of every record class made here
/// A record of one of our classes; objects of classes derived from them in Python are not.
inline bool is_plain_record(PyObject* value) {
  return Py_TYPE(value)->tp_dealloc == record_dealloc;
}
PyObject* element_view(RecordObject* record, std::uint32_t index);  // one element of an array
inline bool is_record(PyObject* o) {
  return is_plain_record(o) || PyObject_TypeCheck(o, record_base);
}
/// The record of a Python argument for a parameter of type `id`; null with an exception set.
RecordObject* expect_record(PyObject* value, TypeId id, const Where& where);
/// The record that this one is a part of, of a part of...; itself when it is none.
inline RecordObject* outermost(RecordObject* record) {
  while (record->owner != nullptr && is_record(record->owner))
    record = reinterpret_cast<RecordObject*>(record->owner);
  return record;
}
/// Whether anything was set through a record that is a view of memory, and the owner
/// of that memory has not taken it over yet.
extern std::atomic<bool> any_foreign_keeps;
inline bool has_foreign_keeps() { return any_foreign_keeps.load(std::memory_order_relaxed); }
/// Whether a Python callable may be a field of the record, or of what it is a part of.
inline bool holds_calls(RecordObject* record) {
  record = outermost(record);
  return record->calls || !record->owns || has_foreign_keeps();
}
/// Makes the graph a call has put a record into hold the record's Python callables; or the
/// executable graph, where there is one.
void keep_calls_in_graph(RecordObject* record, CUgraph_st* graph, void* executable);
/// Whether a record, or what it is a part of, may keep anything alive.
bool points_to_kept(PyObject* record);
/// Keeps `what` alive as long as the record's memory is used through it, and nothing else for the
/// field; None: nothing.
bool keep_alive(RecordObject* record, const void* field, PyObject* what);
/// The same for an element of an array, which is a view of this memory.
bool keep_itself(RecordObject* element, PyObject* memory);
/// Keeps for a copy of `value` at `place`, in the record `into`, what its pointers point to.
bool keep_copied(RecordObject* into, const void* place, RecordObject* value);
/// What `field` points to for as long as the record keeps it, or null. Borrowed.
PyObject* kept(RecordObject* record, const void* field);
/// Releases what the fields in `size` bytes from `from` on keep, on behalf of the record.
void forget_kept(RecordObject* record, const void* from, std::size_t size);

// ---- values (convert.cpp)
// ---------------------------------------------------------------------------------------------

std::size_t size_of(Kind kind, TypeId type);
/// A Python value as a C value; false with an exception that names `where`.
bool to_slot(PyObject* value, Kind kind, TypeId type, const Where& where, Slot* out);
/// Writes a slot to memory as the C type.
void put(const Slot& slot, Kind kind, TypeId type, void* place);
/// Python value -> memory; records are copied, their keep-alives taken over by `into` (may be
/// null).
bool store(PyObject* value, Kind kind, TypeId type, const Where& where, void* place,
           RecordObject* into);
/// Memory -> Python value. `owner` keeps the memory alive for records; null: records are copied.
PyObject* load(Kind kind, TypeId type, const void* place, PyObject* owner, std::size_t length = 0);
bool to_integer(PyObject* value, Kind kind, const Where& where, Slot* out);

/// Type of the value that belongs to an attribute, or null when the facts do not know it.
const AttributeRow* attribute_row(const Api& api, std::uint16_t table, std::int64_t value);

/// Memory and references that live as long as one call.
class Frame {
 public:
  Frame() = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (first_ != nullptr) [[unlikely]]
      clear();
  }
  /// Zeroed memory; null with MemoryError set.
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
  bool hold(PyObject* object);                     // a borrowed object, until the call is over
  Py_buffer* buffer(PyObject* object, int flags);  // released when the call is over
 private:
  struct Node;
  void* take_heap(std::size_t bytes);
  void clear();
  Node* first_ = nullptr;
  std::size_t used_ = 0;
  alignas(16) char inline_[496];
};

/// void*: None, integers, handles, records, buffers (of at least `needed` bytes). `writes`: the
/// callee writes there.
bool to_address(PyObject* value, const Where& where, Frame& frame, std::uint64_t needed,
                bool writes, Slot* out);
bool to_text(PyObject* value, const Where& where, Frame& frame, const char** out);
/// A code image: like to_address, but text, and anything not NUL-terminated, is copied with a NUL
/// after it.
bool to_image(PyObject* value, const Where& where, Frame& frame, Slot* out);

// ---- kernel arguments (kernel_params.cpp)
// -----------------------------------------------------------------------------

/// Every documented form of `kernelParams` as a void**; temporary memory lives in the frame.
bool to_kernel_params(PyObject* value, const Where& where, Frame& frame, Slot* out);
/// The usual form, (values, types) in tuples of plain ints and floats with simple ctypes types, on
/// the caller's stack. How many values; -1 when it is another form, and nothing has happened.
struct PlainParams {
  static constexpr Py_ssize_t kMost = 16;
  void* pointers[kMost];
  Slot values[kMost];
};
Py_ssize_t to_plain_params(PyObject* value, PlainParams& out);

/// What is remembered of kernels, by their handle and how many arguments they were given (-1: that
/// is not known); 0 when nothing is. Bits of `quiet` and `asked` tell what a launch may count on.
struct KernelFacts {
  static constexpr std::uint64_t known = 1;  // it takes so many arguments
  static constexpr std::uint64_t quiet =
      2;  // has run, and needs no local memory: never waits for it
  static constexpr std::uint64_t asked = 4;  // whether it is quiet has been asked
};
std::uint64_t facts_of(void* kernel, Py_ssize_t arguments);
/// After its first launch: asks the driver for what a later one may count on.
void ask_for_facts(void* kernel, Py_ssize_t arguments);
/// True when the kernel has as many parameters as a tuple gives values: a driver reads past the end
/// of a list that is too short. TypeError otherwise.
bool kernel_takes(const char* function, void* kernel, PyObject* given);
/// The same for a field of a record that outlives the call: what must stay alive comes back as an
/// object.
PyObject* kernel_params_object(PyObject* value, const Where& where, void** address);

// ---- callbacks (callbacks.cpp)
// ----------------------------------------------------------------------------------------

struct HostCall;  // a Python callable the library will call
using cucore::detail::host_calls_are_pending;
/// A function pointer from a handle, an address, a ctypes function or a Python callable. For a
/// callable `call` is set and must be given its user data and then be committed or dropped.
bool to_callback(PyObject* value, CallbackShape shape, const Where& where, Slot* out,
                 HostCall** call);
CallbackShape shape_of(const HostCall* call);
/// Raises what the callable raised while the call ran; false where it raised nothing.
bool raise_pending(HostCall* call);
void set_user_data(HostCall* call, PyObject* user);
void* user_pointer(HostCall* call);
void commit(HostCall* call,
            bool once);     // the library took it; `once`: it is freed after its first run
void drop(HostCall* call);  // one holder less: the library did not take it, or is done with it
/// Makes a graph, and all made from it, a holder; false when the driver refuses.
bool keep_in_graph(HostCall* call, CUgraph_st* graph);
/// Adds a holder, which the caller releases later.
void hold(HostCall* call);
/// Passes a hold to an object of the driver, by its handle (callback_owners.cpp): it ends when
/// the object is destroyed by a function of these modules.
void keep_for(HostCall* call, void* owner);
/// A function's C name without the version that symbols of the driver carry.
inline const char* c_name(const Api& api, const FunctionRow& row) {
  return api.text + (api.raises != 0 ? row.symbol : row.name);
}
/// The function to call instead of this one, which is at `address`, or null.
void* in_place_of(const char* function, void* address);
/// An object that holds a call for a record, taking over the caller's hold. New reference.
PyObject* capsule_of(HostCall* call);
HostCall* call_in(PyObject* capsule);  // null for any other object
/// The call whose user pointer this is, while anybody holds it; null: none.
HostCall* live_call(void* pointer);
PyObject* user_data_of(void* pointer);  // of a committed call, or null

// ---- calls (call.cpp)
// -------------------------------------------------------------------------------------------------

/// Raises an exception that is written in Python.
void raise_from(const char* module, const char* exception, const char* text);
/// The Python function of a row. `raising`: errors raise, values come back bare.
PyObject* make_function(const Api& api, const FunctionRow& row, bool raising);
bool init_functions();
/// What `module.name` is, or null without an exception when the API has no such name.
PyObject* make_attribute(const Api& api, const char* name, bool raising);
/// The class of modules that make their names when touched. New reference.
PyObject* make_lazy_module_type();
[[noreturn]] void unreachable_kind();

extern PyObject*
    raise_status;  // Python callable: (module, result member, function name) -> exception to raise

}  // namespace cucore::bindings
