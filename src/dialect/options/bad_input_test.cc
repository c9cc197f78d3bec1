// Checks every line of tests/bad_input/*.txt: the input must give a one-line error with the expected text, and must not
// change the output.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "dialect/config/config.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/bad_input.h"
#include "dialect/options/option_values.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace bad_input_test {

template <typename T>
std::optional<std::string> ErrorOf(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error().message;
}

/// Runs `apply` on a non-empty spec. If an error left the spec changed, returns a text that says so.
std::optional<std::string> ErrorWithoutEffect(const std::function<Status(JobSpec&)>& apply) {
  JobSpec spec;
  spec.name = "before";
  spec.request.gpus = 3;
  spec.parameters = {Parameter{.name = "before", .values = {"1", "2"}, .row_group = -1}};
  spec.dependencies = {Dependency{.kind = DependencyKind::kAfterOk, .job = JobId(7)}};
  spec.notes = {"before"};
  const JobSpec before = spec;
  auto error = ErrorOf(apply(spec));
  if (error && spec != before) return "PARTIAL EFFECT after: " + *error;
  return error;
}

std::vector<std::string> Words(const std::string& line) {
  return ShellSplit(line).value_or(std::vector<std::string>{"--unreadable-line"});
}

Status ApplyWords(const std::vector<Option>& options, const std::string& line) {
  const std::vector<std::string> words = Words(line);
  const auto parsed = ParseOptions(options, words);
  if (!parsed) return parsed.error();
  return {};
}

const BadInputKind kKinds[] = {
    {"size", [](const std::string& input) { return ErrorOf(ParseSize(input, 1)); }},
    {"duration", [](const std::string& input) { return ErrorOf(ParseDuration(input, 1min)); }},
    {"slurm-time", [](const std::string& input) { return ErrorOf(ParseSlurmTime(input)); }},
    {"moment", [](const std::string& input) { return ErrorOf(ParseMoment(input, kTestNow, 1h)); }},
    {"signal", [](const std::string& input) { return ErrorOf(ParseSignal(input)); }},
    {"warn-signal", [](const std::string& input) { return ErrorOf(ReadWarnSignal(input)); }},
    {"array", [](const std::string& input) { return ErrorOf(ReadArray(input)); }},
    {"gpus", [](const std::string& input) { return ErrorOf(ReadGpuCount(input)); }},
    {"gpu-range", [](const std::string& input) { return ErrorOf(ReadGpuRange(input)); }},
    {"topology",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) { return ParseTopology(input, spec.request); });
     }},
    {"gpu-set", [](const std::string& input) { return ErrorOf(ParseGpuSet(input)); }},
    {"gpu-type", [](const std::string& input) { return ErrorOf(ReadGpuType(input)); }},
    {"env", [](const std::string& input) { return ErrorOf(ReadEnvironmentPair(input)); }},
    {"export",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) { return ApplyExport(input, spec); });
     }},
    {"param",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) { return ParseParameter(input, spec); });
     }},
    {"csv",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) { return ParseParameterFile(input, "grid.csv", spec); });
     }},
    {"dependency",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) { return ParseDependencies(input, TestParseContext(), spec); });
     }},
    // A single option of divvy's own table. An error must not change the spec.
    {"option",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) {
         const ParseContext around = TestParseContext();
         return ApplyWords(JobOptions(spec, around), input);
       });
     }},
    {"gbatch",
     [](const std::string& input) {
       return ErrorWithoutEffect([&](JobSpec& spec) {
         const ParseContext around = TestParseContext();
         return ApplyWords(GflowOptions(spec, around), input);
       });
     }},
    // A command line whose options are valid individually but not together.
    {"command",
     [](const std::string& input) {
       const ParseContext around = TestParseContext();
       JobSpec spec;
       const std::vector<std::string> words = Words(input);
       auto parsed = ParseOptions(JobOptions(spec, around), words, ParseRules{.stops_at_first_positional = true});
       if (!parsed) return std::optional<std::string>("NOT EVEN READ: " + parsed.error().message);
       spec.command = parsed->positional;
       spec.command.insert(spec.command.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
       CompletePortion(spec);
       return ErrorOf(CheckComplete(spec));
     }},
    {"script",
     [](const std::string& input) {
       const ParseContext around = TestParseContext();
       const bool was_explained = ExplainScript(input, "job.sh", around).had_errors;
       auto error = ErrorWithoutEffect([&](JobSpec& spec) { return ReadScript(input, "job.sh", around, spec); });
       if (!error) {
         JobSpec spec;
         error = ErrorOf(ReadScript(input, "job.sh", around, spec));
         if (!error) error = ErrorOf(CheckComplete(spec));
       }
       if (error && !was_explained) return std::optional<std::string>("EXPLAIN FINDS NOTHING: " + *error);
       if (error) return error;
       // Errors that only a single-node server reports.
       JobSpec spec;
       if (auto again = ErrorOf(ReadScript(input, "job.sh", around, spec))) return again;
       return ErrorOf(CompleteSlurmOnOne(spec, around.hostname));
     }},
    {"toml", [](const std::string& input) { return ErrorOf(ParseConfig(input, "divvy.toml")); }},
};

std::string Unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'x' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  return out;
}

/// Checks one line of a table. Returns what is wrong with it, or "".
std::string CheckLine(const std::string& line) {
  const auto fields = Split(line, '\t');
  if (fields.size() != 3) return "a line has three fields: kind, input, part of the error";
  const auto kind = BadInputKinds().find(std::string(fields[0]));
  if (kind == BadInputKinds().end()) return "unknown kind " + std::string(fields[0]);
  const auto error = kind->second(Unescape(fields[1]));
  if (!error) return "was accepted";
  if (error->find('\n') != std::string::npos) return "the error has several lines: " + *error;
  if (error->size() > 600) return "the error is too long to read: " + *error;
  if (fields[2].empty() || error->find(fields[2]) == std::string::npos) return "the error is: " + *error;
  return "";
}

TEST(BadInput, EveryInvalidLineOfEveryTableIsOneErrorWithItsReason) {
  std::vector<std::filesystem::path> tables;
  for (const auto& entry : std::filesystem::directory_iterator(DIVVY_SOURCE_DIR "/tests/bad_input")) {
    if (entry.path().extension() == ".txt") tables.push_back(entry.path());
  }
  std::ranges::sort(tables);
  int checked = 0;
  for (const auto& table : tables) {
    std::ifstream file(table);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      if (line.empty() || line.front() == '#') continue;
      ++checked;
      const std::string wrong = CheckLine(line);
      EXPECT_EQ(wrong, "") << table.filename().string() << " line " << number << ": " << line;
    }
  }
  EXPECT_GE(checked, 700) << "tests/bad_input has lost its tables";
}

}  // namespace bad_input_test
}  // namespace divvy::dialect
