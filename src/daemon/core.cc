#include "daemon/core.h"

#include <algorithm>
#include <set>
#include <variant>

namespace divvy {
namespace {

constexpr std::size_t kArraySpecs = 64;
constexpr Duration kRetryCommitAfter = std::chrono::seconds(1);

JobId JobOf(const Order& order) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.record; }) return o.record.id;
        else return o.job;
      },
      order);
}

}  // namespace

Core::Core(Controller& controller, Store& store, const Clock& clock, OrderPort& orders, Ports ports)
    : controller_(controller), store_(store), clock_(clock), orders_(orders), ports_(std::move(ports)) {}

void Core::Touch() {
  if (is_turn_due_) return;
  is_turn_due_ = true;
  ports_.post([this] { EndTurn(); });
}

void Core::AfterCommit(Answer answer, bool is_submission) {
  answers_.push_back({std::move(answer), is_submission});
  Touch();
}

void Core::EndTurn() {
  is_turn_due_ = false;
  controller_.Decide(clock_.Now());
  Turn turn{controller_.TakeEffects(), std::exchange(answers_, {})};
  if (!turn.effects.empty() || !turn.answers.empty()) gathered_.push_back(std::move(turn));
  if (!is_committing_) StartCommit();
  ArmWakeup();
}

void Core::ArmWakeup() {
  const Time wakeup = controller_.next_wakeup();
  if (wakeup == kNever || wakeup >= armed_for_) return;
  armed_for_ = wakeup;
  ports_.after(std::max(wakeup - clock_.Now(), Duration(0)), [this, wakeup] {
    if (armed_for_ == wakeup) armed_for_ = kNever;
    Touch();
  });
}

void Core::StartCommit() {
  if (gathered_.empty()) return;
  std::vector<Batch> batches;
  committing_.clear();
  for (Turn& turn : gathered_) {
    if (!turn.effects.batch.empty()) batches.push_back(turn.effects.batch);
    committing_.push_back(std::move(turn));
  }
  gathered_.clear();
  if (batches.empty()) {
    // Nothing to keep: a question, or an order that changes no row.
    for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
    return;
  }
  is_committing_ = true;
  ports_.commit(std::move(batches), [this](Status status) { OnCommitted(std::move(status)); });
}

void Core::OnCommitted(Status status) {
  is_committing_ = false;
  if (!status) {
    if (status.error().code != ErrorCode::kLimitExceeded) return ports_.give_up(status.error());
    return OnDiskFull(status.error());
  }
  trouble_.clear();
  for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
  if (!is_committing_) StartCommit();
}

// New work is taken back as if it had never come; everything else (ends, cancellations) waits until there is room, so
// nothing is lost and nothing half done.
void Core::OnDiskFull(const Error& error) {
  trouble_ = error.message;
  std::set<JobId> withdrawn;
  std::vector<Turn::Pending> refused;
  for (Turn& turn : committing_) {
    for (const auto& insert : turn.effects.batch.inserts) {
      if (insert.spec != nullptr) withdrawn.insert(insert.record.id);
    }
  }
  const auto is_withdrawn = [&](JobId id, JobId array) { return withdrawn.contains(id) || withdrawn.contains(array); };
  for (Turn& turn : committing_) {
    Effects& effects = turn.effects;
    std::set<JobId> elements;
    for (const auto& insert : effects.batch.inserts) {
      if (is_withdrawn(insert.record.id, insert.record.array)) elements.insert(insert.record.id);
    }
    const auto is_gone = [&](JobId id) { return withdrawn.contains(id) || elements.contains(id); };
    std::erase_if(effects.batch.inserts, [&](const auto& insert) { return is_gone(insert.record.id); });
    std::erase_if(effects.batch.updates, [&](const auto& record) { return is_withdrawn(record.id, record.array); });
    std::erase_if(effects.batch.history, [&](const auto& line) { return is_gone(line.job); });
    std::erase_if(effects.orders, [&](const Order& order) { return is_gone(JobOf(order)); });
    std::erase_if(effects.changes, [&](const Change& change) { return is_gone(change.job); });
    std::erase_if(effects.finished, [&](const JobRecord& record) { return is_withdrawn(record.id, record.array); });
    for (auto& pending : turn.answers) {
      if (pending.is_submission) refused.push_back(std::move(pending));
    }
    std::erase_if(turn.answers, [](const auto& pending) { return pending.is_submission; });
  }
  for (JobId id : withdrawn) controller_.Withdraw(id);
  for (auto& pending : refused) pending.answer(error);
  for (auto turn = committing_.rbegin(); turn != committing_.rend(); ++turn) gathered_.push_front(std::move(*turn));
  committing_.clear();
  is_committing_ = true;  // Keeps others from starting one before the time is up.
  ports_.after(kRetryCommitAfter, [this] {
    is_committing_ = false;
    StartCommit();
  });
}

void Core::Carry(Turn& turn) {
  for (const auto& insert : turn.effects.batch.inserts) {
    if (insert.spec == nullptr || insert.record.array_count == 0) continue;
    array_specs_.emplace_front(insert.record.id, insert.spec);
    if (array_specs_.size() > kArraySpecs) array_specs_.pop_back();
  }
  for (const Order& order : turn.effects.orders) {
    std::shared_ptr<const JobSpec> spec;
    if (const auto* launch = std::get_if<LaunchOrder>(&order)) {
      const auto inserted = std::ranges::find_if(turn.effects.batch.inserts, [&](const auto& i) {
        return i.spec != nullptr && i.record.id == launch->record.spec_of;
      });
      if (inserted != turn.effects.batch.inserts.end()) {
        spec = inserted->spec;
      } else if (auto found = SpecOf(launch->record)) {
        spec = *std::move(found);
      }
    }
    orders_.Execute(order, std::move(spec));
  }
  for (auto& pending : turn.answers) pending.answer({});
  for (const JobRecord& record : turn.effects.finished) {
    const auto at = waiters_.find(record.id);
    if (at == waiters_.end()) continue;
    const auto waiting = std::move(at->second);
    waiters_.erase(at);
    for (const auto& [handle, on_final] : waiting) on_final(record);
  }
  if (!turn.effects.changes.empty()) {
    const auto subscribers = subscribers_;  // One may unsubscribe itself.
    for (const auto& [handle, on_changes] : subscribers) on_changes(turn.effects.changes, clock_.Now());
  }
}

Result<std::uint64_t> Core::WaitFor(JobId job, OnFinal on_final) {
  const bool is_live = controller_.Find(job) != nullptr || controller_.ArrayOf(job) != nullptr;
  const bool is_on_its_way =
      std::ranges::any_of(committing_,
                          [&](const Turn& turn) {
                            return std::ranges::any_of(turn.effects.finished,
                                                       [&](const JobRecord& record) { return record.id == job; });
                          }) ||
      std::ranges::any_of(gathered_, [&](const Turn& turn) {
        return std::ranges::any_of(turn.effects.finished, [&](const JobRecord& record) { return record.id == job; });
      });
  const std::uint64_t handle = next_handle_++;
  if (is_live || is_on_its_way) {
    waiters_[job].emplace(handle, std::move(on_final));
    return handle;
  }
  DIVVY_TRY(const JobRecord record, store_.Find(job));
  on_final(record);
  return handle;
}

void Core::StopWaiting(JobId job, std::uint64_t waiter) {
  const auto at = waiters_.find(job);
  if (at == waiters_.end()) return;
  at->second.erase(waiter);
  if (at->second.empty()) waiters_.erase(at);
}

std::uint64_t Core::Subscribe(OnChanges on_changes) {
  subscribers_.emplace(next_handle_, std::move(on_changes));
  return next_handle_++;
}

Result<JobRecord> Core::FindJob(JobId job) {
  if (const JobRecord* live = controller_.Find(job)) return *live;
  if (const JobRecord* array = controller_.ArrayOf(job)) {
    // An element that waits looks like its array, under its own number.
    JobRecord element = *array;
    element.id = job;
    element.array = array->id;
    element.array_ordinal = static_cast<std::uint32_t>(job.value() - array->id.value() - 1);
    element.array_index = array->array_indices.Nth(element.array_ordinal).value_or(element.array_ordinal);
    element.array_count = 0;
    element.array_waiting = element.array_indices = IndexRanges();
    return element;
  }
  for (const auto* turns : {&committing_}) {
    for (const Turn& turn : *turns) {
      for (const JobRecord& record : turn.effects.finished) {
        if (record.id == job) return record;
      }
    }
  }
  for (const Turn& turn : gathered_) {
    for (const JobRecord& record : turn.effects.finished) {
      if (record.id == job) return record;
    }
  }
  return store_.Find(job);
}

Result<std::shared_ptr<const JobSpec>> Core::SpecOf(const JobRecord& record) {
  for (const auto& [id, spec] : array_specs_) {
    if (id == record.spec_of) return spec;
  }
  const auto look = [&](const Turn& turn) -> std::shared_ptr<const JobSpec> {
    for (const auto& insert : turn.effects.batch.inserts) {
      if (insert.spec != nullptr && insert.record.id == record.spec_of) return insert.spec;
    }
    return nullptr;
  };
  for (const Turn& turn : committing_) {
    if (auto spec = look(turn)) return spec;
  }
  for (const Turn& turn : gathered_) {
    if (auto spec = look(turn)) return spec;
  }
  DIVVY_TRY(JobSpec spec, store_.Spec(record.spec_of));
  auto shared = std::make_shared<const JobSpec>(std::move(spec));
  if (record.array.is_set()) {
    array_specs_.emplace_front(record.spec_of, shared);
    if (array_specs_.size() > kArraySpecs) array_specs_.pop_back();
  }
  return std::shared_ptr<const JobSpec>(std::move(shared));
}

FindOutcome Core::Outcomes() {
  return [this](JobId id) -> std::optional<JobRecord> {
    auto record = FindJob(id);
    if (!record) return std::nullopt;
    return *std::move(record);
  };
}

}  // namespace divvy
