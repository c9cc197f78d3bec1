// scontrol: the verbs that mean something here.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/text.h"
#include "cli/command.h"
#include "cli/shims/slurm.h"
#include "cli/shims/slurm_common.h"
#include "cli/shims/slurm_components.h"
#include "cli/shims/slurm_fetch.h"
#include "cli/shims/slurm_job_steps.h"
#include "cli/shims/slurm_nodes.h"
#include "cli/shims/slurm_places.h"
#include "cli/shims/slurm_queue.h"
#include "cli/shims/slurm_refusals.h"
#include "cli/shims/slurm_reservations.h"
#include "cli/shims/slurm_show.h"
#include "cli/shims/slurm_update.h"
#include "cli/step_listing.h"
#include "dialect/slurm_hostlist.h"
#include "wire/codec.h"
#include "wire/messages_teams.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using Words = std::vector<std::string>;

int Say(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

int Refuse(const Error& error, const std::string& ids) {
  return Say(error.code == ErrorCode::kNotFound ? "Invalid job id specified for job " + ids
                                                : "scontrol: error: " + error.message);
}

/// "17,18_3", "JobId=17", "name=train": which jobs a verb is for.
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

/// Jobs that run, and those that have ended; an array that is named as a whole is all of its elements that have begun.
int Requeue(const Words& words, bool holds) {
  auto select = SelectorOf(words);
  if (!select) return Say(select.error().message);
  if (select->ids.empty()) return Say("too few arguments for this keyword; name a job");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::ActionRequest request;
  request.holds = holds;
  // A job that names itself is told to stop before we are answered: our answer is still the caller's.
  ::signal(SIGTERM, SIG_IGN);
  for (const std::string& id : select->ids) {
    wire::JobSelector one;
    one.ids = {id};
    const auto jobs = FetchJobs(*api, one);
    if (!jobs) return Refuse(jobs.error(), id);
    for (const wire::JobView& job : *jobs) {
      if (!IsWholeArray(job)) request.select.ids.push_back(ToString(job.id));
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

int Update(const Words& words) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  if (!words.empty() && ToLower(words.front()).starts_with("nodename=")) return UpdateNodes(*api, words);
  const auto job_of = [&](const std::string& id) { return api->Job(id); };
  const auto read = ReadUpdate(words, CallerSurroundings(), job_of);
  if (!read) return Refuse(read.error(), "");
  for (const std::string& note : read->notes) Note(note);
  const std::string ids = Join(read->update.select.ids, ",");
  const int code = Report(api->Update(read->update), ids);
  if (code != 0 || !read->holds) return code;
  wire::ActionRequest request;
  request.select = read->update.select;
  return Report(*read->holds ? api->Hold(request) : api->Release(request), ids);
}

/// How the answer is wanted.
struct Style {
  ShowStyle job;
  bool is_json = false;
};

int ShowJobs(const Words& words, const Style& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::JobSelector select;
  select.user = "all";
  for (const std::string& word : words) {
    const auto some = SplitJobIds(word.substr(word.find('=') + 1));
    if (!some) return Say(some.error().message);
    select.ids.insert(select.ids.end(), some->begin(), some->end());
  }
  const auto jobs = FetchJobs(*api, select);
  if (!jobs)
    return Say(jobs.error().code == ErrorCode::kNotFound ? "slurm_load_jobs error: Invalid job id specified"
                                                         : "scontrol: error: " + jobs.error().message);
  if (jobs->empty() && !style.is_json) std::printf("No jobs in the system\n");
  const Scene scene = SceneOf(*api, *jobs);
  std::vector<QueueRow> rows;
  for (const wire::JobView& one : *jobs) {
    const auto job = api->Job(ToString(one.id));
    if (!job) continue;  // It went away meanwhile.
    for (const wire::JobView& line : SplitComponents({ViewOf(*job)}, select.ids)) {
      const auto component = ComponentNumber(line);
      const wire::JobDetail detail = component ? ComponentDetail(*job, *component) : *job;
      if (style.is_json) rows.push_back({line, std::nullopt, std::make_shared<const wire::JobDetail>(detail)});
      else std::fputs(ShowJob(detail, scene, style.job).c_str(), stdout);
    }
  }
  if (style.is_json) std::fputs(QueueJson(rows, scene).c_str(), stdout);
  return 0;
}

/// show step [JOBID[.STEP]]: those that run; of a job that is named also those that have ended.
int ShowSteps(const Words& words, const Style& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const std::string named = words.empty() ? "" : words.front();
  wire::JobSelector select;
  select.user = "all";
  if (named.empty()) select.states = {"starting", "running", "paused", "stopping"};
  else select.ids = {named.substr(0, named.find('.'))};
  const auto jobs = FetchJobs(*api, select);
  if (!jobs) return Say("slurm_get_job_steps error: Invalid job/step specified");
  const Scene scene = SceneOf(*api, *jobs);
  const auto dot = named.find('.');
  int shown = 0;
  for (const wire::JobView& job : *jobs) {
    const auto detail = api->Job(ToString(job.id));
    if (!detail) continue;  // It went away meanwhile.
    for (const JobStep& step : JobStepsOf(*detail, StepsOf(*api, *detail))) {
      if (dot != std::string::npos ? named.substr(dot + 1) != step.id : named.empty() && IsFinal(step.job)) continue;
      std::fputs(ShowStep(step, scene, style.job.is_one_line).c_str(), stdout);
      ++shown;
    }
  }
  if (shown == 0 && !named.empty()) return Say("Job step " + named + " not found");
  if (shown == 0) std::printf("No job steps in the system\n");
  return 0;
}

/// `scontrol show hostnames` is what most multi-node scripts call; without a list it is the job's own.
int ShowHostNames(const Words& words) {
  const char* own = std::getenv("SLURM_JOB_NODELIST");
  const std::string list = !words.empty() ? words.front() : own != nullptr ? own : "";
  if (list.empty()) return Say("host list is empty");
  const auto names = dialect::ExpandHostList(list);
  if (!names) return Say(names.error().message);
  for (const std::string& name : *names) std::printf("%s\n", name.c_str());
  return 0;
}

int ShowHostList(const Words& words, bool is_sorted) {
  if (words.empty()) return Say("host list is empty");
  auto names = dialect::ExpandHostList(Join(words, ","));
  if (!names) return Say(names.error().message);
  if (is_sorted) {
    std::ranges::sort(*names);
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  std::printf("%s\n", dialect::FoldHostList(*names).c_str());
  return 0;
}

int ShowNodes(const std::vector<NodeRow>& nodes, const Words& words, const Style& style) {
  const auto names = HostNames(words);
  if (!names) return Say(names.error().message);
  int code = 0;
  for (const std::string& name : *names) {
    if (NodesNamed(nodes, {name}).empty()) code = Say("Node " + name + " not found");
  }
  const std::vector<NodeRow> wanted = NodesNamed(nodes, *names);
  if (style.is_json) std::fputs(NodesJson(wanted).c_str(), stdout);
  for (const NodeRow& row : wanted) {
    if (!style.is_json) std::fputs(ShowNode(row, style.job.is_one_line).c_str(), stdout);
  }
  return code;
}

int ShowReservations(const Words& names, const Style& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const auto text = api->Raw("GET", "/v1/reservations", "");
  if (!text) return FailAs("scontrol", text.error());
  auto views = wire::Decode<std::vector<wire::ReservationView>>(*text);
  if (!views) return FailAs("scontrol", views.error());
  if (!names.empty()) {
    std::erase_if(*views, [&](const wire::ReservationView& view) {
      return view.name != names.front() && std::to_string(view.number) != names.front();
    });
    if (views->empty()) return Say("Reservation " + names.front() + " not found");
  }
  if (views->empty()) std::printf("No reservations in the system\n");
  const auto now = static_cast<double>(std::time(nullptr));
  for (const wire::ReservationView& view : *views)
    std::fputs(ShowReservation(view, now, SceneOfServer().hostname, style.job.is_one_line).c_str(), stdout);
  return 0;
}

int Show(const Words& words, const Style& style) {
  if (words.empty()) return Say("too few arguments for keyword:show");
  std::string entity = ToLower(words.front());
  Words rest(words.begin() + 1, words.end());
  // "show job=17" and "show jobid=17".
  if (const auto equals = entity.find('='); equals != std::string::npos) {
    rest.insert(rest.begin(), words.front().substr(equals + 1));
    entity = entity.substr(0, equals);
  }
  const auto is = [&](std::string_view name) { return entity.size() >= 3 && name.starts_with(entity); };
  if (is("jobs") || is("jobid")) return ShowJobs(rest, style);
  if (is("hostnames")) return ShowHostNames(rest);
  if (entity == "hostlistsorted") return ShowHostList(rest, true);
  if (is("hostlist")) return ShowHostList(rest, false);
  if (is("daemons")) {
    std::printf("slurmctld slurmd\n");
    return 0;
  }
  if (is("reservations")) return ShowReservations(rest, style);
  if (is("licenses") || is("burstbuffer") || is("federation") || is("topology")) {
    std::printf("No %s in the system\n", entity.c_str());
    return 0;
  }
  if (is("steps")) {
    return ShowSteps(rest, style);
  }
  if (!is("nodes") && !is("partitions") && !is("config")) {
    return Say("invalid entity:" + words.front() + " for keyword:show");
  }
  const auto nodes = FetchNodes();
  if (!nodes) return FailAs("scontrol", nodes.error());
  if (is("config")) {
    std::fputs(ShowConfig(nodes->front()).c_str(), stdout);
    return 0;
  }
  if (is("nodes")) return ShowNodes(*nodes, rest, style);
  const std::vector<std::string> partitions = rest.empty() ? PartitionsOf(*nodes) : std::vector{rest.front()};
  for (const std::string& partition : partitions) {
    const std::vector<NodeRow> members = NodesIn(*nodes, partition);
    if (members.empty() && !rest.empty()) return Say("Partition " + partition + " not found, or no node is in it");
    if (!members.empty()) std::fputs(ShowPartition(members, style.job.is_one_line).c_str(), stdout);
  }
  return 0;
}

int Ping(const Words&) {
  const auto api = Api::Connect();
  std::printf("Slurmctld(primary) at %s is %s\n", Hostname().c_str(), api ? "UP" : "DOWN");
  return api ? 0 : 1;
}

int WaitJob(const Words& words) {
  if (words.empty()) return Say("too few arguments for keyword:wait_job");
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  // Slurm's wait_job answers when the job's nodes are ready, which is when it has started.
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
    return Say("write: scontrol write batch_script JOBID [FILE|-]");
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

/// listpids [JOBID], listjobs: the jobs that run here, with the process that each began with.
int ListPids(const Words& words, bool has_pids) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::JobSelector select;
  select.user = "all";
  select.states = {"running", "paused", "stopping"};
  if (!words.empty()) select.ids = {words.front()};
  const auto jobs = api->Jobs(select);
  if (!jobs) return Refuse(jobs.error(), words.empty() ? "" : words.front());
  if (jobs->empty())
    return Say(words.empty() ? "No job steps exist on this node." : "Job " + words.front() + " is not running");
  std::printf(has_pids ? "PID      JOBID    STEPID   LOCALID GLOBALID\n" : "JOBID\n");
  for (const wire::JobView& job : *jobs) {
    const std::string id = ToString(job.id);
    if (!has_pids) {
      std::printf("%s\n", id.c_str());
      continue;
    }
    const auto detail = api->Job(id);
    if (detail && detail->pid > 0)
      std::printf("%-8lld %-8s %-8s %-7s %s\n", static_cast<long long>(detail->pid), id.c_str(), "batch", "0", "0");
  }
  return 0;
}

/// Verbs of Slurm's administrators.
constexpr std::array<std::string_view, 21> kNotHere = {
    "abort",    "cancel_reboot", "create",   "delete",   "errnumstr", "fsdampeningfactor", "getaddrs",
    "getent",   "notify",        "pidinfo",  "power",    "reboot",    "reconfigure",       "schedloglevel",
    "setdebug", "setdebugflags", "shutdown", "takeover", "token",     "completing",        "liststeps"};

using Verb = std::function<int(const Words&)>;

const std::map<std::string, Verb, std::less<>>& Verbs() {
  static const std::map<std::string, Verb, std::less<>> kVerbs = {
      {"hold", [](const Words& w) { return Act(&Api::Hold, w); }},
      {"uhold", [](const Words& w) { return Act(&Api::Hold, w); }},
      {"release", [](const Words& w) { return Act(&Api::Release, w); }},
      {"requeue", [](const Words& w) { return Requeue(w, false); }},
      {"requeuehold", [](const Words& w) { return Requeue(w, true); }},
      {"suspend", [](const Words& w) { return Act(&Api::Pause, w); }},
      {"resume", [](const Words& w) { return Act(&Api::Resume, w); }},
      {"update", Update},
      {"top",
       [](const Words& w) {
         Words words;
         for (const std::string& word : w) words.push_back("JobId=" + word);
         words.emplace_back("Priority=top");
         return Update(words);
       }},
      {"wait_job", WaitJob},
      {"ping", Ping},
      {"listpids", [](const Words& w) { return ListPids(w, true); }},
      {"listjobs", [](const Words& w) { return ListPids(w, false); }},
      {"write", WriteScript},
      {"version", [](const Words&) { return PrintVersion(); }},
  };
  return kVerbs;
}

}  // namespace

int ScontrolMain(const std::vector<std::string>& words) {
  Style style;
  bool is_quiet = false;
  std::vector<dialect::Option> options = {Flag("oneliner", 'o', "One line for each record", style.job.is_one_line),
                                          Flag("details", 'd', "Which GPUs of which node", style.job.has_details),
                                          Flag("json", 0, "JSON", style.is_json),
                                          Flag("quiet", 'Q', "Fewer words", is_quiet)};
  for (const auto& [name, letter] :
       {std::pair("all", 'a'), std::pair("hide", '\0'), std::pair("verbose", 'v'), std::pair("future", 'F'),
        std::pair("local", '\0'), std::pair("federation", '\0'), std::pair("sibling", '\0')}) {
    options.push_back(Ignored(name, letter, dialect::Takes::kNothing));
  }
  options.push_back(Ignored("clusters", 'M', dialect::Takes::kValue));
  options.push_back(Ignored("uid", 'u', dialect::Takes::kValue));
  if (Greets("scontrol", "[OPTIONS] VERB ...", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("scontrol", parsed.error().message);
  if (parsed->positional.empty())
    return FailAs("scontrol",
                  "name a verb: show, update, hold, release, requeue, suspend, resume, wait_job, write, ping, version");
  const std::string verb = ToLower(parsed->positional.front());
  const Words rest(parsed->positional.begin() + 1, parsed->positional.end());
  if (verb.size() >= 2 && std::string_view("show").starts_with(verb)) return Show(rest, style);
  if (const auto exact = Verbs().find(verb); exact != Verbs().end()) return exact->second(rest);
  // Slurm takes any beginning that only one verb has.
  std::vector<const Verb*> begun;
  for (const auto& [name, act] : Verbs()) {
    if (verb.size() >= 3 && name.starts_with(verb)) begun.push_back(&act);
  }
  if (begun.size() == 1) return (*begun.front())(rest);
  if (std::ranges::find(kNotHere, verb) != kNotHere.end()) {
    return Say("scontrol: error: " + verb + " is not done through scontrol here; divvy --help lists what there is");
  }
  return Say("invalid keyword: " + parsed->positional.front());
}

}  // namespace divvy::cli
