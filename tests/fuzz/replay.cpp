// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay.cpp: runs a harness without libFuzzer on the files of a corpus and on mutations
// of them.
//   fuzz_x_replay [--mutate N] [--seed S] FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

Input changed(Input input, const std::vector<Input>& all, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edits = 1 + below(6); edits > 0; --edits) {
    if (input.empty()) input.push_back(0);
    const std::size_t at = below(input.size());
    switch (below(7)) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        input.resize(at);
        break;
      case 3:
        input.erase(input.begin() + at, input.begin() + std::min(input.size(), at + 1 + below(16)));
        break;
      case 4: {  // duplicates a piece
        const Input piece(input.begin() + at,
                          input.begin() + std::min(input.size(), at + 1 + below(64)));
        input.insert(input.begin() + below(input.size()), piece.begin(), piece.end());
        break;
      }
      case 5: {  // inserts a piece of another input
        const Input& other = all[below(all.size())];
        if (other.empty()) break;
        const std::size_t from = below(other.size());
        input.insert(input.begin() + at, other.begin() + from,
                     other.begin() + std::min(other.size(), from + 1 + below(64)));
        break;
      }
      default: {
        static constexpr std::uint8_t kSpecial[] = {0,   1,   0x7f, 0x80, 0xff, '0', '9',
                                                    '-', ';', '{',  '}',  '"',  '\n'};
        input[at] = kSpecial[below(std::size(kSpecial))];
      }
    }
  }
  return input;
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t copies = 0, seed = 1, runs = 0;
  std::vector<Input> inputs;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--mutate") == 0 && i + 1 < count) {
      copies = std::strtoul(arguments[++i], nullptr, 10);
    } else if (std::strcmp(arguments[i], "--seed") == 0 && i + 1 < count) {
      seed = std::strtoul(arguments[++i], nullptr, 10);
    } else {
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::recursive_directory_iterator{arguments[i]})
        if (entry.is_regular_file()) files.push_back(entry.path());
      std::sort(files.begin(), files.end());
      for (const auto& path : files) {
        std::ifstream file{path, std::ios::binary};
        inputs.emplace_back(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
      }
    }
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 2;
  }
  const char* keep = std::getenv("FUZZ_LAST");  // file for the current input, to reproduce crashes
  const auto run = [&](const Input& input) {
    if (keep != nullptr)
      std::ofstream{keep, std::ios::binary}.write(reinterpret_cast<const char*>(input.data()),
                                                  static_cast<std::streamsize>(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  };
  std::mt19937 random{static_cast<std::mt19937::result_type>(seed)};
  for (const Input& input : inputs) run(input);
  for (std::size_t copy = 0; copy < copies; ++copy)
    for (const Input& input : inputs) run(changed(input, inputs, random));
  std::printf("%zu inputs, %zu runs\n", inputs.size(), runs);
  return 0;
}
