// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/debugger_registration.cpp: the names and types of the interface are GDB's
// ("JIT Compilation Interface" in its manual). A debugger sets a breakpoint in
// __jit_debug_register_code and reads __jit_debug_descriptor there.
#include "cpu/engine/jit/debugger_registration.hpp"

#include <llvm/Object/ELF.h>

#include <mutex>
#include <stdexcept>
#include <utility>

extern "C" {

enum jit_actions_t : std::uint32_t { JIT_NOACTION, JIT_REGISTER_FN, JIT_UNREGISTER_FN };

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};

struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

__attribute__((visibility("default"), used))
jit_descriptor __jit_debug_descriptor = {1, JIT_NOACTION, nullptr, nullptr};

__attribute__((visibility("default"), noinline, used)) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}

namespace cucpu {
namespace {

using namespace llvm;

std::mutex g_mutex;  // of the descriptor and its list

template <typename T>
T checked(Expected<T> value) {
  if (value) return std::move(*value);
  throw std::runtime_error{"debug information: " + toString(value.takeError())};
}

/// Writes addresses into an object file: of its sections, and of symbols that it only declares.
void place(std::string& object, const std::map<std::string, std::uint64_t>& sections,
           std::span<const SymbolAddress> symbols) {
  using File = object::ELF64LEFile;
  const File file = checked(File::create(object));
  for (const File::Elf_Shdr& header : checked(file.sections())) {
    const std::string name = checked(file.getSectionName(header)).str();
    if (const auto found = sections.find(name); found != sections.end())
      const_cast<File::Elf_Shdr&>(header).sh_addr = found->second;
    if (header.sh_type != ELF::SHT_SYMTAB) continue;
    const StringRef names = checked(file.getStringTableForSymtab(header));
    for (const File::Elf_Sym& symbol : checked(file.symbols(&header))) {
      if (symbol.st_shndx != ELF::SHN_UNDEF) continue;
      const StringRef wanted = checked(symbol.getName(names));
      for (const SymbolAddress& known : symbols) {
        if (wanted != known.name) continue;
        const_cast<File::Elf_Sym&>(symbol).st_shndx = ELF::SHN_ABS;
        const_cast<File::Elf_Sym&>(symbol).st_value = known.address;
      }
    }
  }
}

}  // namespace

struct DebuggerRegistration::Entry : jit_code_entry {};

DebuggerRegistration::DebuggerRegistration(std::string_view object,
                                           const std::map<std::string, std::uint64_t>& sections,
                                           std::span<const SymbolAddress> symbols)
    : object_{object}, entry_{std::make_unique<Entry>()} {
  place(object_, sections, symbols);
  const std::lock_guard lock{g_mutex};
  entry_->prev_entry = nullptr;
  entry_->next_entry = __jit_debug_descriptor.first_entry;
  entry_->symfile_addr = object_.data();
  entry_->symfile_size = object_.size();
  if (entry_->next_entry) entry_->next_entry->prev_entry = entry_.get();
  __jit_debug_descriptor.first_entry = entry_.get();
  __jit_debug_descriptor.relevant_entry = entry_.get();
  __jit_debug_descriptor.action_flag = JIT_REGISTER_FN;
  __jit_debug_register_code();
}

DebuggerRegistration::~DebuggerRegistration() {
  const std::lock_guard lock{g_mutex};
  (entry_->prev_entry ? entry_->prev_entry->next_entry : __jit_debug_descriptor.first_entry) =
      entry_->next_entry;
  if (entry_->next_entry) entry_->next_entry->prev_entry = entry_->prev_entry;
  __jit_debug_descriptor.relevant_entry = entry_.get();
  __jit_debug_descriptor.action_flag = JIT_UNREGISTER_FN;
  __jit_debug_register_code();
}

}  // namespace cucpu
