#include "cli/shims/valohai/vh.h"

#include <array>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow_words.h"
#include "cli/shims/valohai/vh_executions.h"
#include "cli/shims/valohai/vh_run.h"

namespace divvy::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kVhUsage =
    "vh [--output-format human|csv|tsv|scsv|psv|json] [--project NAME] GROUP VERB ...\n\n"
    "  exec run STEP [--adhoc] [VH_GPUS=N] [--PARAMETER=VALUE]   Run a step of valohai.yaml\n"
    "  exec list | info | logs | watch | stop | delete | outputs | summarize\n"
    "  task run NAME | list | stop\n"
    "  project status | environments | lint [FILE]\n\n"
    "Names and verbs may be shortened: vh ex r trai\n";

constexpr std::array<std::string_view, 18> kGroups = {
    "execution", "task", "pipeline", "project", "environments", "lint",     "init",   "login",        "logout",
    "yaml",      "data", "alias",    "model",   "deployment",   "notebook", "parcel", "update-check", "exec"};

int Lint(const Words& words) {
  Words files = words;
  if (files.empty()) files.push_back("");
  int code = 0;
  for (const std::string& file : files) {
    auto project = FindVhProject(file);
    if (!project) {
      code = Fail(project.error());
      continue;
    }
    auto reading = dialect::ReadValohaiYaml(project->text, project->shown);
    int errors = 0, warnings = 0;
    for (const dialect::ValohaiProblem& problem : reading.problems) {
      ++(problem.is_warning ? warnings : errors);
      std::printf("%s: %s\n", problem.is_warning ? "warning" : "error",
                  dialect::FormatProblem(project->shown, problem).c_str());
    }
    std::printf("%s: %s, %s\n", project->shown.c_str(), Plural(errors, "error").c_str(),
                Plural(warnings, "warning").c_str());
    if (errors > 0) code = 1;
  }
  return code;
}

int Environments(const VhGlobal& global) {
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto status, api.Status());
  std::vector<Words> rows = {{"Name", "GPUs", "Free", "Queued", "Source"},
                             {CallerParseContext().hostname, std::to_string(status.gpus),
                              std::to_string(status.gpus_free), std::to_string(status.jobs_queued), status.gpu_source}};
  std::fputs(RenderVhTable(rows, global.format).c_str(), stdout);
  return 0;
}

int ProjectStatus(const VhGlobal& global) {
  DIVVY_TRY_OR_FAIL(auto project, FindVhProject(""));
  DIVVY_TRY_OR_FAIL(auto yaml, dialect::ParseValohaiYaml(project.text, project.shown));
  Words names;
  for (const auto& step : yaml.steps) names.push_back(step.name);
  std::vector<Words> rows = {
      {"Project", "Directory", "Steps"},
      {global.project.empty() ? project.name : global.project, project.directory, Join(names, " ")}};
  std::fputs(RenderVhTable(rows, global.format).c_str(), stdout);
  return 0;
}

int Execution(const Words& words, const VhGlobal& global) {
  static constexpr std::array<std::string_view, 11> kVerbs = {"run",    "list",    "info", "logs", "watch",    "stop",
                                                              "delete", "outputs", "open", "ssh",  "summarize"};
  DIVVY_TRY_OR_FAIL(auto verb, ResolveVerb(words.empty() ? "" : words[0], kVerbs, "exec"));
  Words rest(words.begin() + 1, words.end());
  if (verb == "run") return VhRunMain(rest, false, global);
  if (verb == "list") return VhListMain(rest, global);
  if (verb == "info") return VhInfoMain(rest, global);
  if (verb == "stop") return VhStopMain(rest, global);
  if (verb == "delete") return VhDeleteMain(rest, global);
  if (verb == "outputs") return VhOutputsMain(rest, global);
  if (verb == "summarize") return VhSummarizeMain(rest, global);
  if (verb == "open")
    return Fail(FailedPrecondition("there is no page to open; write: vh exec info " + Join(rest, " ")));
  if (verb == "ssh")
    return Fail(FailedPrecondition("an execution runs on this machine: use a shell here, or divvy attach"));
  if (verb == "watch") rest.push_back("--stream");
  return VhLogsMain(rest, global);
}

int Task(const Words& words, const VhGlobal& global) {
  static constexpr std::array<std::string_view, 3> kVerbs = {"run", "list", "stop"};
  DIVVY_TRY_OR_FAIL(auto verb, ResolveVerb(words.empty() ? "" : words[0], kVerbs, "task"));
  Words rest(words.begin() + 1, words.end());
  if (verb == "run") return VhRunMain(rest, true, global);
  return verb == "list" ? VhTaskListMain(rest, global) : VhTaskStopMain(rest, global);
}

int Project(const Words& words, const VhGlobal& global) {
  static constexpr std::array<std::string_view, 9> kVerbs = {
      "create", "link", "unlink", "list", "status", "fetch", "commits", "open", "environment-variables"};
  DIVVY_TRY_OR_FAIL(auto verb, ResolveVerb(words.empty() ? "status" : words[0], kVerbs, "project"));
  if (verb == "status" || verb == "list") return ProjectStatus(global);
  if (verb == "create" || verb == "link" || verb == "unlink" || verb == "fetch") {
    std::printf("Nothing to do: a project is the directory that holds valohai.yaml.\n");
    return 0;
  }
  if (verb == "commits")
    return Fail(
        FailedPrecondition("commits are not tracked; an execution runs the working directory (--adhoc: a copy of it)"));
  if (verb == "open") return Fail(FailedPrecondition("there is no page to open; write: vh project status"));
  return Fail(FailedPrecondition(
      "project variables are stored at Valohai; set variables in valohai.yaml or with --var NAME=VALUE"));
}

int Other(const std::string& group) {
  if (group == "login" || group == "logout" || group == "update-check" || group == "init") {
    std::printf(
        "Nothing to do: divvy knows you by your user on this machine, and a project is the directory that holds "
        "valohai.yaml.\n");
    return 0;
  }
  static const std::map<std::string_view, std::string_view> kInstead = {
      {"pipeline",
       "pipelines are checked by vh lint and not run; run their steps one after the other, with divvy submit "
       "--dependency"},
      {"yaml", "valohai.yaml is not generated from code; write it by hand and check it with vh lint"},
      {"data", "data stays on this machine: name files as inputs (--NAME=PATH)"},
      {"alias", "there are no datum aliases; name files as inputs (--NAME=PATH)"},
      {"model", "there is no model registry; vh exec outputs shows what an execution wrote"},
      {"deployment", "endpoints are not served"},
      {"notebook", "run a notebook server as a job: divvy run --gpus 1 -- jupyter lab"},
      {"parcel", "there is nothing to move: executions run on this machine"}};
  return Fail(FailedPrecondition("vh " + group + ": " + std::string(kInstead.at(group))));
}

/// Parses the options before the group, and leaves `at` at the group's word.
Result<VhGlobal> ParseGlobal(const Words& words, std::size_t& at) {
  VhGlobal out;
  for (; at < words.size() && words[at].starts_with("-"); ++at) {
    auto equals = words[at].find('=');
    std::string name = words[at].substr(0, equals);
    if (name == "--help" || name == "-h" || name == "--version" || name == "--debug") return out;
    bool is_known = name == "--output-format" || name == "--table-format" || name == "--project" ||
                    name == "--valohai-host" || name == "--valohai-token" || name == "--project-mode" ||
                    name == "--project-root";
    if (!is_known) {
      static constexpr std::array<std::string_view, 5> kNames = {"--output-format", "--table-format", "--project",
                                                                 "--valohai-host", "--valohai-token"};
      std::string_view nearest = Nearest(name, kNames);
      return InvalidArgument(
          "unknown option " + name +
          (nearest.empty() ? "; vh --help lists them" : "; did you mean " + std::string(nearest) + "?"));
    }
    std::string value;
    if (equals != std::string::npos) {
      value = words[at].substr(equals + 1);
    } else {
      if (++at == words.size()) return InvalidArgument(name + " needs a value");
      value = words[at];
    }
    if (name == "--project") out.project = value;
    if (name == "--output-format" || name == "--table-format") {
      DIVVY_TRY(out.format, ParseVhFormat(value));
    }
  }
  return out;
}

}  // namespace

int VhMain(const Words& words) {
  std::size_t at = 0;
  DIVVY_TRY_OR_FAIL(auto global, ParseGlobal(words, at));
  if (at == words.size() || words[at].starts_with("-") || words[at] == "help") {
    std::printf("usage: %.*s", static_cast<int>(kVhUsage.size()), kVhUsage.data());
    return at == words.size() ? 2 : 0;
  }
  auto group = ResolveVerb(words[at], kGroups, "");
  // "ex" begins both exec and execution, which are the same group.
  if (!group && words[at].size() > 1 && std::string_view("execution").starts_with(words[at])) group = "execution";
  if (!group) return Fail(group.error());
  const Words rest(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  if (*group == "execution" || *group == "exec") return Execution(rest, global);
  if (*group == "task") return Task(rest, global);
  if (*group == "project") return Project(rest, global);
  if (*group == "lint") return Lint(rest);
  if (*group == "environments") return Environments(global);
  return Other(*group);
}

}  // namespace divvy::cli
