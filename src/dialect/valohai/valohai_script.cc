#include "dialect/valohai/valohai_script.h"

#include <array>
#include <cstdio>

#include "base/text.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kDefaultInterpreter = "#!/bin/bash";

// Plain POSIX, so that it works in any shell that the step names. It uses builtins where possible, because every
// process that it starts delays the job.
constexpr std::string_view kPrologue =
    "# What a Valohai execution finds around it; the step's own commands follow.\n"
    "vh_fail() { echo \"valohai: $1\" >&2; exit 1; }\n"
    "mkdir -p -- \"$VH_CONFIG_DIR\" \"$VH_INPUTS_DIR\" \"$VH_OUTPUTS_DIR\" ||\n"
    "  vh_fail \"cannot make the directories of this execution\"\n"
    "vh_config() {\n"
    "  printf '%s\\n' \"$2\" >\"$VH_CONFIG_DIR/$1.json\" && printf '%s\\n' \"$2\" >\"$VH_CONFIG_DIR/$1.yaml\" ||\n"
    "    vh_fail \"cannot write $VH_CONFIG_DIR/$1.json\"\n"
    "}\n";

constexpr std::string_view kOwnEnvironment =
    "vh_root=${VH_CONFIG_DIR%/config}/${DIVVY_ARRAY_INDEX:-0}\n"
    "VH_CONFIG_DIR=$vh_root/config VH_INPUTS_DIR=$vh_root/inputs VH_OUTPUTS_DIR=$vh_root/outputs\n"
    "VH_EXECUTION_ID=${VH_EXECUTION_ID%-*}-$(printf %012x \"$((${DIVVY_ARRAY_INDEX:-0} + 1))\")\n"
    "VH_JOB_ID=exec-$VH_EXECUTION_ID\n"
    "export VH_CONFIG_DIR VH_INPUTS_DIR VH_OUTPUTS_DIR VH_EXECUTION_ID VH_JOB_ID\n"
    "unset vh_root\n";

constexpr std::string_view kInputFunctions =
    "vh_link() {\n"
    "  [ -e \"$1\" ] || vh_fail \"the input file $1 does not exist\"\n"
    "  mkdir -p -- \"${2%/*}\" && ln -sfn -- \"$1\" \"$2\" || vh_fail \"cannot link the input $1\"\n"
    "}\n"
    "vh_fetch() {\n"
    "  [ -e \"$2\" ] && return\n"
    "  command -v curl >/dev/null || vh_fail \"the input $1 needs curl, which is not installed here\"\n"
    "  mkdir -p -- \"${2%/*}\" &&\n"
    "    curl --fail --location --silent --show-error --retry 2 --output \"$2.part\" -- \"$1\" &&\n"
    "    mv -- \"$2.part\" \"$2\" || vh_fail \"cannot fetch the input $1\"\n"
    "}\n";

bool IsShell(std::string_view interpreter_line) {
  auto words = SplitWords(interpreter_line.substr(2));
  std::size_t at = 0;
  auto base = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  // Skip the options of "#!/usr/bin/env -S bash -e".
  if (at < words.size() && base(words[at]) == "env") {
    do ++at;
    while (at < words.size() && words[at].starts_with("-"));
  }
  if (at == words.size()) return false;
  for (std::string_view shell : {"sh", "bash", "dash", "zsh", "ksh", "ash"}) {
    if (base(words[at]) == shell) return true;
  }
  return false;
}

/// Puts the text in single quotes for the shell, but lets the shell expand @COUNTER@ and @EXECUTION@, each once.
std::string QuoteConfiguration(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kMarks[] = {{"@EXECUTION@", "\"${VH_EXECUTION_ID}\""},
                                                                             {"@COUNTER@", "\"${DIVVY_JOB_ID:-0}\""}};
  std::string out;
  for (const auto& [mark, expansion] : kMarks) {
    const auto at = text.find(mark);
    if (at == std::string_view::npos) continue;
    out += ShellQuote(text.substr(0, at)) + std::string(expansion);
    text.remove_prefix(at + mark.size());
  }
  return text.empty() ? out : out + ShellQuote(text);
}

void AppendInputs(const std::vector<StagedInput>& inputs, std::string& out) {
  if (inputs.empty()) return;
  out += kInputFunctions;
  for (const StagedInput& input : inputs) {
    out += input.is_url ? "vh_fetch " : "vh_link ";
    out += ShellQuote(input.source) + " \"$VH_INPUTS_DIR\"/" + ShellQuote(input.destination) + "\n";
  }
  out += "unset -f vh_link vh_fetch\n";
}

// With `set -e` alone, "false && echo" continues, because a command before && may fail. In Valohai this list is a
// command of its own and has failed. Only such lists are checked, because a check after every line would break loops
// and ifs that span several commands.
void AppendCommands(const std::vector<std::string>& commands, std::string& out) {
  out += "vh_status() { return \"$?\"; }\nset -e\n";
  for (const std::string& command : commands) {
    out += command;
    if (!command.ends_with('\n')) out += '\n';
    if (command.ends_with('\\')) out += '\n';
    bool is_list = command.find("&&") != std::string::npos || command.find("||") != std::string::npos;
    if (is_list) out += "vh_status\n";
  }
}

void AppendProgram(const std::vector<std::string>& commands, std::string& out) {
  std::string program = Join(commands, "\n");
  std::string mark = "VH_END_OF_COMMANDS";
  while (program.find(mark) != std::string::npos) mark += "_";
  out += "vh_program=${VH_CONFIG_DIR%/*}/command\n";
  out += "cat >\"$vh_program\" <<'" + mark + "'\n" + program + (program.ends_with('\n') ? "" : "\n") + mark + "\n";
  out += "chmod +x -- \"$vh_program\" && exec \"$vh_program\"\n";
}

}  // namespace

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(byte));
      out += escaped.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string RenderScript(const ExecutionScript& script) {
  std::vector<std::string> commands = script.commands;
  std::string interpreter(kDefaultInterpreter);
  bool is_shell = true;
  if (!commands.empty() && commands.front().starts_with("#!")) {
    auto end = commands.front().find('\n');
    std::string first = commands.front().substr(0, end);
    is_shell = IsShell(first);
    if (is_shell) {
      interpreter = first;
      commands.front() = end == std::string::npos ? "" : commands.front().substr(end + 1);
    }
  }
  std::string out = interpreter + "\n";
  if (script.is_of_array) out += kOwnEnvironment;
  out += kPrologue;
  for (const auto& [name, json] : script.configuration) {
    out += "vh_config " + ShellQuote(name) + " " + QuoteConfiguration(json) + "\n";
  }
  AppendInputs(script.inputs, out);
  if (is_shell) {
    out += "unset -f vh_fail vh_config\n";
    AppendCommands(commands, out);
  } else {
    AppendProgram(commands, out);
  }
  return out;
}

}  // namespace divvy::dialect
