// SPDX-License-Identifier: Apache-2.0
// cpu/ptxas/main.cpp: a program with the command line of NVIDIA's ptxas that writes the CPU
// device's container in place of machine code. `cucore run --cpu` puts it in front of ptxas, so
// that compilers that produce cubins (Triton, cuda.tile) run on the CPU device unmodified.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/base/compute_capability.hpp"
#include "cpu/image/container.hpp"
#include "cpu/ptx/diagnostics.hpp"
#include "cpu/ptx/parser.hpp"

namespace {

/// Options of ptxas that take a value in the next argument.
constexpr std::string_view kWithValue[] = {"-o",
                                           "--output-file",
                                           "-arch",
                                           "--gpu-name",
                                           "-O",
                                           "--opt-level",
                                           "-maxrregcount",
                                           "--maxrregcount",
                                           "-m",
                                           "--machine",
                                           "-e",
                                           "--entry",
                                           "-dlcm",
                                           "--def-load-cache",
                                           "-dscm",
                                           "--def-store-cache",
                                           "-flcm",
                                           "--force-load-cache",
                                           "-fscm",
                                           "--force-store-cache",
                                           "-optf",
                                           "--options-file",
                                           "-ic",
                                           "--input-as-string",
                                           "-split-compile",
                                           "--split-compile",
                                           "-jump-table-density",
                                           "--jump-table-density",
                                           "-Ofast-compile",
                                           "--Ofast-compile",
                                           "-regUsageLevel",
                                           "--register-usage-level",
                                           "-apply-controls",
                                           "--apply-controls"};

bool takes_value(std::string_view option) {
  for (const std::string_view known : kWithValue)
    if (option == known) return true;
  return false;
}

void print_version() {
  const unsigned newest = cucpu::ptx::kNewestVersion;
  // Compilers read the release; PTX 9.x belongs to CUDA 13.x.
  std::printf(
      "ptxas: NVIDIA (R) Ptx optimizing assembler\n"
      "This is cucore's stand-in: it writes PTX for the CPU device\n"
      "Cuda compilation tools, release %u.%u, V%u.%u.0\n",
      newest / 10 + 4, newest % 10, newest / 10 + 4, newest % 10);
}

struct Command {
  std::vector<std::string> inputs;
  std::string output = "elf.o";
  bool verbose = false, version = false, help = false;
};

Command parse(int count, char** arguments) {
  Command command;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument{arguments[i]};
    if (!argument.starts_with('-') || argument == "-") {
      command.inputs.emplace_back(argument);
    } else if (argument == "--version" || argument == "-V") {
      command.version = true;
    } else if (argument == "--help" || argument == "-h") {
      command.help = true;
    } else if (argument == "-v" || argument == "--verbose") {
      command.verbose = true;
    } else if (argument.starts_with("--output-file=")) {
      command.output = argument.substr(argument.find('=') + 1);
    } else if (takes_value(argument) && i + 1 < count) {
      ++i;
      if (argument == "-o" || argument == "--output-file") command.output = arguments[i];
    }  // all other options concern the code of a GPU
  }
  return command;
}

std::string text_of(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>{std::cin}, {});
  } else {
    std::ifstream file{path, std::ios::binary};
    if (!file) throw std::runtime_error{"ptxas fatal   : Could not open input file '" + path + "'"};
    text.assign(std::istreambuf_iterator<char>{file}, {});
  }
  return text.substr(0, text.find('\0'));
}

int run(const Command& command) {
  if (command.inputs.empty())
    throw std::runtime_error{
        "ptxas fatal   : No input files specified; use option --help for more "
        "information"};
  std::vector<std::string> texts;
  bool failed = false;
  for (const std::string& path : command.inputs) {
    texts.push_back(text_of(path));
    cucpu::ptx::Diagnostics diagnostics{path};
    const auto parsed =
        cucpu::ptx::parse_for_any(texts.back(), diagnostics, cucpu::environment::targets());
    if (diagnostics.failed() || !parsed.module) {
      std::fputs(diagnostics.log().c_str(), stderr);
      failed = true;
    } else if (command.verbose) {
      for (const auto& function : parsed.module->functions)
        if (function.entry && function.defined)
          std::fprintf(stderr,
                       "ptxas info    : Compiling entry function '%.*s' for the CPU device\n",
                       static_cast<int>(function.name.size()), function.name.data());
    }
  }
  if (failed) {
    std::fputs("ptxas fatal   : Ptx assembly aborted due to errors\n", stderr);
    return 255;
  }
  const std::string made = cucpu::driver::make_container(texts);
  std::ofstream file{command.output, std::ios::binary};
  file.write(made.data(), static_cast<std::streamsize>(made.size()));
  file.close();
  if (!file)
    throw std::runtime_error{"ptxas fatal   : Could not write output file '" + command.output +
                             "'"};
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Command command = parse(count, arguments);
    if (command.version) {
      print_version();
      return 0;
    }
    if (command.help) {
      std::puts(
          "Usage: ptxas [options] file.ptx -o file.cubin\n"
          "Writes the PTX into a container that the CPU device loads in place of a cubin.\n"
          "The options of NVIDIA's ptxas are accepted; those about machine code have no effect.");
      return 0;
    }
    return run(command);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 255;
  }
}
