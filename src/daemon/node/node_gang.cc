// A gang's node allocation: it is prepared, reports that, and starts when all of them are ready. docs/supervisor.md
// describes the states in between.
#include <csignal>

#include "daemon/node/node.h"
#include "daemon/runtime/log.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/node_allocation_start.h"

namespace divvy {
std::string Node::StepsOf(const JobRecord& record) const {
  std::int64_t uid = options_.may_change_user ? uid_of(record.id) : options_.uid;
  if (uid < 0) {
    const auto user = users_.UserHere(record.user);
    uid = user ? user->uid : options_.uid;
  }
  return StepListPath(options_.run_directory, uid, record.id.value());
}

GpuSet Node::GpusHere(const JobRecord& record) const {
  if (record.gang.empty()) return record.gpus;
  for (const NodeAllocation& seat : record.gang) {
    if (seat.node.empty() || options_.NameOf(seat) == options_.names.name()) return seat.gpus;
  }
  return record.gpus;
}

void Node::LetGo(Run& run, const GoCommand& order) {
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
    const NodeAllocation& seat = live->gang[i];
    if (options_.NameOf(seat) == options_.names.name()) gang.own = i;
    gang.seats.push_back({options_.NameOf(seat), order.addresses[i], seat.gpus, seat.tasks, seat.parts});
  }
  // Never as the user with the controller's uid, which may be another user on this node.
  const auto owner = users_.OwnerOf(run.record, live);
  const Status staged = owner ? errands_.Stage(run.record, run.adopted != nullptr, gang, *owner)
                              : NotFound("node " + options_.names.name() + " has no user " + live->user.name);
  if (!staged) {
    run.failure = staged.error().message;
    return Deliver(run, StopCommand{order.job, SIGKILL, Duration(0), ""});
  }
  run.was_let_go = true;
  if (!run.adopted) return static_cast<void>(SendGo(run.record));  // A guard that takes over is told again.
  LookAtAdoptedPart(run);
  SayState(run);
  Deliver(run, TimeLimitCommand{order.job, kNever, ""});
}

void Node::SayState(const Run& run) {
  const RunRecord& record = run.record;
  if (!record.delay.empty()) return controller_->OnDelayed(record.job, record.attempt, record.delay);
  if (record.has_started()) return controller_->OnStarted(record.job, record.attempt, record.started);
  if (!record.awaits_go() || record.port == 0) return;
  // The GoCommand was sent to a supervisor that has been killed since.
  if (run.was_let_go && !run.adopted) return static_cast<void>(SendGo(record));
  controller_->OnPrepared(record.job, record.attempt, record.port);
}

// The record is no longer updated, so the run's progress is read from files next to its list of steps.
void Node::LookAtAdoptedPart(Run& run) {
  const std::string steps = StepListPath(options_.run_directory, run.record.uid, run.record.job.value());
  if (const auto said = ReadAllocationReport(steps); said && said->port != 0) run.record.port = said->port;
  if (run.record.has_gone) static_cast<void>(SayGo(steps));
  if (const auto went = WentAt(steps); went && !run.record.has_gone) {
    run.record.has_gone = true;
    run.record.started = *went;
  }
}

}  // namespace divvy
