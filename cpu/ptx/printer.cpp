// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/printer.cpp: writes declarations the way compilers do; initial values as bytes, with
// addresses as relocations say.
#include "cpu/ptx/printer.hpp"

#include <algorithm>
#include <cstdio>

namespace cucpu::ptx {
namespace {

class Printer {
 public:
  explicit Printer(const Module& module) : module_{module} {}

  std::string run() {
    put(".version ", std::to_string(module_.version / 10), ".",
        std::to_string(module_.version % 10), "\n.target sm_", std::to_string(module_.target));
    if (module_.target_suffix != 0) out_ += module_.target_suffix;
    for (std::string_view option : module_.target_options) put(", ", option);
    put("\n.address_size ", std::to_string(module_.address_size), "\n");
    for (const File& f : module_.files)
      put(".file ", std::to_string(f.number), " \"", f.name, "\"\n");
    for (std::string_view p : module_.pragmas) put(".pragma \"", p, "\";\n");
    // Functions and variables may refer to each other, so all declarations come first.
    for (const Function& f : module_.functions) {
      if (!f.entry) head(f, true), put(";\n");
    }
    for (const Variable& v : module_.variables) {
      if (v.scoped) continue;
      variable(v, true);
      put(";\n");
    }
    for (const bool entries : {false, true}) {  // device functions, then kernels
      for (const Function& f : module_.functions) {
        if (f.defined && f.entry == entries) function(f);
      }
    }
    for (const Function& f : module_.functions) {
      if (!f.alias.empty()) put(".alias ", f.name, ", ", f.alias, ";\n");
    }
    return std::move(out_);
  }

  std::string one(const Function& f, const Instruction& i) {
    function_ = &f;
    instruction(i);
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void put(const Parts&... parts) {
    (out_.append(std::string_view{parts}), ...);
  }

  static std::string_view linkage_of(Linkage l) {
    constexpr std::string_view words[] = {"", ".visible ", ".extern ", ".weak ", ".common "};
    return words[static_cast<int>(l)];
  }

  static std::string hex(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llX", static_cast<unsigned long long>(value));
    return text;
  }

  void variable(const Variable& v, bool initial) {
    put(linkage_of(v.linkage), ".", name_of(v.space), " ");
    if (v.managed) put(".attribute(.managed) ");
    if (v.unified) put(".attribute(.unified) ");
    if (!v.pointer && v.space != Space::reg) put(".align ", std::to_string(v.align), " ");
    if (v.vector > 1) put(".v", std::to_string(v.vector), " ");
    put(".", name_of(v.type), " ");
    if (v.pointer) {
      put(".ptr ");
      if (v.pointer_space != Space::generic) put(".", name_of(v.pointer_space), " ");
      if (v.pointer_align != 0) put(".align ", std::to_string(v.pointer_align), " ");
    }
    put(v.name);
    for (std::uint64_t dim : v.dims) put("[", dim == 0 ? "" : std::to_string(dim), "]");
    if (initial && (!v.data.empty() || !v.relocations.empty())) initializer(v);
  }

  // A flat list of elements initializes any array, because nested braces only group.
  void initializer(const Variable& v) {
    const std::size_t width = bytes_of(v.type);
    const std::size_t count = v.size / std::max<std::size_t>(width, 1);
    put(" = ");
    if (v.array || v.vector > 1) put("{");
    for (std::size_t e = 0; e < count; ++e) {
      if (e != 0) put(", ");
      const auto at = std::ranges::find(v.relocations, e * width, &Relocation::offset);
      if (at != v.relocations.end()) {
        const std::string_view name =
            at->function ? module_.functions[at->symbol].name : module_.variables[at->symbol].name;
        const bool mask = width == 1;
        if (mask) put(hex(std::uint64_t{0xff} << at->shift), "(");
        if (at->generic)
          put("generic(", name, ")");
        else
          put(name);
        if (at->addend != 0) put("+", std::to_string(at->addend));
        if (mask) put(")");
        continue;
      }
      std::uint64_t bits = 0;
      for (std::size_t k = 0; k < width && e * width + k < v.data.size(); ++k) {
        bits |= std::uint64_t{v.data[e * width + k]} << (8 * k);
      }
      char text[32];
      if (v.type == Type::f32)
        std::snprintf(text, sizeof text, "0f%08llX", static_cast<unsigned long long>(bits));
      else if (v.type == Type::f64)
        std::snprintf(text, sizeof text, "0d%016llX", static_cast<unsigned long long>(bits));
      else
        std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(bits));
      put(text);
    }
    if (v.array || v.vector > 1) put("}");
  }

  void params(const Function& f, const std::vector<std::uint32_t>& list) {
    put("(");
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (k != 0) put(", ");
      variable(f.variables[list[k]], false);
    }
    put(")");
  }

  void head(const Function& f, bool declaration) {
    put(declaration && f.defined && f.linkage == Linkage::internal ? "" : linkage_of(f.linkage),
        f.entry ? ".entry " : ".func ");
    if (!f.returns.empty()) params(f, f.returns), put(" ");
    put(f.name);
    params(f, f.params);
    if (f.noreturn) put(" .noreturn");
    if (declaration) return;
    const auto dims = [&](std::string_view name,
                          const std::optional<std::array<std::uint32_t, 3>>& d) {
      if (d)
        put(" .", name, " ", std::to_string((*d)[0]), ", ", std::to_string((*d)[1]), ", ",
            std::to_string((*d)[2]));
    };
    const auto number = [&](std::string_view name, std::uint32_t n) {
      if (n != 0) put(" .", name, " ", std::to_string(n));
    };
    dims("maxntid", f.maxntid);
    dims("reqntid", f.reqntid);
    dims("reqnctapercluster", f.reqnctapercluster);
    number("minnctapersm", f.minnctapersm);
    number("maxnctapersm", f.maxnctapersm);
    number("maxnreg", f.maxnreg);
    number("maxclusterrank", f.maxclusterrank);
    number("minperctamemory", f.minperctamemory);
    number("language", f.language);
    if (f.explicitcluster) put(" .explicitcluster");
    if (f.blocks_are_clusters) put(" .blocksareclusters");
    for (std::string_view p : f.pragmas) put(" .pragma \"", p, "\";");
  }

  void function(const Function& f) {
    function_ = &f;
    head(f, false);
    put("\n{\n");
    for (const Statement& s : f.body) statement(s);
    put("}\n");
  }

  void statement(const Statement& s) {
    if (const auto* i = std::get_if<Instruction>(&s)) {
      put("\t");
      instruction(*i);
      put("\n");
    } else if (const auto* mark = std::get_if<LabelMark>(&s)) {
      label(function_->labels[mark->label]);
    } else if (const auto* line = std::get_if<SourceLine>(&s)) {
      put("\t.loc ", std::to_string(line->file), " ", std::to_string(line->line), " ",
          std::to_string(line->column), "\n");
    } else if (std::holds_alternative<ScopeBegin>(s)) {
      put("\t{\n");
    } else if (std::holds_alternative<ScopeEnd>(s)) {
      put("\t}\n");
    } else if (const auto* pragma = std::get_if<Pragma>(&s)) {
      put("\t.pragma \"", pragma->text, "\";\n");
    } else if (const auto* d = std::get_if<Declaration>(&s)) {
      put("\t");
      if (d->kind == Declaration::Kind::reg) {
        const RegisterDecl& r = function_->register_decls[d->index];
        put(".reg ");
        if (r.vector > 1) put(".v", std::to_string(r.vector), " ");
        put(".", name_of(r.type), " ", r.name);
        if (r.count >= 0) put("<", std::to_string(r.count), ">");
      } else {
        variable(d->kind == Declaration::Kind::variable ? function_->variables[d->index]
                                                        : module_.variables[d->index],
                 true);
      }
      put(";\n");
    }
  }

  void label(const Label& l) {
    put(l.name, ":");
    if (l.kind == Label::Kind::branch_targets || l.kind == Label::Kind::call_targets) {
      put(l.kind == Label::Kind::branch_targets ? " .branchtargets " : " .calltargets ");
      for (std::size_t k = 0; k < l.targets.size(); ++k) {
        if (k != 0) put(", ");
        operand(l.targets[k]);
      }
      put(";");
    } else if (l.kind == Label::Kind::prototype) {
      put(" .callprototype ");
      const auto list = [&](const std::vector<Variable>& vs) {
        put("(");
        for (std::size_t k = 0; k < vs.size(); ++k) {
          if (k != 0) put(", ");
          variable(vs[k], false);
        }
        put(")");
      };
      if (!l.returns.empty()) list(l.returns), put(" ");
      put("_ ");
      list(l.params);
      if (l.noreturn) put(" .noreturn");
      put(";");
    }
    put("\n");
  }

  void instruction(const Instruction& i) {
    if (i.guard) {
      put(i.guard->negated ? "@!" : "@");
      reg(i.guard->reg);
      put(" ");
    }
    put(i.row->op);
    for (Mod m : i.mods) put(".", text_of(m));
    bool first = true;
    for (const Operand& o : i.operands) {
      if (o.kind == Operand::Kind::list && o.parts.empty()) continue;
      put(first ? " " : ", ");
      operand(o);
      first = false;
    }
    put(";");
  }

  void reg(std::uint32_t index) {
    const Register& r = function_->registers[index];
    put(r.name);
    if (r.number >= 0) put(std::to_string(r.number));
    constexpr std::string_view components[] = {".x", ".y", ".z", ".w"};
    if (r.component >= 0) put(components[r.component & 3]);
  }

  void parts(const Operand& o, std::string_view open, std::string_view close,
             std::size_t from = 0) {
    put(open);
    for (std::size_t k = from; k < o.parts.size(); ++k) {
      if (k != from) put(", ");
      operand(o.parts[k]);
    }
    put(close);
  }

  void offset(std::uint64_t value) {
    if (value != 0) put("+", std::to_string(static_cast<std::int64_t>(value)));
  }

  void operand(const Operand& o) {
    if (o.negated) put("!");
    if (o.minus) put("-");
    char text[32];
    switch (o.kind) {
      case Operand::Kind::sink:
        put("_");
        break;
      case Operand::Kind::reg:
        reg(o.index), offset(o.value);
        break;
      case Operand::Kind::special:
        put("%", all_specials()[o.index].name);
        break;
      case Operand::Kind::integer:
        put(std::to_string(static_cast<std::int64_t>(o.value)));
        break;
      case Operand::Kind::f32:
        std::snprintf(text, sizeof text, "0f%08llX", static_cast<unsigned long long>(o.value));
        put(text);
        break;
      case Operand::Kind::f64:
        std::snprintf(text, sizeof text, "0d%016llX", static_cast<unsigned long long>(o.value));
        put(text);
        break;
      case Operand::Kind::local:
        put(function_->variables[o.index].name), offset(o.value);
        break;
      case Operand::Kind::global:
        put(module_.variables[o.index].name), offset(o.value);
        break;
      case Operand::Kind::function:
        put(module_.functions[o.index].name);
        break;
      case Operand::Kind::label:
        put(function_->labels[o.index].name);
        break;
      case Operand::Kind::address:
        put("[");
        operand(o.parts[0]);
        offset(o.value);
        for (std::size_t k = 1; k < o.parts.size(); ++k) put(", "), operand(o.parts[k]);
        put("]");
        break;
      case Operand::Kind::vector:
        parts(o, "{", "}");
        break;
      case Operand::Kind::list:
        parts(o, "(", ")");
        break;
      case Operand::Kind::pair:
        operand(o.parts[0]);
        put("|");
        operand(o.parts[1]);
        break;
    }
    if (!o.selector.empty()) put(".", o.selector);
  }

  const Module& module_;
  const Function* function_ = nullptr;
  std::string out_;
};

}  // namespace

std::string print(const Module& module) { return Printer{module}.run(); }

std::string print(const Module& module, const Function& function, const Instruction& instruction) {
  return Printer{module}.one(function, instruction);
}

}  // namespace cucpu::ptx
