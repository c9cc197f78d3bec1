// scontrol's verbs for running jobs: listpids, listjobs, liststeps, pidinfo, completing, getaddrs, ping; and notify.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/slurm/slurm_scontrol.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/steps/step_listing.h"
#include "cli/steps/step_plan.h"
#include "cli/steps/steps.h"
#include "platform/os/process_title.h"
#include "platform/os/runtime_paths.h"
#include "platform/records/step_list_file.h"

namespace divvy::cli::slurm {
namespace {

using Words = std::vector<std::string>;

std::string ProcFile(std::int64_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::int64_t ParentOf(std::int64_t pid) {
  const std::string stat = ProcFile(pid, "stat");
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<std::string_view> words = SplitWords(std::string_view(stat).substr(name_end + 1));
  return words.size() > 1 ? ParseInteger(words[1]).value_or(0) : 0;
}

/// The job of this process: its environment names it, or the process is a descendant of the first process of one of
/// `jobs`. Empty if it has none.
std::string JobOfProcess(Api& api, std::int64_t pid) {
  std::vector<std::string> environment;
  const std::string text = ProcFile(pid, "environ");
  for (const std::string_view entry : Split(text, '\0')) environment.emplace_back(entry);
  if (std::string id = EnvironmentValue(environment, "DIVVY_JOB_ID"); !id.empty()) return id;
  wire::JobSelector select;
  select.user = "all";
  select.states = {"running", "paused", "stopping"};
  const auto jobs = api.Jobs(select);
  if (!jobs) return "";
  for (const wire::JobView& job : *jobs) {
    const auto detail = api.Job(ToString(job.id));
    if (!detail || detail->pid <= 0) continue;
    for (std::int64_t one = pid; one > 1; one = ParentOf(one)) {
      if (one == detail->pid) return ToString(job.id);
    }
  }
  return "";
}

/// A process of a running job on this machine.
struct JobProcess {
  std::int64_t pid = 0;
  std::string step;  // "batch" if no step started it.
  std::string local;
  std::string rank;  // Set for the first process of a task; "-" for its descendants.
};

/// Returns the value of the variable if it is a number, else "". Users can put any text into the environment.
std::string NumberIn(const std::vector<std::string>& environment, const char* name) {
  const auto number = ParseInteger(EnvironmentValue(environment, name));
  return number && *number >= 0 ? std::to_string(*number) : "";
}

/// The processes that this user may look at, of jobs of this machine's daemon or agent, by the step list of their job.
/// The list's path names the job's user. Processes of other users do not count, whatever their environment says.
std::map<std::string, std::vector<JobProcess>> ProcessesByList() {
  struct Seen {
    std::int64_t parent = 0;
    std::vector<std::string> environment;
  };
  const RuntimePaths places = FindPlaces();
  std::map<std::int64_t, Seen> seen;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const auto pid = ParseInteger(entry.path().filename().string());
    if (!pid) continue;
    Seen one;
    const std::string text = ProcFile(*pid, "environ");
    for (const std::string_view variable : Split(text, '\0')) one.environment.emplace_back(variable);
    const std::string list = EnvironmentValue(one.environment, "DIVVY_STEPS");
    const auto job = ParseInteger(EnvironmentValue(one.environment, "DIVVY_JOB_ID"));
    struct stat owned = {};
    if (!job || *job < 1 || ::stat(entry.path().c_str(), &owned) != 0) continue;
    const auto is_its = [&](const std::string& runs) {
      return list == StepListPath(runs, owned.st_uid, static_cast<std::uint64_t>(*job));
    };
    if (!is_its(places.runs) && !is_its(places.state + "/agent/runs")) continue;
    if (ProcFile(*pid, "comm") == std::string(kStepProcess) + "\n") continue;
    one.parent = ParentOf(*pid);
    seen.emplace(*pid, std::move(one));
  }
  std::map<std::string, std::vector<JobProcess>> processes;
  for (const auto& [pid, one] : seen) {
    const auto value = [&](const char* name) { return NumberIn(one.environment, name); };
    JobProcess process{pid, value("SLURM_STEP_ID"), value("SLURM_LOCALID"), value("SLURM_PROCID")};
    const auto parent = seen.find(one.parent);
    const bool is_first = parent == seen.end() || NumberIn(parent->second.environment, "SLURM_STEP_ID") != process.step;
    if (!is_first) process.local = process.rank = "-";
    if (process.step.empty()) process.step = "batch";
    if (process.local.empty()) process.local = process.rank = is_first ? "0" : "-";
    processes[EnvironmentValue(one.environment, "DIVVY_STEPS")].push_back(std::move(process));
  }
  return processes;
}

/// Returns the processes of one job. A daemon without root runs all jobs as its own user, so the lists of both users
/// are searched.
std::vector<JobProcess> ProcessesOf(const wire::JobView& job,
                                    const std::map<std::string, std::vector<JobProcess>>& by_list) {
  const RuntimePaths places = FindPlaces();
  const std::int64_t own = ::geteuid();
  std::vector<JobProcess> all;
  for (const std::int64_t uid : std::set<std::int64_t>{own, UserIdOf(job.user).value_or(own)}) {
    for (const std::string& runs : {places.runs, places.state + "/agent/runs"}) {
      const auto found = by_list.find(StepListPath(runs, uid, job.id.value()));
      if (found != by_list.end()) all.insert(all.end(), found->second.begin(), found->second.end());
    }
  }
  return all;
}

int Refuse(const Error& error, const std::string& ids) {
  return Say(error.code == ErrorCode::kNotFound ? "Invalid job id specified for job " + ids
                                                : "scontrol: error: " + error.message);
}

}  // namespace

int Say(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

int ControlList(const Words& words, Listed what) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::JobSelector select;
  select.user = "all";
  select.states = {"running", "paused", "stopping"};
  const std::string named = words.empty() ? "" : words.front();
  const auto dot = named.find('.');
  if (!words.empty()) select.ids = {named.substr(0, dot)};
  const auto jobs = api->Jobs(select);
  if (!jobs) return Refuse(jobs.error(), words.empty() ? "" : words.front());
  if (jobs->empty())
    return Say(words.empty() ? "No job steps exist on this node." : "Job " + words.front() + " is not running");
  std::printf(what == Listed::kPids    ? "PID      JOBID    STEPID   LOCALID GLOBALID\n"
              : what == Listed::kSteps ? "JOBID    STEPID\n"
                                       : "JOBID\n");
  auto processes = what == Listed::kPids ? ProcessesByList() : std::map<std::string, std::vector<JobProcess>>();
  int shown = 0;
  for (const wire::JobView& job : *jobs) {
    const std::string id = ToString(job.id);
    if (what == Listed::kJobs) {
      std::printf("%s\n", id.c_str());
      continue;
    }
    if (what == Listed::kPids) {
      for (const JobProcess& process : ProcessesOf(job, processes)) {
        if (dot != std::string::npos && named.substr(dot + 1) != process.step) continue;
        std::printf("%-8lld %-8s %-8s %-7s %s\n", static_cast<long long>(process.pid), id.c_str(), process.step.c_str(),
                    process.local.c_str(), process.rank.c_str());
        ++shown;
      }
      continue;
    }
    const auto detail = api->Job(id);
    if (!detail) continue;  // It ended meanwhile.
    for (const JobStep& step : JobStepsOf(*detail, StepsOf(*api, *detail))) {
      if (!IsFinal(step.job)) std::printf("%-8s %s\n", id.c_str(), step.id.c_str());
    }
  }
  if (what == Listed::kPids && shown == 0 && !named.empty())
    return Say((dot == std::string::npos ? "JobId=" : "StepId=") + named + " does not exist on node " + Hostname());
  return 0;
}

int ControlPidInfo(const Words& words) {
  const auto pid = words.empty() ? std::nullopt : ParseInteger(words.front());
  if (!pid || *pid < 1) return Say("pidinfo: name a process of this machine by its number");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const std::string id = JobOfProcess(*api, *pid);
  if (id.empty()) return Say("slurm_pid2jobid error: Invalid job id specified");
  const auto job = api->Job(id);
  if (!job) return Refuse(job.error(), id);
  const double limit = job->request.time_limit_s;
  if (!job->start_time || limit <= 0) {
    std::printf("Slurm JobId=%s ends at Unknown\n", id.c_str());
    return 0;
  }
  const auto end = static_cast<std::time_t>(*job->start_time + limit);
  std::array<char, 64> text{};
  std::tm local{};
  ::localtime_r(&end, &local);
  std::strftime(text.data(), text.size(), "%a %b %e %H:%M:%S %Y", &local);
  std::printf("Slurm JobId=%s ends at %s\nJob remaining time is %lld seconds\n", id.c_str(), text.data(),
              static_cast<long long>(end - std::time(nullptr)));
  return 0;
}

int ControlCompleting() {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::JobSelector select;
  select.user = "all";
  select.states = {"stopping"};
  const auto jobs = api->Jobs(select);
  if (!jobs) return FailAs("scontrol", jobs.error());
  const Scene scene = SceneOf(*api, *jobs);
  for (const wire::JobView& job : *jobs) {
    std::printf("JobId=%s EndTime=%s Nodes(COMPLETING)=%s\n", ToString(job.id).c_str(),
                Moment(job.end_time, "Unknown").c_str(), HostListOf(job, scene).c_str());
  }
  return 0;
}

int ControlAddresses(const Words& words) {
  const auto nodes = FetchNodes();
  if (!nodes) return FailAs("scontrol", nodes.error());
  const auto names = HostNames(words);
  if (!names) return Say(names.error().message);
  const std::vector<NodeRow> wanted = NodesNamed(*nodes, *names);
  if (wanted.empty()) return Say("Node " + Join(*names, ",") + " not found");
  for (const NodeRow& row : wanted) std::printf("%s: %s\n", HostOf(row).c_str(), AddressOf(row).c_str());
  return 0;
}

int ControlPing(const ControlStyle& style) {
  const bool is_up = Api::Connect().has_value();
  if (style.form.any()) {
    PrintAnswer(RecordsJson("scontrol", "pings",
                            {{{"hostname", Hostname()}, {"ping", is_up ? "UP" : "DOWN"}, {"mode", "primary"}}}),
                style.form);
  } else {
    std::printf("Slurmctld(primary) at %s is %s\n", Hostname().c_str(), is_up ? "UP" : "DOWN");
  }
  return is_up ? 0 : 1;
}

int ControlNotify(const Words& words) {
  if (words.size() < 2) return Say("notify: scontrol notify JOBID MESSAGE");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const auto job = api->Job(words[0]);
  if (!job) return Refuse(job.error(), words[0]);
  if (job->state != "running") return Say("scontrol: error: job " + words[0] + " does not run");
  std::string path = job->error.empty() ? job->output : job->error;
  if (job->is_foreground || path.empty())
    return Say("scontrol: error: job " + words[0] + " writes its errors to no file, where a message could be seen");
  // Escape '%' in the file name, which is special for steps.
  for (auto at = path.find('%'); at != std::string::npos; at = path.find('%', at + 2)) path.insert(at, "%");
  const std::string message = Join(std::vector(words.begin() + 1, words.end()), " ");
  return RunInStepOf(ToString(job->id), "srun",
                     {"--quiet", "--overlap", "--nodes=1", "--ntasks=1", "--job-name=notify", "--open-mode=append",
                      "--output=" + path, "--", "printf", "scontrol: %s\n", message},
                     false);
}

}  // namespace divvy::cli::slurm
