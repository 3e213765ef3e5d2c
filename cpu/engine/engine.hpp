// SPDX-License-Identifier: Apache-2.0
// cpu/engine/engine.hpp: the interface of the engine to the driver layer. PTX is loaded as a
// Module, and its kernels run as Launches. No LLVM in this header. Everything is thread-safe unless
// a comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] constexpr std::uint64_t volume() const { return std::uint64_t{x} * y * z; }
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

/// One kernel parameter in the packed parameter block.
struct Param {
  std::uint32_t offset, size, align;
};

struct KernelInfo {
  std::string name;
  std::vector<Param> params;
  std::uint32_t param_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;  ///< start of dynamic shared memory, aligned
  std::uint32_t local_bytes = 0;            ///< per thread
  std::uint32_t const_bytes = 0;            ///< of the .const variables of its module
  std::uint32_t registers = 0;              ///< an estimate, for occupancy queries
  std::uint32_t max_threads = 1024;         ///< .maxntid / .reqntid, else the device limit
  std::uint32_t min_blocks_per_sm = 0;      ///< .minnctapersm, 0 when not given
  std::optional<Dim3> required_block;       ///< .reqntid
  std::optional<Dim3> required_cluster;     ///< .reqnctapercluster
  bool explicit_cluster = false;            ///< .explicitcluster
  bool blocks_are_clusters = false;         ///< the grid of a launch counts clusters
  bool tile = false;                        ///< of Tile IR: launched with `required_block`
  std::uint32_t ptx_version = 0;            ///< 94 for .version 9.4
  std::uint32_t target = 0;                 ///< 90 for .target sm_90
};

/// A .texref or .surfref variable: 64 bits that hold the handle of a texture or surface object.
enum class ReferenceKind : std::uint8_t { none, texture, surface };

/// A .global or .const variable of a loaded module.
struct Variable {
  std::string name;
  void* address;
  std::size_t size;
  bool constant;
  bool managed;
  ReferenceKind reference = ReferenceKind::none;
};

/// The memory of a module's variables: device memory of the context that the module is loaded into.
/// The driver layer implements it.
class VariableMemory {
 public:
  virtual ~VariableMemory() = default;
  struct Place {
    void* address;
    bool initialized;  ///< by another module with the same variable: its value is kept
  };
  /// Zeroed unless initialized; throws std::bad_alloc.
  virtual Place allocate(std::size_t size, std::size_t align, bool managed) = 0;
  virtual void free(void* address) noexcept = 0;
};

/// PTX that cannot be loaded. `code` is the CUresult number (218 invalid, 222 too new, 209 no PTX
/// in the image, …); `what()` is the log with a diagnostic per line: `file:line:column: error:
/// text`.
class LoadError : public std::runtime_error {
 public:
  LoadError(int code, const std::string& log) : std::runtime_error{log}, code{code} {}
  int code;
};

struct LoadOptions {
  std::string name = "ptx";   ///< used in diagnostics
  std::uint32_t target = 90;  ///< of the device that the code runs on: 90 for sm_90
  int optimization = 4;       ///< CU_JIT_OPTIMIZATION_LEVEL, 0..4
  std::string* info_log = nullptr;
};

class Kernel;

/// A loaded PTX module; several texts are linked into one. Kernels live as long as their module.
class Module {
 public:
  /// Parses, translates and places variables. A kernel is compiled when it is first launched.
  /// Throws LoadError.
  static std::unique_ptr<Module> load(std::span<const std::string_view> ptx, const LoadOptions&,
                                      VariableMemory&);
  virtual ~Module() = default;
  [[nodiscard]] virtual std::span<const Kernel* const> kernels() const = 0;
  [[nodiscard]] virtual std::span<const Variable> variables() const = 0;
  [[nodiscard]] const Kernel* find_kernel(std::string_view name) const;  ///< nullptr when absent
  [[nodiscard]] const Variable* find_variable(
      std::string_view name) const;  ///< nullptr when absent
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  [[nodiscard]] const KernelInfo& info() const { return info_; }

 protected:
  KernelInfo info_;
};

/// Why a grid ended early. `code` is the CUresult number (700, 716, 719, …); `report` names kernel,
/// line, block, thread and address.
struct Fault {
  int code;
  std::string report;
};

struct LaunchShape {
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  /// CU_LIMIT_STACK_SIZE. It bounds recursion; frames of the host are larger, so it is scaled.
  std::size_t stack_limit = 1024;
};

/// How a host thread takes part in a grid.
struct WorkOptions {
  static constexpr unsigned kAnyPart = ~0U;
  unsigned part = kAnyPart;     ///< of Launch::divide(): the blocks the thread begins with
  std::uint64_t budget_ns = 0;  ///< not 0: alone; start no more blocks after this time
};

/// One launched grid. Any number of host threads call work().
class Launch {
 public:
  /// `params` is the packed parameter block (info().param_bytes bytes), which is copied. The caller
  /// has validated the shapes. The first launch of a kernel with a block shape compiles: throws
  /// LoadError.
  static std::unique_ptr<Launch> make(const Kernel&, const LaunchShape&, const std::byte* params);
  virtual ~Launch() = default;

  /// Runs blocks until none is left to start. Returns true in exactly one caller: the one that
  /// finished the last block. Blocks start in linear order. All blocks of cooperative grids and
  /// clusters make forward progress.
  virtual bool work(const WorkOptions& options = {}) noexcept = 0;

  /// Divides the blocks that are left into contiguous parts of equal size, with these numbers (as
  /// bits, 0 among them: for the calling thread). Each is for one thread. A thread takes the rest
  /// of another part when its own has ended. Only before other threads know of the grid.
  virtual void divide(std::uint64_t parts) noexcept = 0;

  /// The number of threads that can usefully call work() at the same time.
  [[nodiscard]] virtual std::uint64_t parallelism() const noexcept = 0;

  /// Nanoseconds that one thread will probably need for the grid, as earlier launches show; the
  /// largest number: unknown.
  [[nodiscard]] virtual std::uint64_t expected_ns() const noexcept = 0;

  /// False when work() would find no block to start. May be out of date.
  [[nodiscard]] virtual bool has_unstarted() const noexcept = 0;

  /// Stops running blocks at their next safepoint with this code; blocks not started are
  /// dropped.
  virtual void cancel(int code) noexcept = 0;

  /// The fault or cancellation that ended the grid, or null; valid after work() has returned true.
  [[nodiscard]] virtual const Fault* fault() const noexcept = 0;
};

/// An allocation, for check mode.
struct AllocationView {
  std::uintptr_t base;
  std::size_t size;
  std::uint64_t id;  ///< unique in the process
  bool tracked;      ///< only kernels and copies of the driver write it
};

/// Functions of the driver layer, which sets them once before the first launch.
struct Hooks {
  std::function<std::optional<AllocationView>(std::uintptr_t)>
      find_allocation;  ///< the allocation that contains the address
  std::function<std::string(std::uintptr_t)>
      describe_address;                         ///< nearest allocation, for fault reports
  std::function<void(std::string_view)> print;  ///< device printf; default: standard output
  /// For multimem instructions: writes the addresses (at most `room`) of the copies that a
  /// multicast address stands for. Returns their number; 0 for any other address.
  std::function<unsigned(std::uintptr_t address, std::uintptr_t* copies, unsigned room)> multicast;
};
void set_hooks(Hooks);

/// The driver has written device memory by a copy or fill: its bytes are initialized. Needed in
/// check mode only.
void check_host_write(std::uintptr_t address, std::size_t bytes) noexcept;

}  // namespace cucpu
