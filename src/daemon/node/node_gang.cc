// A gang's node allocation: it is prepared, reports that, and starts when all of them are ready. Computes the node's
// share of the job and its environment. docs/supervisor.md describes the states in between.
#include <algorithm>
#include <csignal>

#include "daemon/node/node.h"
#include "daemon/runtime/log.h"
#include "dialect/slurm/slurm_environment.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/supervisor_seat.h"

namespace divvy {
namespace {

int TasksOf(const JobRecord& record) {
  int tasks = 0;
  for (const Seat& seat : record.gang) tasks += seat.tasks;
  return std::max(tasks, 1);
}

/// The share of `tasks` out of `all` tasks, rounded up.
std::int64_t ShareOf(std::int64_t whole, int tasks, int all) { return (whole * tasks + all - 1) / all; }

}  // namespace

std::string Node::StepsOf(const JobRecord& record) const {
  std::int64_t uid = options_.may_change_user ? uid_of(record.id) : options_.uid;
  if (uid < 0) {
    const auto user = UserHere(record.user);
    uid = user ? user->uid : options_.uid;
  }
  return StepListPath(options_.run_directory, uid, record.id.value());
}

JobRecord Node::PartOf(const LaunchOrder& order) {
  JobRecord part = order.record;
  if (order.seat >= part.gang.size()) return part;
  const int tasks = part.gang[order.seat].tasks;
  if (part.request.is_heterogeneous()) {
    const Seat& seat = part.gang[order.seat];
    int cpus = 0;
    Bytes memory;
    bool is_unbound = false, has_all_cores = false;
    for (const SeatPart& its : seat.parts) {
      const Request component = ComponentOf(part.request, static_cast<std::size_t>(its.component));
      const int all = component.spreads_tasks ? std::max(component.tasks, 1) : std::max(its.tasks, 1);
      cpus += static_cast<int>(ShareOf(component.cpus, its.tasks, all));
      memory += Bytes(ShareOf(component.memory.count(), its.tasks, all));
      is_unbound = is_unbound || component.memory == Bytes(0);
      has_all_cores = has_all_cores || component.cpus == 0;
    }
    // One cgroup holds everything here: if one component has no limit, there is none.
    part.request.cpus = has_all_cores ? 0 : cpus;
    part.request.memory = is_unbound ? Bytes(0) : memory;
  } else if (part.request.spreads_tasks) {
    const int all = TasksOf(part);
    part.request.cpus = static_cast<int>(ShareOf(part.request.cpus, tasks, all));
    part.request.memory = Bytes(ShareOf(part.request.memory.count(), tasks, all));
  }
  part.request.tasks = tasks;
  return part;
}

GpuSet Node::GpusHere(const JobRecord& record) const {
  if (record.gang.empty()) return record.gpus;
  for (const Seat& seat : record.gang) {
    if (seat.node.empty() || NameOf(seat) == options_.names.name()) return seat.gpus;
  }
  return record.gpus;
}

std::vector<std::string> Node::SlurmVariables(const LaunchOrder& order, const JobRecord& part,
                                              const JobSpec& spec) const {
  dialect::SlurmNodes nodes;
  nodes.own = order.seat;
  for (std::uint32_t i = 0; i < order.record.gang.size(); ++i) {
    const JobRecord other = PartOf(LaunchOrder{order.record, "", i});
    nodes.names.push_back(NameOf(order.record.gang[i]));
    nodes.tasks.push_back(other.request.tasks);
    nodes.cpus.push_back(std::max(other.request.cpus, other.request.tasks));
    nodes.parts.push_back(order.record.gang[i].parts);
  }
  return dialect::SlurmEnvironment(part, spec, part.gpus.ToVector(), options_.names.name(), part.started, nodes);
}

// On the job's other nodes, only tasks of steps are started.
void Node::TakeSeat(const LaunchOrder& order, LaunchRequest& request) const {
  request.gang.starter = options_.divvy;
  request.gang.seat = order.seat;
  if (order.seat == 0) return;
  request.argv.clear();
  request.script.clear();
  request.arguments.clear();
  request.input.clear();
  request.output = options_.log_directory + "/" + ToString(order.record.id) + ".log";
  request.error.clear();
  request.is_own_log = true;
  request.wants_pty = false;
}

void Node::LetGo(Run& run, const GoOrder& order) {
  const JobRecord* live = controller_->Find(order.job);
  const auto ignored = [&](const std::string& why) {
    Note("event=go_ignored job=" + ToString(order.job) + " attempt=" + std::to_string(order.attempt) +
         " reason=" + LogQuoted(why));
  };
  if (run.record.attempt != order.attempt) return ignored("another attempt is here");
  if (!run.record.awaits_go()) return;
  if (live == nullptr || live->gang.size() != order.addresses.size()) return ignored("its machines are not known");
  GangFile gang;
  gang.job = order.job.value();
  gang.attempt = order.attempt;
  for (std::size_t i = 0; i < live->gang.size(); ++i) {
    const Seat& seat = live->gang[i];
    if (NameOf(seat) == options_.names.name()) gang.own = i;
    gang.seats.push_back({NameOf(seat), order.addresses[i], seat.gpus, seat.tasks, seat.parts});
  }
  // Never as the user with the controller's uid, which may be another user on this node.
  const auto owner = OwnerOf(run.record, live);
  const Status staged =
      owner ? Stage(run, gang, *owner) : NotFound("node " + options_.names.name() + " has no user " + live->user.name);
  if (!staged) {
    run.failure = staged.error().message;
    return Deliver(run, StopOrder{order.job, SIGKILL, Duration(0), ""});
  }
  run.was_let_go = true;
  if (!run.adopted) return static_cast<void>(SendGo(run.record));  // A guard that takes over is told again.
  LookAtAdoptedPart(run);
  SayState(run);
  Deliver(run, TimeLimitOrder{order.job, kNever, ""});
}

void Node::SayState(const Run& run) {
  const RunRecord& record = run.record;
  if (!record.delay.empty()) return controller_->OnDelayed(record.job, record.attempt, record.delay);
  if (record.has_started()) return controller_->OnStarted(record.job, record.attempt, record.started);
  if (!record.awaits_go() || record.port == 0) return;
  // The GoOrder was sent to a supervisor that has been killed since.
  if (run.was_let_go && !run.adopted) return static_cast<void>(SendGo(record));
  controller_->OnPrepared(record.job, record.attempt, record.port);
}

// The record is no longer updated, so the run's progress is read from files next to its list of steps.
void Node::LookAtAdoptedPart(Run& run) {
  const std::string steps = StepListPath(options_.run_directory, run.record.uid, run.record.job.value());
  if (const auto said = ReadSeatReport(steps); said && said->port != 0) run.record.port = said->port;
  if (run.record.has_gone) static_cast<void>(SayGo(steps));
  if (const auto went = WentAt(steps); went && !run.record.has_gone) {
    run.record.has_gone = true;
    run.record.started = *went;
  }
}

}  // namespace divvy
