#include "cli/shims/gflow/gflow_batch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/gflow/gflow.h"

namespace divvy::cli {
namespace {

constexpr std::string_view kBatchUsage =
    "gbatch [OPTIONS] SCRIPT [ARGS...] | COMMAND [ARGS...] | -\n       gbatch new NAME\n       gbatch completion SHELL";

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

bool HasShellSyntax(std::string_view word) {
  return word.find_first_of(" \t\n|&;<>()$`\"'*?~{}=") != std::string_view::npos;
}

bool IsProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  for (std::string_view directory : Split(path == nullptr ? "" : path, ':')) {
    if (::access((std::string(directory) + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

/// True for a text file that gbatch submits as a script: named .sh, or with a "#!" or "# GFLOW" line.
bool IsScript(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (path.ends_with(".sh")) return true;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  std::string start(4096, '\0');
  start.resize(std::fread(start.data(), 1, start.size(), file));
  std::fclose(file);
  return start.starts_with("#!") || start.find("\n# GFLOW") != std::string::npos || start.starts_with("# GFLOW");
}

Result<std::string> ReadStandardInput() {
  constexpr std::size_t kMost = 16 << 20;
  std::string text(65536, '\0'), out;
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, text.data(), text.size())) > 0;) {
    out.append(text, 0, static_cast<std::size_t>(got));
    if (out.size() > kMost) return InvalidArgument("the script on standard input is larger than 16 MiB");
  }
  if (Trim(out).empty())
    return InvalidArgument("nothing to submit: give a script, a command, or a script on standard input");
  return out;
}

int WriteTemplate(const std::vector<std::string>& words) {
  if (words.size() != 2) return Fail(InvalidArgument("usage: gbatch new NAME"));
  std::string path = words[1].find('.') == std::string::npos ? words[1] + ".sh" : words[1];
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  if (fd < 0) return Fail(FailedPrecondition("cannot make " + path + "; a file of that name is never overwritten"));
  std::string text = GbatchTemplate(BaseName(words[1]));
  bool is_written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (!is_written) return Fail(Internal("cannot write " + path));
  std::printf("Created %s; submit it with: gbatch %s\n", path.c_str(), ShellQuote(path).c_str());
  return 0;
}

struct Flags {
  bool is_dry_run = false;
  bool wants_help = false;
  std::string command;  // --command TEXT, from older releases of gflow.
};

std::vector<dialect::Option> TableOf(JobSpec& spec, Flags& flags, const dialect::ParseContext& around) {
  std::vector<dialect::Option> table = dialect::GflowOptions(spec, around);
  auto add = [&](dialect::Option option) {
    bool is_there = std::any_of(table.begin(), table.end(),
                                [&](const dialect::Option& other) { return other.name == option.name; });
    if (!is_there) table.push_back(std::move(option));
  };
  add(dialect::Option::Flag("dry-run", "Print the job without submitting it", Sets(flags.is_dry_run)));
  add(dialect::Option::Flag("help", 'h', "Print this", Sets(flags.wants_help)));
  add(dialect::Option::Value("command", "TEXT", "Shell command to run", Keeps(flags.command)).Hidden());
  AddGlobalOptions(table);
  return table;
}

struct Submission {
  JobSpec spec;
  Flags flags;
};

/// Parses the script's lines first, then the words again, so that the words win.
Result<Submission> Read(const std::vector<std::string>& words) {
  const dialect::ParseContext around = CallerParseContext();
  const dialect::ParseRules rules{.stops_at_first_positional = true};
  Submission out;
  auto parse = [&] { return dialect::ParseOptions(TableOf(out.spec, out.flags, around), words, rules); };
  DIVVY_TRY(dialect::Parsed parsed, parse());
  if (out.flags.wants_help) return out;
  std::vector<std::string> rest = parsed.positional;
  rest.insert(rest.end(), parsed.after_dashes.begin(), parsed.after_dashes.end());
  if (!out.flags.command.empty()) rest.insert(rest.begin(), out.flags.command);
  bool is_stdin = (rest.empty() && ::isatty(STDIN_FILENO) == 0) || (rest.size() == 1 && rest[0] == "-");
  if (rest.empty() && !is_stdin)
    return InvalidArgument("nothing to submit: give a script or a command; gbatch --help shows examples");
  bool is_explicit = parsed.saw_dashes || !out.flags.command.empty();
  if (std::string advice = is_stdin || is_explicit ? "" : MistakenVerb(rest, IsProgram(rest[0])); !advice.empty()) {
    return InvalidArgument(advice);
  }
  if (is_stdin || (!is_explicit && IsScript(rest[0]))) {
    std::string path = is_stdin ? "stdin" : rest[0];
    auto text = is_stdin ? ReadStandardInput() : around.read_file(path);
    if (!text) return text.error();
    out.spec = JobSpec();
    DIVVY_CHECK(dialect::ReadScript(*text, path, around, out.spec));
    DIVVY_TRY(parsed, parse());
    if (!is_stdin) out.spec.arguments.assign(rest.begin() + 1, rest.end());
    if (out.spec.name.empty()) out.spec.name = BaseName(path);
  } else {
    out.spec.command = GbatchCommand(rest);
    if (out.spec.name.empty()) out.spec.name = GbatchName(rest);
  }
  out.spec.dialect = Dialect::kGflow;
  DIVVY_CHECK(dialect::FinishGflow(out.spec, around));
  if (out.spec.directory.empty()) out.spec.directory = around.directory;
  return out;
}

}  // namespace

std::vector<std::string> GbatchCommand(const std::vector<std::string>& words) {
  if (words.size() == 1 && HasShellSyntax(words[0])) return {"sh", "-c", words[0]};
  static constexpr std::string_view kIndices[] = {"${GFLOW_ARRAY_TASK_ID}", "$GFLOW_ARRAY_TASK_ID"};
  auto find = [](std::string_view text) {
    for (std::string_view index : kIndices) {
      if (auto at = text.find(index); at != std::string_view::npos) return std::pair{at, index};
    }
    return std::pair{std::string_view::npos, std::string_view()};
  };
  bool has_index = std::any_of(words.begin(), words.end(),
                               [&](const std::string& word) { return find(word).first != std::string_view::npos; });
  if (!has_index) return words;
  std::string line = "exec";
  for (std::string_view word : words) {
    line += " ";
    std::string piece;
    for (auto [at, index] = find(word); at != std::string_view::npos; std::tie(at, index) = find(word)) {
      if (at > 0) piece += ShellQuote(word.substr(0, at));
      piece += "\"$GFLOW_ARRAY_TASK_ID\"";
      word.remove_prefix(at + index.size());
    }
    line += piece + (word.empty() && !piece.empty() ? "" : ShellQuote(word));
  }
  return {"sh", "-c", line};
}

std::string GbatchName(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  for (std::string_view word : SplitWords(words[0])) {
    // "A=1 python train.py" is named after python.
    if (word.find('=') == std::string_view::npos) return BaseName(word);
  }
  return "sh";
}

std::string MistakenVerb(const std::vector<std::string>& words, bool is_program) {
  if (words.size() > 2 || is_program) return "";
  struct Verb {
    std::string_view word, instead;
  };
  static constexpr Verb kVerbs[] = {{"list", "gqueue"},    {"queue", "gqueue"},        {"status", "gflowd status"},
                                    {"log", "gjob log"},   {"logs", "gjob log"},       {"show", "gjob show"},
                                    {"info", "ginfo"},     {"cancel", "gcancel"},      {"help", "gbatch --help"},
                                    {"hold", "gjob hold"}, {"release", "gjob release"}};
  for (const Verb& verb : kVerbs) {
    if (words[0] != verb.word) continue;
    std::string tail = words.size() == 2 ? " " + words[1] : "";
    return "there is no program '" + words[0] + "' to run; if you meant '" + std::string(verb.instead) + tail +
           "', write that; to submit it all the same, write: gbatch -- " + words[0] + tail;
  }
  return "";
}

std::string GbatchTemplate(std::string_view name) {
  return "#!/bin/bash\n# GFLOW --name=" + std::string(name) +
         "\n# GFLOW --gpus=1\n# GFLOW --time=2:00:00\n# GFLOW --priority=10\n\necho \"job $GFLOW_JOB_ID on GPUs "
         "$CUDA_VISIBLE_DEVICES\"\n";
}

int GbatchMain(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "new") return WriteTemplate(words);
  if (words.size() == 2 && words[0] == "completion") return BecomeDivvy(words);
  DIVVY_TRY_OR_FAIL(auto submission, Read(words));
  if (submission.flags.wants_help) {
    JobSpec spec;
    Flags flags;
    const dialect::ParseContext around;  // The table keeps a reference to it.
    std::fputs(UsageText(kBatchUsage, TableOf(spec, flags, around)).c_str(), stdout);
    return 0;
  }
  std::string name = submission.spec.name;
  if (submission.flags.is_dry_run) {
    if (Status status = dialect::CheckComplete(submission.spec); !status) return Fail(status.error());
    std::printf("Would submit batch job (%s): %s\n", name.c_str(), dialect::Summarise(submission.spec).c_str());
    for (const std::string& note : submission.spec.notes) Note(note);
    return 0;
  }
  DIVVY_TRY_OR_FAIL(auto answer, SubmitJob(std::move(submission.spec)));
  std::string id = ToString(answer.id);
  if (answer.count > 1)
    std::printf("Submitted batch job %s (%s), %s\n", id.c_str(), name.c_str(), Plural(answer.count, "element").c_str());
  else std::printf("Submitted batch job %s (%s)\n", id.c_str(), name.c_str());
  return 0;
}

}  // namespace divvy::cli
