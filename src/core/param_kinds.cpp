// SPDX-License-Identifier: Apache-2.0
// param_kinds.cpp: reads the kinds of kernel parameters from PTX and from mangled names.
#include "core/param_kinds.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/text.hpp"

namespace cucore::detail {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

/// Tokenizes PTX into words and single characters, skipping comments and string literals.
class PtxWords {
 public:
  explicit PtxWords(std::string_view text) : text_{text} {}

  /// Returns the next word, or an empty one at the end.
  std::string_view next() {
    skip_blank();
    const std::size_t start = at_;
    if (at_ >= text_.size()) return {};
    if (!is_word(text_[at_])) return text_.substr(at_++, 1);
    // ".param.u64" is two words: a dot starts a new one.
    for (++at_; at_ < text_.size() && is_word(text_[at_]) && text_[at_] != '.';) ++at_;
    return text_.substr(start, at_ - start);
  }
  /// Advances past the next ".entry" outside comments and string literals; false if there is none.
  bool find_entry() {
    constexpr std::string_view kEntry = ".entry";
    while (at_ < text_.size()) {
      at_ = std::min(text_.find_first_of("./\"", at_), text_.size());
      if (text_.substr(at_, kEntry.size()) == kEntry) {
        at_ += kEntry.size();
        if (at_ < text_.size() && !is_word(text_[at_])) return true;
      } else if (!skip_literal()) {
        ++at_;
      }
    }
    return false;
  }

 private:
  /// Advances past a comment or string literal that starts here.
  bool skip_literal() {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    if (rest.starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else if (rest.starts_with('"')) {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
        if (text_[at_] == '\\') ++at_;
      at_ = std::min(at_ + 1, text_.size());
    } else {
      return false;
    }
    return true;
  }
  void skip_blank() {
    do {
      at_ = std::min(text_.find_first_not_of(" \t\r\n\v\f", at_), text_.size());
    } while (skip_literal());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

struct ScalarType {
  std::string_view word;
  ParamKind kind;
  std::size_t size;
};
// An untyped type (.b32) may hold any kind of value of its size.
constexpr std::array<ScalarType, 17> kPtxTypes{{
    {".u8", ParamKind::integer, 1},
    {".u16", ParamKind::integer, 2},
    {".u32", ParamKind::integer, 4},
    {".u64", ParamKind::integer, 8},
    {".s8", ParamKind::integer, 1},
    {".s16", ParamKind::integer, 2},
    {".s32", ParamKind::integer, 4},
    {".s64", ParamKind::integer, 8},
    {".f16", ParamKind::floating, 2},
    {".bf16", ParamKind::floating, 2},
    {".f32", ParamKind::floating, 4},
    {".f64", ParamKind::floating, 8},
    {".b8", ParamKind::unknown, 1},
    {".b16", ParamKind::unknown, 2},
    {".b32", ParamKind::unknown, 4},
    {".b64", ParamKind::unknown, 8},
    {".b128", ParamKind::unknown, 16},
}};
// Scalar C++ types passed by value. `long` is 64 bits on all supported hosts.
constexpr std::array<ScalarType, 18> kCxxTypes{{
    {"float", ParamKind::floating, 4},
    {"double", ParamKind::floating, 8},
    {"bool", ParamKind::integer, 1},
    {"char", ParamKind::integer, 1},
    {"signed char", ParamKind::integer, 1},
    {"unsigned char", ParamKind::integer, 1},
    {"short", ParamKind::integer, 2},
    {"unsigned short", ParamKind::integer, 2},
    {"int", ParamKind::integer, 4},
    {"unsigned int", ParamKind::integer, 4},
    {"long", ParamKind::integer, 8},
    {"unsigned long", ParamKind::integer, 8},
    {"long long", ParamKind::integer, 8},
    {"unsigned long long", ParamKind::integer, 8},
    {"wchar_t", ParamKind::integer, 4},
    {"char8_t", ParamKind::integer, 1},
    {"char16_t", ParamKind::integer, 2},
    {"char32_t", ParamKind::integer, 4},
}};

template <std::size_t n>
const ScalarType* find_type(const std::array<ScalarType, n>& types, std::string_view word) {
  const auto at = std::find_if(types.begin(), types.end(),
                               [&](const ScalarType& type) { return type.word == word; });
  return at != types.end() ? &*at : nullptr;
}

/// Returns whether a name is "<kernel>_param_<i>", as compilers generate; it only contains the
/// index.
bool is_generated_name(std::string_view name, std::string_view kernel) {
  return name.starts_with(kernel) && name.substr(kernel.size()).starts_with("_param_");
}

/// Reads a declaration after ".param". Leaves `word` at the ',' or ')' that follows. Returns false
/// if it is malformed.
bool read_param(PtxWords& words, std::string_view kernel, std::string_view& word,
                DeclaredParam& param) {
  bool is_array = false;
  bool typed = false;
  for (word = words.next(); word != "," && word != ")"; word = words.next()) {
    if (word.empty() || word == "{" || word == ";") return false;
    if (const ScalarType* type = find_type(kPtxTypes, word)) {
      param.kind = type->kind;
      param.size = type->size;
      typed = true;
    } else if (word == ".ptr") {
      param.kind = ParamKind::pointer;
    } else if (word == "[") {
      is_array = true;
    } else if (word.front() != '.' && std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
               word != "]" && param.name.empty()) {
      param.name = word;
    }
  }
  if (!typed || is_array) {
    param.kind = ParamKind::unknown;
    param.size = 0;
  }
  if (is_generated_name(param.name, kernel)) param.name.clear();
  return true;
}

}  // namespace

void add_params_of_ptx(std::string_view ptx, DeclaredParams& params) {
  PtxWords words{ptx};
  while (words.find_entry()) {
    const std::string kernel{words.next()};
    if (kernel.empty()) return;
    std::vector<DeclaredParam> declared;
    std::string_view word = words.next();
    bool is_read = true;
    if (word == "(") {
      for (word = words.next(); is_read && word != ")"; word = word == "," ? words.next() : word) {
        is_read = word == ".param";
        if (is_read) is_read = read_param(words, kernel, word, declared.emplace_back());
      }
    }
    if (is_read) params.insert_or_assign(kernel, std::move(declared));
  }
}

std::vector<DeclaredParam> params_of_mangled_name(const std::string& symbol) {
  std::vector<DeclaredParam> declared;
  // "void name<...>(first, second)": the parameter list is the last group in parentheses.
  const std::string text = demangled(symbol);
  std::string_view list{text};
  if (!list.ends_with(')')) return declared;
  std::size_t open = list.size();
  for (int depth = 0; open-- > 0;) {
    if (list[open] == ')') ++depth;
    if (list[open] == '(' && --depth == 0) break;
  }
  if (open >= list.size()) return declared;
  list = list.substr(open + 1, list.size() - open - 2);
  if (list.empty()) return declared;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    depth += c == '(' || c == '<' || c == '{' || c == '[';
    depth -= c == ')' || c == '>' || c == '}' || c == ']';
    if (c != ',' || (depth != 0 && i < list.size())) continue;
    std::string_view type = list.substr(start, i - start);
    type.remove_prefix(std::min(type.find_first_not_of(' '), type.size()));
    DeclaredParam param;
    if (const ScalarType* known = find_type(kCxxTypes, type)) {
      param.kind = known->kind;
      param.size = known->size;
    } else if (type.ends_with('*') || type.ends_with("* const") || type.ends_with('&')) {
      param.kind = ParamKind::pointer;
      param.size = sizeof(void*);
    }
    declared.push_back(std::move(param));
    start = i + 1;
  }
  return declared;
}

bool apply_declaration(const std::vector<DeclaredParam>& declared, std::vector<ParamInfo>& params,
                       std::vector<std::string>& names) {
  if (declared.size() != params.size()) return false;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (declared[i].size != 0 && declared[i].size != params[i].size) return false;
  }
  names.resize(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (declared[i].kind != ParamKind::unknown) params[i].kind = declared[i].kind;
    if (!declared[i].name.empty()) names[i] = declared[i].name;
  }
  return true;
}

std::string describe_param(const ParamInfo& param) {
  switch (param.kind) {
    case ParamKind::integer:
      return "a " + std::to_string(param.size) + "-byte integer";
    case ParamKind::pointer:
      return "a pointer";
    case ParamKind::floating:
      return param.size == 4   ? "float"
             : param.size == 8 ? "double"
                               : "a " + std::to_string(param.size) + "-byte floating-point number";
    case ParamKind::unknown:
      break;
  }
  return "a value of " + std::to_string(param.size) + " bytes";
}

}  // namespace cucore::detail
