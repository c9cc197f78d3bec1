#include "cli/shims/valohai/vh_run.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "base/uuid.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow_words.h"
#include "cli/shims/valohai/vh_snapshot.h"
#include "dialect/valohai/valohai_script.h"

namespace divvy::cli {
namespace {

constexpr std::string_view kRunUsage =
    "vh exec run [OPTIONS] STEP [--PARAMETER=VALUE] [--INPUT=PATH] [NAME=VALUE]\n\n"
    "  -a, --adhoc                 Run a copy of the working directory, so that it may be edited meanwhile\n"
    "  -v, --var NAME=VALUE        An environment variable; NAME=VALUE alone does too (VH_GPUS=4)\n"
    "  -t, --title TEXT            The execution's title\n"
    "  -e, --environment NAME      Where to run; a label on one server\n"
    "  -i, --image NAME            Its container, where divvy.toml says valohai_images\n"
    "  -w, --watch                 Show the log until the execution has ended; exit with its code\n"
    "      --priority [N]          Ahead of lower numbers (alone: 1)\n"
    "      --tag TEXT              A tag; may be repeated\n"
    "      --autorestart           Run again after the machine restarted\n"
    "      --yaml PATH             Another file than valohai.yaml\n"
    "      --parameter-file FILE   Values of parameters, as JSON or YAML\n";

std::string RandomUuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return "";  // MakeExecution creates one.
  std::string digits;
  for (const unsigned char byte : bytes) {
    std::array<char, 4> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned>(byte));
    digits += hex.data();
  }
  return UuidOfRandom(digits);
}

int ListSteps(const dialect::ValohaiProject& project, const VhGlobal& global) {
  std::vector<std::vector<std::string>> rows = {{"Step", "Parameters", "Inputs", "Image"}};
  for (const dialect::ValohaiStep& step : project.steps) {
    std::vector<std::string> parameters, inputs;
    for (const auto& parameter : step.parameters) parameters.push_back(parameter.name);
    for (const auto& input : step.inputs) inputs.push_back(input.name);
    rows.push_back({step.name, Join(parameters, " "), Join(inputs, " "), step.image});
  }
  std::fputs(RenderVhTable(rows, global.format).c_str(), stdout);
  return 0;
}

Status AddParameterFile(VhRun& run, const dialect::ParseContext& around) {
  if (run.parameter_file.empty()) return {};
  DIVVY_TRY(std::string text, around.read_file(run.parameter_file));
  DIVVY_TRY(auto values, dialect::ParseValohaiValues(text, run.parameter_file));
  for (auto& [name, list] : values)
    run.request.parameters.emplace(name, std::move(list));  // The words override the file.
  return {};
}

/// Provides the code of the execution: a copy below its directory, or the project itself if copying would be slow.
void Pack(const VhProject& project, VhRun& run) {
  run.request.repository = project.directory;
  if (!run.is_adhoc) return;
  std::string destination = run.request.root + "/repository";
  auto snapshot = CopyProject(project.directory, destination);
  if (!snapshot) Note("running in " + project.directory + " itself: " + snapshot.error().message);
  else if (!snapshot->is_copied) Note("running in " + project.directory + " itself: " + snapshot->reason);
  else run.request.repository = destination;
}

/// Returns the default number of GPUs: 1, or 0 on a machine without GPUs. Called only if neither the request nor the
/// step gives a number.
int DefaultGpus() {
  auto api = Api::Connect();
  if (!api) return 1;
  auto status = api->Status();
  return status && status->gpus == 0 ? 0 : 1;
}

struct Started {
  wire::SubmitAnswer answer;
  std::string step, id, root;
  bool is_sweep = false;
};

void Print(const std::vector<Started>& all, VhFormat format) {
  if (format != VhFormat::kHuman) {
    std::vector<std::vector<std::string>> rows = {{"counter", "job", "id", "step", "status", "directory"}};
    for (const Started& one : all) {
      rows.push_back({ToString(one.answer.id), ToString(one.answer.id), one.id, one.step,
                      std::string(VhStatusOf(one.answer.state)), one.root});
    }
    std::fputs(RenderVhTable(rows, format).c_str(), stdout);
    return;
  }
  for (const Started& one : all) {
    std::string id = ToString(one.answer.id);
    if (one.is_sweep) {
      const auto first = one.answer.id.value() + 1,
                 last = one.answer.id.value() + static_cast<std::uint64_t>(one.answer.count);
      std::printf("Task created: executions #%llu to #%llu of %s, %s; divvy sweep show %s\n",
                  static_cast<unsigned long long>(first), static_cast<unsigned long long>(last), one.step.c_str(),
                  one.answer.summary.c_str(), id.c_str());
      continue;
    }
    std::printf("Execution #%s created (job %s): %s, %s\n", id.c_str(), id.c_str(), one.step.c_str(),
                one.answer.summary.c_str());
  }
}

int Watch(const std::string& id, bool is_sweep) {
  if (!is_sweep) RunDivvy({"logs", "-f", id});
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto end, api.Wait(id));
  std::fprintf(stderr, "%s #%s: %s\n", is_sweep ? "Task" : "Execution", id.c_str(),
               std::string(VhStatusOf(end.state)).c_str());
  if (end.state == "succeeded") return 0;
  return end.exit_code != 0 ? static_cast<int>(end.exit_code) : 1;
}

Result<std::vector<Started>> Start(const dialect::ValohaiProject& yaml, const VhProject& project, bool is_task,
                                   VhRun& run) {
  dialect::ParseContext around = CallerParseContext();
  around.directory = project.directory;  // Input paths are relative to the project.
  DIVVY_CHECK(AddParameterFile(run, CallerParseContext()));
  run.request.execution_id = RandomUuid();
  run.request.root = ExecutionsDirectory() + "/" + run.request.execution_id;
  std::vector<JobSpec> specs;
  auto make = [&]() -> Status {
    if (is_task) {
      DIVVY_TRY(specs, dialect::MakeTask(yaml, run.target, run.request, around));
    } else {
      DIVVY_TRY(JobSpec spec, dialect::MakeExecution(yaml, run.target, run.request, around));
      specs = {std::move(spec)};
    }
    return {};
  };
  // Build the jobs once to check the request before anything is copied, and again below with the path of the copy.
  DIVVY_CHECK(make());
  bool has_gpus = run.sets_gpus;
  for (const std::string& variable : specs.front().extra_environment) has_gpus = has_gpus || variable == "VH_GPUS=0";
  auto step = dialect::FindValohaiStep(yaml, specs.front().name);
  if (step) {
    has_gpus = has_gpus || !(*step)->devices.empty();
    for (const auto& variable : (*step)->variables)
      has_gpus = has_gpus || (variable.name == "VH_GPUS" && variable.value);
  }
  if (!has_gpus) run.request.default_gpus = DefaultGpus();
  Pack(project, run);
  DIVVY_CHECK(make());
  bool is_sweep = false;
  if (is_task) {
    auto sweep = dialect::MakeTaskSweep(yaml, run.target, run.request, around);
    is_sweep = sweep.has_value();
    if (is_sweep) specs = {*std::move(sweep)};
    else Note("the executions are separate jobs, not a sweep: " + sweep.error().message);
  }
  std::vector<Started> out;
  for (JobSpec& spec : specs) {
    Started one{{}, spec.name, spec.labels["valohai.execution"], spec.labels["valohai.root"], is_sweep};
    auto answer = SubmitJob(std::move(spec));
    if (!answer) {
      // The job was refused, so the copy is not needed.
      std::error_code ignored;
      if (out.empty()) std::filesystem::remove_all(run.request.root, ignored);
      return answer.error();
    }
    one.answer = std::move(*answer);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Result<VhProject> FindVhProject(const std::string& yaml) {
  const dialect::ParseContext around = CallerParseContext();
  VhProject out;
  std::string path = yaml.empty()     ? around.directory + "/valohai.yaml"
                     : yaml[0] == '/' ? yaml
                                      : around.directory + "/" + yaml;
  out.shown = yaml.empty() ? "valohai.yaml" : yaml;
  struct stat status {};
  // Without --yaml, the project may begin in a parent directory, as with git.
  for (std::string directory = around.directory; yaml.empty() && ::stat(path.c_str(), &status) != 0;) {
    auto slash = directory.rfind('/');
    if (slash == std::string::npos || directory.empty()) {
      return NotFound("there is no valohai.yaml in " + around.directory +
                      " or above; go to the project's directory, or add --yaml PATH");
    }
    directory.resize(slash);
    path = directory + "/valohai.yaml";
    out.shown = path;
  }
  DIVVY_TRY(out.text, around.read_file(path));
  out.directory = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  out.name = out.directory.substr(out.directory.rfind('/') + 1);
  return out;
}

std::string ExecutionsDirectory() {
  RuntimePaths places = FindPlaces();
  if (!places.home.empty() && ::access(places.home.c_str(), W_OK) == 0) return places.home + "/executions";
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  std::string base =
      data != nullptr && data[0] == '/' ? data : std::string(home == nullptr ? "/tmp" : home) + "/.local/share";
  return base + "/divvy/executions";
}

int VhRunMain(const std::vector<std::string>& words, bool is_task, const VhGlobal& global) {
  std::optional<VhProject> project;
  std::optional<dialect::ValohaiProject> yaml;
  auto read = [&](const std::string& path) -> Result<dialect::ValohaiProject> {
    DIVVY_TRY(project, FindVhProject(path));
    DIVVY_TRY(yaml, dialect::ParseValohaiYaml(project->text, project->shown));
    return *yaml;
  };
  DIVVY_TRY_OR_FAIL(auto run, ParseVhRun(words, is_task, read));
  if (run.wants_help) {
    std::printf("usage: %.*s", static_cast<int>(kRunUsage.size()), kRunUsage.data());
    return 0;
  }
  if (run.target.empty()) {
    auto status = read(run.yaml);
    if (!status) return Fail(status.error());
    if (is_task) return Fail(InvalidArgument("which task? write: vh task run NAME"));
    return ListSteps(*yaml, global);
  }
  run.request.project = global.project.empty() ? project->name : global.project;
  for (const std::string& note : run.notes) Note(note);
  DIVVY_TRY_OR_FAIL(auto started, Start(*yaml, *project, is_task, run));
  Print(started, global.format);
  if (!run.is_watched) return 0;
  int code = 0;
  std::fflush(stdout);
  for (const Started& one : started) {
    if (int end = Watch(ToString(one.answer.id), one.is_sweep); end != 0) code = end;
  }
  return code;
}

}  // namespace divvy::cli
