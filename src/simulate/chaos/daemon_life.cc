#include "simulate/chaos/daemon_life.h"

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "base/text.h"

namespace divvy::simulate {
namespace {

constexpr std::string_view kBootKey = "node.boot_id";
constexpr int kCpus = 64;

/// Keeps the removal of elements from their arrays, but drops the elements' records.
void TearElements(std::vector<Batch>& batches) {
  std::set<JobId> lost;
  for (Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      if (job.spec == nullptr) lost.insert(job.record.id);
    }
    std::erase_if(batch.inserts, [&](const Batch::NewJob& job) { return lost.contains(job.record.id); });
    std::erase_if(batch.updates, [&](const JobRecord& record) { return lost.contains(record.id); });
  }
}

/// "GPU 3 is held by job 5 and by job 9"; "" if every GPU has one owner. Load asserts it.
std::string HeldTwice(const std::map<JobId, JobRecord>& live) {
  std::map<int, JobId> owners;
  for (const auto& [id, record] : live) {
    if (!IsActive(record.state) || record.array_count > 0) continue;
    for (int gpu : record.gpus.ToVector()) {
      const auto [at, is_new] = owners.emplace(gpu, record.id);
      if (is_new) continue;
      return "GPU " + std::to_string(gpu) + " is held by job " + ToString(at->second) + " and by job " +
             ToString(record.id);
    }
  }
  return "";
}

NodeCapacity CapacityOf(const ChaosMachine& machine) {
  NodeCapacity capacity;
  for (int i = 0; i < machine.gpus(); ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.model = "H100";
    facts.memory_total = machine.gpu_memory();
    capacity.gpus.push_back(std::move(facts));
  }
  capacity.cpus = kCpus;
  capacity.memory = machine.host_memory();
  return capacity;
}

}  // namespace

DaemonLife::DaemonLife(const ChaosParts& parts, const Policy& policy, const Limits& limits)
    : parts_(parts),
      clock_(parts.clock),
      controller_(policy, limits, parts.random.Next()),
      driver_(controller_, parts.store, clock_, *this, PortsOfDriver()),
      reports_(driver_, parts.machine, parts.mutation),
      node_(reports_, parts.machine, parts.trace, parts.mutation) {
  NodeCapacity capacity = CapacityOf(parts.machine);
  controller_.SetCapacity(capacity);
}

ControllerDriver::Ports DaemonLife::PortsOfDriver() {
  ControllerDriver::Ports ports;
  ports.post = [this](std::function<void()> task) { tasks_.push_back(std::move(task)); };
  ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
    BeginCommit(std::move(batches), std::move(done));
  };
  ports.after = [this](Duration delay, std::function<void()> task) {
    if (parts_.mutation == ChaosMutation::kLosesTimers) return;
    timers_.emplace_back(AddSaturating(parts_.clock.true_time, delay), std::move(task));
  };
  ports.give_up = [this](const Error& error) { parts_.trace.Break("the store refused a commit: " + error.message); };
  ports.complete = [this](Effects& effects) { OnDecided(effects); };
  return ports;
}

void DaemonLife::Recover() {
  auto loaded = parts_.store.Load();
  DIVVY_ASSERT(loaded);  // The store is in memory, so this cannot fail.
  std::string boot_before;
  for (const auto& [key, value] : loaded->settings) {
    if (key == kBootKey) boot_before = value;
  }
  const std::string boot = std::to_string(parts_.machine.boot());
  if (const std::string twice = HeldTwice(loaded->live); !twice.empty())
    return parts_.trace.Break("in the store, " + twice);
  controller_.Load(std::move(loaded->live), loaded->settings, loaded->next_id, loaded->jobs_total, driver_.Outcomes());
  parts_.ledger.CheckAfterRestart(controller_, parts_.store);
  const GpuSet all = GpuSet::FirstN(parts_.machine.gpus());
  controller_.OnGpusObserved(parts_.machine.Observe(all, {}));
  node_.AdoptRuns(!boot_before.empty() && boot_before != boot);
  node_.BeginLooking();
  controller_.OnGpusObserved(parts_.machine.Observe(all, node_.known()));
  if (boot != boot_before) controller_.KeepSetting(kBootKey, boot);
  Touch();
}

void DaemonLife::AfterCommit(std::vector<Fact> facts, bool may_be_refused) {
  if (parts_.mutation == ChaosMutation::kAnswersBeforeCommit) parts_.ledger.Answered(facts);
  const auto answer = [this, facts = std::move(facts)](const Status& status) {
    if (DiesNow()) return;
    if (status || parts_.mutation == ChaosMutation::kAcceptsRefused) parts_.ledger.Answered(facts);
    else parts_.ledger.Refused(facts, parts_.store);
  };
  using IfNotStored = ControllerDriver::IfNotStored;
  driver_.AfterCommit(answer, may_be_refused ? IfNotStored::kRefuse : IfNotStored::kWait);
}

void DaemonLife::RunTask() {
  const auto task = std::move(tasks_.front());
  tasks_.erase(tasks_.begin());
  task();
}

void DaemonLife::OnDecided(Effects& effects) {
  const auto launch_of = [](const NodeCommand& command) { return std::get_if<LaunchCommand>(&command); };
  for (const NodeCommand& command : effects.commands) {
    if (const auto* launch = launch_of(command)) parts_.ledger.OnStartDecided(launch->record, controller_, Now());
  }
  if (parts_.mutation != ChaosMutation::kLaunchesBeforeCommit) return;
  for (const NodeCommand& command : effects.commands) {
    if (const auto* launch = launch_of(command)) node_.Execute(command, SpecOf(launch->record));
  }
  std::erase_if(effects.commands, launch_of);
}

Time DaemonLife::next_timer() const {
  Time next = kNever;
  for (const auto& [at, task] : timers_) next = std::min(next, at);
  return next;
}

void DaemonLife::FireTimer() {
  const auto next = std::ranges::min_element(timers_, {}, [](const auto& timer) { return timer.first; });
  const auto task = std::move(next->second);
  timers_.erase(next);
  task();
}

void DaemonLife::BeginCommit(std::vector<Batch> batches, std::function<void(Status)> done) {
  switch (parts_.mutation) {
    case ChaosMutation::kForgetsExits:
      for (Batch& batch : batches) std::erase_if(batch.updates, [](const JobRecord& r) { return IsFinal(r.state); });
      break;
    case ChaosMutation::kSkipsRows:
      for (Batch& batch : batches) {
        if (batch.updates.size() > 1) batch.updates.pop_back();
      }
      break;
    case ChaosMutation::kSkipsSettings:
      for (Batch& batch : batches) batch.settings.clear();
      break;
    case ChaosMutation::kCommitsFirstOnly:
      batches.resize(1);
      break;
    default:
      break;
  }
  commit_ = PendingCommit{std::move(batches), std::move(done)};
}

void DaemonLife::FinishCommit(bool is_disk_full) {
  const PendingCommit commit = *std::exchange(commit_, std::nullopt);
  const bool is_hidden = is_disk_full && parts_.mutation == ChaosMutation::kHidesFullDisk;
  if (is_disk_full) parts_.store.FailNextCommit();
  Status status = parts_.store.Commit(commit.batches);
  if (status) parts_.ledger.OnCommitted(commit.batches);
  parts_.trace.Note(status ? "commit" : "commit refused because the disk is full", JobId(),
                    static_cast<std::int64_t>(commit.batches.size()));
  if (is_hidden) status = {};
  commit.done(std::move(status));
}

void DaemonLife::DieWriting(bool commit_lands) {
  is_dead_ = true;
  std::vector<Batch> batches = std::move(commit_->batches);
  if (parts_.mutation == ChaosMutation::kTearsCommits) {
    TearElements(batches);
    commit_lands = true;
  }
  if (!commit_lands) return;
  parts_.trace.Note("the commit reaches the disk, but the daemon dies before it learns that");
  if (parts_.store.Commit(batches)) parts_.ledger.OnCommitted(batches);
}

bool DaemonLife::DiesNow() {
  if (effects_left_ >= 0 && effects_left_-- == 0) is_dead_ = true;
  return is_dead_;
}

void DaemonLife::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  if (DiesNow()) return;
  const auto* launch = std::get_if<LaunchCommand>(&command);
  if (parts_.mutation == ChaosMutation::kDropsStops && std::holds_alternative<StopCommand>(command)) return;
  if (launch != nullptr && spec != nullptr) parts_.ledger.OnLaunch(launch->record, *spec);
  if (launch != nullptr) parts_.trace.Note("launch sent: job", launch->record.id, launch->record.attempt);
  node_.Execute(command, spec);
  if (parts_.mutation == ChaosMutation::kRepeatsCommands) node_.Execute(command, spec);
}

std::shared_ptr<const JobSpec> DaemonLife::SpecOf(const JobRecord& record) {
  auto spec = driver_.SpecOf(record);
  return spec ? *std::move(spec) : nullptr;
}

}  // namespace divvy::simulate
