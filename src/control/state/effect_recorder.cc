#include "control/state/effect_recorder.h"

#include "model/run_line.h"

namespace divvy {

void EffectRecorder::Insert(const JobRecord& record, std::shared_ptr<const JobSpec> spec) {
  index_.inserts.emplace(record.id, effects_.batch.inserts.size());
  effects_.batch.inserts.push_back({record, std::move(spec)});
}

void EffectRecorder::Persist(const JobRecord& record) {
  // A record that this batch inserts is updated in the insert.
  if (const auto inserted = index_.inserts.find(record.id); inserted != index_.inserts.end()) {
    effects_.batch.inserts[inserted->second].record = record;
  } else if (const auto [at, is_new] = index_.updates.try_emplace(record.id, effects_.batch.updates.size()); is_new) {
    effects_.batch.updates.push_back(record);
  } else {
    effects_.batch.updates[at->second] = record;
  }
}

void EffectRecorder::KeepRun(const JobRecord& record, JobState outcome, Time ended) {
  divvy::KeepRun(record, outcome, ended, effects_.batch);
}

void EffectRecorder::ReplaceSetting(std::pair<std::string, std::string> row) {
  std::erase_if(effects_.batch.settings, [&](const auto& other) { return other.first == row.first; });
  KeepSetting(std::move(row));
}

void EffectRecorder::KeepSpec(JobId id, std::shared_ptr<const JobSpec> spec) {
  if (const auto inserted = index_.inserts.find(id); inserted != index_.inserts.end()) {
    effects_.batch.inserts[inserted->second].spec = std::move(spec);
    return;
  }
  auto& updates = effects_.batch.spec_updates;
  std::erase_if(updates, [&](const auto& update) { return update.first == id; });
  updates.emplace_back(id, std::move(spec));
}

std::shared_ptr<const JobSpec> EffectRecorder::PendingSpec(JobId id) const {
  for (const auto& [job, spec] : effects_.batch.spec_updates) {
    if (job == id) return spec;
  }
  const auto inserted = index_.inserts.find(id);
  return inserted == index_.inserts.end() ? nullptr : effects_.batch.inserts[inserted->second].spec;
}

void EffectRecorder::Send(const JobRecord& record, NodeCommand command) {
  const auto send_to = [&](const std::string& node) {
    NodeCommand one = command;
    std::visit([&](auto& inner) { inner.node = node; }, one);
    Send(std::move(one));
  };
  if (record.gang.empty()) return send_to(record.node);
  for (const NodeAllocation& allocation : record.gang) {
    if (!allocation.exit) send_to(allocation.node);
  }
}

void EffectRecorder::AnnounceMachineEvent(const std::string& text, Time now) {
  Note(JobId(), text, now);
  effects_.changes.push_back({JobId(), JobState::kQueued, text, false});
}

Effects EffectRecorder::Take() {
  index_ = BatchIndex();
  return std::exchange(effects_, Effects());
}

EffectRecorder EffectRecorder::SetAside() {
  EffectRecorder before;
  before.needs_plan_ = needs_plan_;
  std::swap(before.effects_, effects_);
  std::swap(before.index_, index_);
  return before;
}

void EffectRecorder::Restore(EffectRecorder before) {
  before.next_wakeup_ = next_wakeup_;
  *this = std::move(before);
}

}  // namespace divvy
