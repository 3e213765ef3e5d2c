// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parse_module.cpp: module-level directives, and token handling of the parser.
#include "cpu/ptx/parser.hpp"
#include "cpu/ptx/parser_impl.hpp"
#include "protection.hpp"

namespace cucpu::ptx {
namespace {

/// A target that PTX can name.
struct Target {
  std::uint32_t number;          ///< 90 for sm_90
  std::uint32_t version;         ///< the .version (times ten) that introduced it
  std::uint32_t arch_version;    ///< the same for sm_90a; 0: there is none
  std::uint32_t family_version;  ///< the same for sm_100f; 0: there is none
};
constexpr Target kTargets[] = {
    {10, 10, 0, 0},    {11, 10, 0, 0},    {12, 12, 0, 0},    {13, 12, 0, 0},    {20, 20, 0, 0},
    {30, 31, 0, 0},    {32, 40, 0, 0},    {35, 31, 0, 0},    {37, 41, 0, 0},    {50, 40, 0, 0},
    {52, 41, 0, 0},    {53, 42, 0, 0},    {60, 50, 0, 0},    {61, 50, 0, 0},    {62, 50, 0, 0},
    {70, 60, 0, 0},    {72, 61, 0, 0},    {75, 63, 0, 0},    {80, 70, 0, 0},    {86, 71, 0, 0},
    {87, 74, 0, 0},    {88, 90, 0, 0},    {89, 78, 0, 0},    {90, 78, 80, 0},   {100, 86, 86, 88},
    {101, 86, 86, 88}, {103, 88, 88, 88}, {110, 90, 90, 90}, {120, 87, 87, 88}, {121, 88, 88, 88},
};

const Target* find_target(std::uint32_t number) {
  for (const Target& target : kTargets)
    if (target.number == number) return &target;
  return nullptr;
}

/// sm_101 is the name that sm_110 had before CUDA 13.
std::uint32_t present_number(std::uint32_t target) { return target == 101 ? 110 : target; }

/// Whether a device runs code for a target: base targets run on every newer device, sm_90a on 9.0
/// alone, and sm_100f on the devices of its family (10.0, 10.3) that are not older.
bool runs_on(std::uint32_t device, std::uint32_t target, char suffix) {
  target = present_number(target);
  if (suffix == 'a') return target == device;
  if (suffix == 'f') return target <= device && target / 10 == device / 10;
  return target <= device;
}

/// Replaces the copy of the Tile IR in a text, which has a syntax of its own, by spaces.
void blank_intermediate_source(std::string& text) {
  static constexpr std::string_view kSection = ".nv_intermediate_source_section",
                                    kBegin = ".source_begin", kEnd = ".source_end";
  std::size_t at = text.find(kSection);
  if (at == text.npos || (at != 0 && text[at - 1] != '\n')) return;
  const std::size_t start = at;
  for (int depth = 0; at < text.size(); ++at) {
    if (text.compare(at, kBegin.size(), kBegin) == 0) at = text.find(kEnd, at);
    if (at == text.npos) break;
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (text[at] == '}' && depth == 0) break;
  }
  if (at >= text.size()) return;  // no end: the parser reports the section
  for (std::size_t i = start; i <= at; ++i)
    if (text[i] != '\n') text[i] = ' ';
}

}  // namespace

Parsed parse(std::string text, Diagnostics& diagnostics, std::uint32_t device) {
  blank_intermediate_source(text);
  auto module = std::make_unique<Module>();
  module->name = diagnostics.file();
  module->text = std::move(text);
  Parser parser{*module, diagnostics, device};
  int code = parser.run();
  if (code == 0 && diagnostics.failed()) code = 218;
  if (code != 0) module.reset();
  return {std::move(module), code};
}

Parsed parse_for_any(const std::string& text, Diagnostics& diagnostics,
                     std::span<const std::uint32_t> devices) {
  for (const std::uint32_t device : devices) {
    Diagnostics tried{diagnostics.file()};
    if (Parsed parsed = parse(text, tried, device); parsed.module) return parsed;
  }
  return parse(text, diagnostics, devices.front());
}

Parser::Parser(Module& module, Diagnostics& diagnostics, std::uint32_t device)
    : module_{module}, diagnostics_{diagnostics}, device_{device}, lexer_{module.text} {
  token_ = lexer_.next();
  ahead_ = lexer_.next();
}

void Parser::advance() {
  token_ = ahead_;
  ahead_ = lexer_.next();
}

bool Parser::accept(std::string_view punct) {
  if (!token_.is(punct)) return false;
  advance();
  return true;
}

bool Parser::accept_dot(std::string_view word) {
  if (!token_.is_dot(word)) return false;
  advance();
  return true;
}

std::string Parser::found() const {
  if (token_.kind == Token::Kind::end) return "the end of the text";
  const std::string_view text = token_.text.substr(0, 60);
  if (token_.kind == Token::Kind::dotted) return "'." + std::string{text} + "'";
  if (token_.kind == Token::Kind::string) return "\"" + std::string{text} + "\"";
  if (token_.kind == Token::Kind::invalid && text.size() == 1 && (text[0] < ' ' || text[0] > '~')) {
    return "byte " + std::to_string(static_cast<unsigned char>(text[0]));
  }
  return "'" + std::string{text} + "'";
}

bool Parser::expect(std::string_view punct, std::string_view where) {
  if (accept(punct)) return true;
  error("expected '" + std::string{punct} + "' " + std::string{where} + ", found " + found());
  return false;
}

std::string_view Parser::name(std::string_view what) {
  if (token_.kind != Token::Kind::identifier) {
    error("expected the name of a " + std::string{what} + ", found " + found());
    return {};
  }
  const std::string_view text = token_.text;
  advance();
  return text;
}

void Parser::skip_statement() {
  int depth = 0;
  while (token_.kind != Token::Kind::end) {
    if (token_.is("{")) {
      ++depth;
    } else if (token_.is("}")) {
      if (depth == 0) return;
      if (--depth == 0) {
        advance();
        if (token_.is(",") || token_.is("]") || token_.is("|") || token_.is(")"))
          continue;  // a vector operand
        if (token_.is(";")) advance();
        return;
      }
    } else if (token_.is(";") && depth == 0) {
      advance();
      return;
    }
    advance();
  }
}

int Parser::run() {
  if (token_.kind == Token::Kind::end) {
    error("the text is empty: expected .version");
    return 218;
  }
  if (!token_.is_dot("version")) {
    error("expected .version at the start of a PTX module, found " + found());
    return 218;
  }
  if (!parse_version() && CUCORE_PROTECTION("ptx-version-check")) return 222;
  while (token_.kind != Token::Kind::end && !diagnostics_.full()) parse_top();
  if (!diagnostics_.failed() && module_.target == 0) error("the module has no .target");
  return diagnostics_.failed() ? 218 : 0;
}

bool Parser::parse_version() {
  advance();
  const Location where = token_.where;
  const std::string_view text = token_.text;
  const std::size_t dot = text.find('.');
  const bool good = token_.kind == Token::Kind::f64 && dot != text.npos && dot + 2 == text.size() &&
                    dot >= 1 && dot <= 3;
  if (!good) {
    error("expected a version such as 8.5 after .version, found " + found());
    return true;
  }
  std::uint32_t major = 0;
  for (char c : text.substr(0, dot)) major = major * 10 + static_cast<std::uint32_t>(c - '0');
  module_.version = major * 10 + static_cast<std::uint32_t>(text[dot + 1] - '0');
  advance();
  if (module_.version > kNewestVersion) {
    error_at(where, "PTX .version " + std::string{text} +
                        " is newer than 9.5, the newest this device compiles");
    return false;
  }
  return true;
}

void Parser::parse_target() {
  advance();
  do {
    const Location where = token_.where;
    const std::string_view word = name("target, such as sm_90");
    if (word.empty()) return skip_statement();
    if (word.starts_with("sm_") || word.starts_with("compute_")) {
      std::uint32_t number = 0;
      std::size_t i = word.find('_') + 1;
      const std::size_t digits = i;
      for (; i < word.size() && word[i] >= '0' && word[i] <= '9' && i < digits + 4; ++i) {
        number = number * 10 + static_cast<std::uint32_t>(word[i] - '0');
      }
      const bool suffix = i + 1 == word.size() && (word[i] == 'a' || word[i] == 'f');
      const char letter = suffix ? word[i] : '\0';
      const Target* const target =
          i != digits && (i == word.size() || suffix) ? find_target(number) : nullptr;
      const std::uint32_t since = !target         ? 0
                                  : letter == 0   ? target->version
                                  : letter == 'a' ? target->arch_version
                                                  : target->family_version;
      if (since == 0) {
        error_at(where, "unknown target '" + std::string{word} + "'");
      } else if (!runs_on(device_, number, letter)) {
        const std::string own = std::to_string(device_);
        const std::uint32_t wanted = present_number(number);
        error_at(where, "the code is for " + std::string{word} + " and this device is an sm_" +
                            own + ": compile for compute_" + own +
                            " or an older one, or set CUCORE_CPU_ARCH=" +
                            std::to_string(wanted / 10) + "." + std::to_string(wanted % 10));
      } else if (module_.version < since) {
        error_at(where, "target '" + std::string{word} + "' needs .version " +
                            std::to_string(since / 10) + "." + std::to_string(since % 10) +
                            " or later");
      }
      module_.target = number;
      module_.target_suffix = suffix ? word[i] : '\0';
    } else if (word == "texmode_unified" || word == "texmode_independent" || word == "debug" ||
               word == "map_f64_to_f32") {
      module_.target_options.push_back(word);
    } else {
      error_at(where, "unknown target '" + std::string{word} +
                          "': expected sm_<number>, texmode_unified, "
                          "texmode_independent or debug");
    }
  } while (accept(","));
}

void Parser::parse_top() {
  if (accept(";")) return;
  if (token_.kind != Token::Kind::dotted) {
    error("expected a directive such as .visible or .global, found " + found());
    advance();
    return skip_statement();
  }
  const std::string_view word = token_.text;
  if (word == "target") return parse_target();
  if (word == "version") {
    error(".version was already given");
    return skip_statement();
  }
  if (word == "address_size") {
    advance();
    const Location where = token_.where;
    const auto size = parse_count("the address size");
    if (size && *size != 64)
      error_at(where, "only .address_size 64 is supported, not " + std::to_string(*size));
    return;
  }
  if (word == "file") return parse_file();
  if (word == "section") return parse_section();
  if (word == "alias") return parse_alias();
  if (word == "loc") return parse_loc();
  if (word == "loc_intermediate") return parse_intermediate_loc();
  if (word == "pragma") {
    for (const std::string_view text : parse_pragma()) module_.pragmas.push_back(text);
    return;
  }
  const Linkage linkage = accept_linkage().value_or(Linkage::internal);
  if (token_.is_dot("entry") || token_.is_dot("func")) {
    const bool entry = token_.text == "entry";
    advance();
    return parse_function(linkage, entry);
  }
  parse_module_variables(linkage);
}

std::optional<Linkage> Parser::accept_linkage() {
  if (accept_dot("visible")) return Linkage::visible;
  if (accept_dot("extern")) return Linkage::external;
  if (accept_dot("weak")) return Linkage::weak;
  if (accept_dot("common")) return Linkage::common;
  return std::nullopt;
}

void Parser::parse_file() {
  advance();
  const auto number = parse_count("a file number");
  if (!number) return skip_statement();
  if (token_.kind != Token::Kind::string) {
    error("expected a file name in quotes, found " + found());
    return;
  }
  module_.files.push_back({static_cast<std::uint32_t>(*number), token_.text});
  advance();
  while (accept(",")) (void)parse_count("a time or size of the file");
  (void)accept(";");
}

// A section with DWARF: `label:`, and lists of numbers, labels and sections after `.b8` to `.b64`.
std::vector<std::string_view> Parser::parse_pragma() {
  std::vector<std::string_view> texts;
  advance();
  do {
    if (token_.kind != Token::Kind::string) {
      error("expected a string after .pragma, found " + found());
      skip_statement();
      return texts;
    }
    texts.push_back(token_.text);
    advance();
  } while (accept(","));
  (void)expect(";", "after .pragma");
  return texts;
}

void Parser::parse_section() {
  advance();
  if (token_.kind != Token::Kind::dotted) {
    error("expected the name of a section, found " + found());
    return skip_statement();
  }
  DebugSection section;
  section.name = token_.text;
  advance();
  if (!expect("{", "at the start of a section")) return skip_statement();
  unsigned width = 1;
  bool minus = false;      // before the next number or label
  bool continues = false;  // the next number or label belongs to the reference before it
  const auto put = [&section](std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i)
      section.bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  while (!token_.is("}")) {
    if (token_.kind == Token::Kind::integer) {
      const std::uint64_t value = minus ? 0 - token_.value : token_.value;
      if (continues)
        section.references.back().addend += static_cast<std::int64_t>(value);
      else
        put(value, width);
      minus = continues = false;
    } else if (token_.is_dot("b8") || token_.is_dot("b16") || token_.is_dot("b32") ||
               token_.is_dot("b64")) {
      width = token_.text == "b8" ? 1 : token_.text == "b16" ? 2 : token_.text == "b32" ? 4 : 8;
      minus = continues = false;
    } else if (token_.kind == Token::Kind::identifier || token_.kind == Token::Kind::dotted) {
      const std::string_view symbol = token_.text;
      const bool other_section = token_.kind == Token::Kind::dotted;
      advance();
      if (!other_section && token_.is(":")) {
        section.labels.push_back({symbol, section.bytes.size()});
      } else {
        if (continues && minus) {
          section.references.back().minus = symbol;
        } else {
          section.references.push_back({section.bytes.size(),
                                        static_cast<std::uint8_t>(width),
                                        other_section,
                                        symbol,
                                        0,
                                        {}});
          put(0, width);
        }
        minus = false;
        continues = token_.is("+") || token_.is("-");
        continue;
      }
    } else if (token_.is("+") || token_.is("-")) {
      minus = token_.is("-");
    } else if (token_.is(",")) {
      minus = continues = false;
    } else if (!token_.is(";")) {
      error("expected data or '}' in a section, found " + found());
      return skip_statement();
    }
    advance();
  }
  advance();
  module_.debug_sections.push_back(std::move(section));
}

void Parser::parse_alias() {
  advance();
  const Location where = token_.where;
  const std::string_view alias = name("function");
  if (alias.empty() || !expect(",", "after the alias")) return skip_statement();
  const std::string_view target = name("function");
  if (target.empty()) return skip_statement();
  (void)expect(";", "after .alias");
  const auto a = module_.symbols.find(alias), t = module_.symbols.find(target);
  if (a == module_.symbols.end() || !a->second.function || t == module_.symbols.end() ||
      !t->second.function) {
    return error_at(where, ".alias needs two declared functions");
  }
  module_.functions[a->second.index].alias = target;
}

/// The symbol of a name in an initializer: variables of enclosing scopes hide module variables.
std::optional<Symbol> Parser::find_symbol(std::string_view name) const {
  for (std::size_t s = function_ == nullptr ? 0 : scopes_.size(); s-- > 0;) {
    const auto at = scopes_[s].names.find(name);
    if (at == scopes_[s].names.end()) continue;
    if (at->second.kind != ScopeEntry::Kind::module_variable) return std::nullopt;
    return Symbol{false, at->second.index};
  }
  const auto at = module_.symbols.find(name);
  return at == module_.symbols.end() ? std::nullopt : std::optional{at->second};
}

void Parser::declare(std::string_view name, Symbol symbol, Location where) {
  const auto [at, fresh] = module_.symbols.try_emplace(name, symbol);
  if (!fresh && (at->second.function != symbol.function || at->second.index != symbol.index)) {
    error_at(where, "'" + std::string{name} + "' is already declared");
  }
}

}  // namespace cucpu::ptx
