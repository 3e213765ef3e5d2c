// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/object_code.cpp: serialization.
#include "cpu/engine/jit/object_code.hpp"

#include <cstring>
#include <sstream>

namespace cucpu {

namespace {
struct Header {
  std::uint32_t version, fibers, width, scratch, stack, recursive, waits, runs_on, baseline,
      assumed, reached;
};
constexpr std::uint32_t kVersion = 5;
}  // namespace

std::string ObjectCode::pack() const {
  const Header header{kVersion,
                      fibers,
                      width,
                      scratch_bytes,
                      stack_bytes,
                      recursive,
                      waits_for_blocks,
                      runs_on,
                      baseline,
                      static_cast<std::uint32_t>(assumed.size()),
                      static_cast<std::uint32_t>(reached.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text.append(reinterpret_cast<const char*>(assumed.data()),
              assumed.size() * sizeof(ParamAlignment));
  text.append(reinterpret_cast<const char*>(reached.data()),
              reached.size() * sizeof(ParamPeerAccess));
  return text += object;
}

std::optional<ObjectCode> ObjectCode::unpack(std::string_view text) {
  Header header{};
  if (text.size() <= sizeof header) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof header);
  if (header.version != kVersion) return std::nullopt;
  text.remove_prefix(sizeof header);
  const std::size_t assumed = std::size_t{header.assumed} * sizeof(ParamAlignment);
  const std::size_t reached = std::size_t{header.reached} * sizeof(ParamPeerAccess);
  if (text.size() < assumed + reached) return std::nullopt;
  ObjectCode code;
  code.assumed.resize(header.assumed);
  if (assumed != 0) std::memcpy(code.assumed.data(), text.data(), assumed);
  code.reached.resize(header.reached);
  if (reached != 0) std::memcpy(code.reached.data(), text.data() + assumed, reached);
  code.object = text.substr(assumed + reached);
  code.fibers = header.fibers;
  code.width = header.width;
  code.scratch_bytes = header.scratch;
  code.stack_bytes = header.stack;
  code.recursive = header.recursive;
  code.waits_for_blocks = header.waits;
  code.runs_on = header.runs_on;
  code.baseline = header.baseline;
  return code;
}

// "functions" and the number of names; their lengths; the names; the object.
std::string FunctionsObject::pack() const {
  std::ostringstream text;
  text << "functions " << names.size();
  for (const std::string& name : names) text << ' ' << name.size();
  text << '\n';
  for (const std::string& name : names) text << name;
  text << object;
  return text.str();
}

std::optional<FunctionsObject> FunctionsObject::unpack(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (!text.starts_with("functions ") || end == text.npos) return std::nullopt;
  std::istringstream head{std::string{text.substr(10, end - 10)}};
  std::size_t count = 0, length = 0, at = end + 1;
  head >> count;
  FunctionsObject functions;
  for (std::size_t i = 0; i < count; ++i, at += length) {
    if (!(head >> length) || length > text.size() - at) return std::nullopt;
    functions.names.emplace_back(text.substr(at, length));
  }
  functions.object = text.substr(at);
  return functions;
}

}  // namespace cucpu
