// A script as submitted: the dialect of its comment lines, and what they request.
#include <algorithm>

#include "base/text.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "dialect/script/script_check.h"
#include "dialect/script/script_lines.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostNotes = 4;

Status ApplyLines(const OptionLines& found, std::string_view path, std::span<const Option> options, JobSpec& spec) {
  for (const OptionLine& line : found.lines) {
    if (!line.error.empty()) return InvalidArgument(AtLine(path, line.number) + line.error);
    const auto parsed = ParseOptions(options, line.words);
    if (!parsed) return InvalidArgument(AtLine(path, line.number) + parsed.error().message);
    if (!parsed->positional.empty() || !parsed->after_dashes.empty()) {
      const std::string& word = parsed->positional.empty() ? parsed->after_dashes.front() : parsed->positional.front();
      if (word == ":") {
        return InvalidArgument(AtLine(path, line.number) +
                               "':' starts another component, but option lines describe only one; write the components "
                               "on the command line (divvy submit --gpus 1 : --nodes 2 --cpus 8 SCRIPT), or use "
                               "#SBATCH lines with '#SBATCH hetjob' between the components");
      }
      return InvalidArgument(AtLine(path, line.number) + Quoted(word) +
                             " does not belong to an option; quote values that contain spaces");
    }
  }
  std::size_t told = 0;
  for (const OptionLines::Unread& unread : found.unread) {
    if (unread.why.starts_with("switched off") || ++told > kMostNotes) continue;
    AddNote(spec, "line " + std::to_string(unread.number) + " is ignored: " + unread.why);
  }
  return {};
}

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

}  // namespace

Status CheckScriptText(std::string_view text, std::string_view path) {
  constexpr std::size_t kMostBytes = 4 << 20;
  const std::string name(path);
  if (Trim(text).empty()) return InvalidArgument(name + " is empty; a script needs at least one command");
  if (text.size() > kMostBytes) return InvalidArgument(name + " is larger than 4 MiB; keep its data in a file");
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n') + 1;
    return InvalidArgument(
        AtLine(path, static_cast<int>(line)) +
        "the file contains a NUL character, so it is a program, not a script; submit it as a command");
  }
  if (text.substr(0, text.find('\n')).ends_with('\r')) {
    return InvalidArgument(
        AtLine(path, 1) + "the file has Windows line ends (CR LF), which interpreters reject; fix: sed -i 's/\\r$//' " +
        ShellQuote(name));
  }
  return {};
}

ScriptKind FindScriptKind(std::string_view text) {
  const SlurmLines slurm = FindSlurmLines(text);
  const bool has_slurm = !slurm.lines.empty() || std::ranges::any_of(slurm.unread, [](const auto& line) {
    return line.text.starts_with("#SBATCH");
  });
  if (has_slurm) return ScriptKind::kSlurm;
  if (!FindOptionLines(text, "GFLOW").lines.empty()) return ScriptKind::kGflow;
  return ScriptKind::kPlain;
}

Status ReadScript(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec,
                  const SbatchCall* sbatch) {
  DIVVY_CHECK(CheckScriptText(text, path));
  // Work on a copy, so that an error on the last line leaves no effects of the first.
  JobSpec read = spec;
  read.script = text;
  if (!text.starts_with("#!")) read.script.insert(0, "#!/bin/bash\n");
  switch (sbatch != nullptr ? ScriptKind::kSlurm : FindScriptKind(text)) {
    case ScriptKind::kSlurm:
      read.dialect = Dialect::kSlurm;
      DIVVY_CHECK(ReadSlurmLines(text, path, around, read, sbatch == nullptr ? nullptr : &sbatch->words));
      for (const OptionLine& line : FindOptionLines(text, "GFLOW").lines) {
        AddNote(read, "line " + std::to_string(line.number) +
                          " is ignored: a script uses either Slurm or gflow options, and this one has #SBATCH lines");
        break;
      }
      break;
    case ScriptKind::kGflow:
      DIVVY_CHECK(ApplyLines(FindOptionLines(text, "GFLOW"), path, GflowOptions(read, around), read));
      if (const Status finished = FinishGflow(read, around); !finished) {
        return InvalidArgument(std::string(path) + ": " + finished.error().message);
      }
      break;
    case ScriptKind::kPlain:
      break;
  }
  // "# DIVVY" lines override the option lines of other tools.
  DIVVY_CHECK(ApplyLines(FindOptionLines(text, "DIVVY"), path, JobOptions(read, around), read));
  if (read.name.empty()) read.name = sbatch != nullptr ? std::string(sbatch->name) : BaseName(path);
  spec = std::move(read);
  return {};
}

}  // namespace divvy::dialect
