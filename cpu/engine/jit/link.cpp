// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/link.cpp
#include "cpu/engine/jit/link.hpp"

#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>
#include <llvm/Object/ObjectFile.h>

#include <map>
#include <stdexcept>
#include <system_error>

#include "cpu/engine/jit/crash_recovery.hpp"
#include "cpu/engine/jit/debugger_registration.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/run/crash_recovery.hpp"
#include "cpu/engine/runtime/table.hpp"
#include "cpu/trace/trace.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

using namespace llvm;

orc::ExecutorSymbolDef absolute(const void* address) {
  return {orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
}

/// Rejects sections that are writable and executable, which LLVM would allocate.
class NeverBoth final : public orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(orc::MaterializationResponsibility&, jitlink::LinkGraph&,
                        jitlink::PassConfiguration& passes) override {
    passes.PrePrunePasses.emplace_back([](jitlink::LinkGraph& graph) -> Error {
      constexpr orc::MemProt kBoth = orc::MemProt::Write | orc::MemProt::Exec;
      for (const jitlink::Section& section : graph.sections())
        if (CUCORE_PROTECTION("no-writable-code-sections") &&
            (section.getMemProt() & kBoth) == kBoth)
          return createStringError("section " + section.getName().str() +
                                   " is writable and executable");
      return Error::success();
    });
  }
  Error notifyFailed(orc::MaterializationResponsibility&) override { return Error::success(); }
  Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override {
    return Error::success();
  }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}
};

/// Notes the addresses of sections, for debuggers.
class SectionAddresses final : public orc::ObjectLinkingLayer::Plugin {
 public:
  explicit SectionAddresses(std::map<std::string, std::uint64_t>& into) : into_{into} {}
  void modifyPassConfig(orc::MaterializationResponsibility&, jitlink::LinkGraph&,
                        jitlink::PassConfiguration& passes) override {
    passes.PostAllocationPasses.emplace_back([this](jitlink::LinkGraph& graph) -> Error {
      for (jitlink::Section& section : graph.sections())
        if (const jitlink::SectionRange range{section}; !range.empty())
          into_[section.getName().str()] = range.getStart().getValue();
      return Error::success();
    });
  }
  Error notifyFailed(orc::MaterializationResponsibility&) override { return Error::success(); }
  Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override {
    return Error::success();
  }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}

 private:
  std::map<std::string, std::uint64_t>& into_;
};

/// Defines only the routines that the code refers to: defining all takes as long as the link.
class Routines final : public orc::DefinitionGenerator {
 public:
  Error tryToGenerate(orc::LookupState&, orc::LookupKind, orc::JITDylib& dylib,
                      orc::JITDylibLookupFlags, const orc::SymbolLookupSet& asked) override {
    orc::SymbolMap found;
    for (const auto& [name, flags] : asked)
      for (const Routine& routine : routines())
        if (*name == routine.name) found[name] = absolute(routine.address);
    return found.empty() ? Error::success() : dylib.define(orc::absoluteSymbols(std::move(found)));
  }
};

/// Collects the errors of a session: the reasons of a failed lookup.
struct Reported {
  std::string text;
  bool no_memory = false;
  void add(Error error) {
    handleAllErrors(std::move(error), [&](const ErrorInfoBase& info) {
      no_memory |= info.convertToErrorCode() == std::errc::not_enough_memory;
      if (!text.empty()) text += '\n';
      text += info.message();
    });
  }
  [[noreturn]] void fail(Error error) const {
    Reported own;
    own.add(std::move(error));
    if (own.no_memory || no_memory) throw std::bad_alloc{};
    throw std::runtime_error{"linking generated code: " + (text.empty() ? own.text : text)};
  }
  void check(Error error) const {
    if (error) fail(std::move(error));
  }
  template <typename T>
  T check(Expected<T> value) const {
    if (!value) fail(value.takeError());
    return std::move(*value);
  }
};

/// An ORC session for one object. A link that is abandoned for a lack of memory leaves the locks of
/// its session held; with a shared session other threads would wait for them forever.
struct Session {
  Session() {
    session.setErrorReporter([this](Error error) { reported.add(std::move(error)); });
    layer.addPlugin(std::make_shared<NeverBoth>());
  }
  Reported reported;
  orc::ExecutionSession session{reported.check(orc::SelfExecutorProcessControl::Create(
      nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()))};  // on the protected thread
  orc::ObjectLinkingLayer layer{session, reported.check(jitlink::InProcessMemoryManager::Create())};
};

class Linked final : public LinkedCode {
 public:
  Linked(std::string_view object, std::span<const SymbolAddress> symbols,
         std::span<const std::string> wanted, bool debug)
      : own_{std::make_unique<Session>()} {
    std::map<std::string, std::uint64_t> sections;
    if (debug) own_->layer.addPlugin(std::make_shared<SectionAddresses>(sections));
    try {
      link(*own_, object, symbols, wanted);
      if (debug) debugger_ = std::make_unique<DebuggerRegistration>(object, sections, symbols);
    } catch (...) {
      end();
      throw;
    }
  }
  ~Linked() override {
    debugger_.reset();
    end();
  }

 private:
  void link(Session& own, std::string_view object, std::span<const SymbolAddress> symbols,
            std::span<const std::string> wanted) {
    orc::ExecutionSession& session = own.session;
    orc::JITDylib& dylib = session.createBareJITDylib("code");
    dylib.addGenerator(std::make_unique<Routines>());
    orc::SymbolMap map;
    for (const SymbolAddress& symbol : symbols)
      map[session.intern(symbol.name)] = absolute(reinterpret_cast<const void*>(symbol.address));
    if (!map.empty()) own.reported.check(dylib.define(orc::absoluteSymbols(std::move(map))));
    auto copy = MemoryBuffer::getMemBufferCopy(StringRef{object.data(), object.size()}, "kernel");
    if (CUCORE_PROTECTION("object-copy-check") && !copy) throw std::bad_alloc{};
    own.reported.check(own.layer.add(dylib, std::move(copy)));
    for (const std::string& name : wanted) {
      const orc::ExecutorSymbolDef found =
          own.reported.check(session.lookup({&dylib}, session.intern(name)));
      addresses_.push_back(found.getAddress().toPtr<void*>());
    }
  }
  /// If an allocation fails here, the session and its code are leaked: they hold locks.
  void end() noexcept {
    try {
      consumeError(own_->session.endSession());
    } catch (const std::bad_alloc&) {
      static_cast<void>(own_.release());
    }
  }
  std::unique_ptr<Session> own_;
  std::unique_ptr<DebuggerRegistration> debugger_;
};

}  // namespace

std::unique_ptr<LinkedCode> LinkedCode::link(std::string_view object,
                                             std::span<const SymbolAddress> symbols,
                                             std::span<const std::string> wanted, bool debug) {
  const trace::Scope scope{"compile", "link"};
  host_target();  // registers the target
  std::unique_ptr<LinkedCode> linked;
  with_crash_recovery([&] { linked = std::make_unique<Linked>(object, symbols, wanted, debug); });
  return linked;
}

namespace {

std::string find_line(std::string_view object, std::string_view symbol, std::uint64_t offset) {
  auto file = object::ObjectFile::createObjectFile(
      MemoryBufferRef{StringRef{object.data(), object.size()}, "kernel"});
  if (!file) {
    consumeError(file.takeError());
    return {};
  }
  for (const object::SymbolRef& candidate : (*file)->symbols()) {
    auto name = candidate.getName();
    auto address = candidate.getAddress();
    auto section = candidate.getSection();
    if (!name || !address || !section) {
      consumeError(name.takeError());
      consumeError(address.takeError());
      consumeError(section.takeError());
      continue;
    }
    if (*name != StringRef{symbol.data(), symbol.size()} || *section == (*file)->section_end())
      continue;
    const auto context = DWARFContext::create(**file);
    const DILineInfo line =
        context->getLineInfoForAddress({*address + offset, (*section)->getIndex()});
    if (line.Line == 0 || line.FileName == DILineInfo::BadString) return {};
    return line.FileName + ":" + std::to_string(line.Line);
  }
  return {};
}

}  // namespace

std::string line_of(std::string_view object, std::string_view symbol, std::uint64_t offset) try {
  std::string line;
  with_crash_recovery([&] { line = find_line(object, symbol, offset); });
  return line;
} catch (const std::exception&) {  // a report without a line is better than none
  return {};
}

}  // namespace cucpu
