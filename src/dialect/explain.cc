// `divvy explain SCRIPT`: the meaning of each option line, each mistake with its fix, and the complete request.
#include <algorithm>

#include "base/text.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/job_options.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quoted.h"
#include "dialect/options/task_options.h"
#include "dialect/script/script_check.h"
#include "dialect/script/script_lines.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace {

/// Columns: "  line 12  --gpus=2            2 GPUs", as for a Slurm script.
void AddRow(std::string& text, int line, std::string_view left, std::string_view right) {
  constexpr std::size_t kLeft = 11;
  constexpr std::size_t kRight = 47;
  std::string row = "  line " + std::to_string(line);
  row.resize(std::max(row.size() + 1, kLeft), ' ');
  row += left;
  row.resize(std::max(row.size() + 2, kRight), ' ');
  text += row + std::string(right) + "\n";
}

/// Makes one printable line of a script's text, which may contain any bytes.
std::string OneLine(std::string_view text) {
  constexpr std::size_t kLongest = 400;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < ' ' || byte == 127 ? '?' : c;
  }
  return text.size() > kLongest ? out + "..." : out;
}

/// One option of a script line: its text "--name=value", and what it means by itself.
struct Said {
  std::string option;
  std::string reading;
};

using MakeTable = std::vector<Option> (*)(JobSpec&, const ParseContext&);

std::string ReadingOf(const Option& option, std::string_view value, const JobSpec& alone) {
  Readings readings = ReadBack(alone);
  std::vector<std::string> parts = std::move(readings.request);
  parts.insert(parts.end(), readings.others.begin(), readings.others.end());
  parts.insert(parts.end(), alone.notes.begin(), alone.notes.end());
  if (!parts.empty()) return OneLine(Join(parts, ", "));
  // The default in the help text would be misleading next to the given value.
  const std::string_view meaning = WithoutDefault(option.help);
  return std::string(meaning.substr(0, meaning.find(", such as "))) +
         (value.empty() || option.takes == Takes::kNothing ? "" : ": " + OneLine(value));
}

/// Returns the option table that `make` returns, changed so that each parsed option is recorded together with its
/// meaning.
std::vector<Option> Recording(MakeTable make, JobSpec& spec, const ParseContext& around, std::vector<Said>& said) {
  std::vector<Option> options = make(spec, around);
  for (std::size_t i = 0; i < options.size(); ++i) {
    options[i].apply = [&around, &said, make, i, inner = options[i].apply](std::string_view value) -> Status {
      DIVVY_CHECK(inner(value));
      JobSpec alone;
      const std::vector<Option> fresh = make(alone, around);
      DIVVY_CHECK(fresh[i].apply(value));
      const std::string words =
          "--" + std::string(fresh[i].name) + (fresh[i].takes == Takes::kNothing ? "" : "=" + OneLine(value));
      said.push_back({words, ReadingOf(fresh[i], value, alone)});
      return {};
    };
  }
  return options;
}

void ExplainLines(std::string_view text, std::string_view mark, MakeTable make, const ParseContext& around,
                  JobSpec& spec, ScriptExplanation& explanation) {
  std::vector<Said> said;
  const std::vector<Option> options = Recording(make, spec, around, said);
  const OptionLines found = FindOptionLines(text, mark);
  std::vector<std::pair<int, std::string>> rows;
  const auto add = [&rows](int line, std::string_view left, std::string_view right) {
    std::string row;
    AddRow(row, line, left, right);
    rows.emplace_back(line, std::move(row));
  };
  const auto fail = [&](int line, std::string_view message) {
    explanation.had_errors = true;
    add(line, "ERROR", message);
  };
  for (const OptionLine& line : found.lines) {
    if (!line.error.empty()) {
      fail(line.number, line.error);
      continue;
    }
    said.clear();
    const auto parsed = ParseOptions(options, line.words);
    for (const Said& one : said) add(line.number, one.option, one.reading);
    if (!parsed) {
      fail(line.number, parsed.error().message);
    } else if (!parsed->positional.empty() || !parsed->after_dashes.empty()) {
      const std::string& word = parsed->positional.empty() ? parsed->after_dashes.front() : parsed->positional.front();
      fail(line.number, Quoted(word) + " does not belong to an option; quote values that contain spaces");
    } else if (line.words.empty()) {
      add(line.number, "", "no options");
    }
  }
  for (const OptionLines::Unread& unread : found.unread) {
    add(unread.number, OneLine(unread.text), "ignored: " + unread.why);
  }
  // Each option was explained by itself. The meaning of --gpu-memory with --shared is known only now.
  if (spec.labels.contains("gflow.shared") || spec.labels.contains("divvy.shared")) {
    constexpr std::string_view kLeast = "at least ", kOn = " on each GPU";
    for (auto& [line, row] : rows) {
      const auto least = row.find(kLeast), on = row.find(kOn);
      if (row.find("--gpu-memory=") == std::string::npos || least == std::string::npos || on == std::string::npos)
        continue;
      row.replace(on, kOn.size(), " of each GPU");
      row.erase(least, kLeast.size());
    }
  }
  std::ranges::stable_sort(rows, {}, &std::pair<int, std::string>::first);
  for (const auto& [line, row] : rows) explanation.text += row;
}

std::string_view KindName(ScriptKind kind, bool has_own_lines) {
  switch (kind) {
    case ScriptKind::kSlurm:
      return has_own_lines ? "a Slurm script with divvy's own options" : "a Slurm script";
    case ScriptKind::kGflow:
      return has_own_lines ? "a gflow script with divvy's own options" : "a gflow script";
    case ScriptKind::kPlain:
      break;
  }
  return has_own_lines ? "a script with divvy's own options" : "a script without options";
}

void AddOutcome(const JobSpec& spec, std::string& text) {
  text += "requests: " + OneLine(Summarise(spec)) + "\n";
  for (const std::string& other : ReadBack(spec).others) text += "          " + OneLine(other) + "\n";
  if (spec.notes.empty()) return;
  text += "notes:\n";
  for (const std::string& note : spec.notes) text += "  " + OneLine(note) + "\n";
}

}  // namespace

ScriptExplanation ExplainScript(std::string_view text, std::string_view path, const ParseContext& original) {
  ScriptExplanation explanation;
  ParseContext around = original;
  // Explaining needs no daemon, so "@" stays unresolved.
  if (!around.resolve_job) {
    around.resolve_job = [](std::string_view job) -> Result<JobId> {
      if (job.starts_with('@')) return JobId();
      return NotFound("job names are not known here");
    };
  }
  if (const Status readable = CheckScriptText(text, path); !readable) {
    return {"ERROR " + readable.error().message + "\n", true};
  }
  const ScriptKind kind = FindScriptKind(text);
  const bool has_own_lines = !FindOptionLines(text, "DIVVY").lines.empty();
  explanation.text = std::string(path) + ": " + std::string(KindName(kind, has_own_lines)) + "\n";
  if (!text.starts_with("#!")) AddRow(explanation.text, 1, "", "no #! line; runs under #!/bin/bash");
  // Also look at lines of other dialects, because they may be a mistake.
  if (kind == ScriptKind::kSlurm || !FindSlurmLines(text).unread.empty())
    ExplainSlurmLines(text, path, around, explanation);
  JobSpec own;
  if (kind != ScriptKind::kSlurm) ExplainLines(text, "GFLOW", GflowOptions, around, own, explanation);
  ExplainLines(text, "DIVVY", JobOptions, around, own, explanation);
  if (explanation.had_errors) return explanation;

  JobSpec spec;
  Status whole = ReadScript(text, path, around, spec);
  CompleteTasks(spec);
  CompletePortion(spec);
  if (whole) whole = CheckComplete(spec);
  if (!whole) {
    explanation.had_errors = true;
    explanation.text += "  ERROR " + whole.error().message + "\n";
    return explanation;
  }
  AddOutcome(spec, explanation.text);
  return explanation;
}

}  // namespace divvy::dialect
