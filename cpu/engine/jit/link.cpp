// cpu/engine/jit/link.cpp
#include "cpu/engine/jit/link.hpp"

#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ObjectFile.h>

#include <stdexcept>
#include <system_error>

#include "cpu/engine/jit/guard.hpp"
#include "cpu/engine/jit/host.hpp"
#include "cpu/engine/run/protect.hpp"
#include "cpu/engine/runtime/table.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// What the session reported on this thread since the last link began: the reason behind a failed
/// lookup.
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
};
Reported& reported() {
  static thread_local Reported reported;
  return reported;
}

[[noreturn]] void fail(Error error) {
  Reported own;
  own.add(std::move(error));
  const Reported& before = reported();
  if (own.no_memory || before.no_memory) throw std::bad_alloc{};
  throw std::runtime_error{"linking generated code: " +
                           (before.text.empty() ? own.text : before.text)};
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
  /// Without a lock, which work that is left would hold for ever.
  static Session& get() {
    if (Session* const current = g_current.load()) return *current;
    auto made = std::make_unique<Session>();
    Session* none = nullptr;
    return g_current.compare_exchange_strong(none, made.get()) ? *made.release() : *none;
  }
  /// Linking was left half way: nobody may use the session again, whose locks may be held.
  static void abandon(Session& session) noexcept {
    session.abandoned = true;
    Session* current = &session;
    g_current.compare_exchange_strong(current, nullptr);
  }
  ~Session() { consumeError(session.endSession()); }

  Session()
      : session{check(orc::SelfExecutorProcessControl::Create())},
        layer{session, check(jitlink::InProcessMemoryManager::Create())},
        routines_dylib{session.createBareJITDylib("routines")} {
    layer.addPlugin(std::make_shared<NeverBoth>());
    session.setErrorReporter([](Error error) { reported().add(std::move(error)); });
    orc::SymbolMap map;
    for (const Routine& routine : routines())
      map[session.intern(routine.name)] = absolute(routine.address);
    check(routines_dylib.define(orc::absoluteSymbols(std::move(map))));
  }

  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib& routines_dylib;
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> abandoned{false};

 private:
  inline static std::atomic<Session*> g_current{nullptr};
};

class Linked final : public LinkedCode {
 public:
  Linked(Session& s, std::string_view object, std::span<const SymbolAddress> symbols,
         std::span<const std::string> wanted)
      : session_{s} {
    reported() = {};
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
  ~Linked() override {
    if (session_.abandoned) return;  // the code stays
    try {
      consumeError(session_.session.removeJITDylib(*dylib_));
    } catch (const std::bad_alloc&) {
      Session::abandon(session_);
    }
  }

 private:
  Session& session_;
  orc::JITDylib* dylib_;
};

}  // namespace

std::unique_ptr<LinkedCode> LinkedCode::link(std::string_view object,
                                             std::span<const SymbolAddress> symbols,
                                             std::span<const std::string> wanted) {
  host();  // registers the target
  std::unique_ptr<LinkedCode> linked;
  std::atomic<Session*> used{nullptr};
  try {
    guard_llvm([&] {
      Session& session = Session::get();
      used = &session;
      linked = std::make_unique<Linked>(session, object, symbols, wanted);
    });
  } catch (const std::bad_alloc&) {
    if (used) Session::abandon(*used);
    throw;
  } catch (const Crashed&) {
    if (used) Session::abandon(*used);
    throw;
  }
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
  guard_llvm([&] { line = find_line(object, symbol, offset); });
  return line;
} catch (const std::exception&) {  // a report is better without a line than not at all
  return {};
}

}  // namespace cucpu
