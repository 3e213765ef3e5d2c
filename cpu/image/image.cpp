// SPDX-License-Identifier: Apache-2.0
// Readers of fat binaries, ELF containers, archives and PTX text.
#include "cpu/image/image.hpp"

#include <elf.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "cpu/base/error.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/image/container.hpp"
#include "cpu/image/lz4.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatbinMagic = 0xba55ed50;
constexpr std::uint32_t kLinkedWrapper = 2;  // version
constexpr std::size_t kMaxText = std::size_t{1} << 30;

/// Version 1 has one fat binary. Version 2 belongs to relocatable code (nvcc -rdc=true): `data` is
/// what nvlink made of the fat binaries in the list `parts`, which ends with null.
struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
  const void* parts;
};

struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

struct FatbinEntry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, unused;
  std::uint16_t minor, major;
  std::uint32_t arch, name_offset, name_bytes;
  std::uint64_t flags, reserved, plain_bytes;
};
constexpr std::uint16_t kPtxEntry = 1, kElfEntry = 2;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;

[[noreturn]] void invalid(const std::string& why) {
  throw LoadError{CUDA_ERROR_INVALID_IMAGE, "error: not a module image: " + why};
}

/// `maker`: the tool that made the code, where the code says so.
[[noreturn]] void gpu_code_only(const std::string& what, const std::string& maker = {}) {
  const char* const stand_ins = std::getenv("CUCORE_STAND_INS");
  const bool off = stand_ins && std::string_view{stand_ins} == "0";
  throw LoadError{
      CUDA_ERROR_NO_BINARY_FOR_GPU,
      "error: " + what + " holds machine code for GPUs only" +
          (maker.empty() ? "" : " (made by " + maker + ")") +
          ", and the CPU device runs PTX. Start the program with `cucore run --cpu`, with empty "
          "caches of compiled code: the cubins of ptxas, nvcc, NVRTC and nvJitLink then keep their "
          "PTX" +
          (off ? " (CUCORE_STAND_INS=0 switches that off here: unset it)" : "") +
          "; or compile to PTX (nvcc -gencode arch=compute_90,code=compute_90, or NVRTC with "
          "-arch=compute_90); or embed PTX next to the machine code"};
}

/// The tool and its version in a note of ptxas or nvlink: "ptxas", zero, "Cuda compilation tools,
/// release ...", zero. nvJitLink and nvlink run ptxas and leave a note of their own: they count
/// before it.
void find_maker(std::string_view note, std::string& maker) {
  constexpr std::string_view kVersion = "Cuda compilation tools", kPtxas = "ptxas, ";
  for (std::size_t at = note.find(kVersion); at != note.npos; at = note.find(kVersion, at + 1)) {
    if (at < 2 || note[at - 1] != '\0') continue;
    const std::size_t before = note.rfind('\0', at - 2);
    const std::string_view tool =
        note.substr(before == note.npos ? 0 : before + 1, at - 2 - before);
    std::string_view text = note.substr(at);
    text = text.substr(0, text.find('\0'));
    const auto printable = [](unsigned char c) { return c >= ' ' && c < 127; };
    if (tool.size() > 32 || text.size() > 128 || !std::ranges::all_of(tool, printable) ||
        !std::ranges::all_of(text, printable))
      continue;
    if (maker.empty() || maker.starts_with(kPtxas))
      maker = std::string{tool} + ", " + std::string{text};
  }
}

/// Reads a T at `offset`; fails when the image ends before.
template <class T>
T read_at(std::string_view image, std::size_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T))
    invalid("it ends in the middle of a header");
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

std::string_view piece(std::string_view image, std::size_t offset, std::size_t bytes) {
  if (offset > image.size() || image.size() - offset < bytes)
    invalid("a section lies outside of it");
  return image.substr(offset, bytes);
}

std::string until_zero(std::string_view text) {
  return std::string{text.substr(0, text.find('\0'))};
}

std::string decompress(std::string_view packed, std::uint64_t flags, std::size_t plain_bytes) {
  if (plain_bytes > kMaxText) invalid("an entry claims to be larger than 1 GiB");
  // The largest compression ratio: 255 for LZ4; for zstd a byte can encode a quarter of a block of
  // 128 KiB.
  const std::size_t most = flags & kLz4 ? 255 : 32768;
  if (CUCORE_PROTECTION("compressed-size-check") && plain_bytes / most > packed.size() + 16)
    invalid("an entry claims to be larger than its compressed bytes can hold");
  std::string plain(plain_bytes, '\0');
  if (flags & kLz4) {
    if (!lz4_decompress(packed, plain)) invalid("an LZ4 entry is damaged");
  } else {
    const std::size_t n = ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size());
    if (ZSTD_isError(n) || n > plain.size()) invalid("a zstd entry is damaged");
    plain.resize(n);
  }
  return plain;
}

/// Copies memory whose size is known only from its own headers, which may be damaged: unmapped
/// bytes are an error, not a fault. Where the system forbids process_vm_readv, the headers are
/// trusted.
std::string copy_unsized(const char* from, std::size_t bytes) {
  if (bytes > kMaxText) invalid("it claims to be larger than 1 GiB");
  std::string copy(bytes, '\0');
  for (std::size_t at = 0; at < bytes;) {
    const iovec into{copy.data() + at, bytes - at};
    const iovec source{const_cast<char*>(from) + at, bytes - at};
    const ssize_t n = process_vm_readv(getpid(), &into, 1, &source, 1, 0);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
      std::memcpy(copy.data() + at, from + at, bytes - at);
      break;
    } else {
      invalid("it ends before its headers say so");
    }
  }
  return copy;
}

std::size_t checked_end(std::uint64_t offset, std::uint64_t bytes) {
  if (offset > kMaxText || bytes > kMaxText) invalid("a part of it lies beyond 1 GiB");
  return offset + bytes;
}

/// An ELF file of unknown length, up to the end of its own tables.
std::string copy_elf(const char* image) {
  const auto header = read_at<Elf64_Ehdr>(copy_unsized(image, sizeof(Elf64_Ehdr)), 0);
  const std::size_t table_bytes = std::size_t{header.e_shnum} * header.e_shentsize;
  std::size_t end = std::max(sizeof header, checked_end(header.e_shoff, table_bytes));
  end =
      std::max(end, checked_end(header.e_phoff, std::size_t{header.e_phnum} * header.e_phentsize));
  const std::string table = copy_unsized(image + header.e_shoff, table_bytes);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(table, std::size_t{i} * header.e_shentsize);
    if (section.sh_type != SHT_NOBITS)
      end = std::max(end, checked_end(section.sh_offset, section.sh_size));
  }
  return copy_unsized(image, end);
}

std::vector<std::string> texts_of_fatbin(std::string_view image, std::uint32_t device);

/// Consecutive fat binaries in an object file of the host. One without PTX is skipped.
void add_texts_of_fatbins(std::string_view body, std::uint32_t target,
                          std::vector<std::string>& texts) {
  for (std::size_t at = 0; at + sizeof(FatbinHeader) <= body.size();) {
    const auto header = read_at<FatbinHeader>(body, at);
    if (header.magic != kFatbinMagic) {
      at += 8;  // padding before the next one
      continue;
    }
    const std::size_t bytes = checked_end(header.header_bytes, header.bytes);
    if (bytes < sizeof header) invalid("a fat binary without a header");
    try {
      for (std::string& text : texts_of_fatbin(piece(body, at, bytes), target))
        texts.push_back(std::move(text));
    } catch (const LoadError& error) {
      if (error.code != CUDA_ERROR_NO_BINARY_FOR_GPU) throw;
    }
    at += (bytes + 7) / 8 * 8;
  }
}

/// `maker` gets the tool that made the file, if the file names it.
std::vector<std::string> texts_of_elf(std::string_view image, std::uint32_t target,
                                      std::string& maker) {
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    invalid("a 32-bit or big-endian ELF file");
  const auto section_at = [&](unsigned i) {
    return read_at<Elf64_Shdr>(image,
                               checked_end(header.e_shoff, std::size_t{i} * header.e_shentsize));
  };
  if (header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum) {
    if (header.e_machine != EM_CUDA) invalid("an ELF file for another machine");
    gpu_code_only("this ELF file");
  }
  const auto names = section_at(header.e_shstrndx);
  const std::string_view name_bytes = piece(image, names.sh_offset, names.sh_size);
  std::vector<std::string> texts;
  bool has_fatbin = false;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = section_at(i);
    if (section.sh_name >= name_bytes.size()) continue;
    const std::string name = until_zero(name_bytes.substr(section.sh_name));
    if (header.e_machine != EM_CUDA && (name == ".nv_fatbin" || name == "__nv_relfatbin")) {
      has_fatbin = true;
      add_texts_of_fatbins(piece(image, section.sh_offset, section.sh_size), target, texts);
    }
    if (name == ".note.nv.tkinfo")
      find_maker(piece(image, section.sh_offset, section.sh_size), maker);
    if (name != kContainerSection) continue;
    std::string_view body = piece(image, section.sh_offset, section.sh_size);
    while (!body.empty()) {
      std::string text = until_zero(body);
      body.remove_prefix(std::min(body.size(), text.size() + 1));
      if (!text.empty()) texts.push_back(std::move(text));
    }
  }
  if (texts.empty() && header.e_machine != EM_CUDA && !has_fatbin)
    invalid("an ELF file for another machine (number " + std::to_string(header.e_machine) +
            "; a GPU's is " + std::to_string(EM_CUDA) + "), and no fat binary in it");
  if (texts.empty()) gpu_code_only("this cubin", maker);
  return texts;
}

std::vector<std::string> texts_of_fatbin(std::string_view image, std::uint32_t device) {
  const auto header = read_at<FatbinHeader>(image, 0);
  const std::string_view body = piece(image, header.header_bytes, header.bytes);
  std::string best;
  unsigned best_arch = 0, oldest_newer = 0;
  bool gpu_code = false;
  std::string maker;
  std::vector<std::string> contained;
  for (std::size_t at = 0; at + sizeof(FatbinEntry) <= body.size();) {
    const auto entry = read_at<FatbinEntry>(body, at);
    if (entry.header_bytes < 64) break;  // padding at the end
    const std::string_view payload = piece(body, at + entry.header_bytes, entry.bytes);
    at += entry.header_bytes + entry.bytes;
    const bool packed = entry.flags & (kLz4 | kZstd);
    const auto plain = [&] {
      return packed ? decompress(payload.substr(0, entry.compressed_bytes), entry.flags,
                                 entry.plain_bytes)
                    : std::string{payload};
    };
    if (entry.kind == kPtxEntry && entry.arch > device) {
      if (oldest_newer == 0 || entry.arch < oldest_newer) oldest_newer = entry.arch;
    } else if (entry.kind == kPtxEntry && entry.arch >= best_arch) {
      best = until_zero(plain());
      best_arch = entry.arch;
    } else if (entry.kind == kElfEntry) {
      gpu_code = true;
      try {
        if (contained.empty()) contained = texts_of_elf(plain(), device, maker);
      } catch (const LoadError&) {  // GPU machine code; PTX next to it may be used
      }
    }
  }
  if (!contained.empty()) return contained;
  if (!best.empty()) return {best};
  if (gpu_code) gpu_code_only("this fat binary", maker);
  const std::string own = std::to_string(device);
  std::string text = "error: the fat binary holds no PTX for compute capability " +
                     own.substr(0, own.size() - 1) + "." + own.back() +
                     " or lower; compile with -gencode arch=compute_" + own + ",code=compute_" +
                     own;
  if (oldest_newer != 0)
    text += ", or set CUCORE_CPU_ARCH=" + std::to_string(oldest_newer / 10) + "." +
            std::to_string(oldest_newer % 10);
  throw LoadError{CUDA_ERROR_NO_BINARY_FOR_GPU, text};
}

bool has_magic(const void* image, std::uint32_t magic) {
  return std::memcmp(image, &magic, sizeof magic) == 0;
}

void require_fatbin(const void* data) {
  if (!data || !has_magic(copy_unsized(static_cast<const char*>(data), 4).data(), kFatbinMagic))
    invalid("a fat binary wrapper around nothing");
}

/// The PTX of all fat binaries in the list of a wrapper of version 2. Those without PTX are
/// skipped: the link reports what is missing then.
std::vector<std::string> texts_of_parts(const char* list, std::uint32_t target) {
  std::vector<std::string> texts;
  for (;; list += sizeof(void*)) {
    const auto part = read_at<const void*>(copy_unsized(list, sizeof(void*)), 0);
    if (!part) return texts;
    require_fatbin(part);
    try {
      for (std::string& text : ptx_of_image(part, 0, target)) texts.push_back(std::move(text));
    } catch (const LoadError& error) {
      if (error.code != CUDA_ERROR_NO_BINARY_FOR_GPU) throw;
    }
  }
}

}  // namespace

std::vector<std::string> ptx_of_image(const void* image, std::size_t size, std::uint32_t target) {
  require(image != nullptr);
  // Only 4 bytes may be read before the kind is known, and a text may be shorter.
  const char* bytes = static_cast<const char*>(image);
  const bool has_four = size >= 4 || (size == 0 && bytes[0] && bytes[1] && bytes[2] && bytes[3]);
  if (has_four && has_magic(image, kWrapperMagic)) {
    const auto wrapper =
        read_at<Wrapper>(size ? std::string{bytes, size} : copy_unsized(bytes, sizeof(Wrapper)), 0);
    if (wrapper.version == kLinkedWrapper && wrapper.parts)
      if (auto texts = texts_of_parts(static_cast<const char*>(wrapper.parts), target);
          !texts.empty())
        return texts;
    require_fatbin(wrapper.data);
    return ptx_of_image(wrapper.data, 0, target);
  }
  if (has_four && has_magic(image, kFatbinMagic)) {
    if (size) return texts_of_fatbin({bytes, size}, target);
    const auto header = read_at<FatbinHeader>(copy_unsized(bytes, sizeof(FatbinHeader)), 0);
    return texts_of_fatbin(copy_unsized(bytes, checked_end(header.header_bytes, header.bytes)),
                           target);
  }
  if (has_four && std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    std::string maker;
    return size ? texts_of_elf({bytes, size}, target, maker)
                : texts_of_elf(copy_elf(bytes), target, maker);
  }
  std::string text = size ? until_zero({bytes, size}) : std::string{bytes};
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) invalid("it is empty");
  if (std::any_of(
          text.begin(),
          text.begin() + std::min<std::ptrdiff_t>(64, static_cast<std::ptrdiff_t>(text.size())),
          [](unsigned char c) { return c < 9 || (c > 13 && c < 32); }))
    invalid("neither PTX text, nor a fat binary, nor an ELF file");
  std::vector<std::string> texts;
  texts.push_back(std::move(text));
  return texts;
}

std::vector<std::string> ptx_of_archive(std::string_view archive, std::uint32_t target,
                                        std::size_t& skipped) {
  static constexpr std::string_view kMagic = "!<arch>\n";
  static constexpr std::size_t kHeader = 60, kSizeAt = 48, kSizeBytes = 10;
  if (!archive.starts_with(kMagic)) invalid("it is no archive");
  std::vector<std::string> texts;
  for (std::size_t at = kMagic.size(); at + kHeader <= archive.size();) {
    const std::string size{archive.substr(at + kSizeAt, kSizeBytes)};
    const std::size_t bytes = std::strtoull(size.c_str(), nullptr, 10);
    const std::string_view member = piece(archive, at + kHeader, bytes);
    at += kHeader + bytes + bytes % 2;
    if (!member.starts_with(ELFMAG)) continue;  // tables of names or symbols
    if (member.find("nv_fatbin") == std::string_view::npos &&
        member.find("__nv_relfatbin") == std::string_view::npos &&
        read_at<Elf64_Ehdr>(member, 0).e_machine != EM_CUDA)
      continue;  // an object with host code only
    try {
      for (std::string& text : ptx_of_image(member.data(), member.size(), target))
        texts.push_back(std::move(text));
    } catch (const LoadError& error) {
      // The program may not need its symbols, or they are the device's own.
      if (error.code != CUDA_ERROR_NO_BINARY_FOR_GPU) throw;
      ++skipped;
    }
  }
  return texts;
}

std::string read_image_file(const char* path) {
  require(path != nullptr);
  std::ifstream file{path, std::ios::binary};
  if (!file) fail(CUDA_ERROR_FILE_NOT_FOUND);
  std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  return bytes;
}

}  // namespace cucpu::driver
