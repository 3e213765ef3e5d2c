// SPDX-License-Identifier: Apache-2.0
// cpu/image/container.cpp
#include "cpu/image/container.hpp"

#include <elf.h>

#include <cstring>

namespace cucpu::driver {

std::string make_container(const std::vector<std::string>& texts) {
  static constexpr char kNames[] = "\0.shstrtab\0.cucore.ptx";
  std::string body;
  for (const std::string& text : texts) body.append(text).push_back('\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_CUDA;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  const std::size_t names_at = sizeof header, body_at = names_at + sizeof kNames;
  header.e_shoff = (body_at + body.size() + 7) / 8 * 8;
  Elf64_Shdr sections[3]{};
  sections[1] = {.sh_name = 1,
                 .sh_type = SHT_STRTAB,
                 .sh_flags = 0,
                 .sh_addr = 0,
                 .sh_offset = names_at,
                 .sh_size = sizeof kNames,
                 .sh_link = 0,
                 .sh_info = 0,
                 .sh_addralign = 1,
                 .sh_entsize = 0};
  sections[2] = {.sh_name = 11,
                 .sh_type = SHT_PROGBITS,
                 .sh_flags = 0,
                 .sh_addr = 0,
                 .sh_offset = body_at,
                 .sh_size = body.size(),
                 .sh_link = 0,
                 .sh_info = 0,
                 .sh_addralign = 1,
                 .sh_entsize = 0};
  std::string out{reinterpret_cast<const char*>(&header), sizeof header};
  out.append(kNames, sizeof kNames).append(body);
  out.resize(header.e_shoff, '\0');
  out.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return out;
}

}  // namespace cucpu::driver
