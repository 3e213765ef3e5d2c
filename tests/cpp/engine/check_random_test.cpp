// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/check_random_test.cpp: race checks of random kernels, as scalar code and as
// vector code of every width, against a model that knows all accesses. CHECK_KERNELS: how many.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

constexpr unsigned kThreads = 64, kWords = 128, kRounds = 3;

/// One line of a kernel: an access of the threads that a predicate selects, or a barrier.
struct Line {
  enum Kind { read, write, atomic, barrier, warp_barrier } kind;
  enum Index { dense, swapped, one_word, by_group, strided, shifted, repeated } index = dense;
  enum Who { all, first, one, last, odd } who = all;
  bool global = false;
  bool own_part = false;       ///< of device memory: each block has its own
  unsigned words = 1;          ///< of an element: 1 or 2
  unsigned number = 0, k = 0;  ///< of the index, and of the predicate

  [[nodiscard]] bool is_access() const { return kind < barrier; }
  [[nodiscard]] bool is_on(unsigned t) const {
    switch (who) {
      case all:
        return true;
      case first:
        return t < k;
      case one:
        return t == k;
      case last:
        return t >= k;
      case odd:
        return t % 2 == 1;
    }
    return false;
  }
  /// Of the first word; in device memory.
  [[nodiscard]] unsigned word(unsigned block, unsigned t) const {
    unsigned i = t;
    if (index == swapped) i = t ^ number;
    if (index == one_word) i = number;
    if (index == by_group) i = t / number;
    if (index == strided) i = t * number;
    if (index == shifted) i = t + number;
    if (index == repeated) i = t % number;
    return i * words % kWords + (own_part ? block * kWords : 0);
  }
  /// Leaves the byte offset of the element in %r6.
  [[nodiscard]] std::string address() const {
    const std::string n = std::to_string(number);
    std::string text = "mov.u32 %r5, %r2;";
    if (index == swapped) text = "xor.b32 %r5, %r2, " + n + ";";
    if (index == one_word) text = "mov.u32 %r5, " + n + ";";
    if (index == by_group) text = "div.u32 %r5, %r2, " + n + ";";
    if (index == strided) text = "mul.lo.u32 %r5, %r2, " + n + ";";
    if (index == shifted) text = "add.u32 %r5, %r2, " + n + ";";
    if (index == repeated) text = "and.b32 %r5, %r2, " + std::to_string(number - 1) + ";";
    text += " mul.lo.u32 %r5, %r5, " + std::to_string(words) + "; and.b32 %r5, %r5, " +
            std::to_string(kWords - 1) + ";";
    if (own_part) text += " mad.lo.u32 %r5, %r0, " + std::to_string(kWords) + ", %r5;";
    return text + " shl.b32 %r6, %r5, 2;";
  }
  [[nodiscard]] std::string predicate() const {
    const std::string n = std::to_string(k);
    switch (who) {
      case all:
        return {};
      case first:
        return "setp.lt.u32 %p1, %r2, " + n + ";";
      case one:
        return "setp.eq.u32 %p1, %r2, " + n + ";";
      case last:
        return "setp.ge.u32 %p1, %r2, " + n + ";";
      case odd:
        return "and.b32 %r7, %r2, 1; setp.eq.u32 %p1, %r7, 1;";
    }
    return {};
  }
};

/// Values are different for all writes: a store of the value that is there would be no race.
std::string text_of(const Line& line, unsigned number) {
  if (line.kind == Line::barrier) return "bar.sync 0;\n";
  if (line.kind == Line::warp_barrier) return "bar.warp.sync 0xffffffff;\n";
  const std::string label = "L" + std::to_string(number);
  const std::string space = line.global ? ".global" : ".shared";
  std::string text = line.address() + "\n";
  if (line.who != Line::all) text += line.predicate() + " @!%p1 bra " + label + ";\n";
  text += line.global ? "cvt.u64.u32 %rd2, %r6; add.u64 %rd2, %rd0, %rd2;\n"
                      : "mov.u32 %r7, s; add.u32 %r7, %r7, %r6;\n";
  const std::string at = line.global ? "[%rd2]" : "[%r7]";
  text += "mad.lo.u32 %r8, %r10, 4096, " + std::to_string(number * 128) +
          "; add.u32 %r8, %r8, %r3; add.u32 %r8, %r8, 1000000;\n";
  text += ".loc 1 " + std::to_string(number + 1) + " 1\n";
  const std::string type = line.words == 2 ? "64" : "32";
  if (line.kind == Line::read)
    text += line.words == 2 ? "ld" + space + ".u64 %rd3, " + at +
                                  "; cvt.u32.u64 %r9, %rd3; xor.b32 %r11, %r11, %r9;\n"
                            : "ld" + space + ".u32 %r9, " + at + "; xor.b32 %r11, %r11, %r9;\n";
  else if (line.kind == Line::write)
    text += line.words == 2 ? "mov.b64 %rd3, {%r8, %r8}; st" + space + ".u64 " + at + ", %rd3;\n"
                            : "st" + space + ".u32 " + at + ", %r8;\n";
  else
    text += "red" + space + ".add.u32 " + at + ", %r8;\n";
  return text + (line.who != Line::all ? label + ":\n" : "");
}

/// The lines are executed kRounds times. Each thread ends with a store to its own word. Kernels
/// without shared memory and barriers have none at all: several blocks may run as a strip.
std::string kernel(const std::vector<Line>& lines, Dim3 block) {
  std::string body;
  for (unsigned i = 0; i < lines.size(); ++i) body += text_of(lines[i], i);
  const bool alone = std::all_of(lines.begin(), lines.end(), [](const Line& line) {
    return line.is_access() ? line.global : line.kind == Line::warp_barrier;
  });
  const std::string shared = alone ? "" : R"(
  mov.u32 %r7, s; mad.lo.u32 %r7, %r2, 4, %r7;
  st.shared.u32 [%r7], %r2; st.shared.u32 [%r7+256], %r2; bar.sync 0;)";
  return R"(.visible .entry k(.param .u64 out) {
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .shared .align 64 .b8 s[512];
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
  mad.lo.u32 %r2, %r2, )" +
         std::to_string(block.x) + ", %r1; mad.lo.u32 %r3, %r0, " + std::to_string(kThreads) +
         ", %r2; ld.param.u64 %rd0, [out]; mov.u32 %r11, 0; mov.u32 %r10, 0;" + shared +
         "\n  R:\n" + body +
         R"(
  add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, )" +
         std::to_string(kRounds) + R"(; @%p2 bra R;
  mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd0, %rd4; st.global.u32 [%rd4+4096], %r11;
  ret;
}
.file 1 "kernel.cu"
)";
}

struct Access {
  unsigned line, block, thread, interval, step;
};

/// What races in a kernel.
class Model {
 public:
  Model(const std::vector<Line>& lines, unsigned blocks) : lines_{lines} {
    std::map<std::pair<unsigned, unsigned>, std::vector<Access>> words;  // block (shared), word
    unsigned interval = 0, step = 0;
    for (unsigned round = 0; round < kRounds; ++round)
      for (unsigned i = 0; i < lines.size(); ++i) {
        const Line& line = lines[i];
        interval += line.kind == Line::barrier ? 1 : 0;
        step += line.kind == Line::warp_barrier ? 1 : 0;
        if (!line.is_access()) continue;
        for (unsigned block = 0; block < blocks; ++block)
          for (unsigned t = 0; t < kThreads; ++t)
            for (unsigned w = 0; line.is_on(t) && w < line.words; ++w)
              words[{line.global ? 9 : block, line.word(block, t) + w}].push_back(
                  {i, block, t, interval, step});
      }
    for (const auto& [place, accesses] : words) {
      const bool has_atomics = std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) {
        return lines[a.line].kind == Line::atomic;
      });
      for (std::size_t i = 0; i < accesses.size(); ++i)
        for (std::size_t j = i + 1; j < accesses.size(); ++j) {
          if (!conflict(accesses[i], accesses[j])) continue;
          races_ = true;
          must_be_found_ |= !has_atomics;
          insert(accesses[i], accesses[j]);
          insert(accesses[j], accesses[i]);
        }
    }
  }
  [[nodiscard]] bool races() const { return races_; }
  /// The history holds one write of a word: an atomic operation may hide that of another thread.
  [[nodiscard]] bool must_be_found() const { return must_be_found_; }
  /// Whether these lines race in these threads (block * kThreads + thread).
  [[nodiscard]] bool is_race(unsigned line, unsigned thread, unsigned other, unsigned its) const {
    return pairs_.contains({line, thread, other, its});
  }

 private:
  [[nodiscard]] bool conflict(const Access& a, const Access& b) const {
    const Line::Kind x = lines_[a.line].kind, y = lines_[b.line].kind;
    if ((x == Line::read && y == Line::read) || (x == Line::atomic && y == Line::atomic))
      return false;
    if (a.block != b.block) return true;
    if (a.thread == b.thread || a.interval != b.interval) return false;
    return a.thread / 32 != b.thread / 32 || a.step == b.step;
  }
  void insert(const Access& a, const Access& b) {
    pairs_.insert({a.line, a.block * kThreads + a.thread, b.line, b.block * kThreads + b.thread});
  }

  const std::vector<Line>& lines_;
  bool races_ = false, must_be_found_ = false;
  std::set<std::tuple<unsigned, unsigned, unsigned, unsigned>> pairs_;
};

std::vector<Line> random_lines(std::mt19937& random) {
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::vector<Line> lines;
  const unsigned count = 3 + pick(4);
  const bool global = pick(3) == 0;
  const unsigned barriers = pick(4);  // of three lines, so many are followed by a barrier
  for (unsigned i = 0; i < count; ++i) {
    Line line;
    line.kind = static_cast<Line::Kind>(pick(8) < 4    ? Line::read
                                        : pick(4) != 0 ? Line::write
                                                       : Line::atomic);
    line.index = static_cast<Line::Index>(pick(7));
    line.who = pick(2) == 0 ? Line::all : static_cast<Line::Who>(pick(5));
    line.global = global && (barriers == 0 || pick(3) != 0);
    line.own_part = line.global && pick(2) == 0;
    line.words = line.kind != Line::atomic && pick(5) == 0 ? 2 : 1;
    line.k = std::array{1U, 4U, 8U, 20U, 32U, 63U}[pick(6)];
    switch (line.index) {
      case Line::swapped:
        line.number = std::array{1U, 8U, 16U, 32U}[pick(4)];
        break;
      case Line::one_word:
        line.number = pick(kWords / line.words);
        break;
      case Line::by_group:
        line.number = std::array{4U, 8U, 16U, 32U}[pick(4)];
        break;
      case Line::strided:
        line.number = 2 + pick(3);
        break;
      case Line::repeated:  // several lane groups access the same rows
        line.number = std::array{8U, 16U, 32U}[pick(3)];
        break;
      default:
        line.number = std::array{1U, 8U, 16U, 64U}[pick(4)];
    }
    lines.push_back(line);
    if (pick(3) < barriers) lines.push_back({pick(6) == 0 ? Line::warp_barrier : Line::barrier});
  }
  return lines;
}

/// The threads that a report names.
std::vector<unsigned> threads_of(const std::string& text, Dim3 block) {
  std::vector<unsigned> all;
  const std::string what = "thread (";
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    unsigned x = 0, y = 0;
    if (std::sscanf(text.c_str() + at + what.size(), "%u, %u", &x, &y) == 2)
      all.push_back(y * block.x + x);
  }
  return all;
}

/// The numbers after each place where `what` occurs.
std::vector<unsigned> numbers_after(const std::string& text, const std::string& what) {
  std::vector<unsigned> all;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    all.push_back(
        static_cast<unsigned>(std::strtoul(text.c_str() + at + what.size(), nullptr, 10)));
  return all;
}

// promise: Check mode finds data races and names both accesses
// promise: Check mode reports nothing for correct kernels
TEST(CheckRandom, TheRacesOfRandomKernelsAreFoundAndNoOthers) {
  const char* const given = std::getenv("CHECK_KERNELS");
  const unsigned kernels = given ? static_cast<unsigned>(std::atoi(given)) : 16;
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  unsigned clean = 0, found = 0;
  for (unsigned seed = 0; seed < kernels && !::testing::Test::HasFailure(); ++seed) {
    std::mt19937 random{seed};
    const std::vector<Line> lines = random_lines(random);
    const unsigned blocks = 1 + seed % 2;
    const Model model{lines, blocks};
    const Dim3 block = seed / 2 % 2 == 0 ? Dim3{kThreads} : Dim3{16, kThreads / 16};
    const std::string text = kernel(lines, block);
    const Environment check{"CUCORE_CHECK", seed % 3 == 0 ? "race" : "all"};
    for (const char* width : {"1", "4", "8", "16", "32"}) {
      const Environment lanes{"CUCORE_CPU_W", width};
      TestMemory memory;
      std::vector<std::uint32_t> words(4096);
      const Ended ended = launch(*load(text, memory), "k", shape_of({blocks}, block), words.data());
      const std::string where = "seed " + std::to_string(seed) + ", CUCORE_CPU_W=" + width + "\n" +
                                ended.report + "\n" + text;
      if (ended.code == 0) {
        EXPECT_FALSE(model.must_be_found()) << where;
        ++clean;
        continue;
      }
      ++found;
      EXPECT_TRUE(model.races()) << where;
      const auto threads = threads_of(ended.report, block),
                 in = numbers_after(ended.report, "block ("),
                 at = numbers_after(ended.report, "kernel.cu:");
      ASSERT_TRUE(threads.size() == 2 && in.size() == 2 && at.size() == 2) << where;
      EXPECT_TRUE(model.is_race(at[0] - 1, in[0] * kThreads + threads[0], at[1] - 1,
                                in[1] * kThreads + threads[1]))
          << where;
    }
  }
  // A generator that only makes one kind of kernel tests nothing.
  EXPECT_GT(clean, kernels / 2);
  EXPECT_GT(found, kernels / 2);
}

}  // namespace
}  // namespace cucpu::test
