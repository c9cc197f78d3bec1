// The faults of the modelled node, and the observations of its GPUs.
#include <csignal>

#include "simulate/chaos/chaos_machine.h"

namespace divvy::simulate {
namespace {

constexpr Duration kCalmRunTime = std::chrono::hours(1);

}  // namespace

Tree* ChaosMachine::Pick(bool (*is_meant)(const Tree&)) {
  std::size_t count = 0;
  for (const auto& [key, tree] : trees_) count += is_meant(tree) ? 1 : 0;
  if (count == 0) return nullptr;
  std::size_t nth = random_.Below(count);
  for (auto& [key, tree] : trees_) {
    if (is_meant(tree) && nth-- == 0) return &tree;
  }
  return nullptr;
}

void ChaosMachine::LosesSupervisor(Tree& tree) {
  tree.is_watched = false;
  const bool has_begun = tree.file.names_process || tree.file.exit;
  if (!has_begun) {
    // The supervisor was killed before it started the job. There is nothing left to watch, and the launcher reports
    // that the supervisor ended unexpectedly.
    if (has_daemon_ && tree.launcher == launcher_) stranded_.emplace_back(tree.job, tree.attempt);
  } else if (tree.has_guard) {
    tree.is_taking_over = true;
  } else if (!tree.file.exit) {
    fates_[tree.job].may_be_unseen = true;
    tree.exit_is_visible = false;
  }
  tree.has_guard = false;
  Bury(tree);
}

void ChaosMachine::KillSupervisor() {
  Tree* tree = Pick([](const Tree& t) { return t.is_watched; });
  if (tree == nullptr) return;
  ++figures_.supervisor_kills;
  trace_.Note("kill -9 of the supervisor: job", tree->job, tree->attempt);
  LosesSupervisor(*tree);
}

void ChaosMachine::KillGuard() {
  Tree* tree = Pick([](const Tree& t) { return t.has_guard || t.is_taking_over; });
  if (tree == nullptr) return;
  ++figures_.guard_kills;
  trace_.Note("kill -9 of the guard: job", tree->job, tree->attempt);
  tree->has_guard = false;
  if (!tree->is_taking_over) return;
  tree->is_taking_over = false;
  if (!tree->file.exit) fates_[tree->job].may_be_unseen = true;
  Bury(*tree);
}

void ChaosMachine::KillProcess() {
  Tree* tree = Pick([](const Tree& t) { return t.has_process; });
  if (tree == nullptr) return;
  ++figures_.process_kills;
  EndProcess(*tree, EndedBy(SIGKILL));
}

void ChaosMachine::KillLauncher() {
  ++figures_.launcher_kills;
  trace_.Note("kill -9 of the launcher");
  ++launcher_;
  has_launcher_ = false;
  figures_.lost_messages += launches_.size();
  launches_.clear();
}

void ChaosMachine::KillKeeper() {
  ++figures_.keeper_kills;
  trace_.Note("kill -9 of the keeper");
  for (auto& [key, tree] : trees_) {
    if (tree.tenant && tree.tenant->copied_at != kNever) tree.tenant->copied_at = DrawCopied();
  }
  RepeatPresences();
}

void ChaosMachine::ChangeParkability() {
  Tree* tree = Pick([](const Tree& t) { return t.tenant.has_value(); });
  if (tree == nullptr || !parking_faults_.has_failures) return;
  tree->tenant->can_park = random_.Below(3) != 0;
  tree->tenant->why = tree->tenant->can_park ? "" : "it uses NCCL";
  trace_.Note("changes whether it can be parked: job", tree->job, tree->tenant->can_park);
  SayPresence(*tree);
}

void ChaosMachine::LoseLaunch() {
  if (launches_.empty()) return;
  const std::size_t index = random_.Below(launches_.size());
  ++figures_.lost_messages;
  stranded_.emplace_back(launches_[index].job, launches_[index].attempt);
  trace_.Note("launch lost, because its supervisor was killed: job", launches_[index].job, launches_[index].attempt);
  launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(index));
}

void ChaosMachine::DoubleReport() {
  if (reports_.empty()) return;
  ++figures_.doubled_messages;
  const std::size_t index = random_.Below(reports_.size());
  trace_.Note("a report to the daemon is delivered twice: job", reports_[index].file.job, reports_[index].file.attempt);
  reports_.push_back(reports_[index]);
}

void ChaosMachine::DoubleCommand() {
  if (commands_.empty()) return;
  ++figures_.doubled_messages;
  const std::size_t index = random_.Below(commands_.size());
  const CommandMessage again = commands_[index];
  trace_.Note("a command is delivered twice: job", again.job, static_cast<std::int64_t>(again.kind));
  commands_.insert(commands_.begin() + static_cast<std::ptrdiff_t>(index), again);
}

void ChaosMachine::Reboot() {
  ++figures_.reboots;
  trace_.Note("reboot");
  trees_.clear();
  files_.clear();
  launches_.clear();
  commands_.clear();
  presences_.clear();
  displacements_.clear();
  for (Gpu& gpu : gpus_) gpu = Gpu();
  ++boot_;
}

void ChaosMachine::DaemonDied() {
  has_daemon_ = false;
  figures_.lost_messages += reports_.size() + launches_.size() + presences_.size() + displacements_.size();
  presences_.clear();
  displacements_.clear();
  reports_.clear();
  launches_.clear();
  stranded_.clear();
  ++launcher_;
}

std::vector<GpuObservation> ChaosMachine::Observe(GpuSet which, const std::set<JobId>& known) const {
  std::vector<GpuObservation> seen;
  for (int index : which.ToVector()) {
    const Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    GpuObservation observation;
    observation.index = static_cast<GpuIndex>(index);
    if (gpu.is_faulty) observation.fault = "XID 79";
    if (gpu.owner.first.is_set()) {
      GpuProcess process;
      process.identity.pid = static_cast<std::int64_t>(gpu.owner.first.value() * 100 + gpu.owner.second);
      process.supervisor_pid = known.contains(gpu.owner.first) ? 1 : 0;
      process.memory_used = Bytes(std::int64_t{1} << 30);
      observation.processes.push_back(std::move(process));
    }
    if (gpu.foreign_pid != 0) {
      GpuProcess process;
      process.identity.pid = gpu.foreign_pid;
      process.user = "eve";
      process.memory_used = Bytes(std::int64_t{1} << 30);
      observation.processes.push_back(std::move(process));
    }
    seen.push_back(std::move(observation));
  }
  return seen;
}

void ChaosMachine::SetFault(GpuIndex gpu, bool is_faulty) {
  if (is_faulty && !gpus_[gpu].is_faulty) ++figures_.gpu_faults;
  gpus_[gpu].is_faulty = is_faulty;
}

void ChaosMachine::SetForeign(GpuIndex gpu, bool is_there) {
  if (is_there && gpus_[gpu].foreign_pid == 0) ++figures_.foreign_processes;
  gpus_[gpu].foreign_pid = is_there ? ++last_pid_ : 0;
}

void ChaosMachine::CalmDown() {
  is_calm_ = true;
  for (auto& [key, tree] : trees_) {
    if (!tree.tenant) continue;
    if (tree.tenant->copied_at != kNever) tree.tenant->copied_at = std::min(tree.tenant->copied_at, DrawCopied());
    tree.tenant->parked_at = clock_.true_time;  // How long it was parked before does not lengthen its run any more.
    if (std::exchange(tree.tenant->can_park, true)) continue;
    tree.tenant->why.clear();
    SayPresence(tree);
  }
  for (Gpu& gpu : gpus_) {
    gpu.is_faulty = false;
    gpu.foreign_pid = 0;
  }
  for (auto& [key, tree] : trees_) tree.ends_at = std::min(tree.ends_at, clock_.true_time + kCalmRunTime);
}

}  // namespace divvy::simulate
