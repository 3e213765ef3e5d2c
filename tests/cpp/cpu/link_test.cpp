// SPDX-License-Identifier: Apache-2.0
// cuLink* with object files and archives.
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "support.hpp"

namespace {

/// An object file of the host with one section.
std::string object_file(const std::string& section, const std::string& body) {
  const std::string names = std::string{'\0'} + section + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, "\177ELF\2\1\1", 7);
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + body.size() + names.size();
  Elf64_Shdr sections[3]{};
  sections[1].sh_name = 1;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = body.size();
  sections[2].sh_name = static_cast<Elf64_Word>(section.size() + 2);
  sections[2].sh_offset = sizeof header + body.size();
  sections[2].sh_size = names.size();
  return std::string{reinterpret_cast<const char*>(&header), sizeof header} + body + names +
         std::string{reinterpret_cast<const char*>(sections), sizeof sections};
}

/// A fat binary with one entry, of kind 1 (PTX) or 2 (machine code).
std::string fat_binary(unsigned kind, std::string text) {
  text.resize((text.size() + 8) / 8 * 8);
  const std::uint32_t entry[16] = {
      kind | 0x10000, 64, static_cast<std::uint32_t>(text.size()), 0, 0, 0, 0, 90};
  const std::uint64_t bytes = sizeof entry + text.size();
  std::string out("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
  out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  out.append(reinterpret_cast<const char*>(entry), sizeof entry);
  return out + text;
}

std::string archive(const std::vector<std::string>& members) {
  std::string out = "!<arch>\n";
  for (const std::string& member : members) {
    char header[61];
    std::snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8d%-10zu`\n", "member.o/", 0, 0, 0,
                  644, member.size());
    out += header + member;
    if (member.size() % 2) out += '\n';
  }
  return out;
}

class Linking : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuLinkCreate(0, nullptr, nullptr, &link_));
  }
  void TearDown() override {
    EXPECT_OK(cuLinkDestroy(link_));
    DriverTest::TearDown();
  }
  CUresult add(CUjitInputType type, std::string data) {
    return cuLinkAddData(link_, type, data.data(), data.size(), "input", 0, nullptr, nullptr);
  }
  unsigned kernels() {
    void* image = nullptr;
    std::size_t size = 0;
    EXPECT_OK(cuLinkComplete(link_, &image, &size));
    CUmodule module = nullptr;
    EXPECT_OK(cuModuleLoadData(&module, image));
    unsigned count = 0;
    EXPECT_OK(cuModuleGetFunctionCount(&count, module));
    return count;
  }
  CUlinkState link_ = nullptr;
};

TEST_F(Linking, PtxOfObjectFilesIsLinked) {
  const std::string body = fat_binary(1, ".entry noop()") + fat_binary(2, "machine code") +
                           fat_binary(1, ".entry store(.param .u64 p, .param .u32 v)");
  ASSERT_OK(add(CU_JIT_INPUT_OBJECT, object_file("__nv_relfatbin", body)));
  ASSERT_OK(add(CU_JIT_INPUT_OBJECT, object_file(".nv_fatbin", fat_binary(1, ".entry other()"))));
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, add(CU_JIT_INPUT_OBJECT, object_file(".text", "code")));
  EXPECT_EQ(3u, kernels());
}

TEST_F(Linking, PtxOfArchiveMembersIsLinked) {
  const std::string text = "not an object file", odd = object_file(".text", "odd");
  ASSERT_OK(add(CU_JIT_INPUT_LIBRARY,
                archive({text, object_file("__nv_relfatbin", fat_binary(1, ".entry noop()")), odd,
                         object_file("__nv_relfatbin", fat_binary(2, "machine code")),
                         object_file(".nv_fatbin", fat_binary(1, ".entry other()"))})));
  EXPECT_EQ(2u, kernels());
}

TEST_F(Linking, LibraryWithMachineCodeOnlyIsNamedInTheErrorLog) {
  char log[2048] = "";
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  std::string library = archive({object_file("__nv_relfatbin", fat_binary(2, "machine code"))});
  CUlinkState link = nullptr;
  ASSERT_OK(cuLinkCreate(2, names, values, &link));
  values[1] = reinterpret_cast<void*>(sizeof log);
  ASSERT_OK(cuLinkAddData(link, CU_JIT_INPUT_LIBRARY, library.data(), library.size(), "library", 0,
                          nullptr, nullptr));
  void* image = nullptr;
  std::size_t size = 0;
  values[1] = reinterpret_cast<void*>(sizeof log);
  EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, cuLinkComplete(link, &image, &size));
  EXPECT_NE(nullptr, std::strstr(log, "no PTX to link: 1 members")) << log;
  EXPECT_OK(cuLinkDestroy(link));
}

TEST_F(Linking, InvalidArchiveFails) {
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, add(CU_JIT_INPUT_LIBRARY, ".entry noop()"));
  std::string cut = archive({object_file(".nv_fatbin", fat_binary(1, ".entry noop()"))});
  cut.resize(cut.size() - 9);
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, add(CU_JIT_INPUT_LIBRARY, cut));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, add(CU_JIT_INPUT_NVVM, "BC"));
  ASSERT_OK(add(CU_JIT_INPUT_PTX, std::string{".entry noop()"} + '\0'));
}

}  // namespace
