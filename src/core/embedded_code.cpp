// SPDX-License-Identifier: Apache-2.0
// embedded_code.cpp: device code that the build embeds in the program.
#include "cucore/embedded_code.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "driver/mutex.hpp"

namespace cucore {

struct EmbeddedCode::State {
  std::string name;
  std::string_view bytes;
  std::optional<ObjectCode> compiled{};  // empty for source
  ProgramOptions options{};
  std::vector<std::string> name_expressions{};
  detail::Mutex mutex{};
  std::map<std::string, ObjectCode> by_arch{};  // results of compiling source, by architecture
};

static std::string_view text_of(std::span<const unsigned char> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

EmbeddedCode::EmbeddedCode(std::string name, CodeType type, std::span<const unsigned char> bytes,
                           SymbolMapping symbol_mapping)
    : state_{std::make_shared<State>()} {
  state_->bytes = text_of(bytes);
  state_->compiled.emplace(type, std::string{state_->bytes}, name, std::move(symbol_mapping));
  state_->name = std::move(name);
}

EmbeddedCode::EmbeddedCode(std::string name, std::span<const unsigned char> source,
                           ProgramOptions options, std::vector<std::string> name_expressions)
    : state_{std::make_shared<State>()} {
  state_->bytes = text_of(source);
  state_->options = std::move(options);
  state_->options.name = name;
  state_->name = std::move(name);
  state_->name_expressions = std::move(name_expressions);
}

const std::string& EmbeddedCode::name() const noexcept { return state_->name; }
std::string_view EmbeddedCode::bytes() const noexcept { return state_->bytes; }
bool EmbeddedCode::is_source() const noexcept { return !state_->compiled; }

ObjectCode EmbeddedCode::object_code(Device device) const {
  if (state_->compiled) return *state_->compiled;
  ProgramOptions options = state_->options;
  if (!options.arch) options.arch = "sm_" + device.arch();
  const std::string arch = *options.arch;
  // Held during compilation: a concurrent call waits for the result.
  const std::lock_guard lock{state_->mutex};
  const auto known = state_->by_arch.find(arch);
  if (known != state_->by_arch.end()) return known->second;
  Program program{std::string{state_->bytes}, SourceType::cxx, std::move(options)};
  return state_->by_arch.emplace(arch, program.compile(CodeType::cubin, state_->name_expressions))
      .first->second;
}

}  // namespace cucore
