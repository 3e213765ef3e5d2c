// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/source_debug_info.cpp: LLVM's DWARF reader works on the sections after their
// references are resolved: the address of a label is the number of its function and its statement.
#include "cpu/engine/translate/source_debug_info.hpp"

#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/DebugInfo/DWARF/DWARFDie.h>
#include <llvm/DebugInfo/DWARF/DWARFExpression.h>
#include <llvm/DebugInfo/DWARF/DWARFUnit.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace cucpu::ir {
namespace {

using namespace llvm;

// Addresses of labels are (function + 1) << 32 | statement, those of variables are above
// kVariables.
constexpr std::uint64_t kVariables = 1ULL << 62;

StringRef ref(std::string_view s) { return {s.data(), s.size()}; }

/// The sections of a module with all references resolved.
class Sections {
 public:
  explicit Sections(const ptx::Module& module) {
    for (std::size_t f = 0; f < module.functions.size(); ++f) {
      const ptx::Function& function = module.functions[f];
      for (std::size_t s = 0; s < function.body.size(); ++s)
        if (const auto* mark = std::get_if<ptx::LabelMark>(&function.body[s]))
          labels_.try_emplace(function.labels[mark->label].name, ((f + 1) << 32) | s);
    }
    for (const ptx::DebugSection& section : module.debug_sections)
      for (const ptx::DebugSection::Mark& mark : section.labels)
        labels_.try_emplace(mark.label, mark.offset);
    for (const ptx::DebugSection& section : module.debug_sections) {
      std::string bytes = section.bytes;
      for (const ptx::DebugSection::Reference& reference : section.references) {
        std::uint64_t value = static_cast<std::uint64_t>(reference.addend);
        if (!reference.section) value += address(reference.symbol);
        if (!reference.minus.empty()) value -= address(reference.minus);
        for (unsigned i = 0; i < reference.width; ++i)
          bytes[reference.offset + i] = static_cast<char>(value >> (8 * i));
      }
      buffers_[ref(section.name)] = MemoryBuffer::getMemBufferCopy(bytes, ref(section.name));
    }
  }

  /// The variable at an address that address() gave out, and the distance from its start.
  [[nodiscard]] std::optional<std::pair<std::string_view, std::uint64_t>> variable_at(
      std::uint64_t address) const {
    const std::uint64_t number = (address - kVariables) >> 32;
    if (address < kVariables || number >= variables_.size()) return std::nullopt;
    return std::pair{variables_[number], address & 0xffffffff};
  }

  [[nodiscard]] const StringMap<std::unique_ptr<MemoryBuffer>>& buffers() const { return buffers_; }

 private:
  std::uint64_t address(std::string_view symbol) {
    if (const auto found = labels_.find(symbol); found != labels_.end()) return found->second;
    const std::uint64_t made = kVariables + (std::uint64_t{variables_.size()} << 32);
    variables_.push_back(symbol);
    labels_.emplace(symbol, made);
    return made;
  }

  std::unordered_map<std::string_view, std::uint64_t> labels_;
  std::vector<std::string_view> variables_;
  StringMap<std::unique_ptr<MemoryBuffer>> buffers_;
};

class Reader {
 public:
  Reader(const ptx::Module& module, DIBuilder& builder,
         const std::function<DIFile*(std::uint32_t)>& file)
      : module_{module}, builder_{builder}, file_{file}, sections_{module} {
    const auto ignore = [](Error error) { consumeError(std::move(error)); };
    context_ = DWARFContext::create(sections_.buffers(), 8, true, ignore, ignore);
  }

  std::unique_ptr<SourceDebugInfo> read() {
    auto result = std::make_unique<SourceDebugInfo>();
    info_ = result.get();
    for (const auto& unit : context_->compile_units()) {
      const DWARFDie die = unit->getUnitDIE(false);
      if (!die || die.getTag() != dwarf::DW_TAG_compile_unit) continue;
      if (info_->name.empty()) {
        info_->name = text(die, dwarf::DW_AT_name);
        info_->folder = text(die, dwarf::DW_AT_comp_dir);
        info_->producer = text(die, dwarf::DW_AT_producer);
      }
      file_(1);
      read_unit(die);
    }
    if (info_->functions.empty()) return nullptr;
    return result;
  }

 private:
  static std::string text(const DWARFDie& die, dwarf::Attribute name) {
    return dwarf::toString(die.findRecursively({name}), "");
  }
  static std::uint64_t number(const DWARFDie& die, dwarf::Attribute name) {
    return dwarf::toUnsigned(die.findRecursively({name}), 0);
  }
  DIFile* file_of(const DWARFDie& die) {
    const std::uint64_t wanted = number(die, dwarf::DW_AT_decl_file);
    return file_(wanted == 0 ? 1 : static_cast<std::uint32_t>(wanted));
  }
  static unsigned line_of(const DWARFDie& die) {
    return static_cast<unsigned>(number(die, dwarf::DW_AT_decl_line));
  }
  static DWARFDie target(const DWARFDie& die, dwarf::Attribute name) {
    return die.getAttributeValueAsReferencedDie(name);
  }

  /// The statements of a scope; nullopt without code.
  struct Range {
    std::uint32_t function, begin, end;
  };
  static std::optional<Range> range_of(const DWARFDie& die) {
    auto ranges = die.getAddressRanges();
    if (!ranges) {
      consumeError(ranges.takeError());
      return std::nullopt;
    }
    std::optional<Range> all;
    for (const DWARFAddressRange& range : *ranges) {
      if (range.LowPC >> 32 == 0 || range.LowPC >= kVariables) continue;
      const Range one{static_cast<std::uint32_t>((range.LowPC >> 32) - 1),
                      static_cast<std::uint32_t>(range.LowPC),
                      static_cast<std::uint32_t>(range.HighPC)};
      if (!all) all = one;
      if (one.function != all->function) continue;
      all->begin = std::min(all->begin, one.begin);
      all->end = std::max(all->end, one.end);
    }
    return all;
  }

  // ---- scopes and types ----

  DIScope* scope_of(const DWARFDie& die) {
    const DWARFDie parent = die.getParent();
    if (!parent) return nullptr;
    switch (parent.getTag()) {
      case dwarf::DW_TAG_namespace: {
        const std::string name = text(parent, dwarf::DW_AT_name);
        return builder_.createNameSpace(scope_of(parent), name, false);
      }
      case dwarf::DW_TAG_structure_type:
      case dwarf::DW_TAG_class_type:
      case dwarf::DW_TAG_union_type:
        return type(parent);
      default:
        return file_(1);
    }
  }

  DIType* type_at(const DWARFDie& die) { return type(target(die, dwarf::DW_AT_type)); }

  DIType* type(const DWARFDie& die) {
    if (!die) return nullptr;
    if (const auto known = types_.find(die.getOffset()); known != types_.end())
      return known->second;
    types_[die.getOffset()] = nullptr;  // a type that contains itself has no end
    DIType* const made = make_type(die);
    types_[die.getOffset()] = made;
    return made;
  }

  DIType* make_type(const DWARFDie& die) {
    const std::string name = text(die, dwarf::DW_AT_name);
    const std::uint64_t bits = number(die, dwarf::DW_AT_byte_size) * 8;
    switch (const auto tag = die.getTag()) {
      case dwarf::DW_TAG_base_type:
        return builder_.createBasicType(name, bits,
                                        static_cast<unsigned>(number(die, dwarf::DW_AT_encoding)));
      case dwarf::DW_TAG_pointer_type:
        return builder_.createPointerType(type_at(die), 64);
      case dwarf::DW_TAG_reference_type:
      case dwarf::DW_TAG_rvalue_reference_type:
        return builder_.createReferenceType(tag, type_at(die), 64);
      case dwarf::DW_TAG_const_type:
      case dwarf::DW_TAG_volatile_type:
      case dwarf::DW_TAG_restrict_type:
        return builder_.createQualifiedType(tag, type_at(die));
      case dwarf::DW_TAG_typedef:
        return builder_.createTypedef(type_at(die), name, file_of(die), line_of(die),
                                      scope_of(die));
      case dwarf::DW_TAG_array_type:
        return array(die);
      case dwarf::DW_TAG_enumeration_type:
        return enumeration(die, name, bits);
      case dwarf::DW_TAG_structure_type:
      case dwarf::DW_TAG_class_type:
      case dwarf::DW_TAG_union_type:
        return structure(die, name, bits);
      case dwarf::DW_TAG_subroutine_type:
        return subroutine(die);
      case dwarf::DW_TAG_unspecified_type:
        return name == "void" ? nullptr : builder_.createUnspecifiedType(name);
      default:
        return builder_.createUnspecifiedType(name.empty() ? "unknown" : name);
    }
  }

  DIType* array(const DWARFDie& die) {
    DIType* const element = type_at(die);
    SmallVector<Metadata*, 3> extents;
    std::uint64_t total = element ? size_of(element) : 0;
    for (const DWARFDie& child : die.children()) {
      if (child.getTag() != dwarf::DW_TAG_subrange_type) continue;
      std::uint64_t count = number(child, dwarf::DW_AT_count);
      if (const auto last = child.find(dwarf::DW_AT_upper_bound))
        count = dwarf::toUnsigned(last, 0) + 1;
      extents.push_back(builder_.getOrCreateSubrange(0, static_cast<std::int64_t>(count)));
      total *= count;
    }
    return builder_.createArrayType(total, 0, element, builder_.getOrCreateArray(extents));
  }

  static std::uint64_t size_of(DIType* type) {
    while (type) {
      if (type->getSizeInBits() != 0) return type->getSizeInBits();
      auto* const derived = dyn_cast<DIDerivedType>(type);
      type = derived ? derived->getBaseType() : nullptr;
    }
    return 0;
  }

  DIType* enumeration(const DWARFDie& die, const std::string& name, std::uint64_t bits) {
    SmallVector<Metadata*, 8> values;
    for (const DWARFDie& child : die.children())
      if (child.getTag() == dwarf::DW_TAG_enumerator)
        values.push_back(builder_.createEnumerator(
            text(child, dwarf::DW_AT_name),
            static_cast<std::uint64_t>(dwarf::toSigned(child.find(dwarf::DW_AT_const_value), 0))));
    return builder_.createEnumerationType(scope_of(die), name, file_of(die), line_of(die), bits, 0,
                                          builder_.getOrCreateArray(values), nullptr);
  }

  DIType* structure(const DWARFDie& die, const std::string& name, std::uint64_t bits) {
    DIScope* const scope = scope_of(die);
    DIFile* const file = file_of(die);
    const unsigned line = line_of(die);
    DICompositeType* made =
        die.getTag() == dwarf::DW_TAG_union_type
            ? builder_.createUnionType(scope, name, file, line, bits, 0, DINode::FlagZero, {})
            : builder_.createStructType(scope, name, file, line, bits, 0, DINode::FlagZero, nullptr,
                                        {});
    types_[die.getOffset()] = made;  // members may point to it
    SmallVector<Metadata*, 8> members;
    for (const DWARFDie& child : die.children()) {
      const std::uint64_t offset = member_offset(child) * 8;
      if (child.getTag() == dwarf::DW_TAG_inheritance) {
        members.push_back(
            builder_.createInheritance(made, type_at(child), offset, 0, DINode::FlagPublic));
      } else if (child.getTag() == dwarf::DW_TAG_member && child.find(dwarf::DW_AT_type) &&
                 !child.find(dwarf::DW_AT_external)) {
        DIType* const of = type_at(child);
        if (!of) continue;
        members.push_back(builder_.createMemberType(made, text(child, dwarf::DW_AT_name),
                                                    file_of(child), line_of(child), size_of(of), 0,
                                                    offset, DINode::FlagZero, of));
      }
    }
    builder_.replaceArrays(made, builder_.getOrCreateArray(members));
    types_[die.getOffset()] = made;
    return made;
  }

  static std::uint64_t member_offset(const DWARFDie& die) {
    const auto value = die.find(dwarf::DW_AT_data_member_location);
    if (!value) return 0;
    if (const auto block = value->getAsBlock()) {  // DW_OP_plus_uconst
      const DataExtractor data{toStringRef(*block), true, 8};
      for (const auto& operation : DWARFExpression{data, 8})
        if (!operation.isError() && operation.getCode() == dwarf::DW_OP_plus_uconst)
          return operation.getRawOperand(0);
      return 0;
    }
    return value->getAsUnsignedConstant().value_or(0);
  }

  DISubroutineType* subroutine(const DWARFDie& die) {
    SmallVector<Metadata*, 8> types{type_at(die)};
    for (const DWARFDie& child : die.children())
      if (child.getTag() == dwarf::DW_TAG_formal_parameter) types.push_back(type_at(child));
    return builder_.createSubroutineType(builder_.getOrCreateTypeArray(types));
  }

  // ---- functions, scopes and variables ----

  void read_unit(const DWARFDie& parent) {
    for (const DWARFDie& die : parent.children()) {
      if (die.getTag() == dwarf::DW_TAG_namespace) read_unit(die);
      if (die.getTag() == dwarf::DW_TAG_variable) read_global(die);
      if (die.getTag() == dwarf::DW_TAG_subprogram) read_function(die);
    }
  }

  void read_global(const DWARFDie& die) {
    for (const SourcePlace& place : places_of(die, {0, 0, ~0U}))
      if (!place.symbol.empty())
        info_->globals.try_emplace(
            place.symbol,
            SourceGlobal{text(die, dwarf::DW_AT_name), type_at(die),
                         static_cast<std::uint32_t>(number(die, dwarf::DW_AT_decl_file)),
                         line_of(die)});
  }

  /// The subprogram of a function, or the abstract one of an inlined function.
  DISubprogram* subprogram(const DWARFDie& die) {
    if (const auto known = subprograms_.find(die.getOffset()); known != subprograms_.end())
      return known->second;
    const char* const linkage = die.getLinkageName();
    DIFile* const file = file_of(die);
    const unsigned line = line_of(die);
    DISubprogram* const made = builder_.createFunction(
        scope_of(die), text(die, dwarf::DW_AT_name), linkage ? linkage : "", file, line,
        subroutine(die), line, DINode::FlagPrototyped, DISubprogram::SPFlagDefinition);
    subprograms_[die.getOffset()] = made;
    return made;
  }

  void read_function(const DWARFDie& die) {
    const auto range = range_of(die);
    if (!range || range->function >= module_.functions.size()) return;
    SourceFunction function{subprogram(die), {}, {}};
    function.scopes.push_back({range->begin, range->end, function.subprogram, nullptr});
    read_scope(die, function.subprogram, nullptr, *range, function);
    info_->functions.insert_or_assign(range->function, std::move(function));
  }

  /// The variables and inner scopes of a function, a lexical block or an inlined function.
  void read_scope(const DWARFDie& parent, DILocalScope* scope, DILocation* inlined_at,
                  const Range& range, SourceFunction& into) {
    unsigned parameters = 0;
    for (const DWARFDie& die : parent.children()) {
      switch (die.getTag()) {
        case dwarf::DW_TAG_formal_parameter:
        case dwarf::DW_TAG_variable:
          add_variable(die, scope, inlined_at, range, into,
                       die.getTag() == dwarf::DW_TAG_formal_parameter ? ++parameters : 0);
          break;
        case dwarf::DW_TAG_lexical_block:
          if (const auto inner = range_of(die)) {
            DILexicalBlock* const block =
                builder_.createLexicalBlock(scope, scope->getFile(), scope_line(scope), 0);
            into.scopes.push_back({inner->begin, inner->end, block, inlined_at});
            read_scope(die, block, inlined_at, *inner, into);
          }
          break;
        case dwarf::DW_TAG_inlined_subroutine:
          if (const auto inner = range_of(die)) {
            const DWARFDie origin = target(die, dwarf::DW_AT_abstract_origin);
            if (!origin) break;
            DISubprogram* const callee = subprogram(origin);
            DILocation* const call = DILocation::getDistinct(
                callee->getContext(), static_cast<unsigned>(number(die, dwarf::DW_AT_call_line)),
                static_cast<unsigned>(number(die, dwarf::DW_AT_call_column)), scope, inlined_at);
            into.scopes.push_back({inner->begin, inner->end, callee, call});
            read_scope(die, callee, call, *inner, into);
          }
          break;
        default:
          break;
      }
    }
  }

  static unsigned scope_line(const DILocalScope* scope) {
    if (const auto* block = dyn_cast<DILexicalBlock>(scope)) return block->getLine();
    return scope->getSubprogram()->getLine();
  }

  void add_variable(const DWARFDie& die, DILocalScope* scope, DILocation* inlined_at,
                    const Range& range, SourceFunction& into, unsigned parameter) {
    const std::string name = text(die, dwarf::DW_AT_name);
    DIType* const of = type(die.getAttributeValueAsReferencedDie(
        die.findRecursively({dwarf::DW_AT_type}).value_or(DWARFFormValue{})));
    if (name.empty() || !of) return;
    const unsigned line = line_of(die);
    DILocalVariable* const variable =
        parameter != 0
            ? builder_.createParameterVariable(scope, name, parameter, file_of(die), line, of, true)
            : builder_.createAutoVariable(scope, name, file_of(die), line, of, true);
    const auto value = die.find(dwarf::DW_AT_location);
    const bool fixed = !value || value->getAsBlock().has_value();
    into.variables.push_back({variable,
                              DILocation::get(variable->getContext(), line, 0, scope, inlined_at),
                              fixed, places_of(die, range), inlined_at ? 0 : parameter});
  }

  std::vector<SourcePlace> places_of(const DWARFDie& die, const Range& scope) {
    std::vector<SourcePlace> places;
    auto list = die.getLocations(dwarf::DW_AT_location);
    if (!list) {
      consumeError(list.takeError());
      return places;
    }
    for (const DWARFLocationExpression& entry : *list) {
      SourcePlace place{scope.begin, scope.end, {}, {}, 0};
      if (entry.Range) {
        if (entry.Range->LowPC >> 32 != scope.function + 1) continue;
        place.begin = static_cast<std::uint32_t>(entry.Range->LowPC);
        place.end = static_cast<std::uint32_t>(entry.Range->HighPC);
      }
      if (decode(entry.Expr, place)) places.push_back(std::move(place));
    }
    return places;
  }

  bool decode(ArrayRef<std::uint8_t> bytes, SourcePlace& place) const {
    const DataExtractor data{toStringRef(bytes), true, 8};
    for (const auto& operation : DWARFExpression{data, 8}) {
      if (operation.isError()) return false;
      const std::uint64_t operand = operation.getNumOperands() > 0 ? operation.getRawOperand(0) : 0;
      switch (operation.getCode()) {
        case dwarf::DW_OP_regx:  // the characters of a register's name
          for (int shift = 56; shift >= 0; shift -= 8)
            if (const char c = static_cast<char>(operand >> shift)) place.reg.push_back(c);
          break;
        case dwarf::DW_OP_addr: {
          const auto variable = sections_.variable_at(operand);
          if (!variable) return false;
          place.symbol = variable->first;
          place.offset = variable->second;
          break;
        }
        case dwarf::DW_OP_plus_uconst:
          place.offset += operand;
          break;
        default:
          return false;
      }
    }
    return !place.reg.empty() || !place.symbol.empty();
  }

  const ptx::Module& module_;
  DIBuilder& builder_;
  const std::function<DIFile*(std::uint32_t)>& file_;
  Sections sections_;
  std::unique_ptr<DWARFContext> context_;
  SourceDebugInfo* info_ = nullptr;
  DenseMap<std::uint64_t, DIType*> types_;
  DenseMap<std::uint64_t, DISubprogram*> subprograms_;
};

}  // namespace

std::unique_ptr<SourceDebugInfo> read_source_debug_info(
    const ptx::Module& module, llvm::DIBuilder& builder,
    const std::function<llvm::DIFile*(std::uint32_t)>& file) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(module.debug_sections,
                               [&](const ptx::DebugSection& s) { return s.name == name; });
  };
  if (!has("debug_info") || !has("debug_abbrev")) return nullptr;
  return Reader{module, builder, file}.read();
}

}  // namespace cucpu::ir
