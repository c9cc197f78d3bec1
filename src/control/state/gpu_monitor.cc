#include "control/state/gpu_monitor.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"

namespace divvy {
namespace {

/// Returns null if there is none.
const GpuProcess* FindOnGpus(const std::vector<GpuObservation>& observations, std::int64_t pid) {
  for (const GpuObservation& observation : observations) {
    for (const GpuProcess& process : observation.processes) {
      if (process.identity.pid == pid) return &process;
    }
  }
  return nullptr;
}

/// Pid and start time together identify a process, and the rule must match both.
bool IsIgnored(const std::vector<IgnoredProcess>& ignored, const std::string& node, GpuIndex gpu,
               const GpuProcess& process) {
  return std::ranges::any_of(ignored, [&](const IgnoredProcess& rule) {
    return rule.node == node && (rule.gpu < 0 || rule.gpu == gpu) && rule.identity == process.identity;
  });
}

/// If the process belongs to a job that holds other GPUs of the node but not this one, returns that job's record. Only
/// isolation could prevent such use. Returns null if the process is where it should be, or if its job is unknown.
const JobRecord* StrayOf(const JobTable& jobs, const std::string& node, GpuIndex gpu, const GpuProcess& process) {
  constexpr Duration kSlack = std::chrono::seconds(2);
  const JobRecord* record = jobs.Find(JobId(process.job));
  if (record == nullptr || !IsActive(record->state)) return nullptr;
  // Jobs with GPU fractions are moved by the node's share daemon.
  if (record->request.is_portioned() || record->gpu_slice.any()) return nullptr;
  // So is a job with whole GPUs that was parked in this run; the observation may be older than the move.
  if (record->gpus_since != kNoTime && !record->request.is_elastic()) return nullptr;
  // A process of an earlier run.
  if (process.started != kNoTime && process.started < record->started - kSlack) return nullptr;
  for (const NodeAllocation& allocation : AllocationsOf(*record)) {
    if (allocation.node != node) continue;
    // An elastic job may still use GPUs that it is releasing.
    const GpuSet its = record->takes_resizes ? allocation.gpus | record->gpus_used : allocation.gpus;
    return its.Contains(gpu) ? nullptr : record;
  }
  return nullptr;
}

/// "job 17 of ada, which was not given this GPU (pid 4711, 1.2 GiB): its program should respect CUDA_VISIBLE_DEVICES".
std::string StrayText(const JobRecord& record, const GpuProcess& process) {
  return "job " + DisplayId(record) + " of " + record.user.name + ", which was not given this GPU (pid " +
         std::to_string(process.identity.pid) + ", " + CompactSize(process.memory_used) + "): " +
         (GpuCountOf(record) > 0 ? "its program should respect CUDA_VISIBLE_DEVICES"
                                 : "it asked for no GPU (--gpus 1)");
}

}  // namespace

bool GpuMonitor::LoadSetting(const std::string& key, const std::string& text) {
  if (key == kIgnoredKey) {
    ignored_ = ParseIgnored(text);
    return true;
  }
  if (key != kRestrictionKey && !key.starts_with(kNodeRestrictionPrefix)) return false;
  const std::string node = key == kRestrictionKey ? "" : key.substr(kNodeRestrictionPrefix.size());
  if (const auto allowed = ParseRestriction(text)) restrictions_.insert_or_assign(node, *allowed);
  return true;
}

void GpuMonitor::ForgetNode(NodeIndex node) {
  const std::string name = nodes_.NodeName(node);
  machines_.erase(node);
  if (restrictions_.erase(name) > 0) effects_.KeepSetting(std::string(kNodeRestrictionPrefix) + name, "");
  ForgetIgnored(name, {});
}

std::optional<GpuSet> GpuMonitor::restriction(const std::string& node) const {
  const auto at = restrictions_.find(node);
  return at == restrictions_.end() ? std::nullopt : std::optional(at->second);
}

void GpuMonitor::OnGpusObserved(const std::string& name, const std::vector<GpuObservation>& observations) {
  if (name.empty()) return OnOwnGpusObserved(observations);
  const auto node = scheduler_.FindNode(name);
  if (!node) return;
  Machine& machine = machines_[*node];
  for (const GpuObservation& observation : observations) {
    const auto at = std::ranges::find(machine.observations, observation.index, &GpuObservation::index);
    if (at == machine.observations.end()) machine.observations.push_back(observation);
    else *at = observation;
  }
  const bool has_seen_all = machine.observations.size() >= scheduler_.node(*node).capacity.gpus.size();
  if (has_seen_all) ForgetIgnored(name, machine.observations);
  RefreshGpus(*node, machine.observations);
}

const std::vector<GpuObservation>& GpuMonitor::observations(NodeIndex node) const {
  static const std::vector<GpuObservation> kNone;
  const auto at = machines_.find(node);
  return at == machines_.end() ? kNone : at->second.observations;
}

void GpuMonitor::OnOwnGpusObserved(const std::vector<GpuObservation>& observations) {
  std::vector<GpuObservation>& known = machines_[kOwnNode].observations;
  bool has_changed = false;
  for (const GpuObservation& observation : observations) {
    const auto at = std::ranges::find(known, observation.index, &GpuObservation::index);
    if (at == known.end()) {
      known.push_back(observation);
      has_changed = true;
    } else {
      has_changed |= at->processes != observation.processes || at->is_present != observation.is_present ||
                     at->fault != observation.fault || at->cut_by_others != observation.cut_by_others;
      *at = observation;
    }
  }
  if (!has_changed) return;
  ForgetIgnored("", known);
  RefreshGpus(kOwnNode, known);
}

// A rule ends with its process, because the pid may be reused.
void GpuMonitor::ForgetIgnored(const std::string& node, const std::vector<GpuObservation>& observations) {
  const auto is_gone = [&](const IgnoredProcess& rule) {
    return rule.node == node && std::ranges::none_of(observations, [&](const GpuObservation& observation) {
             return std::ranges::any_of(observation.processes,
                                        [&](const GpuProcess& p) { return p.identity == rule.identity; });
           });
  };
  if (std::erase_if(ignored_, is_gone) > 0) effects_.KeepSetting(kIgnoredKey, FormatIgnored(ignored_));
}

void GpuMonitor::RefreshGpus(NodeIndex node, const std::vector<GpuObservation>& observations) {
  const std::vector<GpuAvailability>& before = scheduler_.node(node).availability;
  const std::string name = nodes_.NodeName(node);
  const Machine& machine = machines_[node];
  const std::optional<GpuSet> allowed = restriction(name);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto gpu = static_cast<GpuIndex>(i);
    GpuAvailability availability;
    availability.is_restricted = allowed && !allowed->Contains(gpu);
    const auto seen = std::ranges::find(observations, gpu, &GpuObservation::index);
    if (seen != observations.end()) {
      availability.fault = !seen->is_present && seen->fault.empty() ? "the driver no longer reports it" : seen->fault;
      for (const GpuProcess& process : seen->processes) {
        const bool is_small = process.memory_used < ignore_below_;
        const bool is_ignored = IsIgnored(ignored_, name, gpu, process);
        const JobRecord* stray = process.supervisor_pid != 0 ? StrayOf(jobs_, name, gpu, process) : nullptr;
        if ((process.supervisor_pid != 0 && stray == nullptr) || is_small || is_ignored) continue;
        if (!availability.unmanaged.empty()) availability.unmanaged += "; ";
        availability.unmanaged += stray != nullptr ? StrayText(*stray, process)
                                                   : "pid " + std::to_string(process.identity.pid) + " of " +
                                                         process.user + ", " + CompactSize(process.memory_used);
      }
    }
    const std::string runs = found_.TextOf(name, gpu);
    if (!runs.empty()) availability.unmanaged += (availability.unmanaged.empty() ? "" : "; ") + runs;
    if (seen != observations.end() && !seen->cut_by_others.empty())
      availability.unmanaged += (availability.unmanaged.empty() ? "others: " : "; others: ") + seen->cut_by_others;
    availability.is_kept_by_found_runs = !runs.empty() && availability.unmanaged == runs;
    if (std::ranges::count(nodes_.GoneGpus(node), gpu) > 0) availability.fault = "its node no longer has it";
    if (const auto stuck = machine.stuck.find(gpu); stuck != machine.stuck.end()) availability.stuck = stuck->second;
    if (before[i] == availability) continue;
    scheduler_.SetAvailability(node, gpu, std::move(availability));
    effects_.AnnounceGpus();  // MachineEvents words the message.
    effects_.RequestPlan();
  }
}

void GpuMonitor::OnStuckGpus(const std::string& name, const std::map<GpuIndex, std::string>& stuck) {
  const auto node = nodes_.IndexOf(name);
  if (!node || machines_[*node].stuck == stuck) return;
  machines_[*node].stuck = stuck;
  Refresh(*node);
}

Status GpuMonitor::CheckRestriction(NodeIndex node, GpuSet allowed) const {
  const GpuSet all = GpuSet::FirstN(static_cast<int>(scheduler_.node(node).capacity.gpus.size()));
  if ((allowed - all).empty()) return {};
  return InvalidArgument(
      "there is no GPU " + std::to_string((allowed - all).ToVector().front()) + "; " +
      (node == kOwnNode ? "this server" : "node " + nodes_.NodeName(node)) + " has " +
      (all.empty() ? std::string("none") : Plural(all.size(), "GPU") + ", 0 to " + std::to_string(all.size() - 1)));
}

Result<GpuSet> GpuMonitor::Restrict(std::optional<GpuSet> allowed, const Caller& caller,
                                    const std::vector<std::string>& nodes) {
  if (!caller.is_admin)
    return PermissionDenied("restricting GPUs takes an administrator; " + CallerName(caller) + " is not one");
  std::vector<NodeIndex> machines;
  for (const std::string& node : nodes) {
    DIVVY_TRY(machines.emplace_back(), nodes_.FindMachine(node));
    if (allowed) DIVVY_CHECK(CheckRestriction(machines.back(), *allowed));
  }
  GpuSet usable;
  for (const NodeIndex machine : machines) {
    const std::string name = nodes_.NodeName(machine);
    usable = allowed.value_or(GpuSet::FirstN(static_cast<int>(scheduler_.node(machine).capacity.gpus.size())));
    if (allowed) restrictions_.insert_or_assign(name, *allowed);
    else restrictions_.erase(name);
    effects_.KeepSetting(name.empty() ? std::string(kRestrictionKey) : std::string(kNodeRestrictionPrefix) + name,
                         allowed ? FormatRestriction(*allowed) : "");
    Refresh(machine);
  }
  effects_.RequestPlan();
  return usable;
}

Result<std::string> GpuMonitor::Ignore(IgnoredProcess process, bool is_ignored, const Caller& caller) {
  if (!caller.is_admin)
    return PermissionDenied("ignoring a process on a GPU takes an administrator; " + CallerName(caller) +
                            " is not one");
  DIVVY_TRY(const NodeIndex index, nodes_.FindMachine(process.node));
  process.node = nodes_.NodeName(index);
  const std::string pid = "pid " + std::to_string(process.identity.pid);
  const std::string where = process.node.empty() ? "" : " of node " + process.node;
  if (is_ignored && !process.node.empty()) {
    const GpuProcess* seen = FindOnGpus(observations(index), process.identity.pid);
    if (seen == nullptr) {
      return NotFound("no process with " + pid + " was seen on a GPU" + where + "; divvy gpus lists them");
    }
    process.identity = seen->identity;
    process.user = seen->user;
    process.command = seen->command;
  }
  const auto matches = [&](const IgnoredProcess& rule) {
    return rule.node == process.node && rule.identity.pid == process.identity.pid &&
           (process.gpu < 0 || rule.gpu < 0 || rule.gpu == process.gpu);
  };
  const std::size_t removed = std::erase_if(ignored_, matches);
  if (!is_ignored && removed == 0) return NotFound(pid + where + " is not ignored");
  if (is_ignored) ignored_.push_back(process);
  effects_.KeepSetting(kIgnoredKey, FormatIgnored(ignored_));
  Refresh(index);
  return pid + where + (is_ignored ? " no longer makes its GPU unavailable, until it ends" : " counts again");
}

void GpuMonitor::RefreshGpusOf(const std::string& node) {
  if (const auto index = nodes_.IndexOf(node)) Refresh(*index);
}

}  // namespace divvy
