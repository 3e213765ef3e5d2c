// SPDX-License-Identifier: Apache-2.0
// cucore_embed.cpp: writes a C++ file that holds a .cu file, compiled or as source, for
// cucore_add_kernels(). It is built in the project that uses the function.
//
// cucore_embed INPUT OUTPUT FORM NAMESPACE FUNCTION [--arch A] [--std S] [--define M]...
//              [--include FOLDER]... [--name EXPRESSION]...
// FORM: source, ptx or cubin.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/program.hpp"

namespace {

struct Request {
  std::string input, output, form, scope, function;
  cucore::ProgramOptions options{};
  std::vector<std::string> name_expressions{};
};

Request parse(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5 || arguments.size() % 2 == 0)
    throw std::invalid_argument{"usage: cucore_embed INPUT OUTPUT FORM NAMESPACE FUNCTION ..."};
  Request request{arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]};
  if (request.form != "source" && request.form != "ptx" && request.form != "cubin")
    throw std::invalid_argument{"FORM must be source, ptx or cubin, not " + request.form};
  for (std::size_t i = 5; i < arguments.size(); i += 2) {
    const std::string& option = arguments[i];
    const std::string& value = arguments[i + 1];
    if (option == "--arch")
      request.options.arch = value;
    else if (option == "--std")
      request.options.std = value;
    else if (option == "--define")
      request.options.define_macro.push_back(value);
    else if (option == "--include")
      request.options.include_path.push_back(value);
    else if (option == "--name")
      request.name_expressions.push_back(value);
    else
      throw std::invalid_argument{"unknown option " + option};
  }
  return request;
}

std::string read(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{path + ": cannot be read"};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// A string literal of C++.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string list(const std::vector<std::string>& texts) {
  std::string out = "{";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + literal(text);
  return out + "}";
}

/// An array, so that code of any length compiles: string literals have a limit.
void write_bytes(std::ostream& out, std::string_view bytes) {
  out << "constexpr unsigned char kBytes[] = {";
  std::size_t column = 0;
  for (const char c : bytes) {
    if (column++ % 20 == 0) out << "\n    ";
    out << static_cast<unsigned>(static_cast<unsigned char>(c)) << ',';
  }
  if (bytes.empty()) throw std::runtime_error{"the file is empty"};
  out << "};\n";
}

void embed(Request request) {
  const std::string name = request.input.substr(request.input.rfind('/') + 1);
  const std::string source = read(request.input);
  request.options.name = request.input;  // so that the compiler's messages name the file
  std::string arguments;
  std::string bytes = source;
  if (request.form == "source") {
    const cucore::ProgramOptions& o = request.options;
    arguments = "kBytes, cucore::ProgramOptions{";
    if (o.arch) arguments += ".arch = " + literal(*o.arch) + ", ";
    arguments +=
        ".define_macro = " + list(o.define_macro) + ", .include_path = " + list(o.include_path);
    if (o.std) arguments += ", .std = " + literal(*o.std);
    arguments += "}, " + list(request.name_expressions);
  } else {
    const bool to_ptx = request.form == "ptx";
    cucore::Program program{source, cucore::SourceType::cxx, request.options};
    std::string log;
    const cucore::ObjectCode code = program.compile(
        to_ptx ? cucore::CodeType::ptx : cucore::CodeType::cubin, request.name_expressions, &log);
    if (!log.empty()) std::fprintf(stderr, "%s\n", log.c_str());
    bytes = code.code();
    arguments = to_ptx ? "cucore::CodeType::ptx, kBytes, {" : "cucore::CodeType::cubin, kBytes, {";
    for (const auto& [expression, symbol] : code.symbol_mapping())
      arguments += "{" + literal(expression) + ", " + literal(symbol) + "}, ";
    arguments += "}";
  }
  std::ofstream out{request.output, std::ios::binary};
  out << "// Written by cucore_add_kernels() from " << name << ".\n"
      << "#include \"" << request.function << ".hpp\"\n\nnamespace {\n";
  write_bytes(out, bytes);
  out << "}  // namespace\n\nnamespace " << request.scope << " {\n"
      << "const cucore::EmbeddedCode& " << request.function << "() {\n"
      << "  static const cucore::EmbeddedCode code{" << literal(name) << ", " << arguments << "};\n"
      << "  return code;\n}\n}  // namespace " << request.scope << "\n";
  if (!out.flush()) throw std::runtime_error{request.output + ": cannot be written"};
}

}  // namespace

int main(int argc, char** argv) try {
  embed(parse({argv + 1, argv + argc}));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "cucore_embed: %s\n", error.what());
  return 1;
}
