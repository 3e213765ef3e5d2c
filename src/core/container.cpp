// SPDX-License-Identifier: Apache-2.0
// container.cpp: appends a section to an ELF file and finds it again. The input is untrusted: every
// offset is checked.
#include "cucore/container.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

namespace cucore {
namespace {

constexpr Elf64_Half kCudaMachine = 190;  // EM_CUDA

template <typename T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool fits(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

/// The header and section table of an ELF file. parse() returns std::nullopt if they are
/// inconsistent.
struct Elf {
  Elf64_Ehdr header;
  std::vector<Elf64_Shdr> sections;
};

std::optional<Elf> parse(std::string_view file) {
  if (file.size() < sizeof(Elf64_Ehdr)) return std::nullopt;
  Elf elf{read_at<Elf64_Ehdr>(file, 0), {}};
  const Elf64_Ehdr& h = elf.header;
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_ident[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  // From SHN_LORESERVE on, ELF stores the number of sections elsewhere. No compiler of device code
  // generates that many.
  if (h.e_shnum == 0 || h.e_shnum >= SHN_LORESERVE - 1 || h.e_shentsize != sizeof(Elf64_Shdr) ||
      h.e_shstrndx >= h.e_shnum)
    return std::nullopt;
  if (!fits(file, h.e_shoff, std::uint64_t{h.e_shnum} * sizeof(Elf64_Shdr))) return std::nullopt;
  for (std::size_t i = 0; i < h.e_shnum; ++i) {
    elf.sections.push_back(read_at<Elf64_Shdr>(file, h.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  const Elf64_Shdr& names = elf.sections[h.e_shstrndx];
  if (!fits(file, names.sh_offset, names.sh_size)) return std::nullopt;
  return elf;
}

void align(std::string& bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

/// Returns an ELF file that contains only a table of section names.
std::string empty_file() {
  constexpr std::string_view kNames{"\0.shstrtab\0", 11};
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = kCudaMachine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  std::string file(sizeof header, '\0');
  Elf64_Shdr names{};
  names.sh_name = 1;
  names.sh_type = SHT_STRTAB;
  names.sh_offset = file.size();
  names.sh_size = kNames.size();
  names.sh_addralign = 1;
  file += kNames;
  align(file, 8);
  header.e_shoff = file.size();
  append(file, Elf64_Shdr{});
  append(file, names);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace

std::string make_container(std::string_view cubin, std::string_view ptx) {
  std::string file = cubin.empty() ? empty_file() : std::string{cubin};
  auto elf = parse(file);
  if (!elf) throw std::invalid_argument{"the cubin is not a 64-bit ELF file with sections"};

  // The old tables stay in place, unused: nothing that a program header covers may move.
  Elf64_Shdr& names = elf->sections[elf->header.e_shstrndx];
  const std::string old_names = file.substr(names.sh_offset, names.sh_size);
  Elf64_Shdr section{};
  section.sh_name = static_cast<Elf64_Word>(old_names.size());
  section.sh_type = SHT_PROGBITS;
  section.sh_addralign = 1;
  section.sh_offset = file.size();
  section.sh_size = ptx.size() + 1;  // includes the terminating null that PTX loaders expect
  file += ptx;
  file.push_back('\0');

  names.sh_offset = file.size();
  names.sh_size = old_names.size() + kContainerSection.size() + 1;
  file += old_names;
  file += kContainerSection;
  file.push_back('\0');

  align(file, 8);
  elf->header.e_shoff = file.size();
  elf->header.e_shnum = static_cast<Elf64_Half>(elf->header.e_shnum + 1);
  for (const Elf64_Shdr& header : elf->sections) append(file, header);
  append(file, section);
  std::memcpy(file.data(), &elf->header, sizeof elf->header);
  return file;
}

std::vector<std::string_view> ptx_of_container(std::string_view file) {
  std::vector<std::string_view> modules;
  const auto elf = parse(file);
  if (!elf) return modules;
  const Elf64_Shdr& names = elf->sections[elf->header.e_shstrndx];
  const auto table = file.substr(names.sh_offset, names.sh_size);
  for (const Elf64_Shdr& section : elf->sections) {
    if (section.sh_name >= table.size() || section.sh_type != SHT_PROGBITS ||
        !fits(file, section.sh_offset, section.sh_size))
      continue;
    const auto name =
        table.substr(section.sh_name, table.find('\0', section.sh_name) - section.sh_name);
    if (name != kContainerSection) continue;
    for (auto rest = file.substr(section.sh_offset, section.sh_size); !rest.empty();) {
      const auto end = std::min(rest.find('\0'), rest.size());
      if (end != 0) modules.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return modules;
}

}  // namespace cucore
