// SPDX-License-Identifier: Apache-2.0
// program_cache.cpp: the in-memory program cache, and compilation through a cache.
#include "cucore/program_cache.hpp"

#include <list>
#include <map>
#include <mutex>
#include <system_error>

#include "driver/mutex.hpp"

namespace cucore {

ProgramCache::~ProgramCache() = default;

void ProgramCache::put_object(std::string_view key, const ObjectCode& object) {
  put(key, object.code());
}

struct InMemoryProgramCache::State {
  struct Entry {
    std::string key;
    std::string code;
  };
  mutable cucore::detail::Mutex mutex;
  std::optional<std::uint64_t> limit;
  std::uint64_t bytes = 0;
  std::list<Entry> entries;  // most recently used first
  std::map<std::string, std::list<Entry>::iterator, std::less<>> index;

  void remove(std::list<Entry>::iterator entry) {
    bytes -= entry->code.size();
    index.erase(entry->key);
    entries.erase(entry);
  }
};

InMemoryProgramCache::InMemoryProgramCache(std::optional<std::uint64_t> max_size_bytes)
    : state_{std::make_unique<State>()} {
  state_->limit = max_size_bytes;
}
InMemoryProgramCache::~InMemoryProgramCache() = default;

std::optional<std::string> InMemoryProgramCache::get(std::string_view key) {
  const std::lock_guard lock{state_->mutex};
  const auto found = state_->index.find(key);
  if (found == state_->index.end()) return std::nullopt;
  state_->entries.splice(state_->entries.begin(), state_->entries, found->second);
  return found->second->code;
}

void InMemoryProgramCache::put(std::string_view key, std::string_view code) {
  const std::lock_guard lock{state_->mutex};
  if (const auto old = state_->index.find(key); old != state_->index.end())
    state_->remove(old->second);
  if (state_->limit && code.size() > *state_->limit)
    return;  // would evict everything and still not fit
  state_->entries.push_front({std::string{key}, std::string{code}});
  state_->index.emplace(key, state_->entries.begin());
  state_->bytes += code.size();
  while (state_->limit && state_->bytes > *state_->limit)
    state_->remove(std::prev(state_->entries.end()));
}

bool InMemoryProgramCache::erase(std::string_view key) {
  const std::lock_guard lock{state_->mutex};
  const auto found = state_->index.find(key);
  if (found == state_->index.end()) return false;
  state_->remove(found->second);
  return true;
}

void InMemoryProgramCache::clear() {
  const std::lock_guard lock{state_->mutex};
  state_->index.clear();
  state_->entries.clear();
  state_->bytes = 0;
}

std::size_t InMemoryProgramCache::size() const {
  const std::lock_guard lock{state_->mutex};
  return state_->entries.size();
}

namespace {

/// Serializes the symbols of a result for a separate entry: name, null, symbol, null, ...
std::string pack(const SymbolMapping& mapping) {
  std::string text;
  for (const auto& [name, symbol] : mapping) text += name + '\0' + symbol + '\0';
  return text;
}

std::optional<SymbolMapping> unpack(std::string_view text) {
  SymbolMapping mapping;
  const auto next = [&text]() -> std::optional<std::string> {
    const auto end = text.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    std::string word{text.substr(0, end)};
    text.remove_prefix(end + 1);
    return word;
  };
  while (!text.empty()) {
    auto name = next();
    auto symbol = next();
    if (!name || !symbol) return std::nullopt;
    mapping.emplace(*std::move(name), *std::move(symbol));
  }
  return mapping;
}

}  // namespace

/// Returns the cached result of a compilation, or std::nullopt if any part of it is missing.
static std::optional<ObjectCode> cached(ProgramCache& cache, const Program& program,
                                        std::string_view key, CodeType target,
                                        const std::string* symbols_key) {
  auto code = cache.get(key);
  if (!code) return std::nullopt;
  std::optional<SymbolMapping> mapping = SymbolMapping{};
  if (symbols_key != nullptr) {
    const auto symbols = cache.get(*symbols_key);
    mapping = symbols ? unpack(*symbols) : std::nullopt;
  }
  if (!mapping) return std::nullopt;
  return ObjectCode{target, *std::move(code), program.options().name, *std::move(mapping)};
}

ObjectCode compile_cached(ProgramCache& cache, Program& program, std::string_view key,
                          CodeType target, std::span<const std::string> name_expressions,
                          std::string* log) {
  const bool has_symbols = !name_expressions.empty();
  const std::string symbols_key = has_symbols ? std::string{key} + "/symbols" : std::string{};
  std::string problems;
  try {
    if (auto found = cached(cache, program, key, target, has_symbols ? &symbols_key : nullptr)) {
      if (log != nullptr) log->clear();
      return *std::move(found);
    }
  } catch (const std::system_error& error) {  // fall back to compiling
    problems += std::string{"the cache could not be read: "} + error.what() + "\n";
  }
  ObjectCode code = program.compile(target, name_expressions, log);
  try {
    if (has_symbols)
      cache.put(symbols_key, pack(code.symbol_mapping()));  // before the code: a hit needs both
    cache.put_object(key, code);
  } catch (const std::system_error& error) {  // the compiled code is still returned
    problems += std::string{"the code could not be cached: "} + error.what() + "\n";
  }
  if (log != nullptr) *log += problems;
  return code;
}

}  // namespace cucore
