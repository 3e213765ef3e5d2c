// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/symbolic_form.hpp: values of thread code as sums, for comparison.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Instruction.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace cucpu::simt {

/// A value as a constant plus atoms times factors, modulo 2^bits. A value that is no integer or
/// pointer is one atom.
struct Form {
  unsigned bits = 0;
  std::uint64_t constant = 0;
  std::map<unsigned, std::uint64_t> terms;

  friend bool operator==(const Form&, const Form&) = default;
  [[nodiscard]] std::uint64_t cut(std::uint64_t v) const {
    return bits >= 64 || bits == 0 ? v : v & ((std::uint64_t{1} << bits) - 1);
  }
  void add(const Form& other, std::uint64_t factor) {
    constant = cut(constant + other.constant * factor);
    for (auto [atom, times] : other.terms) {
      std::uint64_t& sum = terms[atom];
      sum = cut(sum + times * factor);
      if (sum == 0) terms.erase(atom);
    }
  }
};

/// The values of instructions in terms of atoms.
using Env = llvm::DenseMap<const llvm::Value*, Form>;

/// Writes values as forms. Equal forms are equal values; equal values may have different forms.
/// Assumes that 32-bit indices do not wrap where they are extended.
class Symbols {
 public:
  explicit Symbols(const llvm::DataLayout& layout) : layout_{layout} {}

  /// The iterations of the first loop that have run, and those of the second since then.
  static constexpr unsigned kIterations = 0, kRounds = 1;
  static constexpr unsigned kMostInstructions = 4000;

  struct Effects {
    unsigned version = 0;  ///< of memory: the number of stores before
    std::set<std::vector<std::uint64_t>> loads;
    std::vector<std::vector<std::uint64_t>> stores;
    friend bool operator==(const Effects&, const Effects&) = default;
  };

  Form atom(const llvm::Type* type, std::vector<std::uint64_t> key);
  Form leaf(const llvm::Value* v);
  Form of(const llvm::Value* v, Env& env, unsigned depth = 0);

  /// Executes the instructions of a block after its phis. Returns whether all of them are known.
  bool execute(const llvm::BasicBlock& block, Env& env, Effects& effects);

 private:
  enum Kind : std::uint64_t { kLeaf, kOperation, kLoad, kSlice, kSliceOfForm };

  /// Bits low to high of an atom, as a number. It has as many bits as it needs: extensions do not
  /// change it.
  struct Slice {
    unsigned atom, low, high;
  };
  static constexpr unsigned kMostBits = 28;  // of a slice of which nothing is cut off

  static unsigned bits_of(const llvm::Type* type);
  static void append(std::vector<std::uint64_t>& key, const Form& form);
  Form operation(const llvm::Instruction& inst, llvm::ArrayRef<Form> operands);
  static Form take_multiples(Form& f, unsigned shift, unsigned bits);
  Form slice(Form f, unsigned low, unsigned high);
  unsigned number_of(std::vector<std::uint64_t> key);
  Form compute(const llvm::Instruction& inst, Env& env, unsigned depth);

  const llvm::DataLayout& layout_;
  std::map<std::vector<std::uint64_t>, unsigned> atoms_;
  std::map<unsigned, Slice> slices_;  // atoms that are slices of other atoms
  unsigned next_ = kRounds + 1, executed_ = 0;
};

}  // namespace cucpu::simt
