// SPDX-License-Identifier: Apache-2.0
// device_code.cpp: installs replacements for functions of NVRTC and nvJitLink.
#include "core/device_code.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <string>

#include "core/replacement.hpp"

namespace cucore::detail {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Returns "nvJitLinkCreate" for "__nvJitLinkCreate_13_0", the symbol that programs compiled with
/// the header of CUDA 13.0 link against.
std::string_view without_version(std::string_view function) {
  if (!function.starts_with("__nvJitLink")) return function;
  std::string_view name = function.substr(2);
  for (int i = 0; i < 2; ++i) {
    const std::size_t end = name.rfind('_');
    if (end == name.npos || !is_digits(name.substr(end + 1))) return function;
    name = name.substr(0, end);
  }
  return name;
}

/// Returns the memory protection of the segment of a loaded library that contains `address`.
int protection_of(const void* address) {
  struct Search {
    std::uintptr_t address;
    int found;
  } search{reinterpret_cast<std::uintptr_t>(address), PROT_NONE};
  ::dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* given) {
        auto& wanted = *static_cast<Search*>(given);
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = library->dlpi_phdr[i];
          const std::uintptr_t begin = library->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || wanted.address < begin ||
              wanted.address >= begin + part.p_memsz)
            continue;
          wanted.found = ((part.p_flags & PF_R) ? PROT_READ : 0) |
                         ((part.p_flags & PF_W) ? PROT_WRITE : 0) |
                         ((part.p_flags & PF_X) ? PROT_EXEC : 0);
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

/// Redirects the symbol at `address` of a library to `ours`.
bool redirect(const link_map& library, const char* name, void* address, void* ours) {
  Dl_info info{};
  void* entry = nullptr;
  if (::dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr ||
      info.dli_sname == nullptr || std::string_view{info.dli_sname} != name)
    return false;
  auto* const symbol = static_cast<ElfW(Sym)*>(entry);
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  // An aligned value lies within one page.
  void* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&symbol->st_value) &
                                             ~(page_bytes - 1));
  const int before = protection_of(&symbol->st_value);
  if (before == PROT_NONE || ::mprotect(page, page_bytes, before | PROT_WRITE) != 0) return false;
  symbol->st_value = reinterpret_cast<std::uintptr_t>(ours) - library.l_addr;
  (void)::mprotect(page, page_bytes, before);
  return true;
}

}  // namespace

std::optional<std::string_view> value_of_option(std::string_view option, std::string_view name) {
  if (option.starts_with("--")) option.remove_prefix(1);
  if (!option.starts_with('-')) return std::nullopt;
  option.remove_prefix(1);
  if (!option.starts_with(name)) return std::nullopt;
  option.remove_prefix(name.size());
  if (!option.starts_with('=')) return std::nullopt;
  return option.substr(1);
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{number}
                                                                  : std::nullopt;
}

void* device_code_in_place_of(std::string_view function, void* address) {
  if (function.starts_with("nvrtc")) return nvrtc_in_place_of(function, address);
  return nvjitlink_in_place_of(without_version(function), address);
}

void* without_replacement(void* address) {
  if (address == nullptr) return nullptr;
  if (void* const real = replaced_nvrtc(address)) return real;
  if (void* const real = replaced_nvjitlink(address)) return real;
  return address;
}

std::size_t replace_in_symbol_table(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return 0;
  std::size_t count = 0;
  const auto replace = [&](const std::string& name) {
    void* const address = ::dlsym(library, name.c_str());
    void* const ours = address != nullptr ? device_code_in_place_of(name, address) : nullptr;
    if (ours != nullptr && ours != address && redirect(*map, name.c_str(), address, ours)) ++count;
  };
  for (const char* name :
       {"nvrtcGetCUBINSize", "nvrtcGetCUBIN", "nvrtcCompileProgram", "nvrtcDestroyProgram"})
    replace(name);
  for (const char* plain :
       {"nvJitLinkCreate", "nvJitLinkDestroy", "nvJitLinkAddData", "nvJitLinkAddFile",
        "nvJitLinkGetLinkedCubinSize", "nvJitLinkGetLinkedCubin"}) {
    replace(plain);
    for (const char* major : {"12", "13"})
      for (char minor = '0'; minor <= '9'; ++minor)
        replace(std::string{"__"} + plain + "_" + major + "_" + minor);
  }
  return count;
}

}  // namespace cucore::detail

void* cucore_in_place_of(const char* function, void* address) noexcept {
  try {
    void* const ours = cucore::detail::device_code_in_place_of(function, address);
    return ours != nullptr ? ours : address;
  } catch (const std::exception&) {  // out of memory: the library's own function still works
    return address;
  }
}

std::size_t cucore_replace_in_symbol_table(void* library) noexcept {
  try {
    return cucore::detail::replace_in_symbol_table(library);
  } catch (const std::exception&) {
    return 0;
  }
}
