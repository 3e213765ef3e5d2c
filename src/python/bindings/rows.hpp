// SPDX-License-Identifier: Apache-2.0
// rows.hpp: the rendered facts that the binding engine reads. One row per function, parameter,
// type, field and enum member; strings are offsets into one text block, so the tables need (almost)
// no relocation when loaded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace cucore::bindings {

/// A type of any rendered API: the API in the upper four bits, the index into its `types` below.
using TypeId = std::uint16_t;
inline constexpr TypeId kNoType = 0xFFFF;

/// The memory representation of a C value and its Python type.
enum class Kind : std::uint8_t {
  none,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,  // Python int
  f32,
  f64,          // Python float
  boolean,      // C int: Python bool
  enumeration,  // member of an enum type
  handle,       // pointer, integer or function pointer with its own class
  record,       // struct or union with its own class
  address,      // void*: int
  text,         // const char*: bytes
  chars,        // char[n]: bytes up to the first NUL
  bytes,        // char[n]: all n bytes
  string,       // char[n]: str up to the first NUL
  cstring,      // const char*: str
  array,        // pointer to elements of `type`, length in a sibling field
  kernel,       // void** of kernel arguments
};

/// The role of a C parameter in the Python signature.
enum class Role : std::uint8_t {
  in,          // by value
  in_pointer,  // address of one value; None is NULL
  in_array,    // sequence, copied; `link` is the count parameter, `extra` is the count minus the
               // length
  in_void,     // any address or buffer; `link` is the parameter with its size, or `extra` has bit 0
               // set and the indices of pitch, width and height in five bits each
  out_void,    // buffer the library writes; `link` is the parameter with its size
  image,       // code image: buffer or text, NUL-terminated for the callee
  text,        // bytes or str
  text_array,  // sequence of bytes or str
  callback,    // function pointer or Python callable; `extra` is the CallbackShape
  user_data,   // passed to the callback in `link`
  kernel,      // kernel arguments
  options,     // void* values that belong to the option keys in `link`
  attribute_in,    // void* whose type depends on the value of `link`
  attribute_out,   // the value, returned; Kind::u64: the next parameter is its size
  attributes_out,  // void**: one value per attribute of the array in `link`; Kind::u64: see above
  out,             // T*: one value, returned
  out_chars,       // char*: `link` (or `extra`) is the capacity; returned as bytes
  out_array,       // T*: `link` (or `extra`) elements, returned as a list
  out_counted,     // T*: as many as the in/out count in `link`, returned as a list
  out_owned,       // T**: the callee's array, as many as the out count in `link`
  count,           // T*: in/out count, optional, returned
  in_out,          // T*: in and returned
  size_of,         // size_t*: size of the attribute value in `link`
  out_asked,       // T*: returned as a list; the function `extra` returns the number of elements
  fill,      // char*: a buffer to fill, or a size to return bytes; the function `extra` returns the
             // size
  null,      // always NULL
  asked,     // T*: number of elements from a first call, or the capacity in `extra`; neither passed
             // nor returned in Python
  constant,  // the number in `extra`
  elements,  // the number of elements of the record in `link`
  compose,   // T*: a record made of the `field` rows that follow the C parameters
  field,     // not a C parameter: an argument stored in the record of `link`, at offset `extra`
  result_field,  // not a C parameter: a value returned from the record of `link`, at offset `extra`
};

/// The C signatures of callbacks that can be Python callables.
enum class CallbackShape : std::uint16_t {
  other,
  host,
  stream,
  occupancy,
  destroy,
  logs,
  notification,
  runtime_notification,
  coredump,
  recapture,
  runtime_recapture,
  flow,
};
constexpr std::uint16_t shape(CallbackShape s) { return static_cast<std::uint16_t>(s); }

struct ParamRow {
  std::uint32_t name;  // of the Python parameter
  Role role;
  Kind kind;
  TypeId type;
  std::int8_t argument;  // position among the Python arguments, -1: none
  std::int8_t link;      // index of another C parameter, -1: none
  std::uint16_t extra;
};

union Slot {  // one C argument: integers widened, floating point as double, records by address
  std::uint64_t u;
  std::int64_t i;
  double d;
  void* p;
};

using Invoke = std::uint64_t (*)(void* function, const Slot* arguments);

enum FunctionFlags : std::uint8_t {
  kBlocking = 1,       // may block or run a callback: the GIL is released around the call
  kLegacyContext = 2,  // cuCtxCreate: the form without its first argument is accepted too
  kNoResult = 4,       // does not return a result code
  kCallTwice = 8,      // called without a buffer first, to query the required size
  kStatusRecord = 16,  // returns a struct whose first member is the result code
};

inline constexpr std::uint16_t kNoSlot = 0xFFFF;

struct FunctionRow {
  std::uint32_t name;       // Python name
  std::uint32_t symbol;     // C name
  std::uint32_t prototype;  // C signature, for help()
  std::uint16_t first;      // first parameter row
  std::uint8_t parameters;  // number of C parameters
  std::uint8_t extras;      // number of rows after them that are not C parameters
  std::uint8_t arguments;   // number of Python arguments
  std::uint8_t required;    // those without a default
  std::uint8_t flags;
  std::uint16_t slot;  // index in the table, see Api::resolve; kNoSlot: looked up by name
  Kind returns;        // with kNoResult: the kind of the return value
  TypeId returns_type;
  Invoke invoke;
};

enum class TypeClass : std::uint8_t { enumeration, handle, record, integer, function };

struct TypeRow {
  std::uint32_t name;
  TypeClass kind;
  std::uint8_t version;  // NVML: stored in the first field of a new record; 0: none. Integers:
                         // 1 if unsigned
  std::uint32_t size;    // size of the struct or integer in bytes
  TypeId base;           // class it derives from
  TypeId root;           // the canonical type, shared by all aliases of a C type
  std::uint16_t first;   // fields or members
  std::uint16_t count;
};

struct FieldRow {
  std::uint32_t name;
  std::uint32_t offset;
  Kind kind;
  std::uint8_t flags;  // kCountsArray...
  TypeId type;
  std::uint16_t length;  // fixed arrays and chars: elements; 0: a single value
  std::int16_t link;     // array: index of the count field; count: of the array field; callback: of
                         // the user data
};
// For a pointer to elements, the bits above the third are their kind. A fixed array may have
// kCounted: the field in `link`, which has kHidden and no Python name, is the number of elements.
enum FieldFlags : std::uint8_t {
  kCountsArray = 1,
  kCallback = 2,
  kUserData = 4,
  kCounted = 8,
  kHidden = 16,
};
constexpr bool is_counted(const FieldRow& row) {
  return row.kind != Kind::array && (row.flags & kCounted) != 0;
}
constexpr bool is_hidden(const FieldRow& row) {
  return row.kind != Kind::array && (row.flags & kHidden) != 0;
}

struct MemberRow {
  std::uint32_t name;
  std::int64_t value;
};

struct ConstantRow {
  std::uint32_t name;
  std::int64_t value;
  TypeId type;  // an enum type, or kNoType
};

/// Types of values that depend on an attribute: rows sorted by (table, attribute).
/// The length of an attribute whose values fill the size that the caller gives.
constexpr std::uint16_t kAsManyAsFit = 0xFFFF;

struct AttributeRow {
  std::uint16_t table;
  Kind kind;
  TypeId type;
  std::int32_t value;
  std::uint16_t length;  // chars: capacity; kAsManyAsFit: a list
};

enum class Entry : std::uint8_t { function, type, constant };
struct NameRow {  // sorted by name
  std::uint32_t name;
  Entry entry;
  std::uint16_t index;
};

struct Api {
  const char* module;  // "cuda.bindings.driver"
  const char* text;
  const FunctionRow* functions;
  const ParamRow* params;
  const TypeRow* types;
  const FieldRow* fields;
  const MemberRow* members;
  const ConstantRow* constants;
  const AttributeRow* attributes;
  const NameRow* names;
  std::uint16_t function_count, type_count, constant_count, attribute_count, name_count;
  TypeId result;  // the enum of result codes
  std::uint8_t
      raises;  // Pythonic module: raises exceptions, returns bare values; records may be arrays
  void* (*resolve)(const Api&, const FunctionRow&);  // address of the C function; null if missing
};

template <class T>
T from_slot(const Slot& slot) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(slot.u);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(slot.d);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(slot.i);
  } else {
    return *static_cast<const T*>(slot.p);  // a record by value
  }
}

template <class Function>
struct Caller;

/// Calls a C function of this type with the arguments in slots. Functions of one type share the
/// instantiation.
template <class R, class... A>
struct Caller<R(A...)> {
  static std::uint64_t invoke(void* function, const Slot* slots) {
    return call(reinterpret_cast<R (*)(A...)>(function), slots, std::index_sequence_for<A...>{});
  }

 private:
  template <std::size_t... I>
  static std::uint64_t call(R (*function)(A...), [[maybe_unused]] const Slot* slots,
                            std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      function(from_slot<A>(slots[I])...);
      return 0;
    } else if constexpr (std::is_pointer_v<R>) {
      return reinterpret_cast<std::uint64_t>(function(from_slot<A>(slots[I])...));
    } else if constexpr (std::is_integral_v<R> || std::is_enum_v<R>) {
      return static_cast<std::uint64_t>(
          static_cast<std::int64_t>(function(from_slot<A>(slots[I])...)));
    } else {  // a record by value: stored at the address in the slot after the last argument
      *static_cast<R*>(slots[sizeof...(A)].p) = function(from_slot<A>(slots[I])...);
      return 0;
    }
  }
};

}  // namespace cucore::bindings
