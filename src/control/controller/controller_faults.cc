// Nodes that cannot start jobs because of a problem of their own (full disk, no more processes). Their jobs are
// requeued instead of failing one after the other on a node that is free only because nothing can run there.
#include <algorithm>

#include "control/controller/controller.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

/// After this many refusals, by several nodes or by one, the job fails.
constexpr int kMostRefusals = 3;
/// How long a node that refused a job gets no other.
constexpr Duration kRestAfterRefusal = std::chrono::seconds(30);

}  // namespace

void Controller::OnRefusal(JobRecord& record, const std::string& name, const Exit& exit, Time now) {
  const auto node = nodes_.IndexOf(name);
  if (!node) return;
  nodes_.Rest(*node,
              "it could not start job " + ToString(record.id) + " (" + exit.failure + ") and will be tried again soon",
              now + kRestAfterRefusal);
  // A job in the foreground fails at once, so that the user at the terminal learns the reason. Others are queued again.
  const bool may_wait = record.stop_intent == StopIntent::kNone && !record.is_foreground;
  if (!may_wait || retries_.CountRefusal(record.id) > kMostRefusals) return;
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + nodes_.MachineText(*node) + " could not start it: " + exit.failure;
}

void Controller::OnNoRoom(JobRecord& record, const std::string& name, const Exit& exit) {
  const auto node = nodes_.IndexOf(name);
  // A job in the foreground fails at once, so that the user at the terminal learns the reason. Others are queued again.
  if (!node || record.is_foreground || record.stop_intent != StopIntent::kNone) return;
  retries_.CountRefusal(record.id);
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + nodes_.MachineText(*node) + " could not free the GPUs for it: " + exit.failure;
}

}  // namespace divvy
