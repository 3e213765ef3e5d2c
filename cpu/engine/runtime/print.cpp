// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/print.cpp: printf inside kernels.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "cpu/engine/run/worker.hpp"
#include "cpu/engine/runtime/routines.hpp"

namespace cucpu {
namespace {

/// Reads PTX's argument buffer: each argument at its natural alignment.
class Arguments {
 public:
  explicit Arguments(std::uint64_t address) : next_{address} {}
  template <typename T>
  T take() {
    next_ = (next_ + sizeof(T) - 1) & ~std::uint64_t{sizeof(T) - 1};
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(next_), sizeof value);
    next_ += sizeof value;
    ++count;
    return value;
  }
  std::int32_t count = 0;

 private:
  std::uint64_t next_;
};

/// Appends one formatted conversion. `spec` is null-terminated.
template <typename... T>
void append(std::string& out, const char* spec, T... values) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  const int length = std::snprintf(nullptr, 0, spec, values...);
  if (length <= 0) return;
  const std::size_t before = out.size();
  out.resize(before + static_cast<std::size_t>(length) + 1);
  std::snprintf(out.data() + before, static_cast<std::size_t>(length) + 1, spec, values...);
  out.pop_back();
#pragma GCC diagnostic pop
}

/// Formats one conversion, from the character after '%'. Returns the character after it. An unknown
/// conversion is printed unchanged, as by the printf of the host.
const char* convert(std::string& out, const char* at, Arguments& arguments) {
  const char* const start = at;
  char spec[96] = "%";
  std::size_t n = 1;
  const auto put = [&](char c) {
    if (n < sizeof spec - 24) spec[n++] = c;
  };
  const auto number = [&] {
    if (*at == '*') {
      char digits[16];
      const int value = arguments.take<std::int32_t>();
      const int length = std::snprintf(digits, sizeof digits, "%d", value);
      for (int i = 0; i < length; ++i) put(digits[i]);
      ++at;
    } else {
      for (int digits = 0; std::isdigit(static_cast<unsigned char>(*at)); ++at)
        if (++digits <= 6) put(*at);
    }
  };
  while (*at != '\0' && std::strchr("-+ #0", *at)) put(*at++);
  number();
  if (*at == '.') {
    put(*at++);
    if (*at ==
        '-') {  // "%.*" never leaves this here: only a literal minus, which printf takes as zero
      ++at;
    }
    number();
  }
  bool wide = false;  // 64 bits
  for (;; ++at) {
    if (*at == 'l' || *at == 'j' || *at == 'z' || *at == 't' || *at == 'q') {
      wide = true;
    } else if (*at != 'h' && *at != 'L') {
      break;
    } else {
      put(*at == 'h' ? 'h' : '\0');
      if (*at == 'L') --n;
    }
  }
  const char conversion = *at;
  const auto finish = [&](const char* length) {
    for (; *length; ++length) spec[n++] = *length;
    spec[n++] = conversion;
    spec[n] = '\0';
  };
  switch (conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      if (wide) {
        while (n > 1 && spec[n - 1] == 'h') --n;
        finish("ll");
        append(out, spec, arguments.take<long long>());
      } else {
        finish("");
        append(out, spec, arguments.take<std::int32_t>());
      }
      break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      finish("");
      append(out, spec, arguments.take<double>());
      break;
    case 'c':
      finish("");
      append(out, spec, arguments.take<std::int32_t>());
      break;
    case 'p':
      finish("");
      append(out, spec, reinterpret_cast<const void*>(arguments.take<std::uint64_t>()));
      break;
    case 's': {
      finish("");
      const auto* text = reinterpret_cast<const char*>(arguments.take<std::uint64_t>());
      append(out, spec, text ? text : "(null)");
      break;
    }
    case '%':
      out += '%';
      break;
    case '\0':
      out.append("%").append(start, at);
      return at;
    default:
      out.append("%").append(start, at + 1);
      break;
  }
  return at + 1;
}

std::mutex& output() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace
}  // namespace cucpu

using namespace cucpu;

std::int32_t cucpu_rt_vprintf(std::uint64_t format, std::uint64_t packed) {
  if (format == 0) return -1;
  Worker& worker = *Worker::running();
  // The worker owns the text: an invalid %s abandons the fiber without running destructors.
  std::string& out = worker.print_buffer();
  out.clear();
  Arguments arguments{packed};
  const char* at = reinterpret_cast<const char*>(format);
  while (*at != '\0') {
    if (*at == '%') {
      at = convert(out, at + 1, arguments);
    } else {
      const std::size_t length = std::strcspn(at, "%");
      out.append(at, length);
      at += length;
    }
  }
  worker.in_host_call = true;
  {
    const std::lock_guard lock{output()};
    if (!worker.grid().is_replay()) hooks().print(out);
  }
  worker.in_host_call = false;
  return arguments.count;
}
