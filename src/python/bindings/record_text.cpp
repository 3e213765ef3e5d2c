// SPDX-License-Identifier: Apache-2.0
// record_text.cpp: repr() of structs: "name : value" per field.
#include <charconv>
#include <string>
#include <string_view>

#include "fields.hpp"

namespace cucore::bindings {
namespace {

template <class T>
T value_at(const char* place) {
  T value{};
  std::memcpy(&value, place, sizeof value);
  return value;
}

void put_number(std::string& out, auto number, int base = 10) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, base).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

/// Appends a Python string; false with an exception set on failure, also if `text` is null.
bool put_text(std::string& out, PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = text != nullptr ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (bytes == nullptr) return false;
  out.append(bytes, static_cast<std::size_t>(size));
  return true;
}

/// Appends a member as the enum class prints it.
bool put_member(std::string& out, TypeId type, std::int32_t value) {
  while (row_of(type).base != kNoType) type = row_of(type).base;
  static PyObject* const key = PyUnicode_InternFromString("name");
  const Ref member{enum_member(type, value)};
  const Ref name{member ? PyObject_GetAttr(member.get(), key) : nullptr};
  out.append("<").append(name_of(type)).append(".");
  if (!put_text(out, name.get())) return false;
  out.append(": ");
  put_number(out, PyLong_AsLongLong(member.get()));
  out.append(">");
  return true;
}

/// Appends any other value as Python prints it.
bool put_object(std::string& out, const FieldRow& row, PyObject* value) {
  if (value == nullptr) return false;
  if (row.kind == Kind::chars && PyBytes_Check(value)) {
    const Ref text{
        PyUnicode_DecodeUTF8(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), "replace")};
    return put_text(out, text.get());
  }
  if (row.kind == Kind::address && PyLong_Check(value)) {
    out.append("0x");
    return put_number(out, PyLong_AsUnsignedLongLongMask(value), 16), true;
  }
  const Ref text{PyObject_Repr(value)};
  return put_text(out, text.get());
}

/// Appends a value without creating a Python object. Returns false for other kinds.
bool put_plain(std::string& out, const FieldRow& row, const char* place) {
  switch (row.kind) {
    case Kind::i32:
      return put_number(out, value_at<std::int32_t>(place)), true;
    case Kind::u32:
      return put_number(out, value_at<std::uint32_t>(place)), true;
    case Kind::i64:
      return put_number(out, value_at<std::int64_t>(place)), true;
    case Kind::u64:
      return put_number(out, value_at<std::uint64_t>(place)), true;
    case Kind::address:
      out.append("0x");
      return put_number(out, value_at<std::uint64_t>(place), 16), true;
    default:
      return false;
  }
}

bool put_record(std::string& out, RecordObject* record, std::string& indent) {
  const Api& api = api_of(record->type);
  const TypeRow& type = row_of(record->type);
  bool is_first = true;
  for (int i = 0; i < type.count; ++i) {
    const FieldRow& row = api.fields[type.first + i];
    if (is_hidden(row)) continue;
    const char* const name = api.text + row.name;
    const char* const place = static_cast<const char*>(record->place) + row.offset;
    const bool single = row.length == 0 && row.flags == 0 && record->count == 1;
    if (!std::exchange(is_first, false)) out.append("\n").append(indent);
    out.append(name).append(" :");
    if (row.kind == Kind::record && single) {
      const Ref inner{reinterpret_cast<PyObject*>(
          view_record(row.type, const_cast<char*>(place), reinterpret_cast<PyObject*>(record)))};
      indent.append("    ");
      out.append("\n").append(indent);
      if (!inner || !put_record(out, reinterpret_cast<RecordObject*>(inner.get()), indent))
        return false;
      indent.resize(indent.size() - 4);
      continue;
    }
    out.append(" ");
    if (single && row.kind == Kind::address && std::string_view{name} == "extra") {
      put_number(out, value_at<std::uint64_t>(place));  // void**, like kernelParams
      continue;
    }
    if (single && put_plain(out, row, place)) continue;
    if (single && row.kind == Kind::enumeration) {
      if (!put_member(out, row.type, value_at<std::int32_t>(place))) return false;
    } else if (row.kind == Kind::bytes && record->count == 1 && !is_counted(row)) {
      for (int n = 0; n < row.length; ++n) {
        const auto byte = static_cast<unsigned char>(place[n]);
        out.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
      }
    } else {
      const Ref value{PyObject_GetAttrString(reinterpret_cast<PyObject*>(record), name)};
      const std::size_t from = out.size();
      if (!put_object(out, row, value.get())) return false;
      for (std::size_t at = out.find('\n', from); at != std::string::npos && !indent.empty();
           at = out.find('\n', at + 1))
        out.insert(at + 1, indent);  // a list of structs
    }
  }
  return true;
}

}  // namespace

PyObject* record_repr(PyObject* o) {
  std::string out, indent;
  out.reserve(512);
  if (!put_record(out, reinterpret_cast<RecordObject*>(o), indent)) return nullptr;
  return PyUnicode_DecodeUTF8(out.data(), static_cast<Py_ssize_t>(out.size()), "replace");
}

}  // namespace cucore::bindings
