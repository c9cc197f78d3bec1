// scontrol show.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>

#include "base/index_ranges.h"
#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/shown_answer.h"
#include "cli/shims/slurm/slurm_scontrol.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/shims/slurm_look/slurm_queue.h"
#include "cli/shims/slurm_look/slurm_reservations.h"
#include "cli/steps/step_listing.h"
#include "dialect/options/slurm_hostlist.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using Words = std::vector<std::string>;

/// As in Slurm, an element that still waits with its array has the id of the array. `arrays`: the arrays seen so far.
JobId ShownIdOf(Api& api, const wire::JobDetail& job, std::map<JobId, wire::JobView>& arrays) {
  const wire::JobView view = ViewOf(job);
  if (!view.array_id || !view.array_index || !IsPending(view)) return job.id;
  auto array = arrays.find(*view.array_id);
  if (array == arrays.end()) {
    const auto whole = api.Job(ToString(*view.array_id));
    array = arrays.emplace(*view.array_id, whole ? ViewOf(*whole) : wire::JobView()).first;
  }
  const auto waiting = IndexRanges::Parse(array->second.array_indices, "indices");
  const bool is_waiting = waiting && waiting->Contains(static_cast<std::uint32_t>(*view.array_index));
  return is_waiting ? *view.array_id : job.id;
}

int ShowJobs(const Words& words, const ControlStyle& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  wire::JobSelector select;
  select.user = "all";
  for (const std::string& word : words) {
    const std::string named = word.substr(word.find('=') + 1);
    // No job has this id; in Slurm it stands for all jobs.
    if (named.substr(0, named.find_first_of("_.+")) == "0") continue;
    const auto some = SplitJobIds(named);
    if (!some) return Say(some.error().message);
    select.ids.insert(select.ids.end(), some->begin(), some->end());
  }
  // As in Slurm, ended jobs are shown for some minutes.
  select.includes_final = select.ids.empty();
  if (select.includes_final) select.since = static_cast<double>(std::time(nullptr)) - kMinJobAgeS;
  const auto jobs = FetchJobs(*api, select);
  if (!jobs)
    return Say(jobs.error().code == ErrorCode::kNotFound ? "slurm_load_jobs error: Invalid job id specified"
                                                         : "scontrol: error: " + jobs.error().message);
  if (jobs->empty() && !style.form.any()) std::printf("No jobs in the system\n");
  const Scene scene = SceneOf(*api, *jobs);
  std::map<JobId, wire::JobView> arrays;
  std::vector<QueueRow> rows;
  for (const wire::JobView& one : *jobs) {
    const auto job = api->Job(ToString(one.id));
    if (!job) continue;  // It ended meanwhile.
    ShowStyle shown = style.job;
    shown.components = 1 + job->request.others.size();
    for (const wire::JobView& line : SplitComponents({ViewOf(*job)}, select.ids)) {
      const auto component = ComponentNumber(line);
      const wire::JobDetail detail = component ? ComponentDetail(*job, *component) : *job;
      if (style.form.any())
        rows.push_back({line, std::nullopt, std::make_shared<const wire::JobDetail>(detail), 0, shown.components});
      else {
        wire::JobDetail named = detail;
        named.id = component ? detail.id : ShownIdOf(*api, detail, arrays);
        std::fputs(ShowJob(named, scene, shown).c_str(), stdout);
      }
    }
  }
  if (style.form.any()) PrintAnswer(QueueJson(rows, scene, style.form.schema), style.form);
  return 0;
}

/// show step [JOBID[.STEP]]: running steps; for a named job also its ended steps.
int ShowSteps(const Words& words, const ControlStyle& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const std::string named = words.empty() ? "" : words.front();
  wire::JobSelector select;
  select.user = "all";
  if (named.empty()) select.states = {"starting", "running", "paused", "stopping"};
  else select.ids = {named.substr(0, named.find('.'))};
  const auto jobs = FetchJobs(*api, select);
  if (!jobs) return Say("slurm_get_job_steps error: Invalid job id specified");
  const Scene scene = SceneOf(*api, *jobs);
  const auto dot = named.find('.');
  int shown = 0;
  std::vector<AccountRow> rows;
  for (const wire::JobView& job : *jobs) {
    const auto detail = api->Job(ToString(job.id));
    if (!detail) continue;  // It ended meanwhile.
    for (const JobStep& step : JobStepsOf(*detail, StepsOf(*api, *detail))) {
      if (dot != std::string::npos ? named.substr(dot + 1) != step.id : named.empty() && IsFinal(step.job)) continue;
      ++shown;
      if (style.form.any())
        rows.push_back({.job = step.job, .step = step.id, .is_step_measured = false, .step_tasks = step.tasks});
      else std::fputs(ShowStepOf(*detail, step, scene, style.job).c_str(), stdout);
    }
  }
  if (shown == 0 && !named.empty()) return Say("Job step " + named + " not found");
  if (style.form.any()) PrintAnswer(StepsJson(rows, scene, style.form.schema), style.form);
  else if (shown == 0) std::printf("No job steps in the system\n");
  return 0;
}

/// Most multi-node scripts call `scontrol show hostnames`. Without a list it shows the job's own nodes.
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

int ShowNodes(const std::vector<NodeRow>& nodes, const Words& words, const ControlStyle& style) {
  const auto names = HostNames(words);
  if (!names) return Say(names.error().message);
  int code = 0;
  for (const std::string& name : *names) {
    if (NodesNamed(nodes, {name}).empty()) code = Say("Node " + name + " not found");
  }
  const std::vector<NodeRow> wanted = NodesNamed(nodes, *names);
  if (style.form.any()) PrintAnswer(NodesJson(wanted), style.form);
  for (const NodeRow& row : wanted) {
    if (!style.form.any()) std::fputs(ShowNode(row, style.job.is_one_line).c_str(), stdout);
  }
  return code;
}

/// show aliases [HOST]: the node names on that host. Here they equal the host names.
int ShowAliases(const std::vector<NodeRow>& nodes, const Words& words) {
  for (const std::string& word : words) {
    if (NodesNamed(nodes, {word}).empty()) return Say("No node is on host " + word);
    std::printf("%s\n", word.c_str());
  }
  for (const NodeRow& row : nodes) {
    if (words.empty()) std::printf("%s\n", HostOf(row).c_str());
  }
  return 0;
}

/// show slurmd: this machine's resources and jobs.
int ShowSlurmd(const std::vector<NodeRow>& nodes) {
  const std::vector<NodeRow> own = NodesNamed(nodes, {Hostname()});
  const NodeRow& row = own.empty() ? nodes.front() : own.front();
  std::vector<std::string> jobs;
  for (const wire::JobView& job : row.jobs) jobs.push_back(ToString(job.id));
  const auto line = [](const char* name, const std::string& value) {
    std::printf("%-24s = %s\n", name, value.c_str());
  };
  line("Active Jobs", jobs.empty() ? "NONE" : Join(jobs, " "));
  line("Actual CPUs", std::to_string(row.scene.cpus));
  line("Actual real memory", std::to_string(row.scene.memory_mib) + " MB");
  line("Hostname", HostOf(row));
  line("Version", VersionOf(row));
  return 0;
}

int ShowReservations(const Words& names, const ControlStyle& style) {
  auto api = Api::Connect();
  if (!api) return FailAs("scontrol", api.error());
  const auto text = api->Raw("GET", "/v1/reservations", "");
  if (!text) return FailAs("scontrol", text.error());
  auto views = DecodeShown<std::vector<wire::ReservationView>>(*text);
  if (!views) return FailAs("scontrol", views.error());
  if (!names.empty()) {
    std::erase_if(*views, [&](const wire::ReservationView& view) {
      return view.name != names.front() && std::to_string(view.number) != names.front();
    });
    if (views->empty()) return Say("Reservation " + names.front() + " not found");
  }
  const auto now = static_cast<double>(std::time(nullptr));
  if (style.form.any()) {
    PrintAnswer(ReservationsJson(*views, now, SceneOfServer().hostname), style.form);
    return 0;
  }
  if (views->empty()) std::printf("No reservations in the system\n");
  for (const wire::ReservationView& view : *views)
    std::fputs(ShowReservation(view, now, SceneOfServer().hostname, style.job.is_one_line).c_str(), stdout);
  return 0;
}

}  // namespace

namespace slurm {

int ControlShow(const Words& words, const ControlStyle& style) {
  if (words.empty()) return Say("too few arguments for keyword:show");
  std::string entity = ToLower(words.front());
  Words rest(words.begin() + 1, words.end());
  // Accepts "show job=17" and "show jobid=17".
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
  if (is("licenses") || is("burstbuffer") || is("federation") || is("topology") || is("topoconf")) {
    std::printf("No %s in the system\n", entity.c_str());
    return 0;
  }
  if (is("steps")) {
    return ShowSteps(rest, style);
  }
  if (is("assoc_mgr")) {
    std::printf("Current Association Manager state\n\nAssociation Records\n\n");
    return SacctmgrMain({"-P", "show", "association"});
  }
  if (!is("nodes") && !is("partitions") && !is("config") && !is("aliases") && !is("slurmd")) {
    return Say("invalid entity:" + words.front() + " for keyword:show");
  }
  const auto nodes = FetchNodes();
  if (!nodes) return FailAs("scontrol", nodes.error());
  if (is("config")) {
    if (style.form.any()) PrintAnswer(ConfigJson(nodes->front()), style.form);
    else std::fputs(ShowConfig(nodes->front()).c_str(), stdout);
    return 0;
  }
  if (is("aliases")) return ShowAliases(*nodes, rest);
  if (is("slurmd")) return ShowSlurmd(*nodes);
  if (is("nodes")) return ShowNodes(*nodes, rest, style);
  const std::vector<std::string> partitions = rest.empty() ? PartitionsOf(*nodes) : std::vector{rest.front()};
  std::vector<std::vector<NodeRow>> shown;
  for (const std::string& partition : partitions) {
    std::vector<NodeRow> members = NodesIn(*nodes, partition);
    if (members.empty() && !rest.empty()) return Say("Partition " + partition + " not found, or no node is in it");
    if (!members.empty()) shown.push_back(std::move(members));
  }
  if (style.form.any()) PrintAnswer(PartitionsJson(shown), style.form);
  if (style.is_verbose && !style.form.any())
    std::printf("last_update_time=%s, records=%zu\n", Moment(nodes->front().scene.now).c_str(), shown.size());
  for (const std::vector<NodeRow>& members : shown) {
    if (!style.form.any()) std::fputs(ShowPartition(members, style.job.is_one_line).c_str(), stdout);
  }
  return 0;
}

}  // namespace slurm
}  // namespace divvy::cli
