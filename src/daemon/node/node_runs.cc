// The part of the node that carries out the decisions of NodeDriver: run records, commands to supervisors, and
// processes without supervisor.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "daemon/node/node.h"
#include "model/exit_codes.h"
#include "model/steps/step_list.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/node_allocation_start.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

// The usual limit from a supervisor's claim on its record to its job's start, unless a file system hangs.
constexpr auto kStartsWithin = std::chrono::seconds(1);

constexpr std::int64_t kNoGroup = 65534;  // The group "nogroup", which has no rights.

}  // namespace

// --- Run records ----------------------------------------------------------------------------------------------------

Result<RunRecord> Node::AwaitProcess(RunRecord record) const {
  const auto give_up = std::chrono::steady_clock::now() + kStartsWithin;
  while (StateOf(record) == RunState::kWatched && record.process.pid == 0 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    DIVVY_TRY(record, Read(record.job));
  }
  return record;
}

void Node::RemoveRecord(const RunRecord& record) {
  launcher_.RemoveRecord(record);
  adopted_.erase(record.job);
  locks_.erase(record.job);
}

// The record was written by a supervisor with the daemon's own rights, so its owner is as trustworthy as the launch
// itself. It is compared with the user of the processes nevertheless.
RunDescription Node::Describe(const RunRecord& record) const {
  RunDescription run;
  if (auto about = wire::DecodeAgent<RunDescription>(record.about)) run = *std::move(about);
  const bool has_numbers_of_controller = !options_.find_user;
  const bool is_owner = run.record.id == record.job && run.record.attempt == record.attempt &&
                        (!options_.may_change_user || !has_numbers_of_controller || run.record.user.uid == record.uid);
  if (!is_owner) run = RunDescription();
  JobRecord& job = run.record;
  if (!is_owner) job.user = {record.uid, record.gid, ""};
  job.id = record.job;
  job.attempt = record.attempt;
  job.started = record.started;
  job.state = record.has_started() ? JobState::kRunning : JobState::kStarting;
  if (job.request.is_elastic()) job.gpus = ReadGpusFile(options_.run_directory, record.job).value_or(job.gpus);
  run.exit = record.exit;
  run.ended = record.ended;
  return run;
}

std::vector<const RunDescription*> Node::found() const {
  std::vector<const RunDescription*> found;
  for (const auto& [job, run] : driver_.runs()) {
    if (run.found) found.push_back(run.found.get());
  }
  return found;
}

std::string Node::KeptStepsOf(const RunRecord& record) const {
  return KeptSteps(ReadStepListFile(StepListPath(options_.run_directory, record.uid, record.job.value())));
}

std::string Node::StepsOf(const JobRecord& record) const {
  std::int64_t uid = options_.may_change_user ? uid_of(record.id) : options_.uid;
  if (uid < 0) {
    const auto user = users_.UserHere(record.user);
    uid = user ? user->uid : options_.uid;
  }
  return StepListPath(options_.run_directory, uid, record.id.value());
}

// --- Commands to supervisors ----------------------------------------------------------------------------------------

// If the supervisor is gone, it has reported that, or CheckSupervisors will find it.
void Node::Stop(const RunRecord& record, int signal, Duration grace) {
  static_cast<void>(SendStop(record, signal, grace));
}

void Node::Signal(const RunRecord& record, int signal, SignalReach reach) {
  static_cast<void>(SendSignal(record, signal, reach));
}

void Node::Pause(const RunRecord& record) { static_cast<void>(SendPause(record)); }
void Node::Continue(const RunRecord& record) { static_cast<void>(SendContinue(record)); }
void Node::SetTimeLimit(const RunRecord& record, Duration limit) { static_cast<void>(SendTimeLimit(record, limit)); }
void Node::Go(const RunRecord& record) { static_cast<void>(SendGo(record)); }
bool Node::Ping(const RunRecord& record) { return SendPing(record).has_value(); }

// --- Adopted processes ----------------------------------------------------------------------------------------------

bool Node::Adopt(const RunRecord& record) {
  auto process = AdoptedProcess::Open(record.process);
  if (!process) return false;
  adopted_.erase(record.job);
  const int fd = adopted_.emplace(record.job, *std::move(process)).first->second.fd();
  watch_(fd, [this, job = record.job] { driver_.OnAdoptedEnded(job); });
  return true;
}

int Node::SignalAdopted(const RunRecord& record, int signal, SignalReach reach) {
  const OrphanReach orphans = reach == SignalReach::kFirstProcess ? OrphanReach::kFirst : OrphanReach::kTree;
  const auto process = adopted_.find(record.job);
  return process == adopted_.end() ? 0 : errands_.SignalAdopted(record.job, process->second, signal, orphans);
}

std::optional<Exit> Node::ExitOfAdopted(const RunRecord& record) {
  const auto process = adopted_.find(record.job);
  return process == adopted_.end() ? std::nullopt : errands_.ExitOfAdopted(record.job, process->second);
}

// --- Gangs ----------------------------------------------------------------------------------------------------------

GpuSet Node::GpusHere(const JobRecord& record) const {
  if (record.gang.empty()) return record.gpus;
  for (const NodeAllocation& allocation : record.gang) {
    if (allocation.node.empty() || options_.NameOf(allocation) == options_.names.name()) return allocation.gpus;
  }
  return record.gpus;
}

Status Node::StageGo(const RunRecord& record, const JobRecord& live, const GoCommand& command) {
  GangFile gang;
  gang.job = command.job.value();
  gang.attempt = command.attempt;
  for (std::size_t i = 0; i < live.gang.size(); ++i) {
    const NodeAllocation& allocation = live.gang[i];
    if (options_.NameOf(allocation) == options_.names.name()) gang.own = i;
    gang.members.push_back(
        {options_.NameOf(allocation), command.addresses[i], allocation.gpus, allocation.tasks, allocation.parts});
  }
  // Never as the user with the controller's uid, which may be another user on this node.
  const auto owner = users_.OwnerOf(record, &live);
  if (!owner) return NotFound("node " + options_.names.name() + " has no user " + live.user.name);
  return errands_.Stage(record, adopted_.contains(record.job), gang, *owner);
}

// The record is no longer updated, so the run's progress is read from files next to its list of steps.
RunRecord Node::LookAtPart(RunRecord record) const {
  const std::string steps = StepListPath(options_.run_directory, record.uid, record.job.value());
  if (const auto said = ReadAllocationReport(steps); said && said->port != 0) record.port = said->port;
  if (record.has_gone) static_cast<void>(SayGo(steps));
  if (const auto went = WentAt(steps); went && !record.has_gone) {
    record.has_gone = true;
    record.started = *went;
  }
  return record;
}

// --- Ends -----------------------------------------------------------------------------------------------------------

void Node::CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) {
  NoteRefused(record);
  const std::int64_t uid = options_.may_change_user ? record.uid : options_.uid;
  const std::string path = ContainerLogPath(StepListPath(options_.run_directory, uid, record.job.value()));
  const ContainerLog containers = ReadContainerLogFile(path);
  Exit exit = *record.exit;
  if (exit.code != 0 && exit.failure.empty() && !containers.failure.empty()) {
    exit.failure = containers.failure;
    exit.code = WithoutMachinesFault(exit.code);
  }
  const auto finish = [this, gpus, exit, done = std::move(done)] {
    // A GPU is free when its job's processes are gone and the driver confirms it.
    if (!look_ || gpus.empty()) return done(exit);
    look_(gpus, [this, exit, done](std::vector<GpuObservation> seen) {
      controller_->OnGpusObserved(seen);
      done(exit);
    });
  };
  if (containers.left.empty() || uid < 0) return finish();
  // Containers that a SIGKILL left are removed before the GPUs are reused. If the user's group is unknown, the removal
  // runs as nogroup.
  const User user = users_.OwnerOf(record, controller_->Find(record.job)).value_or(User{uid, kNoGroup, ""});
  auto removal = std::make_shared<ContainerRemoval>(errands_.RemoveContainers(user, path));
  if (!watch_ || !removal->pidfd.is_open()) return finish();
  watch_(removal->pidfd.get(), [removal, finish] {
    removal->Reap();
    finish();
  });
}

}  // namespace divvy
