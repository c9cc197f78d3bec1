#include "daemon/views/views.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <set>

#include "base/duration_text.h"
#include "base/text.h"
#include "base/utf8.h"
#include "daemon/shares/share_place.h"
#include "dialect/options/job_options.h"
#include "dialect/options/quantities.h"
#include "engine/scheduler/idle_gpus.h"
#include "model/reason_words.h"
#include "model/run_line.h"
#include "model/steps/step_list.h"
#include "wire/messages/step_views.h"

namespace divvy {
namespace {

std::optional<double> OptionalSeconds(Time time) {
  if (time == kNoTime || time == kNever) return std::nullopt;
  return ToSeconds(time);
}

std::vector<std::int64_t> Indices(GpuSet gpus) {
  const std::vector<int> indices = gpus.ToVector();
  return {indices.begin(), indices.end()};
}

wire::RequestView RequestViewOf(const JobRecord& record) {
  wire::RequestView view;
  view.gpus = record.request.gpus;
  view.gpu_type = record.request.gpu_type;
  view.gpu_memory_bytes = record.request.gpu_memory.count();
  view.cpus = record.request.cpus;
  view.memory_bytes = record.request.memory.count();
  view.tasks = record.request.tasks;
  view.time_limit_s = ToSeconds(record.time_limit);
  view.max_gpus = record.request.is_elastic() ? record.request.max_gpus : 0;
  view.topology = TopologyText(record.request);
  if (record.is_placement_set) view.placement = Name(record.placement);
  view.nodes = record.request.nodes;
  view.short_nodes = record.request.short_nodes;
  view.spreads_tasks = record.request.spreads_tasks;
  view.constraint = record.request.constraint;
  view.node_list = record.request.node_list;
  view.excluded_nodes = record.request.excluded_nodes;
  if (record.end_by != kNoTime) view.end_by = ToSeconds(record.end_by);
  view.portion = record.request.portion;
  view.slice = record.request.slice;
  for (const Component& one : record.request.others) {
    view.others.push_back({one.gpus, one.gpu_type, one.gpu_memory.count(), one.cpus, one.memory.count(), one.tasks,
                           one.nodes, one.short_nodes, one.spreads_tasks, one.constraint, one.node_list,
                           one.excluded_nodes, one.pool});
  }
  return view;
}

/// Returns the length of the id at the start of `text`; 0 if there is none, or if it is a count ("12 more").
std::size_t IdLength(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && std::isdigit(static_cast<unsigned char>(text[length])) != 0) ++length;
  if (length < text.size() && (text[length] == '_' || std::isalpha(static_cast<unsigned char>(text[length])) != 0))
    return 0;  // "5_1" is already a public id.
  return text.substr(length).starts_with(" more") ? 0 : length;
}

std::string PublicIdOf(std::string_view id, const FindOutcome& find) {
  const auto number = ParseInteger(id);
  if (!number || *number <= 0) return std::string(id);
  const auto record = find(JobId(static_cast<std::uint64_t>(*number)));
  return record && record->array.is_set() ? PublicId(*record) : std::string(id);
}

wire::ProgressView ProgressViewOf(const JobRecord& record) {
  wire::ProgressView view;
  view.fraction = static_cast<double>(record.progress.done) / static_cast<double>(Progress::kAll);
  view.step = record.progress.step;
  view.steps = record.progress.steps;
  view.time = ToSeconds(record.progress.at);
  if (const auto end = ExpectedEnd(record)) view.expected_end = ToSeconds(*end);
  return view;
}

/// Returns true if the job runs, or has ended after a run.
bool HasRun(const JobRecord& record) { return record.started != kNoTime && !IsWaiting(record.state); }

/// Fills the fields that JobView and JobDetail share. Both are flat on purpose, so that readers of the JSON need not
/// know a base type.
template <typename View>
void FillCommon(const JobRecord& record, const Reason& reason, const SpecLabels& labels, const FindOutcome& find,
                View& view) {
  view.id = record.id;
  view.display_id = DisplayId(record);
  view.name = record.name;
  view.user = record.user.name;
  view.state = Name(record.state);
  view.gpus = Indices(record.gpus);
  view.node = record.node;
  view.allocations = AllocationViewsOf(record);
  view.request = RequestViewOf(record);
  view.submit_time = ToSeconds(record.submitted);
  if (record.state != JobState::kHeld) view.eligible_time = OptionalSeconds(std::max(record.waits_since, record.begin));
  const bool has_run = HasRun(record);
  if (has_run) view.start_time = ToSeconds(record.started);
  if (has_run && record.progress.at != kNoTime) view.progress = ProgressViewOf(record);
  if (IsFinal(record.state)) view.end_time = OptionalSeconds(record.ended);
  if (record.exit && record.exit->is_known && IsFinal(record.state)) {
    view.exit_code = record.exit->code;
    if (record.exit->signal != 0) view.signal = record.exit->signal;
  }
  view.reason = WithPublicIds(reason, find);
  view.start_reason = WithPublicIds(record.start_reason, find);
  view.priority = record.priority;
  view.project = record.project;
  view.group = record.group;
  view.pool = PoolOf(record, labels);
  view.account = labels.account;
  view.qos = labels.qos;
  view.comment = record.comment;
  view.dialect = Name(record.dialect);
  if (record.array.is_set()) {
    view.array_id = record.array;
    view.array_index = record.array_index;
  }
  if (record.array_count > 0) {
    view.count = static_cast<std::int64_t>(record.array_waiting.size());
    const std::string id = DisplayId(record);
    const auto bracket = id.find('[');
    if (bracket != std::string::npos) view.array_indices = id.substr(bracket + 1, id.size() - bracket - 2);
  }
  view.array_at_once = record.array_at_once;
  for (const Dependency& dependency : record.dependencies)
    view.dependencies.push_back(dialect::FormatDependency(dependency));
  view.restarts = record.restarts;
  view.team = record.team;
  if (record.is_preemptible_set) view.preemptible = Name(record.preemptible);
  view.is_foreground = record.is_foreground;
  // The store of an older release may hold line breaks and control characters in these fields.
  for (std::string* text :
       {&view.name, &view.comment, &view.project, &view.group, &view.team, &view.pool, &view.reason})
    *text = WithoutControls(*text);
  if (record.exit && IsFinal(record.state)) view.step_count = StepCount(record.exit->steps);
}

std::string Stamp(Time time) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  char tail[8];
  std::snprintf(tail, sizeof tail, ".%03d", static_cast<int>(millis));
  return std::string(text, length) + tail;
}

std::vector<std::pair<Time, std::string>> HistoryLines(const JobRecord& record,
                                                       const std::vector<Batch::HistoryLine>& history) {
  std::vector<std::pair<Time, std::string>> lines;
  lines.emplace_back(record.submitted, "submitted by " + record.user.name);
  // If the job was cancelled while waiting for its next run, its last run is already in the history.
  std::set<std::uint32_t> told;
  for (const auto& line : history) {
    // The job had already ended when its node was reported as lost, so the note that it may go on does not apply.
    if (IsFinal(record.state) && line.at > record.ended && line.text.ends_with(kMayGoOn)) continue;
    const auto run = ReadRunLine(line.text);
    if (!run || told.insert(run->run).second) lines.emplace_back(line.at, line.text);
  }
  const bool has_run = HasRun(record);
  if (has_run && record.array_count == 0 && !told.contains(record.attempt))
    lines.emplace_back(record.started, StartedText(record));
  if (IsFinal(record.state)) lines.emplace_back(record.ended, EndText(record));
  std::ranges::stable_sort(lines, {}, &std::pair<Time, std::string>::first);
  return lines;
}

}  // namespace

std::vector<wire::AllocationView> AllocationViewsOf(const JobRecord& record) {
  std::vector<wire::AllocationView> allocations;
  for (const NodeAllocation& allocation : record.gang) {
    allocations.push_back({allocation.node, Indices(allocation.gpus), allocation.tasks, {}});
    for (const ComponentAllocation& part : allocation.parts)
      allocations.back().parts.push_back({part.component, Indices(part.gpus), part.tasks});
  }
  return allocations;
}

std::string PoolOf(const JobRecord& record, const SpecLabels& labels) {
  return HasRun(record) && !record.pool_of_run.empty() ? record.pool_of_run : labels.pool;
}

SpecLabels LabelsOf(const JobSpec& spec) {
  const auto qos = spec.labels.find("slurm.qos");
  return {spec.pool, spec.account, qos == spec.labels.end() ? "" : qos->second};
}

std::string PublicId(const JobRecord& record) {
  return record.array.is_set() ? DisplayId(record) : ToString(record.id);
}

std::string WithPublicIds(const std::string& text, const FindOutcome& find) {
  constexpr std::array<std::string_view, 4> kBefore = {"job ", "jobs ", "divvy release ", "divvy update "};
  const std::string_view all = text;
  std::string out;
  std::size_t at = 0;
  const auto copy = [&](std::size_t length) {
    out += all.substr(at, length);
    at += length;
  };
  while (at < all.size()) {
    const bool is_word_start = at == 0 || std::isalnum(static_cast<unsigned char>(all[at - 1])) == 0;
    const auto before = std::ranges::find_if(
        kBefore, [&](std::string_view word) { return is_word_start && all.substr(at).starts_with(word); });
    if (before == kBefore.end()) {
      copy(1);
      continue;
    }
    copy(before->size());
    // "3", and further ids of a list: ", 5 and 7", but not the count in "and 12 more".
    while (const std::size_t length = IdLength(all.substr(at))) {
      out += PublicIdOf(all.substr(at, length), find);
      at += length;
      const std::string_view rest = all.substr(at);
      const std::size_t joint = *before != "jobs " ? 0 : rest.starts_with(", ") ? 2 : rest.starts_with(" and ") ? 5 : 0;
      if (joint == 0) break;
      copy(joint);
    }
  }
  return out;
}

wire::JobView ViewOf(const JobRecord& record, const Reason& reason, const SpecLabels& labels, const FindOutcome& find) {
  wire::JobView view;
  FillCommon(record, reason, labels, find, view);
  return view;
}

wire::JobInFull InFull(wire::JobDetail detail, const JobRecord& record, const FindOutcome& find,
                       const std::vector<Batch::HistoryLine>& history) {
  wire::JobInFull full;
  static_cast<wire::JobDetail&>(full) = std::move(detail);
  for (const auto& [at, text] : HistoryLines(record, history))
    full.timeline.push_back({ToSeconds(at), WithPublicIds(text, find)});
  if (record.array_count > 0) {
    full.all_indices = !record.array_indices.empty() ? record.array_indices.ToString()
                       : record.array_count == 1     ? "0"
                                                     : "0-" + std::to_string(record.array_count - 1);
  }
  return full;
}

wire::JobDetail DetailOf(const JobRecord& record, const JobSpec* spec, const Reason& reason, const SpecLabels& labels,
                         const FindOutcome& find, const std::vector<GpuFacts>& gpus,
                         const std::vector<Batch::HistoryLine>& history) {
  wire::JobDetail detail;
  FillCommon(record, reason, labels, find, detail);
  for (int gpu : record.gpus.ToVector()) {
    if (static_cast<std::size_t>(gpu) < gpus.size())
      detail.gpu_uuids.push_back(gpus[static_cast<std::size_t>(gpu)].uuid);
  }
  if (record.exit) {
    detail.was_oom_killed = record.exit->was_oom_killed;
    detail.cpu_time_s = ToSeconds(record.exit->cpu_time);
    detail.memory_peak_bytes = record.exit->memory_peak.count();
  }
  if (record.exit && IsFinal(record.state))
    detail.steps =
        wire::StepViewsOf(ReadStepList(record.exit->steps), record.ended, spec != nullptr, detail.allocations);
  // Each element of an array has its own deadline.
  if (IsActive(record.state) && record.array_count == 0) detail.deadline = OptionalSeconds(Deadline(record));
  detail.retries_left = std::max<std::int64_t>(0, record.retries - static_cast<std::int64_t>(record.retries_used));
  detail.wants_pty = record.wants_pty;
  for (const auto& [at, text] : HistoryLines(record, history))
    detail.history.push_back(Stamp(at) + "  " + WithPublicIds(text, find));
  if (record.array_count > 0) {
    detail.elements["total"] = record.array_count;
    detail.elements["waiting"] = static_cast<std::int64_t>(record.array_waiting.size());
    detail.elements["succeeded"] = record.array_succeeded;
    detail.elements["failed"] = record.array_failed;
    detail.elements["cancelled"] = record.array_cancelled;
    detail.elements["active"] = static_cast<std::int64_t>(record.array_count) - detail.elements["waiting"] -
                                record.array_succeeded - record.array_failed - record.array_cancelled;
  }
  if (spec == nullptr) return detail;
  for (const std::string& word : spec->command)
    detail.command += (detail.command.empty() ? "" : " ") + ShellQuote(word);
  if (!spec->script.empty()) {
    detail.command = "script " + spec->name;
    for (const std::string& word : spec->arguments) detail.command += " " + ShellQuote(word);
    detail.script = spec->script;
  }
  detail.directory = spec->directory;
  detail.output = spec->output;
  detail.error = spec->error;
  detail.labels = spec->labels;
  for (std::size_t i = 0; i < spec->request.others.size(); ++i) {
    for (const auto& [name, value] : spec->request.others[i].labels)
      detail.labels.emplace(name + "+" + std::to_string(i + 1), value);
  }
  detail.notes = spec->notes;
  if (record.array.is_set()) detail.parameters = dialect::ElementAt(*spec, record.array_ordinal).parameters;
  return detail;
}

namespace {

wire::GpuProcessView ProcessViewOf(const GpuProcess& process, Time now) {
  wire::GpuProcessView view;
  view.pid = process.identity.pid;
  view.user = process.user;
  view.command = process.command;
  view.memory_bytes = process.memory_used.count();
  view.age_s = process.started == kNoTime ? 0 : ToSeconds(now - process.started);
  view.is_graphics = process.is_graphics;
  return view;
}

void Observe(const Controller& controller, NodeIndex node, const std::vector<JobId>& holders, Time now,
             wire::GpuView& view) {
  const auto& observations = controller.observations(node);
  const auto index = static_cast<GpuIndex>(view.index);
  const auto seen = std::ranges::find(observations, index, &GpuObservation::index);
  if (seen == observations.end() || !seen->is_present) return;
  view.memory_used_bytes = seen->memory_used.count();
  view.utilisation_percent = seen->utilisation_percent;
  view.temperature_celsius = seen->temperature_celsius;
  view.power_watts = seen->power_watts;
  const std::string name = controller.NodeName(node);
  for (const GpuProcess& process : seen->processes) {
    wire::GpuProcessView out = ProcessViewOf(process, now);
    if (process.job != 0) out.job = JobId(process.job);
    else if (process.supervisor_pid != 0 && holders.size() == 1) out.job = holders.front();
    out.is_ignored = std::ranges::any_of(controller.ignored(), [&](const IgnoredProcess& rule) {
      return rule.node == name && rule.identity == process.identity && (rule.gpu < 0 || rule.gpu == index);
    });
    view.processes.push_back(std::move(out));
  }
}

// Returns true if the job is listed under this GPU now: by the keeper for a GPU fraction, otherwise by the plan.
bool IsOnGpu(const wire::KeptTenant* tenant, const RunningJob& job, NodeIndex node, GpuIndex gpu) {
  if (tenant == nullptr) return job.gpus_on(node).Contains(gpu);
  return std::ranges::any_of(tenant->shares,
                             [&](const wire::KeptShare& share) { return StandsAt(*tenant, share) == gpu; });
}

/// Returns the note for a GPU in MIG mode: "in MIG mode: provides slices only, 1g.10gb to 7g.80gb".
std::string SlicesAlone(const GpuFacts& gpu) {
  const std::string text = "in MIG mode: provides slices only";
  return gpu.slices.empty() ? text : text + ", " + gpu.slices.front().name + " to " + gpu.slices.back().name;
}

/// Returns true if the job has a GPU fraction or a MIG slice, and therefore its own line.
bool IsTenant(const RunningJob& job) { return job.request.is_portioned() || job.slice.any(); }

/// Marks a GPU that is idle but not available to every job.
void MarkKept(const Controller& controller, const IdleGpus& idle, NodeIndex node, Time now, wire::GpuView& view) {
  const auto gpu = static_cast<GpuIndex>(view.index);
  if (idle.unused(node).Contains(gpu)) {
    const JobId job = *idle.AloneOn(node);
    const JobRecord* record = controller.Find(job);
    view.state = "allocated";
    view.free = 0;
    view.jobs.push_back(job);
    view.job_display_ids.push_back(record == nullptr ? ToString(job) : PublicId(*record));
    const RunningJob* running = controller.scheduler().running(job);
    view.reason = running->name + " of " + running->user + " has exclusive use of the node";
    return;
  }
  const auto advance = idle.AdvanceReservationOf(node, gpu);
  const auto number = advance ? controller.NumberOfReservation(*advance) : std::nullopt;
  if (!number) return;
  const GpuReservation& reservation = controller.reservations().all().at(*number);
  view.state = "reserved";
  view.free = 0;
  view.reservation = reservation.name.empty() ? std::to_string(*number) : reservation.name;
  view.reason = (reservation.user.empty() ? "for team " + reservation.team : "for " + reservation.user);
  for (const ReservationOccurrence& occurrence : OccurrencesOf(reservation, now, now + Duration(1)))
    view.reason += " for " + DurationText(occurrence.until - now) + " more";
  view.reason += ": " + NameOf(reservation);
}

wire::GpuView GpuViewOf(const Controller& controller, NodeIndex node, const GpuFacts& facts,
                        const SharingSnapshot& shares, const IdleGpus& idle, Time now) {
  const Scheduler& cluster = controller.scheduler();
  wire::GpuView view;
  view.node = cluster.node(node).attributes.name;
  view.index = facts.index;
  view.uuid = facts.uuid;
  view.model = facts.model;
  view.memory_total_bytes = facts.memory_total.count();
  view.pci_address = facts.pci_address;
  view.numa_node = facts.numa_node;
  if (facts.compute_capability > 0) {
    view.compute_capability =
        std::to_string(facts.compute_capability / 10) + "." + std::to_string(facts.compute_capability % 10);
  }
  view.is_mig_enabled = facts.is_mig_enabled;
  for (const SliceProfile& profile : facts.slices) view.slices.push_back(profile.name);
  view.links = facts.links;
  const GpuAvailability& availability = cluster.node(node).availability[facts.index];
  const std::vector<JobId> planned = cluster.holders(node, facts.index);
  view.free = PartOfWhole(cluster.node(node).room(facts.index));
  std::vector<JobId> holders;
  const std::string machine = controller.NodeName(node);
  const std::string absence = controller.DisconnectReason(machine);
  for (const auto& [id, job] : cluster.running_jobs()) {
    if (!IsTenant(job)) continue;
    const wire::KeptTenant* tenant = job.node == node ? shares.Find(machine, id) : nullptr;
    if (job.node != node || !IsOnGpu(tenant, job, node, facts.index)) continue;
    holders.push_back(id);
    wire::TenantView& shown = view.tenants.emplace_back(TenantViewOf(controller.Find(id), job, tenant, facts));
    MarkAbsent(absence, shown.state, shown.note);
    // The facts are from the daemon's start; MIG mode may have been enabled since, for this instance.
    view.is_mig_enabled |= shown.mechanism == wire::kByMig;
  }
  for (const JobId job : planned) {
    const RunningJob* whole = cluster.running(job);
    if (whole != nullptr && !IsTenant(*whole)) holders.push_back(job);
  }
  for (const JobId job : holders) {
    const JobRecord* record = controller.Find(job);
    view.jobs.push_back(job);
    view.job_display_ids.push_back(record == nullptr ? ToString(job) : PublicId(*record));
  }
  if (!availability.fault.empty()) {
    view.state = "fenced";
    view.reason = availability.fault;
  } else if (!holders.empty()) {
    view.state = "allocated";
    for (const JobId holder : holders) {
      const RunningJob* job = cluster.running(holder);
      if (job == nullptr) continue;
      if (IsTenant(*job)) continue;  // Tenants have their own lines.
      view.reason += (view.reason.empty() ? "" : ", ") + job->name + " of " + job->user;
    }
    const auto add = [&view](const std::string& more) { view.reason += (view.reason.empty() ? "" : "; ") + more; };
    if (!availability.unmanaged.empty()) add("also used by " + availability.unmanaged);
    if (availability.is_restricted) add("restricted: takes no new work");
    const bool has_whole = std::ranges::any_of(holders, [&](JobId job) {
      const RunningJob* running = cluster.running(job);
      return running != nullptr && !IsTenant(*running);
    });
    if (!absence.empty() && has_whole) add(absence);
  } else if (!absence.empty()) {
    view.state = "away";
    view.reason = absence;
  } else if (!availability.unmanaged.empty()) {
    view.state = "unmanaged";
    view.reason = availability.unmanaged;
  } else if (!availability.stuck.empty()) {
    view.state = "unmanaged";  // The reason is added below.
  } else if (availability.is_restricted) {
    view.state = "restricted";
    view.reason = "divvy gpus restrict";
  } else if (!cluster.node(node).takes_work) {
    view.state = "restricted";
    view.reason = cluster.node(node).idle_reason;
  } else {
    view.state = "free";
    MarkKept(controller, idle, node, now, view);
  }
  if (facts.is_only_sliced && (view.state == "free" || view.state == "allocated"))
    view.reason += (view.reason.empty() ? "" : "; ") + SlicesAlone(facts);
  if (const wire::KeeperState* state = shares.Find(machine)) {
    const auto troubled = std::ranges::find(state->gpus, facts.index, &wire::KeptGpu::index);
    if (troubled != state->gpus.end()) view.reason += (view.reason.empty() ? "" : "; ") + troubled->trouble;
    for (const wire::KeptWait& wait : state->waits) {
      // The GPU is being emptied for a job that will have all of it.
      if (wait.bound == Duration(0) || std::ranges::find(view.jobs, wait.job) == view.jobs.end()) continue;
      view.reason += (view.reason.empty() ? "" : "; ") +
                     WithPublicIds("job " + ToString(wait.job) + " waits: " + wait.why, [&](JobId id) {
                       const JobRecord* record = controller.Find(id);
                       return record == nullptr ? std::nullopt : std::optional(*record);
                     });
    }
  }
  // The last observation of a disconnected node is outdated.
  if (absence.empty()) Observe(controller, node, holders, now, view);
  return view;
}

}  // namespace

std::vector<wire::GpuView> GpuViews(const Controller& controller, std::string_view isolation,
                                    const SharingSnapshot& shares, Time now) {
  std::vector<wire::GpuView> views;
  const Scheduler& cluster = controller.scheduler();
  const IdleGpus idle(cluster, now);
  for (NodeIndex node = 0; node < cluster.nodes().size(); ++node) {
    for (const GpuFacts& facts : cluster.node(node).capacity.gpus) {
      views.push_back(GpuViewOf(controller, node, facts, shares, idle, now));
      // The isolation on other nodes is known only to their agents.
      if (node == kOwnNode) views.back().isolation = isolation;
      if (!cluster.has_many()) views.back().node.clear();
    }
  }
  return views;
}

std::string_view Name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kFailedPrecondition:
      return "failed_precondition";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kUnreachable:
      return "unreachable";
    case ErrorCode::kTimedOut:
      return "timed_out";
    case ErrorCode::kCorruptData:
      return "corrupt_data";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

int HttpStatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kLimitExceeded:
      return 429;
    case ErrorCode::kUnreachable:
      return 503;
    case ErrorCode::kTimedOut:
      return 504;
    case ErrorCode::kCorruptData:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

wire::ErrorView ErrorViewOf(const Error& error) { return {std::string(Name(error.code)), error.message}; }

}  // namespace divvy
