// SPDX-License-Identifier: Apache-2.0
// What the compiler lets through, and what it does not: arguments of kernels, sources and targets
// of copies, owners and views. A mistake here is an error of the build, not of the run.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cucore/cucore.hpp"

namespace {
using cucore::Buffer;

template <class... Args>
concept Launches = requires(cucore::StreamRef stream, const cucore::LaunchConfig& config,
                            const cucore::Kernel& kernel, const Args&... args) {
  cucore::launch(stream, config, kernel, args...);
};
template <class... Args>
concept AddsANode = requires(cucore::GraphDefinition& graph, const cucore::LaunchConfig& config,
                             const cucore::Kernel& kernel, const Args&... args) {
  graph.add_launch({}, config, kernel, args...);
};
template <class T>
concept CopiedFrom = requires(Buffer& buffer, T source, cucore::StreamRef stream) {
  buffer.copy_from(source, stream);
};
template <class T>
concept CopiedTo = requires(const Buffer& buffer, T target, cucore::StreamRef stream) {
  buffer.copy_to(target, stream);
};

struct Plain {
  int a;
  double b;
};
enum class Choice : int { first };

// ---- arguments
static_assert(Launches<>);
static_assert(Launches<Buffer, int, unsigned long, float, double, bool, char>);
static_assert(Launches<const float*, CUdeviceptr, std::nullptr_t, Choice>);
static_assert(Launches<Plain, std::array<float, 3>, CUtensorMap>);
static_assert(AddsANode<Buffer, int, Plain>);

static_assert(!Launches<std::string>);
static_assert(!Launches<std::vector<float>>);  // memory of the host: copy it to a Buffer
static_assert(!Launches<std::span<float>>);
static_assert(!Launches<std::string_view>);
static_assert(!Launches<float[4]>);
static_assert(!Launches<std::unique_ptr<float>>);
static_assert(!Launches<std::function<void()>>);
static_assert(!Launches<cucore::Stream>);
static_assert(!Launches<cucore::Kernel>);
static_assert(!Launches<Buffer, int, std::string>);  // whatever its place
static_assert(!AddsANode<std::string>);

// ---- copies
static_assert(CopiedFrom<std::span<float>> && CopiedFrom<std::span<const float>>);
static_assert(CopiedFrom<std::span<const std::byte>> && CopiedFrom<std::span<Plain, 4>>);
static_assert(CopiedFrom<const Buffer&>);
static_assert(!CopiedFrom<std::span<std::string>>);
static_assert(!CopiedFrom<std::string> && !CopiedFrom<float*> && !CopiedFrom<std::vector<float>>);

static_assert(CopiedTo<std::span<float>> && CopiedTo<std::span<std::byte>> && CopiedTo<Buffer&>);
static_assert(!CopiedTo<std::span<const float>>);
static_assert(!CopiedTo<std::span<std::string>>);
static_assert(!CopiedTo<const Buffer&>);

// ---- owners and views
static_assert(std::is_nothrow_move_constructible_v<Buffer> &&
              !std::is_copy_constructible_v<Buffer>);
static_assert(std::is_convertible_v<cucore::Stream, cucore::StreamRef>);
static_assert(!std::is_convertible_v<cucore::StreamRef, cucore::Stream>);
static_assert(
    !std::is_convertible_v<CUstream, cucore::StreamRef>);  // explicit: a null is a mistake
static_assert(std::is_convertible_v<cucore::Event, cucore::EventRef>);
template <class Owner, class View, class Handle>
constexpr bool kOwnerAndView =
    std::is_convertible_v<Owner, View> && !std::is_convertible_v<View, Owner> &&
    !std::is_convertible_v<Handle, View> && std::is_trivially_copyable_v<View> &&
    sizeof(View) == sizeof(Handle);
static_assert(kOwnerAndView<cucore::Context, cucore::ContextRef, CUcontext>);
static_assert(kOwnerAndView<cucore::Stream, cucore::StreamRef, CUstream>);
static_assert(kOwnerAndView<cucore::Event, cucore::EventRef, CUevent>);
static_assert(std::is_base_of_v<cucore::MemoryPoolRef, cucore::MemoryPool> &&
              std::is_trivially_copyable_v<cucore::MemoryPoolRef>);
static_assert(!std::is_copy_constructible_v<cucore::ScopedContext>);

TEST(Arguments, AreCheckedWhenTheProgramIsCompiled) { SUCCEED(); }

}  // namespace
