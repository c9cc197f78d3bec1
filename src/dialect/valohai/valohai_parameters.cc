// How parameters are passed to the commands: pass-as templates and braces in a command.
#include <algorithm>

#include "base/text.h"
#include "dialect/valohai/valohai.h"

namespace divvy::dialect {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;

bool IsTrue(std::string_view value) {
  std::string text = ToLower(value);
  return text == "true" || text == "yes" || text == "on" || text == "1";
}

/// Fills {name}, {value} and {v} in `piece`.
std::string FillPiece(std::string_view piece, std::string_view name, std::string_view value) {
  std::string out;
  while (!piece.empty()) {
    bool is_filled = false;
    for (auto [brace, text] : {std::pair{std::string_view("{name}"), name},
                               {std::string_view("{value}"), value},
                               {std::string_view("{v}"), value}}) {
      if (!piece.starts_with(brace)) continue;
      out += text;
      piece.remove_prefix(brace.size());
      is_filled = true;
      break;
    }
    if (is_filled) continue;
    out += piece.front();
    piece.remove_prefix(1);
  }
  return out;
}

void AppendPieces(std::string_view pattern, std::string_view name, std::string_view value,
                  std::vector<std::string>& out) {
  for (std::string_view word : SplitWords(pattern)) out.push_back(FillPiece(word, name, value));
}

std::vector<std::string> PassAs(const ValohaiParameter& parameter, const std::vector<std::string>& values) {
  std::vector<std::string> out;
  if (parameter.type == ValohaiType::kFlag) {
    bool is_true = !values.empty() && IsTrue(values.front());
    std::string plain = parameter.pass_as.empty() ? "--{name}" : parameter.pass_as;
    std::string pattern = is_true ? parameter.pass_true_as.value_or(plain) : parameter.pass_false_as.value_or("");
    AppendPieces(pattern, parameter.name, is_true ? "true" : "false", out);
    return out;
  }
  std::string pattern = parameter.pass_as.empty() ? "--{name}={value}" : parameter.pass_as;
  if (parameter.multiple == ValohaiMultiple::kSeparate) {
    if (!values.empty()) AppendPieces(pattern, parameter.name, Join(values, parameter.separator), out);
  } else {
    for (const std::string& value : values) AppendPieces(pattern, parameter.name, value, out);
  }
  return out;
}

std::string QuoteAll(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(ShellQuote(word));
  return Join(quoted, " ");
}

std::string BareValue(const ValohaiParameter& parameter, const std::vector<std::string>& values) {
  if (parameter.type == ValohaiType::kFlag) return !values.empty() && IsTrue(values.front()) ? "true" : "false";
  if (parameter.multiple == ValohaiMultiple::kSeparate) return ShellQuote(Join(values, parameter.separator));
  return QuoteAll(values);
}

/// Returns the replacement for the text between braces; nullopt if that is not a placeholder of Valohai.
std::optional<std::string> Interpolate(std::string_view content, const ValohaiStep& step, const Values& values) {
  auto values_of = [&](const ValohaiParameter& parameter) {
    auto found = values.find(parameter.name);
    return found == values.end() ? std::vector<std::string>{} : found->second;
  };
  auto find = [&](std::string_view name) {
    return std::find_if(step.parameters.begin(), step.parameters.end(),
                        [&](const ValohaiParameter& parameter) { return parameter.name == name; });
  };
  content = Trim(content);
  if (content == "parameters" || content == "params") {
    std::vector<std::string> pieces;
    for (const ValohaiParameter& parameter : step.parameters) {
      for (std::string& piece : PassAs(parameter, values_of(parameter))) pieces.push_back(std::move(piece));
    }
    return QuoteAll(pieces);
  }
  if (content == "source-path") return ShellQuote(step.source_path.empty() ? "." : step.source_path);
  for (std::string_view prefix : {"parameter-value:", "parameter:"}) {
    if (!content.starts_with(prefix)) continue;
    auto parameter = find(Trim(content.substr(prefix.size())));
    if (parameter == step.parameters.end()) return std::nullopt;
    if (prefix == "parameter:") return QuoteAll(PassAs(*parameter, values_of(*parameter)));
    if (!values.contains(parameter->name) && parameter->type != ValohaiType::kFlag) return "";
    return BareValue(*parameter, values_of(*parameter));
  }
  return std::nullopt;
}

}  // namespace

std::string FillValohaiCommand(std::string_view command, const ValohaiStep& step, const Values& values) {
  std::string out;
  for (std::size_t at = 0; at < command.size();) {
    if (command[at] == '{' && (at == 0 || command[at - 1] != '$')) {  // "${parameters}" is a variable of the shell.
      auto end = command.find_first_of("{}\n", at + 1);
      if (end != std::string_view::npos && command[end] == '}') {
        if (auto text = Interpolate(command.substr(at + 1, end - at - 1), step, values)) {
          out += *text;
          at = end + 1;
          continue;
        }
      }
    }
    out += command[at++];
  }
  return out;
}

}  // namespace divvy::dialect
