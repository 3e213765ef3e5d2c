// cpu/engine/jit/link.cpp
#include "cpu/engine/jit/link.hpp"

#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ObjectFile.h>

#include <stdexcept>

#include "cpu/engine/jit/host.hpp"
#include "cpu/engine/runtime/table.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// What the session reported on this thread since the last link began: the reason behind a failed
/// lookup.
std::string& reported() {
  static thread_local std::string text;
  return text;
}

[[noreturn]] void fail(Error error) {
  const std::string text = toString(std::move(error));
  throw std::runtime_error{"linking generated code: " + (reported().empty() ? text : reported())};
}

template <typename T>
T check(Expected<T> value) {
  if (!value) fail(value.takeError());
  return std::move(*value);
}

void check(Error error) {
  if (error) fail(std::move(error));
}

orc::ExecutorSymbolDef absolute(const void* address) {
  return {orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
}

/// Refuses code that asks for memory that is writable and executable at once: LLVM would give it.
class NeverBoth final : public orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(orc::MaterializationResponsibility&, jitlink::LinkGraph&,
                        jitlink::PassConfiguration& passes) override {
    passes.PrePrunePasses.emplace_back([](jitlink::LinkGraph& graph) -> Error {
      constexpr orc::MemProt kBoth = orc::MemProt::Write | orc::MemProt::Exec;
      for (const jitlink::Section& section : graph.sections())
        if ((section.getMemProt() & kBoth) == kBoth)
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

/// One ORC session for the process, never destroyed: code may run until the very end.
class Session {
 public:
  static Session& get() {
    static auto* const session = new Session;
    return *session;
  }

  Session()
      : session{check(orc::SelfExecutorProcessControl::Create())},
        layer{session, check(jitlink::InProcessMemoryManager::Create())},
        routines_dylib{session.createBareJITDylib("routines")} {
    layer.addPlugin(std::make_shared<NeverBoth>());
    session.setErrorReporter([](Error error) { reported() += toString(std::move(error)); });
    orc::SymbolMap map;
    for (const Routine& routine : routines())
      map[session.intern(routine.name)] = absolute(routine.address);
    check(routines_dylib.define(orc::absoluteSymbols(std::move(map))));
  }

  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib& routines_dylib;
  std::atomic<std::uint64_t> count{0};
};

class Linked final : public LinkedCode {
 public:
  Linked(std::string_view object, std::span<const SymbolAddress> symbols,
         std::span<const std::string> wanted) {
    Session& s = Session::get();
    reported().clear();
    dylib_ = &s.session.createBareJITDylib("code" + std::to_string(s.count.fetch_add(1)));
    try {
      orc::SymbolMap map;
      for (const SymbolAddress& symbol : symbols)
        map[s.session.intern(symbol.name)] =
            absolute(reinterpret_cast<const void*>(symbol.address));
      if (!map.empty()) check(dylib_->define(orc::absoluteSymbols(std::move(map))));
      dylib_->addToLinkOrder(s.routines_dylib);
      check(s.layer.add(*dylib_, MemoryBuffer::getMemBufferCopy(
                                     StringRef{object.data(), object.size()}, "kernel")));
      for (const std::string& name : wanted) {
        const orc::ExecutorSymbolDef found =
            check(s.session.lookup({dylib_}, s.session.intern(name)));
        addresses_.push_back(found.getAddress().toPtr<void*>());
      }
    } catch (...) {
      consumeError(s.session.removeJITDylib(*dylib_));
      throw;
    }
  }
  ~Linked() override { consumeError(Session::get().session.removeJITDylib(*dylib_)); }

 private:
  orc::JITDylib* dylib_;
};

}  // namespace

std::unique_ptr<LinkedCode> LinkedCode::link(std::string_view object,
                                             std::span<const SymbolAddress> symbols,
                                             std::span<const std::string> wanted) {
  host();  // registers the target
  return std::make_unique<Linked>(object, symbols, wanted);
}

std::string line_of(std::string_view object, std::string_view symbol, std::uint64_t offset) {
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

}  // namespace cucpu
