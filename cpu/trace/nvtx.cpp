// SPDX-License-Identifier: Apache-2.0
// cpu/trace/nvtx.cpp: ranges and marks of NVTX 3. Programs that use NVTX load the library that
// NVTX_INJECTION64_PATH names at their first call, and give it their tables of functions.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/trace/trace.hpp"

namespace cucpu::trace {
namespace {

// The binary interface of NVTX 3.
using Function = void (*)();
struct Callbacks {
  std::size_t size;
  int (*table_of_module)(std::uint32_t module, Function*** table, unsigned* size);
};
using ExportTable = const void* (*)(std::uint32_t id);
constexpr std::uint32_t kCallbacks = 1;
constexpr std::uint32_t kCore = 1, kCore2 = 5;

struct Attributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const void* message;
};
enum MessageType : std::int32_t { kAscii = 1, kUnicode = 2, kRegistered = 3 };

struct Domain {
  std::string name;
};
struct RegisteredString {
  std::string text;
};

/// Characters outside of ASCII are shown as a question mark.
std::string narrow(const wchar_t* text) {
  std::string out;
  for (; text && *text; ++text) out += *text > 0 && *text < 128 ? static_cast<char>(*text) : '?';
  return out;
}

std::string text_of(const char* text) { return text ? text : ""; }

Label label_of(const Domain* domain, std::string name) {
  Label label{"nvtx", std::move(name)};
  if (domain && !domain->name.empty()) label.arguments.add("domain", domain->name);
  return label;
}

Label label_of(const Domain* domain, const Attributes* attributes) {
  std::string name;
  if (attributes && attributes->message) {
    if (attributes->message_type == kAscii)
      name = static_cast<const char*>(attributes->message);
    else if (attributes->message_type == kUnicode)
      name = narrow(static_cast<const wchar_t*>(attributes->message));
    else if (attributes->message_type == kRegistered)
      name = static_cast<const RegisteredString*>(attributes->message)->text;
  }
  Label label = label_of(domain, std::move(name));
  if (attributes && attributes->category != 0)
    label.arguments.add("category", attributes->category);
  return label;
}

struct Open {
  const Domain* domain;
  Label label;
  std::int64_t begin;
};
thread_local std::vector<Open> t_open;

int push(const Domain* domain, Label label) noexcept try {
  t_open.push_back({domain, std::move(label), now()});
  int level = -1;
  for (const Open& open : t_open) level += open.domain == domain;
  return level;
} catch (...) {
  return -1;
}

int pop(const Domain* domain) noexcept {
  int level = -1;
  for (const Open& open : t_open) level += open.domain == domain;
  for (std::size_t i = t_open.size(); i-- > 0;) {
    if (t_open[i].domain != domain) continue;
    if (is_on()) add_span(kThisThread, std::move(t_open[i].label), t_open[i].begin, now());
    t_open.erase(t_open.begin() + static_cast<std::ptrdiff_t>(i));
    return level;
  }
  return -1;
}

std::atomic<std::uint64_t> g_ranges{0};

std::uint64_t start_range(Label label) noexcept {
  const std::uint64_t number = ++g_ranges;
  if (is_on()) begin_range(number, std::move(label));
  return number;
}

void stop_range(std::uint64_t number) noexcept {
  if (is_on()) end_range(number, {"nvtx", ""});
}

void mark(Label label) noexcept {
  if (is_on()) add_instant(kThisThread, std::move(label));
}

// ---- module "core": no domains

void mark_ex(const Attributes* a) { mark(label_of(nullptr, a)); }
void mark_a(const char* text) { mark(label_of(nullptr, text_of(text))); }
void mark_w(const wchar_t* text) { mark(label_of(nullptr, narrow(text))); }
std::uint64_t start_ex(const Attributes* a) { return start_range(label_of(nullptr, a)); }
std::uint64_t start_a(const char* text) { return start_range(label_of(nullptr, text_of(text))); }
std::uint64_t start_w(const wchar_t* text) { return start_range(label_of(nullptr, narrow(text))); }
void end(std::uint64_t number) { stop_range(number); }
int push_ex(const Attributes* a) { return push(nullptr, label_of(nullptr, a)); }
int push_a(const char* text) { return push(nullptr, label_of(nullptr, text_of(text))); }
int push_w(const wchar_t* text) { return push(nullptr, label_of(nullptr, narrow(text))); }
int pop_last() { return pop(nullptr); }

// ---- module "core2": domains. Domains and strings live as long as the process.

void domain_mark(Domain* d, const Attributes* a) { mark(label_of(d, a)); }
std::uint64_t domain_start(Domain* d, const Attributes* a) { return start_range(label_of(d, a)); }
void domain_end(Domain*, std::uint64_t number) { stop_range(number); }
int domain_push(Domain* d, const Attributes* a) { return push(d, label_of(d, a)); }
int domain_pop(Domain* d) { return pop(d); }
RegisteredString* register_a(Domain*, const char* text) {
  return new RegisteredString{text_of(text)};
}
RegisteredString* register_w(Domain*, const wchar_t* text) {
  return new RegisteredString{narrow(text)};
}
Domain* create_a(const char* name) { return new Domain{text_of(name)}; }
Domain* create_w(const wchar_t* name) { return new Domain{narrow(name)}; }
void initialize(const void*) {}

struct Row {
  unsigned index;
  Function function;
};

template <class F>
Row row(unsigned index, F* function) {
  return {index, reinterpret_cast<Function>(function)};
}

void fill(Function** table, unsigned size, std::initializer_list<Row> rows) {
  for (const Row& row : rows)
    if (row.index < size && table[row.index]) *table[row.index] = row.function;
}

int inject(ExportTable exports) {
  start_from_environment();
  const auto* callbacks = static_cast<const Callbacks*>(exports ? exports(kCallbacks) : nullptr);
  if (!callbacks || !callbacks->table_of_module) return 0;
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks->table_of_module(kCore, &table, &size) && table)
    fill(table, size,
         {row(1, mark_ex), row(2, mark_a), row(3, mark_w), row(4, start_ex), row(5, start_a),
          row(6, start_w), row(7, end), row(8, push_ex), row(9, push_a), row(10, push_w),
          row(11, pop_last)});
  if (callbacks->table_of_module(kCore2, &table, &size) && table)
    fill(table, size,
         {row(1, domain_mark), row(2, domain_start), row(3, domain_end), row(4, domain_push),
          row(5, domain_pop), row(10, register_a), row(11, register_w), row(12, create_a),
          row(13, create_w), row(15, initialize)});
  return 1;
}

}  // namespace
}  // namespace cucpu::trace

/// The name that NVTX looks for.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*exports)(std::uint32_t)) {
  return cucpu::trace::inject(exports);
}
