// scontrol: the verbs that are supported here.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm/slurm_scontrol.h"
#include "cli/shims/slurm/slurm_update.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "cli/steps/step_listing.h"
#include "dialect/options/quantities.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using Words = std::vector<std::string>;

int Refuse(const Error& error, const std::string& ids) {
  return Say(error.code == ErrorCode::kNotFound ? "Invalid job id specified for job " + ids
                                                : "scontrol: error: " + error.message);
}

/// The jobs that a verb's words select: "17,18_3", "JobId=17", "name=train".
Result<wire::JobSelector> SelectorOf(const Words& words) {
  wire::JobSelector select;
  for (const std::string& word : words) {
    const std::string lower = ToLower(word);
    if (lower.starts_with("name=") || lower.starts_with("jobname=")) {
      select.name = word.substr(word.find('=') + 1);
      continue;
    }
    const std::string list =
        lower.starts_with("jobid=") || lower.starts_with("job=") ? word.substr(word.find('=') + 1) : word;
    DIVVY_TRY(const std::vector<std::string> ids, SplitJobIds(list));
    select.ids.insert(select.ids.end(), ids.begin(), ids.end());
  }
  return select;
}

using Action = Result<wire::ActionAnswer> (Api::*)(const wire::ActionRequest&);

int Report(const Result<wire::ActionAnswer>& answer, const std::string& ids) {
  if (!answer) return Refuse(answer.error(), ids);
  int code = 0;
  for (const wire::ActionResult& result : answer->results) {
    if (!result.is_done) code = FailAs("scontrol", InSlurmsWords(RefusalOf(result)) + " for job " + result.display_id);
  }
  return code;
}

int Act(Action action, const Words& words) {
  const auto select = SelectorOf(words);
  if (!select) return Say(select.error().message);
  if (select->ids.empty() && select->name.empty()) return Say("too few arguments for this keyword; name a job");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::ActionRequest request;
  request.select = *select;
  return Report(((*api).*action)(request), select->ids.empty() ? select->name : Join(select->ids, ","));
}

/// suspend and resume: of a whole array those elements whose state allows it.
int ActOnRunning(Action action, const Words& words, const std::string& state) {
  const auto select = SelectorOf(words);
  if (!select) return Say(select.error().message);
  if (select->ids.empty()) return Act(action, words);
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::ActionRequest request;
  for (const std::string& id : select->ids) {
    wire::JobSelector one;
    one.ids = {id};
    const auto jobs = FetchJobs(*api, one);
    if (!jobs) return Refuse(jobs.error(), id);
    for (const wire::JobView& job : *jobs) {
      if (jobs->size() == 1 || (!IsWholeArray(job) && job.state == state))
        request.select.ids.push_back(ToString(job.id));
    }
  }
  if (request.select.ids.empty()) return Say("no element of " + Join(select->ids, ",") + " is " + state);
  return Report(((*api).*action)(request), Join(select->ids, ","));
}

/// Requeues running and ended jobs. A whole array means all of its elements that have begun.
/// "incomplete JOBS" leaves out the elements that have succeeded.
int Requeue(const Words& all, bool holds) {
  const bool is_incomplete = all.size() > 1 && std::string_view("incomplete").starts_with(ToLower(all.front()));
  const Words words(all.begin() + (is_incomplete ? 1 : 0), all.end());
  auto select = SelectorOf(words);
  if (!select) return Say(select.error().message);
  if (select->ids.empty()) return Say("too few arguments for this keyword; name a job");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::ActionRequest request;
  request.holds = holds;
  // If the caller's own job is requeued, SIGTERM arrives before the daemon's response. Ignore it, so that the response
  // is still printed.
  ::signal(SIGTERM, SIG_IGN);
  for (const std::string& id : select->ids) {
    wire::JobSelector one;
    one.ids = {id};
    const auto jobs = FetchJobs(*api, one);
    if (!jobs) return Refuse(jobs.error(), id);
    for (const wire::JobView& job : *jobs) {
      if (!IsWholeArray(job) && !(is_incomplete && (job.state == "succeeded" || IsPending(job))))
        request.select.ids.push_back(ToString(job.id));
    }
  }
  if (request.select.ids.empty()) return 0;
  return Report(api->Requeue(request), Join(select->ids, ","));
}

int UpdateNodes(Api& api, const Words& words) {
  const auto update = ReadNodeUpdate(words);
  if (!update) return Say(update.error().message);
  const auto text = api.Raw("POST", "/v1/nodes/" + update->verb, wire::EncodeChanged(update->request));
  return text ? 0 : Say("slurm_update error: " + text.error().message);
}

bool NamesPartition(const Words& words) {
  return !words.empty() && ToLower(words.front()).starts_with("partition") &&
         words.front().find('=') != std::string::npos;
}

/// create or delete PARTITION: "PartitionName=debug", or "partition debug".
int ChangePartition(PartitionVerb verb, const Words& words) {
  if (NamesPartition(words)) return ControlPartition(verb, words);
  return Say(
      "scontrol: error: only partitions are made and deleted here: PartitionName=NAME Nodes=LIST; divvy reserve "
      "makes reservations");
}

/// "StepId=17.0 TimeLimit=30"; StepId=17 means all steps of the job that have not ended.
int UpdateSteps(Api& api, const Words& words) {
  const std::string id = words.front().substr(words.front().find('=') + 1);
  const auto dot = id.find('.');
  std::optional<Duration> limit;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const auto equals = word->find('=');
    if (ToLower(word->substr(0, equals)) != "timelimit" || equals == std::string::npos)
      return Say("scontrol: error: " + *word + ": only the TimeLimit of a step can be changed");
    const auto read = dialect::ParseSlurmTime(word->substr(equals + 1));
    if (!read) return Say("Invalid TimeLimit value: " + read.error().message);
    limit = *read;
  }
  if (!limit) return Say("scontrol: error: write TimeLimit=MINUTES after StepId=" + id);
  const auto job = api.Job(id.substr(0, dot));
  if (!job) return Refuse(job.error(), id.substr(0, dot));
  const std::int64_t seconds = *limit / std::chrono::seconds(1);
  int reached = 0;
  for (const wire::StepView& step : StepsOf(api, *job)) {
    const bool is_named = dot == std::string::npos || id.substr(dot + 1) == std::to_string(step.number);
    if (!is_named || step.end_time) continue;
    const Status changed = ApplyToStep(job->id, job->user, {StepWord::kLimit, static_cast<int>(step.number), seconds});
    // A step can end meanwhile.
    if (!changed && changed.error().code == ErrorCode::kNotFound && dot == std::string::npos) continue;
    if (!changed) return Say("slurm_update error: " + changed.error().message);
    ++reached;
  }
  return reached > 0 ? 0 : Say("slurm_update error: Invalid job step id specified");
}

int Update(const Words& words) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  if (!words.empty() && ToLower(words.front()).starts_with("nodename=")) return UpdateNodes(*api, words);
  if (!words.empty() && ToLower(words.front()).starts_with("stepid=")) return UpdateSteps(*api, words);
  if (NamesPartition(words)) return ControlPartition(PartitionVerb::kUpdate, words);
  const auto job_of = [&](const std::string& id) { return api->Job(id); };
  const auto read = ReadUpdate(words, CallerParseContext(), job_of);
  if (!read) return Refuse(read.error(), "");
  for (const std::string& note : read->notes) Note(note);
  const std::string ids = Join(read->update.select.ids, ",");
  const int code = Report(api->Update(read->update), ids);
  if (code != 0 || !read->holds) return code;
  wire::ActionRequest request;
  request.select = read->update.select;
  return Report(*read->holds ? api->Hold(request) : api->Release(request), ids);
}

int WaitJob(const Words& words) {
  if (words.empty()) return Say("too few arguments for keyword:wait_job");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  // Slurm's wait_job returns when the job's nodes are ready, which here is when the job has started.
  for (;;) {
    const auto job = api->Job(words.front());
    if (!job) return Refuse(job.error(), words.front());
    const wire::JobView view = ViewOf(*job);
    if (IsFinal(view)) return Say("Job " + words.front() + " is no longer running");
    if (job->state == "running") {
      std::printf("Job %s is ready for use\n", words.front().c_str());
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

int WriteScript(const Words& words) {
  if (words.size() < 2 || !std::string_view("batch_script").starts_with(ToLower(words[0])))
    return Say("usage: scontrol write batch_script JOBID [FILE|-]");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const auto job = api->Job(words[1]);
  if (!job) return Refuse(job.error(), words[1]);
  if (job->script.empty()) return Say("job " + words[1] + " has no batch script");
  const std::string path = words.size() > 2 ? words[2] : "slurm-" + words[1] + ".sh";
  if (path == "-") {
    std::fputs(job->script.c_str(), stdout);
    return 0;
  }
  std::ofstream file(path);
  file << job->script;
  file.close();
  if (!file) return Say("cannot write " + path);
  std::printf("batch script for job %s written to %s\n", words[1].c_str(), path.c_str());
  return 0;
}

/// The controller reads divvy.toml only when it starts. Succeeds if the file, on the controller's machine, has not
/// changed since, or does not exist.
int Reconfigure() {
  const auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const auto nodes = FetchNodes();
  if (!nodes) return FailAs("scontrol", nodes.error());
  const std::string path = ConfigPathOf(nodes->front());
  const auto fail = [&](const std::string& why) {
    return Say("scontrol: error: reconfigure: cannot check " + path + ": " + why);
  };
  if (api->is_remote()) return fail("it is on the controller's machine; run scontrol reconfigure there");
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return errno == ENOENT ? 0 : fail(std::strerror(errno));
  const double started = nodes->front().scene.now - nodes->front().status.uptime_s;
  if (static_cast<double>(file.st_mtime) <= started) return 0;
  return Say("scontrol: error: reconfigure: " + path + " has changed since the controller started at " +
             Moment(started) + "; divvy down and divvy up read it again, while jobs keep running");
}

/// Verbs of scontrol that divvy does not support, because they are for Slurm's administrators.
constexpr std::array<std::string_view, 12> kNotHere = {
    "abort", "cancel_reboot", "fsdampeningfactor", "getent",        "power",    "reboot",
    "token", "schedloglevel", "setdebug",          "setdebugflags", "shutdown", "takeover"};

using Verb = std::function<int(const Words&)>;

int PrintVerbs() {
  constexpr std::pair<std::string_view, std::string_view> kHelp[] = {
      {"completing", "jobs that are ending"},
      {"create", "PartitionName=NAME Nodes=LIST: a partition without limits"},
      {"delete", "PartitionName=NAME"},
      {"exit", "end (without a command on the command line); also quit"},
      {"getaddrs", "[NODES]: their addresses"},
      {"help", "this list"},
      {"hold", "JOBS: keep waiting jobs from starting; also uhold"},
      {"listjobs", "running jobs"},
      {"listpids", "[JOB[.STEP]]: processes of running jobs"},
      {"liststeps", "running steps"},
      {"notify", "JOB TEXT: write a line to the job's errors"},
      {"pidinfo", "PID: the job of a process"},
      {"ping", "whether the controller answers"},
      {"reconfigure", "whether divvy.toml is as the controller read it"},
      {"release", "JOBS: undo hold"},
      {"requeue", "[incomplete] JOBS: run them again; also requeuehold"},
      {"resume", "JOBS: undo suspend"},
      {"show", "job, step, node, partition, reservation, config, hostnames, hostlist, assoc_mgr, aliases"},
      {"suspend", "JOBS: stop their processes"},
      {"top", "JOBS: before all other waiting jobs"},
      {"update", "JobId=ID | NodeName=LIST | PartitionName=NAME, and NAME=VALUE..."},
      {"version", "the version of Slurm that these commands follow"},
      {"wait_job", "JOB: until it runs"},
      {"write", "batch_script JOB [FILE|-]"},
      {"!!", "repeat the last command"},
  };
  std::printf("scontrol [OPTIONS] [COMMAND]\n  Valid <COMMAND> values are:\n");
  for (const auto& [verb, meaning] : kHelp)
    std::printf("    %-15s %s\n", std::string(verb).c_str(), std::string(meaning).c_str());
  return 0;
}

const std::map<std::string, Verb, std::less<>>& Verbs() {
  static const std::map<std::string, Verb, std::less<>> kVerbs = {
      {"hold", [](const Words& w) { return Act(&Api::Hold, w); }},
      {"uhold", [](const Words& w) { return Act(&Api::Hold, w); }},
      {"release", [](const Words& w) { return Act(&Api::Release, w); }},
      {"requeue", [](const Words& w) { return Requeue(w, false); }},
      {"requeuehold", [](const Words& w) { return Requeue(w, true); }},
      {"suspend", [](const Words& w) { return ActOnRunning(&Api::Pause, w, "running"); }},
      {"resume", [](const Words& w) { return ActOnRunning(&Api::Resume, w, "paused"); }},
      {"update", Update},
      {"top",
       [](const Words& w) {
         Words words;
         for (const std::string& word : w) words.push_back("JobId=" + word);
         words.emplace_back("Priority=top");
         return Update(words);
       }},
      {"wait_job", WaitJob},
      {"listpids", [](const Words& w) { return ControlList(w, Listed::kPids); }},
      {"listjobs", [](const Words& w) { return ControlList(w, Listed::kJobs); }},
      {"liststeps", [](const Words& w) { return ControlList(w, Listed::kSteps); }},
      {"pidinfo", ControlPidInfo},
      {"completing", [](const Words&) { return ControlCompleting(); }},
      {"getaddrs", ControlAddresses},
      {"notify", ControlNotify},
      {"errnumstr", [](const Words&) { return Say("scontrol: error: errors have no numbers here, only their words"); }},
      {"create", [](const Words& w) { return ChangePartition(PartitionVerb::kCreate, w); }},
      {"delete", [](const Words& w) { return ChangePartition(PartitionVerb::kDelete, w); }},
      {"reconfigure", [](const Words&) { return Reconfigure(); }},
      {"help", [](const Words&) { return PrintVerbs(); }},
      {"write", WriteScript},
      {"version", [](const Words&) { return PrintVersion(); }},
  };
  return kVerbs;
}

int RunVerb(const Words& words, const ControlStyle& style) {
  const std::string verb = ToLower(words.front());
  const Words rest(words.begin() + 1, words.end());
  if (verb.size() >= 2 && std::string_view("show").starts_with(verb)) return ControlShow(rest, style);
  if (verb.size() >= 3 && std::string_view("ping").starts_with(verb)) return ControlPing(style);
  if (const auto exact = Verbs().find(verb); exact != Verbs().end()) return exact->second(rest);
  // As in Slurm, the beginning of a verb is enough if it is unique.
  std::vector<const Verb*> begun;
  for (const auto& [name, act] : Verbs()) {
    if (verb.size() >= 3 && name.starts_with(verb)) begun.push_back(&act);
  }
  if (begun.size() == 1) return (*begun.front())(rest);
  if (std::ranges::find(kNotHere, verb) != kNotHere.end())
    return Say("scontrol: error: " + verb + " is not done through scontrol here; divvy --help lists what there is");
  return Say("invalid keyword: " + words.front());
}

/// Without a verb: reads commands from the input until it ends, or "exit". Returns the last command's exit code.
int Converse(const ControlStyle& style) {
  int code = 0;
  Words last;
  for (std::string line; std::printf("scontrol: "), std::fflush(stdout), std::getline(std::cin, line);) {
    Words words;
    for (const std::string_view word : SplitWords(line)) words.emplace_back(word);
    if (words.empty()) continue;
    if (words.front() == "exit" || words.front() == "quit" || words.front() == "q") break;
    if (words.front() == "!!") words = last;
    last = words;
    if (!words.empty()) code = RunVerb(words, style);
  }
  return code;
}

}  // namespace

int ScontrolMain(const std::vector<std::string>& words) {
  ControlStyle style;
  bool is_quiet = false;
  std::vector<dialect::Option> options = {Flag("oneliner", 'o', "One line for each record", style.job.is_one_line),
                                          Flag("details", 'd', "Show the GPUs on each node", style.job.has_details),
                                          Flag("quiet", 'Q', "Fewer words", is_quiet),
                                          Flag("verbose", 'v', "More words", style.is_verbose)};
  AddAnswerForms(options, style.form, true);
  for (const auto& [name, letter] :
       {std::pair("all", 'a'), std::pair("hide", '\0'), std::pair("future", 'F'), std::pair("local", '\0'),
        std::pair("federation", '\0'), std::pair("sibling", '\0')}) {
    options.push_back(Ignored(name, letter, dialect::Takes::kNothing));
  }
  options.push_back(Ignored("clusters", 'M', dialect::Takes::kValue));
  options.push_back(Ignored("uid", 'u', dialect::Takes::kValue));
  if (Greets("scontrol", "[OPTIONS] VERB ...", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("scontrol", parsed.error().message);
  if (style.form.lists_parsers) return PrintParsers();
  return parsed->positional.empty() ? Converse(style) : RunVerb(parsed->positional, style);
}

}  // namespace divvy::cli
