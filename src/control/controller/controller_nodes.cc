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

}  // namespace divvy
