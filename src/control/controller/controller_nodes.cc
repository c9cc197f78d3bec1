// Agent nodes: their properties, whether they take work, and what happens to jobs of lost or draining nodes.
#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/controller/controller.h"
#include "engine/message_text.h"
#include "model/reason_words.h"

namespace divvy {

void Controller::OnNodeRow(const NodeRow& row) { gpus_.Refresh(nodes_.OnNodeRow(row)); }

void Controller::OnNodeRemoved(const std::string& name) {
  const auto node = scheduler_.FindNode(name);
  if (!node) return;
  gpus_.ForgetNode(*node);
  fractions_.ForgetNode(*node);
  found_.ForgetNode(name);
  nodes_.OnNodeRemoved(*node);
}

void Controller::OnNodeReconciled(const std::string& name) {
  if (!nodes_.OnNodeReconciled(name)) return;
  // A go order sent before this session may not have arrived.
  for (const auto& [id, record] : jobs_.live()) {
    if (record.was_let_go && IsActive(record.state) && IsOn(record, name)) gangs_.LetGo(record);
  }
}

void Controller::LoseRuns(const std::string& node, Vanished how, Time now) {
  for (const JobId job : nodes_.RunsOn(node)) OnVanished(job, jobs_.live().at(job).attempt, how, now, node);
}

// Stops the jobs left on a node whose drain deadline has passed, and requeues them if possible.
void Controller::StopForDrain(NodeIndex node, Time now) {
  const std::string why = nodes_.WorkTextOf(node);
  for (const JobId job : nodes_.RunsOn(nodes_.NodeName(node))) {
    JobRecord& record = jobs_.live().at(job);
    if (record.stop_intent != StopIntent::kNone) continue;
    record.stop_intent = record.is_foreground || record.is_run_once ? StopIntent::kCancel : StopIntent::kRequeue;
    record.state = JobState::kStopping;
    const bool runs_again = record.stop_intent == StopIntent::kRequeue;
    record.reason = (runs_again ? "queued again: " : "") + why;
    effects_.Note(job, "stopped at the deadline: " + why, now);
    effects_.Persist(record);
    effects_.Send(record, StopOrder{job, 0, Duration(-1), ""});
    effects_.Announce(record);
  }
}

}  // namespace divvy
