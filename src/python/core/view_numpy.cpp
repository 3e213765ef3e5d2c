// SPDX-License-Identifier: Apache-2.0
// view_numpy.cpp: views of NumPy's arrays, by the fields of its array object (a part of NumPy's
// binary interface, which its C macros read) or by the buffer protocol, which takes longer.
#include <atomic>
#include <cstring>
#include <memory>

#include "view.hpp"

namespace cucore::python {
namespace {

constexpr int kMostDimensions = 64;

/// The first fields of an array (PyArrayObject_fields) and of its element type (PyArray_Descr),
/// which are the same in NumPy 1 and 2.
struct ArrayFields {
  PyObject_HEAD char* data;
  int nd;
  Py_ssize_t* dimensions;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* descr;
  int flags;
};
struct DescrFields {
  PyObject_HEAD PyTypeObject* typeobj;
  char kind;
  char type;
  char byteorder;
  char former_flags;
  int type_num;
};
constexpr unsigned kWriteable = 0x400;
constexpr unsigned kWarnOnWrite = 1u << 31;  // exported as read-only

/// Element types by NumPy's number (NPY_TYPES). Those without lanes have no plain name here.
constexpr DLDataType kTypes[] = {
    {kDLBool, 8, 1},       // NPY_BOOL
    {kDLInt, 8, 1},        // NPY_BYTE
    {kDLUInt, 8, 1},       // NPY_UBYTE
    {kDLInt, 16, 1},       // NPY_SHORT
    {kDLUInt, 16, 1},      // NPY_USHORT
    {kDLInt, 32, 1},       // NPY_INT
    {kDLUInt, 32, 1},      // NPY_UINT
    {kDLInt, 64, 1},       // NPY_LONG
    {kDLUInt, 64, 1},      // NPY_ULONG
    {kDLInt, 64, 1},       // NPY_LONGLONG
    {kDLUInt, 64, 1},      // NPY_ULONGLONG
    {kDLFloat, 32, 1},     // NPY_FLOAT
    {kDLFloat, 64, 1},     // NPY_DOUBLE
    {},                    // NPY_LONGDOUBLE
    {kDLComplex, 64, 1},   // NPY_CFLOAT
    {kDLComplex, 128, 1},  // NPY_CDOUBLE
    {},                    // NPY_CLONGDOUBLE
    {},                    // NPY_OBJECT
    {},                    // NPY_STRING
    {},                    // NPY_UNICODE
    {},                    // NPY_VOID
    {},                    // NPY_DATETIME
    {},                    // NPY_TIMEDELTA
    {kDLFloat, 16, 1},     // NPY_HALF
};
constexpr int kTypeCount = sizeof kTypes / sizeof *kTypes;
static_assert(sizeof(long) == 8 && kTypeCount == 24);

/// Bit n: the fields of an array whose elements have number n said what the buffer protocol says.
std::atomic<std::uint32_t> confirmed{0};

/// The number of the element type, where the fields can be read; -1 for others.
int plain_number(const ArrayFields& array) {
  const auto& descr = *reinterpret_cast<const DescrFields*>(array.descr);
  const bool is_plain = descr.type_num >= 0 && descr.type_num < kTypeCount &&
                        kTypes[descr.type_num].lanes == 1 && descr.byteorder != '>' &&
                        (static_cast<unsigned>(array.flags) & kWarnOnWrite) == 0;
  return is_plain ? descr.type_num : -1;
}

/// A tensor of these extents, with strides in elements instead of bytes; false where they are no
/// multiples of the element size.
bool describe(void* data, int rank, Py_ssize_t* shape, const Py_ssize_t* steps,
              std::int64_t* strides, DLTensor* out) {
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  const Py_ssize_t size = out->dtype.bits / 8;
  if (rank > kMostDimensions) return false;
  for (int i = 0; i < rank; ++i) {
    if (steps[i] % size != 0) return false;
    strides[i] = steps[i] / size;
  }
  out->data = data;
  out->device = {kDLCPU, 0};
  out->ndim = rank;
  out->shape = reinterpret_cast<std::int64_t*>(shape);
  out->strides = strides;
  return true;
}

/// The elements of a buffer as DLPack names them; false for what has no plain name here.
bool element_type(const char* format, Py_ssize_t size, DLDataType& out) {
  if (format == nullptr || size > 16) return false;
  out.lanes = 1;
  out.bits = static_cast<std::uint8_t>(size * 8);
  const bool complex = format[0] == 'Z';
  const char code = format[complex ? 1 : 0];
  if (code == '\0' || format[complex ? 2 : 1] != '\0') return false;
  if (complex) return out.code = kDLComplex, code == 'f' || code == 'd';
  if (std::strchr("bhilq", code) != nullptr) return out.code = kDLInt, true;
  if (std::strchr("BHILQ", code) != nullptr) return out.code = kDLUInt, true;
  if (std::strchr("efd", code) != nullptr) return out.code = kDLFloat, true;
  return out.code = kDLBool, code == '?';
}

/// Notes that the fields can be read for arrays like this one. Fields that a layout of another
/// kind would make invalid pointers are compared before they are followed.
void confirm(PyObject* object, const Py_buffer& buffer, const DLDataType& type) {
  const PyTypeObject* const python_type = Py_TYPE(object);
  if (buffer.ndim < 1 || (python_type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ||
      static_cast<std::size_t>(python_type->tp_basicsize) < sizeof(ArrayFields))
    return;
  const auto& array = *reinterpret_cast<const ArrayFields*>(object);
  const nb::object descr = nb::getattr(nb::handle{object}, "dtype", nb::none());
  if (array.data != buffer.buf || array.nd != buffer.ndim || array.descr != descr.ptr()) return;
  const auto bytes = static_cast<std::size_t>(buffer.ndim) * sizeof(Py_ssize_t);
  if (std::memcmp(array.dimensions, buffer.shape, bytes) != 0 ||
      std::memcmp(array.strides, buffer.strides, bytes) != 0)
    return;
  const bool is_readonly = (static_cast<unsigned>(array.flags) & kWriteable) == 0;
  const int number = plain_number(array);
  if (number < 0 || is_readonly != (buffer.readonly != 0) || kTypes[number].code != type.code ||
      kTypes[number].bits != type.bits)
    return;
  confirmed.fetch_or(1u << number, std::memory_order_relaxed);
}

PyObject* view_by_buffer(PyTypeObject* type, PyObject* array) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array, &buffer, PyBUF_RECORDS_RO) < 0) return PyErr_Clear(), nullptr;
  // The view keeps the array, and the array its memory: the buffer itself can go.
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> held{&buffer, &PyBuffer_Release};
  DLTensor t{};
  std::int64_t strides[kMostDimensions];
  if (!element_type(buffer.format, buffer.itemsize, t.dtype) ||
      !describe(buffer.buf, buffer.ndim, buffer.shape, buffer.strides, strides, &t))
    return nullptr;
  confirm(array, buffer, t.dtype);
  return make_view(type, t, array, {.is_readonly = buffer.readonly != 0});
}

}  // namespace

PyObject* view_of_numpy(PyTypeObject* type, PyObject* object) {
  const std::uint32_t known = confirmed.load(std::memory_order_relaxed);
  if (known == 0 || (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
    return view_by_buffer(type, object);
  const auto& array = *reinterpret_cast<const ArrayFields*>(object);
  const int number = plain_number(array);
  if (number < 0 || (known >> number & 1) == 0) return view_by_buffer(type, object);
  DLTensor t{};
  std::int64_t strides[kMostDimensions];
  t.dtype = kTypes[number];
  if (!describe(array.data, array.nd, array.dimensions, array.strides, strides, &t)) return nullptr;
  const bool is_readonly = (static_cast<unsigned>(array.flags) & kWriteable) == 0;
  return make_view(type, t, object, {.is_readonly = is_readonly});
}

}  // namespace cucore::python
