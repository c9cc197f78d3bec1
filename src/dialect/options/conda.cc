#include "dialect/options/conda.h"

#include <string_view>

#include "base/text.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kBegin = "# >>> divvy: conda environment >>>\n";
constexpr std::string_view kEnd = "# <<< divvy: conda environment <<<\n";
constexpr std::string_view kCommandMark = "divvy-conda";
constexpr std::string_view kTextEnd = "DIVVY_END_OF_SCRIPT";

/// Finds conda (or mamba) in the places where its installer puts it, and activates the environment. `hook` is
/// "shell.bash" or "shell.posix". Works under "set -eu": every failure is caught, and every variable has a default.
std::string Activation(const std::string& environment, std::string_view hook) {
  const std::string name = ShellQuote(environment);
  std::string out;
  out += "divvy_conda=${CONDA_EXE:-}\n";
  out += "[ -n \"$divvy_conda\" ] || divvy_conda=$(command -v conda || true)\n";
  out +=
      "for divvy_dir in \"${HOME:-}/miniconda3\" \"${HOME:-}/miniforge3\" \"${HOME:-}/anaconda3\" "
      "\"${HOME:-}/mambaforge\" "
      "/opt/conda /opt/miniconda3 /opt/miniforge3 /opt/anaconda3; do\n";
  out += "  [ -x \"$divvy_conda\" ] || divvy_conda=$divvy_dir/bin/conda\n";
  out += "done\n";
  out += "if [ ! -x \"$divvy_conda\" ]; then\n";
  out += "  echo \"divvy: no conda was found to activate\" " + name + " >&2\n  exit 1\nfi\n";
  // conda's own functions read unset variables, so a script's "set -u" must come later.
  out += "if ! eval \"$(\"$divvy_conda\" " + std::string(hook) + " hook)\" || ! conda activate " + name + "; then\n";
  out += "  echo \"divvy: the conda environment cannot be activated:\" " + name + " >&2\n  exit 1\nfi\n";
  out += "unset divvy_conda divvy_dir\n";
  return out;
}

void WrapCommand(const std::string& environment, JobSpec& spec) {
  std::vector<std::string>& command = spec.command;
  // Remove an earlier wrapping: bash -c TEXT divvy-conda WORD...
  if (command.size() > 4 && command[3] == kCommandMark) command.erase(command.begin(), command.begin() + 4);
  std::vector<std::string> wrapped = {"/bin/bash", "-c", Activation(environment, "shell.bash") + "exec \"$@\"\n",
                                      std::string(kCommandMark)};
  wrapped.insert(wrapped.end(), command.begin(), command.end());
  // Without this, the job would be named "bash" after the wrapper.
  if (spec.name.empty()) spec.name = command.front().substr(command.front().rfind('/') + 1);
  command = std::move(wrapped);
}

/// Removes an earlier wrapping from the script.
std::string Unwrapped(const std::string& script) {
  const auto begin = script.find(kBegin);
  const auto end = script.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return script;
  std::string out = script.substr(0, begin) + script.substr(end + kEnd.size());
  const std::string tail = "\n" + std::string(kTextEnd) + "\n";
  const auto text = out.find("<<'" + std::string(kTextEnd) + "'\n");
  if (text == std::string::npos || !out.ends_with(tail)) return out;
  const auto first = out.find('\n', text) + 1;
  return out.substr(first, out.size() - tail.size() - first + 1);
}

/// The text of the "#!" line: "/usr/bin/env python3". The kernel passes everything after the first word as one
/// argument, and env does not split it either.
std::string InterpreterLine(std::string_view script) {
  if (!script.starts_with("#!")) return "/bin/bash";
  return std::string(Trim(script.substr(2, script.find('\n') - 2)));
}

void WrapScript(const std::string& environment, JobSpec& spec) {
  std::string script = Unwrapped(spec.script);
  const std::string line = InterpreterLine(script);
  const std::vector<std::string_view> words = SplitWords(line);
  std::string_view shell = words.empty() ? std::string_view("bash") : words.front();
  if (shell.ends_with("/env") && words.size() > 1) shell = words[1];
  shell = shell.substr(shell.rfind('/') + 1);
  const auto line_end = script.starts_with("#!") ? script.find('\n') : std::string::npos;
  const std::size_t body = line_end == std::string::npos ? 0 : line_end + 1;
  if (shell == "bash" || shell == "sh" || shell == "dash" || shell == "ksh") {
    const std::string prologue = std::string(kBegin) +
                                 Activation(environment, shell == "bash" ? "shell.bash" : "shell.posix") +
                                 std::string(kEnd);
    spec.script = script.insert(body, prologue);
    return;
  }
  // Not a shell script: pass it to its interpreter through a file descriptor that bash opens for its text.
  std::string interpreter;
  for (std::string_view word : words) interpreter += ShellQuote(word) + " ";
  if (!script.ends_with('\n')) script += '\n';
  spec.script = "#!/bin/bash\n" + std::string(kBegin) + Activation(environment, "shell.bash") + std::string(kEnd) +
                "exec " + interpreter + "/dev/fd/9 \"$@\" 9<<'" + std::string(kTextEnd) + "'\n" + script +
                std::string(kTextEnd) + "\n";
}

}  // namespace

void RunInsideConda(const std::string& environment, JobSpec& spec) {
  if (!spec.command.empty()) WrapCommand(environment, spec);
  if (!spec.script.empty()) WrapScript(environment, spec);
}

}  // namespace divvy::dialect
