// SPDX-License-Identifier: Apache-2.0
// array_interface.cpp: views of other libraries' arrays by the protocols of Python: DLPack,
// __cuda_array_interface__ and __array_interface__.
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "../type_table.hpp"
#include "cucore/stream.hpp"
#include "py_buffer.hpp"
#include "view.hpp"

namespace cucore::python {
namespace {

template <class... Args>
[[noreturn]] void refuse(PyObject* error, const char* format, Args... args) {
  PyErr_Format(error, format, args...);
  throw nb::python_error();
}

/// The elements of an array: DLPack's code and their size. DLPack calls records opaque; here they
/// are elements of which only NumPy can say what they are.
struct Elements {
  int code = 0;
  std::int64_t bits = 0;
};

/// Dates, durations, bytes and texts of a fixed length: like records.
bool is_opaque_kind(char kind) { return kind != '\0' && std::strchr("MmSU", kind) != nullptr; }

nb::object numpy_dtype(nb::handle description) {
  return nb::module_::import_("numpy").attr("dtype")(description);
}

[[noreturn]] void no_description(nb::handle description) {
  refuse(PyExc_BufferError, "the type of the elements must be a text like '<f4', not %R",
         description.ptr());
}
[[noreturn]] void not_supported(nb::handle description) {
  PyErr_Clear();
  refuse(PyExc_BufferError, "elements of type %U are not supported", description.ptr());
}

/// Of a description such as "<f4". BufferError.
Elements elements_of(nb::handle description) {
  if (PyUnicode_Check(description.ptr()) == 0) no_description(description);
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(description.ptr(), &length);
  if (text == nullptr) throw nb::python_error();
  if (length > 1 && is_opaque_kind(text[1]) && (text[0] == '<' || text[0] == '|')) {
    std::int64_t size = 0;
    try {
      size = nb::cast<std::int64_t>(numpy_dtype(description).attr("itemsize"));
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      not_supported(description);
    }
    if (size == 0) refuse(PyExc_BufferError, "elements of type %U have no size", description.ptr());
    return {kDLOpaqueHandle, size * 8};
  }
  std::int64_t size = 0;
  for (Py_ssize_t i = 2; i < length; ++i) {
    if (text[i] < '0' || text[i] > '9' || size > INT32_MAX) no_description(description);
    size = size * 10 + (text[i] - '0');
  }
  if (size == 0) no_description(description);
  if (text[0] == '>')
    refuse(PyExc_BufferError, "big-endian elements (%U) are not supported", description.ptr());
  switch (text[1]) {
    case 'i':
      return {kDLInt, size * 8};
    case 'u':
      return {kDLUInt, size * 8};
    case 'f':
      return {kDLFloat, size * 8};
    case 'c':
      return {kDLComplex, size * 8};
    case 'b':
      return {kDLBool, size * 8};
    case 'V':
      return {kDLOpaqueHandle, size * 8};
    default:
      not_supported(description);
  }
}

/// An array as its interface describes it.
struct Described {
  std::uintptr_t address = 0;
  bool readonly = false;
  std::vector<std::int64_t> shape;
  std::optional<std::vector<std::int64_t>> strides;  // in elements
  Elements elements;
  nb::object dtype;  // NumPy's, where only it can say what the elements are
};

/// What an interface says must be an integer; int() would take text and cut fractions off.
nb::object integer(nb::handle value, const std::string& what) {
  nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (number.is_valid()) return number;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
  PyErr_Clear();
  refuse(PyExc_BufferError, "%s must be an int, not %R", what.c_str(), value.ptr());
}

bool is_pair_or_list(nb::handle value) {
  return PyTuple_Check(value.ptr()) != 0 || PyList_Check(value.ptr()) != 0;
}

std::vector<std::int64_t> integers(nb::handle values, const std::string& what) {
  if (!is_pair_or_list(values))
    refuse(PyExc_BufferError, "%s must be a tuple of ints, not %R", what.c_str(), values.ptr());
  std::vector<std::int64_t> numbers;
  for (nb::handle value : values) {
    int overflow = 0;
    const nb::object number = integer(value, "each value of " + what);
    numbers.push_back(PyLong_AsLongLongAndOverflow(number.ptr(), &overflow));
    if (overflow != 0)
      refuse(PyExc_BufferError, "%s has values that do not fit in 64 bits: %R", what.c_str(),
             values.ptr());
  }
  return numbers;
}

/// A field of an interface; invalid where it has none.
nb::object field_of(nb::handle facts, const char* name) {
  nb::object found = facts.attr("get")(name);
  return found.is_none() ? nb::object{} : found;
}

std::vector<std::int64_t> steps_of(nb::handle given, const std::vector<std::int64_t>& shape,
                                   const Elements& elements, const char* name) {
  std::vector<std::int64_t> steps = integers(given, std::string{"the strides in "} + name);
  if (steps.size() != shape.size())
    refuse(PyExc_BufferError, "%s has %zu dimensions, but %zu strides", name, shape.size(),
           steps.size());
  const std::int64_t size = elements.bits / 8;
  for (std::int64_t& step : steps) {
    if (step % size != 0)
      refuse(PyExc_ValueError, "strides %R are no multiples of the element size, %lld bytes",
             nb::tuple(given).ptr(), static_cast<long long>(size));
    step /= size;
  }
  return steps;
}

/// An array interface, checked. BufferError, ValueError.
Described described(nb::handle object, nb::handle facts, const char* name) {
  Described array;
  const nb::object version =
      integer(nb::object(facts["version"]), std::string{"the version in "} + name);
  if (nb::cast<long long>(version) < 3)
    refuse(PyExc_BufferError, "only version 3 or later of %s is supported, not version %S", name,
           version.ptr());
  if (field_of(facts, "mask").is_valid())
    refuse(PyExc_BufferError, "masked arrays are not supported");
  const nb::object shape = facts["shape"];
  array.shape = integers(shape, std::string{"the shape in "} + name);
  for (const std::int64_t extent : array.shape)
    if (extent < 0)
      refuse(PyExc_BufferError, "the shape in %s has a negative extent: %R", name, shape.ptr());
  const nb::object description = facts["typestr"];
  const nb::object strides = field_of(facts, "strides");
  const nb::object data = facts["data"];
  if (!is_pair_or_list(data) || nb::len(data) != 2)
    refuse(PyExc_BufferError,
           "data in %s must be a pair of the address and whether it is read-only, not %R", name,
           data.ptr());
  const nb::object address = integer(nb::object(data[0]), std::string{"the address in "} + name);
  array.address = PyLong_AsUnsignedLongLong(address.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(PyExc_BufferError, "the address in %s is none: %R", name, address.ptr());
  }
  array.readonly = PyObject_IsTrue(nb::object(data[1]).ptr()) == 1;
  array.elements = elements_of(description);
  if (strides.is_valid()) array.strides = steps_of(strides, array.shape, array.elements, name);
  if (array.elements.code != kDLOpaqueHandle) return array;
  // An object's own type knows more than the interface: names of padded fields.
  array.dtype = nb::getattr(object, "dtype", nb::none());
  if (!nb::isinstance(array.dtype, nb::module_::import_("numpy").attr("dtype"))) {
    const bool is_plain = is_opaque_kind(nb::str(description).c_str()[1]);
    const nb::object fields = is_plain ? nb::object{} : field_of(facts, "descr");
    array.dtype = numpy_dtype(fields.is_valid() ? fields : description);
  }
  return array;
}

nb::object view_of(nb::handle cls, Described& array, DLDevice device, PyObject* exporter) {
  DLTensor t{};
  t.data = reinterpret_cast<void*>(array.address);
  t.device = device;
  t.ndim = static_cast<std::int32_t>(array.shape.size());
  t.shape = array.shape.data();
  t.strides = array.strides ? array.strides->data() : nullptr;
  const bool is_named = array.elements.bits <= 255;
  t.dtype = {static_cast<std::uint8_t>(array.elements.code),
             static_cast<std::uint8_t>(is_named ? array.elements.bits : 0), 1};
  nb::object view = nb::steal(make_view(reinterpret_cast<PyTypeObject*>(cls.ptr()), t, exporter,
                                        {.is_readonly = array.readonly}));
  if (!is_named)
    view.attr("_dl_type") = nb::make_tuple(array.elements.code, array.elements.bits, 1);
  if (array.strides && array.shape.empty()) view.attr("strides") = nb::make_tuple();
  if (array.dtype.is_valid()) view.attr("_dtype") = array.dtype;
  return view;
}

/// A stream's address: an int, a CUstream, a Stream, anything with __cuda_stream__. TypeError,
/// ValueError.
std::int64_t address_of(nb::handle stream) {
  if (PyLong_Check(stream.ptr()) == 0) {
    const nb::object protocol = nb::getattr(stream, "__cuda_stream__", nb::handle());
    if (protocol.is_valid()) {
      const nb::object pair = PyCallable_Check(protocol.ptr()) != 0 ? protocol() : protocol;
      const nb::object number = nb::steal(PyNumber_Long(nb::object(pair[1]).ptr()));
      if (!number.is_valid()) throw nb::python_error();
      return static_cast<std::int64_t>(PyLong_AsUnsignedLongLongMask(number.ptr()));
    }
  }
  if (PyIndex_Check(stream.ptr()) == 0 && !nb::hasattr(stream, "getPtr"))
    refuse(PyExc_TypeError,
           "stream_ptr must be a stream, its address or -1 (no ordering), not %s %R",
           Py_TYPE(stream.ptr())->tp_name, stream.ptr());
  const nb::object number = nb::steal(PyNumber_Long(stream.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long address = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow < 0 || address < -1)
    refuse(PyExc_ValueError, "stream_ptr must be a stream, its address or -1 (no ordering), not %R",
           number.ptr());
  return overflow > 0 ? static_cast<std::int64_t>(PyLong_AsUnsignedLongLongMask(number.ptr()))
                      : address;
}

/// The same for device memory, for which the caller must name a stream. 0 stands for the legacy
/// default stream.
std::int64_t consumer_of(nb::handle stream) {
  if (stream.is_none())
    refuse(PyExc_BufferError,
           "say which stream will use the memory: stream_ptr (-1 for no ordering)");
  const std::int64_t address = address_of(stream);
  constexpr std::int64_t kLegacy = 1;
  return address == 0 ? kLegacy : address;
}

nb::object view_of_array_interface(nb::handle cls, nb::handle object) {
  constexpr const char* kName = "__array_interface__";
  Described array = described(object, nb::object(object.attr(kName)), kName);
  return view_of(cls, array, {kDLCPU, 0}, object.ptr());
}

nb::object view_of_cuda_array_interface(nb::handle cls, nb::handle object, nb::handle stream) {
  constexpr const char* kName = "__cuda_array_interface__";
  const nb::object facts = object.attr(kName);
  Described array = described(object, facts, kName);
  const std::int64_t consumer = consumer_of(stream);
  const nb::object producer = field_of(facts, "stream");
  if (consumer != -1 && producer.is_valid()) {
    const nb::object number = integer(producer, std::string{"the stream in "} + kName);
    const auto before = reinterpret_cast<CUstream>(PyLong_AsVoidPtr(number.ptr()));
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    const auto after = reinterpret_cast<CUstream>(consumer);
    if (before != after) StreamRef{after}.wait(StreamRef{before});
  }
  DLDevice device{kDLCUDA, 0};
  if (array.address != 0) {
    const MemoryTraits traits = memory_traits(array.address);
    device = {traits.managed ? kDLCUDAManaged
              : traits.host  ? kDLCUDAHost
                             : kDLCUDA,
              std::max(traits.device_id, 0)};
  }
  return view_of(cls, array, device, object.ptr());
}

/// object.__dlpack__() with these keywords; null with an exception set.
PyObject* query_dlpack(PyObject* object, PyObject* stream, bool is_versioned) {
  static PyObject* const method = PyUnicode_InternFromString("__dlpack__");
  static PyObject* const version = Py_BuildValue("(ii)", 1, 0);
  static PyObject* const asks_stream = PyUnicode_InternFromString("stream");
  static PyObject* const asks_version = PyUnicode_InternFromString("max_version");
  static PyObject* const names[2][2] = {
      {nullptr, PyTuple_Pack(1, asks_version)},
      {PyTuple_Pack(1, asks_stream), PyTuple_Pack(2, asks_stream, asks_version)}};
  PyObject* arguments[3] = {object, stream, version};
  PyObject** const from = stream != nullptr ? arguments : arguments + 1;
  from[0] = object;
  return PyObject_VectorcallMethod(method, from, 1, names[stream != nullptr][is_versioned]);
}

nb::object view_of_dlpack(nb::handle cls, nb::handle object, nb::handle stream) {
  static PyObject* const method = PyUnicode_InternFromString("__dlpack_device__");
  PyObject* const self[] = {object.ptr()};
  const nb::object device = nb::steal(PyObject_VectorcallMethod(method, self, 1, nullptr));
  if (!device.is_valid()) throw nb::python_error();
  const nb::object number = nb::steal(PyNumber_Long(nb::object(device[0]).ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long kind = PyLong_AsLong(number.ptr());
  const bool on_device = kind == kDLCUDA || kind == kDLCUDAManaged;
  if (!on_device && kind != kDLCPU && kind != kDLCUDAHost)
    refuse(PyExc_BufferError,
           "the memory is on a device of DLPack's type %ld, neither the host nor a CUDA device",
           kind);
  nb::object consumer;
  if (on_device) consumer = nb::int_(consumer_of(stream));
  nb::object capsule = nb::steal(query_dlpack(object.ptr(), consumer.ptr(), true));
  if (!capsule.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();  // a producer from before versions
    capsule = nb::steal(query_dlpack(object.ptr(), consumer.ptr(), false));
    if (!capsule.is_valid()) throw nb::python_error();
  }
  return take_view(cls, capsule, object.ptr());
}

/// Elements that DLPack does not know: records, dates, texts.
bool has_opaque_elements(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object names = nb::getattr(dtype, "names", nb::none());
  if (PyObject_IsTrue(names.ptr()) == 1) return true;
  const nb::object kind = nb::getattr(dtype, "kind", nb::none());
  return PyUnicode_Check(kind.ptr()) != 0 && PyUnicode_GET_LENGTH(kind.ptr()) == 1 &&
         is_opaque_kind(static_cast<char>(PyUnicode_READ_CHAR(kind.ptr(), 0)));
}

/// True where the class has DLPack, and no array interface that might tell more.
bool has_dlpack_alone(PyTypeObject* type) {
  static TypeTable<bool> known;
  if (const bool* const answer = known.find(type)) return *answer;
  const nb::handle object{reinterpret_cast<PyObject*>(type)};
  const bool answer = nb::hasattr(object, "__dlpack__") &&
                      nb::hasattr(object, "__dlpack_device__") &&
                      !nb::hasattr(object, "__array_interface__");
  known.add(type, answer);
  return answer;
}

}  // namespace

nb::object view_of_any(nb::handle cls, nb::handle object, nb::handle stream) {
  if (has_dlpack_alone(Py_TYPE(object.ptr()))) return view_of_dlpack(cls, object, stream);
  const auto has = [&](const char* name) { return nb::hasattr(object, name); };
  const bool has_array = has("__array_interface__");
  if (has_array && has_opaque_elements(object)) return view_of_array_interface(cls, object);
  if (has("__dlpack__") && has("__dlpack_device__")) return view_of_dlpack(cls, object, stream);
  if (has("__cuda_array_interface__")) return view_of_cuda_array_interface(cls, object, stream);
  if (has_array) return view_of_array_interface(cls, object);
  refuse(PyExc_BufferError,
         "%s has no interface that can be viewed: neither __dlpack__ nor "
         "__cuda_array_interface__",
         Py_TYPE(object.ptr())->tp_name);
}

void bind_array_interface(nb::module_& m) {
  // (code, bits, lanes) of a description such as "<f4"
  m.def("element_type", [](nb::handle description) {
    const Elements elements = elements_of(description);
    return nb::make_tuple(elements.code, elements.bits, 1);
  });
  m.def("view_of_array_interface", &view_of_array_interface);
  m.def("view_of_cuda_array_interface", &view_of_cuda_array_interface, "cls"_a, "obj"_a,
        "stream_ptr"_a.none());
  m.def("view_of_dlpack", &view_of_dlpack, "cls"_a, "obj"_a, "stream_ptr"_a.none());
}
CUCORE_BIND(kBindRest, bind_array_interface)

}  // namespace cucore::python
