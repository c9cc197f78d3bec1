#include "driver/controller_driver.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <variant>

#include "control/books/record_parts.h"
#include "control/state/sweep_row.h"
#include "dialect/options/job_options.h"
#include "driver/notify_rows.h"
#include "driver/submission_rows.h"

namespace divvy {
namespace {

constexpr std::size_t kArraySpecs = 64;
constexpr Duration kRetryCommitAfter = std::chrono::seconds(1);
constexpr const char* kNoDatabase = "this controller cannot reach the database, or another controller leads";
constexpr Duration kLookAtLeaseEvery = std::chrono::milliseconds(50);
/// How long new work waits for a remote store that does not answer, or for the lease, before it is refused.
constexpr Duration kNewWorkWaits = std::chrono::seconds(5);
/// A database that takes longer for a commit counts as away.
constexpr Duration kLongCommit = std::chrono::seconds(1);

/// Whether reading the store may succeed later.
bool IsAway(const Error& error) {
  return error.code == ErrorCode::kUnreachable || error.code == ErrorCode::kLimitExceeded;
}

}  // namespace

ControllerDriver::ControllerDriver(Controller& controller, Store& store, const Clock& clock, NodeCommandPort& commands,
                                   Ports ports)
    : controller_(controller), store_(store), clock_(clock), commands_(commands), ports_(std::move(ports)) {
  controller_.SetElementNames([this](const JobRecord& element) { return NameOf(element); });
}

std::string ControllerDriver::NameOf(const JobRecord& element) {
  const auto spec = NewestSpecOf(element);
  return spec ? dialect::ElementName(**spec, element.array_ordinal).value_or(element.name) : element.name;
}

void ControllerDriver::Touch() {
  if (is_turn_due_) return;
  is_turn_due_ = true;
  ports_.post([this] { EndTurn(); });
}

void ControllerDriver::AfterCommit(Answer answer, IfNotStored otherwise) {
  answers_.push_back({std::move(answer), otherwise});
  Touch();
}

bool ControllerDriver::IsStoreAway() const {
  if (!may_act()) return true;
  if (!store_.is_remote()) return false;
  return !trouble_.empty() || (is_committing_ && clock_.Now() - commit_began_ >= kLongCommit);
}

void ControllerDriver::WhenStoreAnswers(Answer task) { AwaitStore(clock_.Now() + kNewWorkWaits, std::move(task)); }

void ControllerDriver::AwaitStore(Time end, Answer task) {
  if (!IsStoreAway()) return task({});
  if (clock_.Now() >= end) {
    return task(Unreachable("nothing was changed: " + (trouble_.empty() ? std::string(kNoDatabase) : trouble_) +
                            "; try again later"));
  }
  ports_.after(kLookAtLeaseEvery, [this, end, task = std::move(task)]() mutable { AwaitStore(end, std::move(task)); });
}

void ControllerDriver::EndTurn() {
  is_turn_due_ = false;
  const Time began = clock_.Now();
  controller_.Decide(began);
  decisions_.Add(clock_.Now() - began);
  Gather();
  if (!is_committing_) StartCommit();
  ArmWakeup();
}

void ControllerDriver::Gather() {
  Turn turn{controller_.TakeEffects(), std::exchange(answers_, {})};
  if (turn.effects.empty() && turn.answers.empty()) return;
  if (ports_.complete) ports_.complete(turn.effects);
  for (const auto& [id, spec] : turn.effects.batch.spec_updates) RememberSpec(id, spec);
  gathered_.push_back(std::move(turn));
}

void ControllerDriver::ArmWakeup() {
  const Time wakeup = controller_.next_wakeup();
  if (wakeup == kNever || wakeup >= armed_for_) return;
  armed_for_ = wakeup;
  ports_.after(std::max(wakeup - clock_.Now(), Duration(0)), [this, wakeup] {
    if (armed_for_ == wakeup) armed_for_ = kNever;
    Touch();
  });
}

// While a loop iteration is unfinished, answers to the gathered changes may be missing. They belong to the same commit,
// because a refused submission must not become durable.
void ControllerDriver::StartCommit() {
  if (is_turn_due_ || gathered_.empty()) return;
  if (!may_act()) {
    is_committing_ = true;
    return WhenMayAct([this] {
      is_committing_ = false;
      waits_since_ = kNoTime;
      SetTrouble("");
      StartCommit();
    });
  }
  std::vector<Batch> batches;
  committing_.clear();
  for (Turn& turn : gathered_) {
    if (!turn.effects.batch.empty()) batches.push_back(turn.effects.batch);
    committing_.push_back(std::move(turn));
  }
  gathered_.clear();
  if (batches.empty()) {
    SetTrouble("");  // No change waits for disk space any more; the next submission will test it.
    // Nothing to store: a query, or a command that changes no row.
    for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
    return;
  }
  is_committing_ = true;
  commit_began_ = clock_.Now();
  if (store_.is_remote() && !std::exchange(is_commit_watched_, true)) WatchCommit();
  ports_.commit(std::move(batches), [this](Status status) { OnCommitted(std::move(status)); });
}

void ControllerDriver::OnCommitted(Status status) {
  is_committing_ = false;
  commits_.Add(clock_.Now() - commit_began_);
  if (!status) {
    if (status.error().code != ErrorCode::kLimitExceeded) return ports_.give_up(status.error());
    return OnDiskFull(status.error());
  }
  is_committing_ = true;
  WhenMayAct([this] {
    is_committing_ = false;
    waits_since_ = kNoTime;
    SetTrouble("");
    for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
    if (!is_committing_) StartCommit();
  });
}

// Refuses new work while a commit takes too long. Submissions that are part of that commit wait until its outcome is
// known.
void ControllerDriver::WatchCommit() {
  ports_.after(kNewWorkWaits, [this] {
    is_commit_watched_ = is_committing_;
    if (!is_committing_) return;
    if (clock_.Now() - commit_began_ >= kNewWorkWaits) {
      const Error error = Unreachable(kNoDatabase);
      SetTrouble(error.message);
      Gather();
      Withdraw(gathered_, error);
    }
    WatchCommit();
  });
}

bool ControllerDriver::MayWait() {
  if (waits_since_ == kNoTime) waits_since_ = clock_.Now();
  return clock_.Now() - waits_since_ < kNewWorkWaits;
}

// Calls `task` once this controller may act. If another one leads instead, the commit that was made is not lost: the
// next leader reads its changes.
void ControllerDriver::WhenMayAct(std::function<void()> task) {
  if (may_act()) return task();
  if (!MayWait()) {
    const Error error = Unreachable(kNoDatabase);
    SetTrouble(error.message);
    Gather();
    Withdraw(gathered_, error);
  }
  ports_.after(kLookAtLeaseEvery, [this, task = std::move(task)]() mutable { WhenMayAct(std::move(task)); });
}

void ControllerDriver::SetTrouble(std::string trouble) {
  if (trouble_ == trouble) return;
  trouble_ = std::move(trouble);
  if (ports_.on_trouble) ports_.on_trouble(trouble_);
}

// New work is withdrawn as if it had never arrived. Everything else (ends, cancellations) waits for disk space, so
// nothing is lost or half done.
void ControllerDriver::OnDiskFull(const Error& error) {
  const bool may_wait = store_.is_remote() && MayWait();
  if (!may_wait) SetTrouble(error.message);
  // Collects all changes that are not durable: those of this commit, those that wait behind it, and those of this loop
  // iteration. Later changes may refer to jobs that this commit was to insert.
  Gather();
  std::deque<Turn> turns(std::make_move_iterator(committing_.begin()), std::make_move_iterator(committing_.end()));
  committing_.clear();
  std::ranges::move(gathered_, std::back_inserter(turns));
  if (!may_wait) Withdraw(turns, error);
  if (may_act()) SendStops(turns);
  std::erase_if(turns, [](const Turn& turn) { return turn.effects.empty() && turn.answers.empty(); });
  gathered_ = std::move(turns);
  is_committing_ = true;  // Prevents another commit before the pause is over.
  ports_.after(kRetryCommitAfter, [this] {
    is_committing_ = false;
    StartCommit();
  });
}

// Removes every submission from `turns`, with all later changes to it, and refuses it.
void ControllerDriver::Withdraw(std::deque<Turn>& turns, const Error& error) {
  // Maps each job to the number of ids after its own that belong to its elements.
  std::map<JobId, std::uint64_t> withdrawn;
  for (const Turn& turn : turns) {
    for (const auto& insert : turn.effects.batch.inserts) {
      const bool is_submission = insert.spec != nullptr && !insert.record.array.is_set();
      if (is_submission) withdrawn.emplace(insert.record.id, insert.record.array_count);
    }
  }
  const auto is_gone = [&](JobId id) {
    const auto after = withdrawn.upper_bound(id);
    if (after == withdrawn.begin()) return false;
    const auto& [first, elements] = *std::prev(after);
    return id.value() <= first.value() + elements;
  };
  std::vector<Turn::Pending> refused;
  for (Turn& turn : turns) {
    Effects& effects = turn.effects;
    std::erase_if(effects.batch.inserts, [&](const auto& insert) { return is_gone(insert.record.id); });
    std::erase_if(effects.batch.updates, [&](const JobRecord& record) { return is_gone(record.id); });
    std::erase_if(effects.batch.spec_updates, [&](const auto& update) { return is_gone(update.first); });
    std::erase_if(effects.batch.settings, [&](const auto& row) {
      auto job = JobOfNoticeRow(row.first);
      if (!job && !row.second.empty()) job = JobOfSubmissionRow(row.first);
      const auto sweep = SweepKeyOf(row.first);
      return (job && is_gone(*job)) || (sweep && is_gone(sweep->sweep));
    });
    std::erase_if(effects.batch.history, [&](const auto& line) { return is_gone(line.job); });
    std::erase_if(effects.commands, [&](const NodeCommand& command) { return is_gone(JobOf(command)); });
    std::erase_if(effects.changes, [&](const Change& change) { return is_gone(change.job); });
    std::erase_if(effects.finished, [&](const JobRecord& record) { return is_gone(record.id); });
    for (auto& pending : turn.answers) {
      if (pending.otherwise == IfNotStored::kRefuse) refused.push_back(std::move(pending));
    }
    std::erase_if(turn.answers, [](const auto& pending) { return pending.otherwise == IfNotStored::kRefuse; });
  }
  std::vector<JobId> ids;
  for (const auto& [id, elements] : withdrawn) ids.push_back(id);
  controller_.Withdraw(ids, clock_.Now());
  if (!ids.empty()) Touch();  // Jobs that depend on them may now start or end.
  // If the error code is kUnreachable, it is kept: the client may then try another controller.
  const ErrorCode code = error.code == ErrorCode::kUnreachable ? error.code : ErrorCode::kLimitExceeded;
  for (auto& pending : refused) pending.answer(Error{code, "no new work is taken: " + error.message});
  if (store_.is_remote() || error.code == ErrorCode::kUnreachable) {
    Report(turns, error);
    Report(committing_, error);
  }
  // A caller that waits for such a job has guessed its id; the job will never end.
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    if (!is_gone(at->first)) {
      ++at;
      continue;
    }
    JobRecord record;
    record.id = at->first;
    record.state = JobState::kCancelled;
    record.reason = "its submission was refused: " + error.message;
    const auto waiting = std::move(at->second);
    at = waiters_.erase(at);
    for (const auto& [handle, on_final] : waiting) on_final(record);
  }
}

template <typename Turns>
void ControllerDriver::Report(Turns& turns, const Error& error) {
  std::vector<Turn::Pending> reported;
  for (Turn& turn : turns) {
    const auto to_report = std::ranges::stable_partition(
        turn.answers, [](const auto& pending) { return pending.otherwise != IfNotStored::kReport; });
    std::ranges::move(to_report, std::back_inserter(reported));
    turn.answers.erase(to_report.begin(), to_report.end());
  }
  for (auto& pending : reported) {
    pending.answer(
        Error{ErrorCode::kTimedOut, "the change was not confirmed, and may still be made: " + error.message});
  }
}

// The job itself may be filling the disk, so its stop does not wait for space. If the daemon dies before the stop is
// written, no caller has got an answer, and the job has ended by a signal.
void ControllerDriver::SendStops(std::deque<Turn>& turns) {
  std::set<JobId> unsent;  // Launches that were not sent; a stop must not overtake them.
  for (Turn& turn : turns) {
    std::erase_if(turn.effects.commands, [&](const NodeCommand& command) {
      if (std::holds_alternative<LaunchCommand>(command)) unsent.insert(JobOf(command));
      if (!std::holds_alternative<StopCommand>(command) || unsent.contains(JobOf(command))) return false;
      commands_.Execute(command, nullptr);
      return true;
    });
  }
}

// The database may be unreachable just after a commit. Then the job's specification is read later, before the launch
// command is sent.
void ControllerDriver::LaunchLater(const LaunchCommand& command) {
  ports_.after(kRetryCommitAfter, [this, command] {
    const JobRecord* live = controller_.Find(command.record.id);
    if (live == nullptr || live->attempt != command.record.attempt) return;
    if (!may_act()) return LaunchLater(command);
    // A job that was stopped meanwhile ends as one whose launch has failed.
    const bool may_start = live->state == JobState::kStarting && live->stop_intent == StopIntent::kNone;
    auto spec = SpecOf(command.record);
    if (!spec && may_start && IsAway(spec.error())) return LaunchLater(command);
    commands_.Execute(command, spec && may_start ? *std::move(spec) : nullptr);
  });
}

void ControllerDriver::Carry(Turn& turn) {
  if (ports_.on_durable) ports_.on_durable(turn.effects);
  for (const auto& insert : turn.effects.batch.inserts) {
    if (insert.spec == nullptr || insert.record.array_count == 0) continue;
    const bool is_known =
        std::ranges::find(array_specs_, insert.record.id, [](const auto& s) { return s.first; }) != array_specs_.end();
    if (!is_known) RememberSpec(insert.record.id, insert.spec);
  }
  for (const NodeCommand& command : turn.effects.commands) {
    std::shared_ptr<const JobSpec> spec;
    const auto* launch = std::get_if<LaunchCommand>(&command);
    const auto* adopt = std::get_if<AdoptCommand>(&command);
    if (launch != nullptr || adopt != nullptr) {
      const JobRecord& record = launch != nullptr ? launch->record : adopt->record;
      const auto inserted = std::ranges::find_if(turn.effects.batch.inserts, [&](const auto& i) {
        return i.spec != nullptr && i.record.id == record.spec_of;
      });
      if (inserted != turn.effects.batch.inserts.end()) {
        spec = inserted->spec;
      } else if (auto found = SpecOf(record)) {
        spec = *std::move(found);
      } else if (launch != nullptr && IsAway(found.error())) {
        LaunchLater(*launch);
        continue;
      }
    }
    commands_.Execute(command, std::move(spec));
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
    const auto subscribers = subscribers_;  // A copy, because a subscriber may unsubscribe itself.
    for (const auto& [handle, on_changes] : subscribers) on_changes(turn.effects.changes, clock_.Now());
  }
}

Result<std::uint64_t> ControllerDriver::WaitFor(JobId job, OnFinal on_final) {
  const bool is_live = controller_.Find(job) != nullptr || controller_.ArrayOf(job) != nullptr;
  if (!is_live) Gather();
  const bool is_on_its_way = !is_live && FindEnded(job) != nullptr;
  const std::uint64_t handle = next_handle_++;
  if (is_live || is_on_its_way) {
    waiters_[job].emplace(handle, std::move(on_final));
    return handle;
  }
  DIVVY_TRY(const JobRecord record, store_.Find(job));
  on_final(record);
  return handle;
}

void ControllerDriver::StopWaiting(JobId job, std::uint64_t waiter) {
  const auto at = waiters_.find(job);
  if (at == waiters_.end()) return;
  at->second.erase(waiter);
  if (at->second.empty()) waiters_.erase(at);
}

std::uint64_t ControllerDriver::Subscribe(OnChanges on_changes) {
  subscribers_.emplace(next_handle_, std::move(on_changes));
  return next_handle_++;
}

Result<JobRecord> ControllerDriver::FindJob(JobId job) {
  if (auto unstored = FindUnstored(job)) return *std::move(unstored);
  return store_.Find(job);
}

std::optional<JobRecord> ControllerDriver::FindUnstored(JobId job) {
  if (auto live = FindLive(job)) return live;
  Gather();
  const JobRecord* ended = FindEnded(job);
  return ended == nullptr ? std::nullopt : std::optional(*ended);
}

std::optional<JobRecord> ControllerDriver::FindLive(JobId job) const {
  if (const JobRecord* live = controller_.Find(job)) return *live;
  // A waiting element has the record of its array, under its own number.
  if (const JobRecord* array = controller_.ArrayOf(job))
    return ElementOf(*array, static_cast<std::uint32_t>(job.value() - array->id.value() - 1));
  return std::nullopt;
}

const JobRecord* ControllerDriver::FindEnded(JobId job) const {
  const auto look = [&](const Turn& turn) -> const JobRecord* {
    const auto ended = std::ranges::find(turn.effects.finished, job, &JobRecord::id);
    return ended == turn.effects.finished.end() ? nullptr : &*ended;
  };
  for (const Turn& turn : committing_) {
    if (const JobRecord* ended = look(turn)) return ended;
  }
  for (const Turn& turn : gathered_) {
    if (const JobRecord* ended = look(turn)) return ended;
  }
  return nullptr;
}

std::vector<JobRecord> ControllerDriver::EndedUnstored() {
  Gather();
  std::vector<JobRecord> ended;
  const auto add = [&](const Turn& turn) {
    ended.insert(ended.end(), turn.effects.finished.begin(), turn.effects.finished.end());
  };
  std::ranges::for_each(committing_, add);
  std::ranges::for_each(gathered_, add);
  return ended;
}

Result<std::shared_ptr<const JobSpec>> ControllerDriver::SpecOf(const JobRecord& record) {
  if (auto unstored = UnstoredSpecOf(record)) return unstored;
  DIVVY_TRY(JobSpec spec, store_.Spec(record.spec_of));
  auto shared = std::make_shared<const JobSpec>(std::move(spec));
  if (record.array.is_set()) RememberSpec(record.spec_of, shared);
  return std::shared_ptr<const JobSpec>(std::move(shared));
}

std::shared_ptr<const JobSpec> ControllerDriver::UnstoredSpecOf(const JobRecord& record) const {
  for (const auto& [id, spec] : array_specs_) {
    if (id == record.spec_of) return spec;
  }
  const auto look = [&](const Turn& turn) -> std::shared_ptr<const JobSpec> {
    for (const auto& [id, spec] : turn.effects.batch.spec_updates) {
      if (id == record.spec_of) return spec;
    }
    for (const auto& insert : turn.effects.batch.inserts) {
      if (insert.spec != nullptr && insert.record.id == record.spec_of) return insert.spec;
    }
    return nullptr;
  };
  for (auto turn = gathered_.rbegin(); turn != gathered_.rend(); ++turn) {
    if (auto spec = look(*turn)) return spec;
  }
  for (auto turn = committing_.rbegin(); turn != committing_.rend(); ++turn) {
    if (auto spec = look(*turn)) return spec;
  }
  return nullptr;
}

Result<std::shared_ptr<const JobSpec>> ControllerDriver::NewestSpecOf(const JobRecord& record) {
  if (auto pending = controller_.PendingSpec(record.spec_of)) return pending;
  return SpecOf(record);
}

void ControllerDriver::RememberSpec(JobId id, std::shared_ptr<const JobSpec> spec) {
  std::erase_if(array_specs_, [id](const auto& known) { return known.first == id; });
  array_specs_.emplace_front(id, std::move(spec));
  if (array_specs_.size() > kArraySpecs) array_specs_.pop_back();
}

FindOutcome ControllerDriver::Outcomes() {
  // Collects the changes so far now. The controller calls the returned function in the middle of a change, when they
  // must not be collected.
  Gather();
  return [this](JobId id) -> std::optional<JobRecord> {
    if (auto live = FindLive(id)) return live;
    if (const JobRecord* ended = FindEnded(id)) return *ended;
    auto record = store_.Find(id);
    // If the store cannot be reached, the controller must not decide as if the job did not exist: that could not be
    // corrected later.
    if (!record && record.error().code == ErrorCode::kUnreachable) ports_.give_up(record.error());
    if (!record) return std::nullopt;
    return *std::move(record);
  };
}

}  // namespace divvy
