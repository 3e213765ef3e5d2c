// SPDX-License-Identifier: Apache-2.0
// object_code.cpp: compiled code, which is loaded once, on first use.
#include "cucore/object_code.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "core/library.hpp"
#include "cucore/container.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "driver/mutex.hpp"

namespace cucore {
namespace {

constexpr std::array<const char*, 6> kNames{"ptx", "cubin", "ltoir", "fatbin", "object", "library"};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file)
    throw std::system_error{errno, std::generic_category(), "cannot read " + path.string()};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// Returns whether the driver can load the code directly. A library may hold any of these formats;
/// its first bytes decide.
bool is_loadable(CodeType type, std::string_view code) {
  if (type == CodeType::ptx || type == CodeType::cubin || type == CodeType::fatbin) return true;
  if (type == CodeType::ltoir || type == CodeType::object) return false;
  constexpr std::string_view kElf{
      "\x7f"
      "ELF",
      4};
  return code.starts_with(kElf) || code.starts_with(detail::kFatbinMagic) ||
         code.find(".version") < 4096;
}

}  // namespace

const char* code_type_name(CodeType type) noexcept {
  return kNames[static_cast<std::size_t>(type)];
}

CodeType code_type_of(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<CodeType>(i);
    known += (i == 0 ? "'" : ", '") + std::string{kNames[i]} + "'";
  }
  throw std::invalid_argument{"'" + std::string{name} + "' is no code type; known are " + known};
}

namespace {

struct PtxVersion {
  int major, minor, cuda;
};
constexpr std::array<PtxVersion, 47> kPtxVersions{{
    {1, 0, 1000},  {1, 1, 1010},  {1, 2, 2000},  {1, 3, 2010},  {1, 4, 2020},  {2, 0, 3000},
    {2, 1, 3010},  {2, 2, 3020},  {2, 3, 4000},  {3, 0, 4010},  {3, 1, 5000},  {3, 2, 5050},
    {4, 0, 6000},  {4, 1, 6050},  {4, 2, 7000},  {4, 3, 7050},  {5, 0, 8000},  {6, 0, 9000},
    {6, 1, 9010},  {6, 2, 9020},  {6, 3, 10000}, {6, 4, 10010}, {6, 5, 10020}, {7, 0, 11000},
    {7, 1, 11010}, {7, 2, 11020}, {7, 3, 11030}, {7, 4, 11040}, {7, 5, 11050}, {7, 6, 11060},
    {7, 7, 11070}, {7, 8, 11080}, {8, 0, 12000}, {8, 1, 12010}, {8, 2, 12020}, {8, 3, 12030},
    {8, 4, 12040}, {8, 5, 12050}, {8, 6, 12070}, {8, 7, 12080}, {8, 8, 12090}, {9, 0, 13000},
    {9, 1, 13010}, {9, 2, 13020}, {9, 3, 13030}, {9, 4, 13040}, {9, 5, 13050},
}};

}  // namespace

std::optional<int> cuda_version_of_ptx(std::string_view ptx) {
  constexpr std::string_view kWord = ".version";
  // The directive is at the start of a line; comments may precede it.
  for (std::size_t at = 0; (at = ptx.find(kWord, at)) != std::string_view::npos; ++at) {
    const std::size_t line = ptx.rfind('\n', at) + 1;  // npos + 1 is 0
    if (ptx.substr(line, at - line).find_first_not_of(" \t\r") != std::string_view::npos) continue;
    std::string_view rest = ptx.substr(at + kWord.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    int major = 0;
    int minor = 0;
    const char* const end = rest.data() + rest.size();
    const auto first = std::from_chars(rest.data(), end, major);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return std::nullopt;
    if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc{}) return std::nullopt;
    for (const PtxVersion& known : kPtxVersions)
      if (known.major == major && known.minor == minor) return known.cuda;
    return std::nullopt;
  }
  return std::nullopt;
}

const std::string& detail::CodeImage::code() const {
  const std::lock_guard lock{mutex};
  if (!code_read) {
    bytes = read_file(*file);
    code_read = true;
  }
  return bytes;  // final, so the reference may be used without the lock
}

const std::vector<detail::DeclaredParam>* detail::CodeImage::params_of(
    std::string_view symbol) const {
  const std::string& text = code();
  const std::lock_guard lock{mutex};
  if (!params_read) {
    if (type == CodeType::ptx) {
      add_params_of_ptx(text, params);
    } else {
      for (const std::string_view module : ptx_of_container(text))
        add_params_of_ptx(module, params);
    }
    params_read = true;
  }
  const auto at = params.find(symbol);
  return at != params.end() ? &at->second : nullptr;
}

void detail::CodeImage::remember_params(DeclaredParams declared) const {
  const std::lock_guard lock{mutex};
  params = std::move(declared);
  params_read = true;
}

std::string detail::CodeImage::description() const {
  std::string text = code_type_name(type);
  if (file) return text + " file " + file->string();
  return name.empty() ? text + " code" : text + " code '" + name + "'";
}

struct ObjectCode::State {
  std::shared_ptr<detail::CodeImage> image = std::make_shared<detail::CodeImage>();

  cucore::detail::Mutex mutex;  // guards the fields below
  std::atomic<bool> loaded{false};
  std::shared_ptr<detail::Library> library;
  std::map<std::string, std::shared_ptr<detail::KernelState>, std::less<>>
      kernels;  // by requested name

  std::atomic<void*> attached{nullptr};
  std::shared_ptr<void> attachment;

  const std::shared_ptr<detail::Library>& load() {  // requires the lock
    if (library == nullptr) {
      const std::string& bytes = image->code();
      if (!is_loadable(image->type, bytes)) {
        throw std::runtime_error{
            image->description() +
            " cannot be loaded as it is: link it first, Linker(code).link(\"cubin\")"};
      }
      library = detail::Library::load(image);
      loaded.store(true, std::memory_order_release);
    }
    return library;
  }
};

ObjectCode::ObjectCode(CodeType type, std::string code, std::string name,
                       SymbolMapping symbol_mapping)
    : state_{std::make_shared<State>()} {
  state_->image->type = type;
  state_->image->bytes = std::move(code);
  state_->image->name = std::move(name);
  state_->image->symbol_mapping = std::move(symbol_mapping);
}

ObjectCode::ObjectCode(CodeType type, const std::filesystem::path& file, std::string name,
                       SymbolMapping symbol_mapping)
    : ObjectCode{type, std::string{}, std::move(name), std::move(symbol_mapping)} {
  state_->image->file = file;
  state_->image->code_read = false;
}

std::optional<ObjectCode> ObjectCode::of(const Kernel& kernel) {
  if (kernel.state()->code) return kernel.state()->code;
  if (kernel.state()->image == nullptr) return std::nullopt;
  ObjectCode code{CodeType::ptx, std::string{}};
  code.state_->image = std::const_pointer_cast<detail::CodeImage>(kernel.state()->image);
  code.state_->library = kernel.state()->library;
  code.state_->loaded = true;
  return code;
}

ObjectCode ObjectCode::from_ptx(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::ptx, std::move(code), std::move(name), std::move(map)};
}
ObjectCode ObjectCode::from_cubin(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::cubin, std::move(code), std::move(name), std::move(map)};
}
ObjectCode ObjectCode::from_ltoir(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::ltoir, std::move(code), std::move(name), std::move(map)};
}
ObjectCode ObjectCode::from_fatbin(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::fatbin, std::move(code), std::move(name), std::move(map)};
}
ObjectCode ObjectCode::from_object(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::object, std::move(code), std::move(name), std::move(map)};
}
ObjectCode ObjectCode::from_library(std::string code, std::string name, SymbolMapping map) {
  return {CodeType::library, std::move(code), std::move(name), std::move(map)};
}

CodeType ObjectCode::code_type() const noexcept { return state_->image->type; }
const std::string& ObjectCode::name() const noexcept { return state_->image->name; }
const SymbolMapping& ObjectCode::symbol_mapping() const noexcept {
  return state_->image->symbol_mapping;
}
const std::optional<std::filesystem::path>& ObjectCode::file() const noexcept {
  return state_->image->file;
}
const std::string& ObjectCode::code() const { return state_->image->code(); }
std::shared_ptr<const detail::CodeImage> ObjectCode::image() const { return state_->image; }
bool ObjectCode::is_loaded() const noexcept {
  return state_->loaded.load(std::memory_order_acquire);
}

std::shared_ptr<detail::Library> ObjectCode::library() const {
  const std::lock_guard lock{state_->mutex};
  return state_->load();
}

void* ObjectCode::attachment() const noexcept {
  return state_->attached.load(std::memory_order_acquire);
}

void ObjectCode::attach(std::shared_ptr<void> attachment) const {
  const std::lock_guard lock{state_->mutex};
  if (state_->attachment != nullptr) return;
  state_->attachment = std::move(attachment);
  state_->attached.store(state_->attachment.get(), std::memory_order_release);
}

CUlibrary ObjectCode::handle() const { return library()->handle(); }

CUlibrary ObjectCode::lend_handle() const { return library()->lend(); }

CUmodule ObjectCode::get_module() const {
  CUmodule module = nullptr;
  CUCORE_CALL(cuLibraryGetModule(&module, handle()));
  return module;
}

Kernel ObjectCode::get_kernel(std::string_view name) const {
  CUresult code = CUDA_SUCCESS;
  std::string symbol;
  {
    const std::lock_guard lock{state_->mutex};
    if (const auto known = state_->kernels.find(name); known != state_->kernels.end())
      return Kernel{known->second};
    const auto& library = state_->load();
    const auto mapped = symbol_mapping().find(name);
    symbol = mapped != symbol_mapping().end() ? mapped->second : std::string{name};
    CUkernel kernel = nullptr;
    code = driver().cuLibraryGetKernel(&kernel, library->handle(), symbol.c_str());
    if (code == CUDA_SUCCESS) {
      auto state = std::make_shared<detail::KernelState>(kernel, library, symbol, state_->image);
      state_->kernels.emplace(name, state);
      return Kernel{std::move(state)};
    }
    if (code != CUDA_ERROR_NOT_FOUND) {
      library->fail_with_log(code, "cuLibraryGetKernel", state_->image->description());
    }
  }
  std::string text = std::string{result_name(code)} + ": there is no kernel '" + symbol +
                     "' in the " + state_->image->description();
  if (symbol != name) text += " (asked for as '" + std::string{name} + "')";
  text += "; it has";
  const auto names = kernel_names();
  if (names.empty()) text += " no kernels";
  for (std::size_t i = 0; i < names.size() && i < 20; ++i)
    text += (i == 0 ? " '" : ", '") + names[i] + "'";
  if (names.size() > 20) text += ", ...";
  if (!names.empty())
    text +=
        ". C++ names are mangled: declare the kernel extern \"C\", or compile with "
        "name_expressions";
  throw CUDAError{static_cast<int>(code), result_name(code), text, "cuLibraryGetKernel",
                  "kernel " + symbol};
}

Kernel ObjectCode::get_kernel_lazily(std::string symbol) const {
  return Kernel{std::make_shared<detail::KernelState>(*this, std::move(symbol))};
}

std::vector<std::string> ObjectCode::kernel_names() const {
  const auto library = this->library();
  unsigned count = 0;
  CUCORE_CALL(cuLibraryGetKernelCount(&count, library->handle()));
  std::vector<CUkernel> kernels(count);
  if (count != 0) CUCORE_CALL(cuLibraryEnumerateKernels(kernels.data(), count, library->handle()));
  std::vector<std::string> names;
  for (const CUkernel kernel : kernels) {
    const char* name = nullptr;
    CUCORE_CALL(cuKernelGetName(&name, kernel));
    names.emplace_back(name);
  }
  return names;
}

}  // namespace cucore
