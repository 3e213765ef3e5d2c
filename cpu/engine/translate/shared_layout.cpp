// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/shared_layout.cpp
#include "cpu/engine/translate/shared_layout.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace cucpu::ir {

using ptx::Operand;
using ptx::Space;

namespace {

/// The .shared variables and functions that a function uses, numbered over all modules.
struct Names {
  bool calls_pointers = false;
  std::vector<std::size_t> variables, functions;
};

bool is_static_shared(const ptx::Variable& v) { return v.space == Space::shared && !v.unsized; }

}  // namespace

/// The call graph.
struct SharedLayout::Functions {
  std::span<const ptx::Module* const> modules;
  const SharedLayout& layout;
  std::vector<std::size_t> first;               ///< by module
  std::vector<const ptx::Function*> functions;  ///< by number
  std::vector<std::size_t> module_of;
  std::unordered_map<std::string_view, std::size_t>
      definitions;  ///< functions visible to other modules
  std::vector<Names> names;
  std::vector<std::size_t> pointed;  ///< functions whose address is taken

  Functions(std::span<const ptx::Module* const> all, const SharedLayout& owner)
      : modules{all}, layout{owner} {
    for (std::size_t m = 0; m < modules.size(); ++m) {
      first.push_back(functions.size());
      for (const ptx::Function& f : modules[m]->functions) {
        if (f.defined && f.linkage != ptx::Linkage::internal)
          definitions.try_emplace(f.name, functions.size());
        functions.push_back(&f);
        module_of.push_back(m);
      }
    }
    names.resize(functions.size());
    for (std::size_t f = 0; f < functions.size(); ++f) read(f);
    for (std::size_t m = 0; m < modules.size(); ++m) {
      for (const ptx::Variable& v : modules[m]->variables) {
        for (const ptx::Relocation& r : v.relocations) {
          if (r.function) pointed.push_back(definition(m, r.symbol));
        }
      }
    }
    std::ranges::sort(pointed);
    pointed.erase(std::unique(pointed.begin(), pointed.end()), pointed.end());
  }

  /// The number of the function that a call of this one executes.
  std::size_t definition(std::size_t module, std::uint32_t index) const {
    const ptx::Module& m = *modules[module];
    const ptx::Function* f = &m.functions[index];
    if (!f->alias.empty()) {
      index = m.symbols.at(f->alias).index;
      f = &m.functions[index];
    }
    if (!f->defined) {
      if (const auto at = definitions.find(f->name); at != definitions.end()) return at->second;
    }
    return first[module] + index;
  }

  void read(std::size_t f) {
    const std::size_t m = module_of[f];
    Names& into = names[f];
    const auto variable = [&](std::uint32_t index) {
      if (is_static_shared(modules[m]->variables[index]))
        into.variables.push_back(layout.same_[layout.first_variable_[m] + index]);
    };
    const auto visit = [&](const auto& self, const Operand& o, bool called) -> void {
      if (o.kind == Operand::Kind::global) variable(o.index);
      if (o.kind == Operand::Kind::function) {
        into.functions.push_back(definition(m, o.index));
        if (!called) pointed.push_back(into.functions.back());
      }
      for (const Operand& p : o.parts) self(self, p, false);
    };
    for (const ptx::Statement& s : functions[f]->body) {
      if (const auto* d = std::get_if<ptx::Declaration>(&s)) {
        if (d->kind == ptx::Declaration::Kind::module_variable) variable(d->index);
      } else if (const auto* i = std::get_if<ptx::Instruction>(&s)) {
        const bool call = i->row->emit == ptx::Emit::call;
        for (std::size_t k = 0; k < i->operands.size(); ++k)
          visit(visit, i->operands[k], call && k == 1);
        if (call && i->operands[1].kind == Operand::Kind::reg) into.calls_pointers = true;
      }
    }
    for (const ptx::Label& label : functions[f]->labels) {
      for (const Operand& target : label.targets) visit(visit, target, false);
    }
  }

  /// The variables of all functions that a kernel calls, directly or not.
  std::vector<std::size_t> reached(std::size_t kernel) const {
    std::vector<char> seen(functions.size(), 0);
    std::vector<std::size_t> todo, variables;
    const auto follow = [&](const Names& n) {
      todo.insert(todo.end(), n.functions.begin(), n.functions.end());
      if (n.calls_pointers) todo.insert(todo.end(), pointed.begin(), pointed.end());
    };
    follow(names[kernel]);
    while (!todo.empty()) {
      const std::size_t f = todo.back();
      todo.pop_back();
      if (seen[f] != 0) continue;
      seen[f] = 1;
      variables.insert(variables.end(), names[f].variables.begin(), names[f].variables.end());
      follow(names[f]);
    }
    std::ranges::sort(variables);
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    return variables;
  }
};

SharedLayout::SharedLayout(std::span<const ptx::Module* const> modules) {
  std::unordered_map<std::string_view, std::size_t> definitions;
  for (const ptx::Module* m : modules) {
    first_variable_.push_back(same_.size());
    kernels_.emplace_back(m->functions.size());
    for (const ptx::Variable& v : m->variables) {
      const std::size_t number = same_.size();
      const bool named = is_static_shared(v) && v.linkage != ptx::Linkage::internal;
      same_.push_back(named ? definitions.try_emplace(v.name, number).first->second : number);
    }
  }
  offsets_.assign(same_.size(), 0);
  place(modules);
}

bool SharedLayout::reaches(std::size_t module, std::size_t kernel, std::size_t variable) const {
  const std::vector<std::size_t>& all = kernels_[module][kernel].variables;
  return std::ranges::binary_search(all, same_[first_variable_[module] + variable]);
}

// Each variable gets the lowest offset that is free in all kernels that need it.
void SharedLayout::place(std::span<const ptx::Module* const> modules) {
  const Functions graph{modules, *this};
  std::vector<std::vector<Kernel*>> needed(same_.size());
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    if (!graph.functions[f]->entry || !graph.functions[f]->defined) continue;
    const std::size_t m = graph.module_of[f];
    Kernel& kernel = kernels_[m][f - graph.first[m]];
    kernel.variables = graph.reached(f);
    for (const std::size_t v : kernel.variables) needed[v].push_back(&kernel);
  }
  std::vector<const ptx::Variable*> variables;
  for (const ptx::Module* m : modules)
    for (const ptx::Variable& v : m->variables) variables.push_back(&v);
  struct Range {
    std::uint64_t from, to;
  };
  for (std::size_t v = 0; v < needed.size(); ++v) {
    std::vector<Range> taken;
    for (const Kernel* kernel : needed[v]) {
      for (const std::size_t other : kernel->variables) {
        if (other >= v) break;
        taken.push_back({offsets_[other], offsets_[other] + variables[other]->size});
      }
    }
    std::ranges::sort(taken, {}, &Range::from);
    const std::uint64_t size = variables[v]->size, align = variables[v]->align;
    std::uint64_t at = 0;
    for (const Range& range : taken) {
      if (at + size <= range.from) break;
      at = std::max(at, (range.to + align - 1) / align * align);
    }
    offsets_[v] = at;
    for (Kernel* kernel : needed[v]) kernel->bytes = std::max(kernel->bytes, at + size);
  }
  for (std::size_t v = 0; v < same_.size(); ++v) offsets_[v] = offsets_[same_[v]];
}

}  // namespace cucpu::ir
