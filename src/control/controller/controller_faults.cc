// Machines that cannot start what they are given, for reasons of their own (a full disk, no more processes): their jobs
// wait again rather than fail, one after the other, on the machine that is free because nothing lives there.
#include <algorithm>

#include "control/controller/controller.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

/// So many machines (or one, so often) may refuse a job before that is its end.
constexpr int kMostRefusals = 3;
/// Until a machine that has refused one is given the next.
constexpr Duration kRest = std::chrono::seconds(30);
/// Until a job is tried again that others could not make room for; twice as long each time.
constexpr Duration kRoomIsMadeIn = std::chrono::seconds(2);

}  // namespace

std::string Controller::MachineText(NodeIndex node) const {
  const std::string& name = cluster_.node(node).words.name;
  return name.empty() ? "this machine" : "node " + name;
}

void Controller::OnNodeTrouble(const std::string& name, const std::string& what) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.trouble = what;
  // What kept it from starting a job has most likely been this.
  if (what.empty()) machine.rests_until = kNever;
  RefreshNode(*node);
}

std::string Controller::TroubleOf(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node >= machines_.size()) return "";
  const Machine& machine = machines_[*node];
  if (!machine.trouble.empty()) return machine.trouble;
  return machine.rests_until != kNever ? machine.refusal : "";
}

void Controller::OnRefusal(JobRecord& record, const std::string& name, const Exit& exit, Time now) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.refusal = "it could not start job " + ToString(record.id) + " (" + exit.failure + ") and is tried again soon";
  machine.rests_until = now + kRest;
  next_wakeup_ = std::min(next_wakeup_, machine.rests_until);
  RefreshNode(*node);
  // Whoever waits at a terminal is told at once.
  const bool may_wait = record.stop_intent == StopIntent::kNone && !record.is_foreground;
  if (!may_wait || ++refusals_[record.id] > kMostRefusals) return;
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + MachineText(*node) + " could not start it: " + exit.failure;
}

// What the machine has said of who stays there is counted by then, mostly.
Duration Controller::RoomDelay(JobId job) const {
  constexpr int kMostDoublings = 5;
  const auto refused = refusals_.find(job);
  const int times = refused == refusals_.end() ? 0 : std::clamp(refused->second - 1, 0, kMostDoublings);
  return kRoomIsMadeIn * (1 << times);
}

void Controller::OnNoRoom(JobRecord& record, const std::string& name, const Exit& exit) {
  const auto node = IndexOf(name);
  // Whoever waits at a terminal is told at once.
  if (!node || record.is_foreground || record.stop_intent != StopIntent::kNone) return;
  ++refusals_[record.id];
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + MachineText(*node) + " could not make room for it: " + exit.failure;
}

}  // namespace divvy
