// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/link_test.cpp: object code becomes memory that may be run, and nothing else.
#include <elf.h>

#include <cstring>

#include "ir_fixture.hpp"

namespace cucpu::test {
namespace {

/// The object with every section of code marked writable as well.
std::string with_writable_code(std::string object) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    char* const at = object.data() + header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, at, sizeof section);
    if (section.sh_flags & SHF_EXECINSTR) section.sh_flags |= SHF_WRITE;
    std::memcpy(at, &section, sizeof section);
  }
  return object;
}

// promise: Generated code is never writable and executable at once
TEST(Link, AWritableAndExecutableSectionIsAnError) {
  const Compiled kernel{R"(define void @k() "cucpu.kernel" { ret void })"};
  const std::string wanted[] = {kEntry};
  EXPECT_NE(LinkedCode::link(kernel.object.object, {}, wanted)->address(0), nullptr);
  try {
    LinkedCode::link(with_writable_code(kernel.object.object), {}, wanted);
    FAIL() << "it was linked";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("is writable and executable"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cucpu::test
