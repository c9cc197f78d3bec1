#include "simulate/chaos/chaos_daemon.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <variant>

#include "base/text.h"
#include "control/books/record_parts.h"

namespace divvy::simulate {
namespace {

constexpr std::size_t kArraySpecs = 64;
constexpr Duration kRetryCommitAfter = std::chrono::seconds(1);
constexpr std::string_view kBootKey = "node.boot_id";
constexpr int kCpus = 64;

/// Keeps the removal of elements from their arrays, but drops the elements' records.
void TearElements(std::vector<Batch>& batches) {
  std::set<JobId> lost;
  for (Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      if (job.spec == nullptr) lost.insert(job.record.id);
    }
    std::erase_if(batch.inserts, [&](const Batch::NewJob& job) { return lost.contains(job.record.id); });
    std::erase_if(batch.updates, [&](const JobRecord& record) { return lost.contains(record.id); });
  }
}

/// "GPU 3 is held by job 5 and by job 9"; "" if every GPU has one owner. Load asserts it.
std::string HeldTwice(const std::vector<JobRecord>& live) {
  std::map<int, JobId> owners;
  for (const JobRecord& record : live) {
    if (!IsActive(record.state) || record.array_count > 0) continue;
    for (int gpu : record.gpus.ToVector()) {
      const auto [at, is_new] = owners.emplace(gpu, record.id);
      if (is_new) continue;
      return "GPU " + std::to_string(gpu) + " is held by job " + ToString(at->second) + " and by job " +
             ToString(record.id);
    }
  }
  return "";
}

NodeCapacity CapacityOf(const ChaosMachine& machine) {
  NodeCapacity capacity;
  for (int i = 0; i < machine.gpus(); ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.model = "H100";
    facts.memory_total = Bytes(std::int64_t{80} << 30);
    capacity.gpus.push_back(std::move(facts));
  }
  capacity.cpus = kCpus;
  capacity.memory = Bytes(std::int64_t{512} << 30);
  return capacity;
}

}  // namespace

ChaosDaemon::ChaosDaemon(const ChaosParts& parts, const Policy& policy, const Limits& limits)
    : parts_(parts),
      skew_(parts.clock.skew),
      controller_(policy, limits, parts.random.Next()),
      node_(
          controller_, parts.machine, parts.trace, parts.mutation,
          {[this] { return Now(); }, [this] { Touch(); }, [this](const JobRecord& record) { return SpecOf(record); }}) {
  controller_.SetCapacity(CapacityOf(parts.machine));
}

void ChaosDaemon::Recover() {
  auto loaded = parts_.store.Load();
  DIVVY_ASSERT(loaded);  // The store is in memory, so this cannot fail.
  std::string boot_before;
  for (const auto& [key, value] : loaded->settings) {
    if (key == kBootKey) boot_before = value;
  }
  const std::string boot = std::to_string(parts_.machine.boot());
  if (const std::string twice = HeldTwice(loaded->live); !twice.empty())
    return parts_.trace.Break("in the store, " + twice);
  controller_.Load(std::move(loaded->live), loaded->settings, loaded->next_id, loaded->jobs_total, Outcomes());
  parts_.ledger.CheckAfterRestart(controller_, parts_.store);
  const GpuSet all = GpuSet::FirstN(parts_.machine.gpus());
  controller_.OnGpusObserved(parts_.machine.Observe(all, {}));
  node_.AdoptRuns(!boot_before.empty() && boot_before != boot);
  node_.BeginLooking();
  controller_.OnGpusObserved(parts_.machine.Observe(all, node_.known()));
  if (boot != boot_before) controller_.KeepSetting(kBootKey, boot);
  Touch();
}

void ChaosDaemon::AfterCommit(std::vector<Fact> facts, bool may_be_refused) {
  if (parts_.mutation == ChaosMutation::kAnswersBeforeCommit) parts_.ledger.Answered(facts);
  answers_.push_back({std::move(facts), may_be_refused});
  Touch();
}

void ChaosDaemon::EndTurn() {
  is_turn_due_ = false;
  controller_.Decide(Now());
  Gather();
  if (!is_committing_) StartCommit();
}

void ChaosDaemon::Gather() {
  Turn turn{controller_.TakeEffects(), std::exchange(answers_, {})};
  if (turn.effects.empty() && turn.answers.empty()) return;
  for (const Order& order : turn.effects.orders) {
    if (const auto* launch = std::get_if<LaunchOrder>(&order))
      parts_.ledger.OnStartDecided(launch->record, controller_, Now());
  }
  if (parts_.mutation == ChaosMutation::kLaunchesBeforeCommit) {
    for (const Order& order : turn.effects.orders) {
      if (const auto* launch = std::get_if<LaunchOrder>(&order)) node_.Execute(order, SpecOf(launch->record));
    }
    std::erase_if(turn.effects.orders, [](const Order& order) { return std::holds_alternative<LaunchOrder>(order); });
  }
  for (const auto& [id, spec] : turn.effects.batch.spec_updates) RememberSpec(id, spec);
  gathered_.push_back(std::move(turn));
}

Time ChaosDaemon::next_wakeup() const {
  const Time wakeup = controller_.next_wakeup();
  return wakeup == kNever ? kNever : wakeup - skew_;
}

void ChaosDaemon::StartCommit() {
  if (is_turn_due_ || gathered_.empty()) return;
  committing_.clear();
  bool is_empty = true;
  for (Turn& turn : gathered_) {
    is_empty &= turn.effects.batch.empty();
    committing_.push_back(std::move(turn));
  }
  gathered_.clear();
  if (is_empty) {
    has_trouble_ = false;
    for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
    return;
  }
  is_committing_ = true;
}

std::vector<Batch> ChaosDaemon::Batches() {
  std::vector<Batch> batches;
  for (const Turn& turn : committing_) {
    if (!turn.effects.batch.empty()) batches.push_back(turn.effects.batch);
  }
  if (parts_.mutation == ChaosMutation::kForgetsExits) {
    for (Batch& batch : batches) std::erase_if(batch.updates, [](const JobRecord& r) { return IsFinal(r.state); });
  }
  return batches;
}

void ChaosDaemon::FinishCommit(bool is_disk_full) {
  const std::vector<Batch> batches = Batches();
  if (is_disk_full) parts_.store.FailNextCommit();
  const Status status = parts_.store.Commit(batches);
  if (!status && status.error().code != ErrorCode::kLimitExceeded)
    return parts_.trace.Break("the store refused a commit: " + status.error().message);
  if (status) parts_.ledger.OnCommitted(batches);
  parts_.trace.Note(status ? "commit" : "commit refused because the disk is full", JobId(),
                    static_cast<std::int64_t>(batches.size()));
  is_committing_ = false;
  if (!status) return OnDiskFull();
  has_trouble_ = false;
  for (Turn& turn : std::exchange(committing_, {})) Carry(turn);
  if (!is_committing_) StartCommit();
}

void ChaosDaemon::DieWriting(bool commit_lands) {
  is_dead_ = true;
  std::vector<Batch> batches = Batches();
  if (parts_.mutation == ChaosMutation::kTearsCommits) {
    TearElements(batches);
    commit_lands = true;
  }
  if (!commit_lands) return;
  parts_.trace.Note("the commit reaches the disk, but the daemon dies before it learns that");
  if (parts_.store.Commit(batches)) parts_.ledger.OnCommitted(batches);
}

// New submissions are withdrawn as if they had never come. Everything else waits for free disk space.
void ChaosDaemon::OnDiskFull() {
  has_trouble_ = true;
  Gather();
  std::deque<Turn> turns(std::make_move_iterator(committing_.begin()), std::make_move_iterator(committing_.end()));
  committing_.clear();
  std::ranges::move(gathered_, std::back_inserter(turns));
  Withdraw(turns);
  SendStops(turns);
  std::erase_if(turns, [](const Turn& turn) { return turn.effects.empty() && turn.answers.empty(); });
  gathered_ = std::move(turns);
  is_committing_ = true;
  retry_at_ = parts_.clock.true_time + kRetryCommitAfter;
}

void ChaosDaemon::Retry() {
  retry_at_.reset();
  is_committing_ = false;
  StartCommit();
}

void ChaosDaemon::Withdraw(std::deque<Turn>& turns) {
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
    std::erase_if(effects.batch.history, [&](const auto& line) { return is_gone(line.job); });
    std::erase_if(effects.orders, [&](const Order& order) { return is_gone(JobOf(order)); });
    std::erase_if(effects.changes, [&](const Change& change) { return is_gone(change.job); });
    std::erase_if(effects.finished, [&](const JobRecord& record) { return is_gone(record.id); });
    for (auto& pending : turn.answers) {
      if (pending.may_be_refused) refused.push_back(std::move(pending));
    }
    std::erase_if(turn.answers, [](const auto& pending) { return pending.may_be_refused; });
  }
  std::vector<JobId> ids;
  for (const auto& [id, elements] : withdrawn) {
    parts_.trace.Note("submission withdrawn: job", id);
    ids.push_back(id);
  }
  controller_.Withdraw(ids, Now());
  if (!ids.empty()) Touch();  // Jobs that depend on them may now start or end.
  for (const auto& pending : refused) parts_.ledger.Refused(pending.facts, parts_.store);
}

void ChaosDaemon::SendStops(std::deque<Turn>& turns) {
  std::set<JobId> unsent;
  for (Turn& turn : turns) {
    std::erase_if(turn.effects.orders, [&](const Order& order) {
      if (std::holds_alternative<LaunchOrder>(order)) unsent.insert(JobOf(order));
      if (!std::holds_alternative<StopOrder>(order) || unsent.contains(JobOf(order))) return false;
      node_.Execute(order, nullptr);
      return true;
    });
  }
}

bool ChaosDaemon::DiesNow() {
  if (effects_left_ >= 0 && effects_left_-- == 0) is_dead_ = true;
  return is_dead_;
}

void ChaosDaemon::Carry(Turn& turn) {
  for (const auto& insert : turn.effects.batch.inserts) {
    if (insert.spec == nullptr || insert.record.array_count == 0) continue;
    const bool is_known =
        std::ranges::find(array_specs_, insert.record.id, [](const auto& s) { return s.first; }) != array_specs_.end();
    if (!is_known) RememberSpec(insert.record.id, insert.spec);
  }
  for (const Order& order : turn.effects.orders) {
    if (DiesNow()) return;
    std::shared_ptr<const JobSpec> spec;
    if (const auto* launch = std::get_if<LaunchOrder>(&order)) {
      const auto inserted = std::ranges::find_if(turn.effects.batch.inserts, [&](const auto& i) {
        return i.spec != nullptr && i.record.id == launch->record.spec_of;
      });
      spec = inserted != turn.effects.batch.inserts.end() ? inserted->spec : SpecOf(launch->record);
      if (spec != nullptr) parts_.ledger.OnLaunch(launch->record, *spec);
      parts_.trace.Note("launch sent: job", launch->record.id, launch->record.attempt);
    }
    node_.Execute(order, spec);
  }
  for (const auto& pending : turn.answers) {
    if (DiesNow()) return;
    parts_.ledger.Answered(pending.facts);
  }
}

std::optional<JobRecord> ChaosDaemon::FindLive(JobId job) const {
  if (const JobRecord* live = controller_.Find(job)) return *live;
  if (const JobRecord* array = controller_.ArrayOf(job))
    return ElementOf(*array, static_cast<std::uint32_t>(job.value() - array->id.value() - 1));
  return std::nullopt;
}

const JobRecord* ChaosDaemon::FindEnded(JobId job) const {
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

FindOutcome ChaosDaemon::Outcomes() {
  Gather();
  return [this](JobId id) -> std::optional<JobRecord> {
    if (auto live = FindLive(id)) return live;
    if (const JobRecord* ended = FindEnded(id)) return *ended;
    auto record = parts_.store.Find(id);
    if (!record) return std::nullopt;
    return *std::move(record);
  };
}

std::shared_ptr<const JobSpec> ChaosDaemon::SpecOf(const JobRecord& record) {
  if (auto unstored = UnstoredSpecOf(record)) return unstored;
  auto spec = parts_.store.Spec(record.spec_of);
  if (!spec) return nullptr;
  auto shared = std::make_shared<const JobSpec>(*std::move(spec));
  if (record.array.is_set()) RememberSpec(record.spec_of, shared);
  return shared;
}

std::shared_ptr<const JobSpec> ChaosDaemon::UnstoredSpecOf(const JobRecord& record) const {
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

std::shared_ptr<const JobSpec> ChaosDaemon::NewestSpecOf(const JobRecord& record) {
  if (auto pending = controller_.PendingSpec(record.spec_of)) return pending;
  return SpecOf(record);
}

void ChaosDaemon::RememberSpec(JobId id, std::shared_ptr<const JobSpec> spec) {
  std::erase_if(array_specs_, [id](const auto& known) { return known.first == id; });
  array_specs_.emplace_front(id, std::move(spec));
  if (array_specs_.size() > kArraySpecs) array_specs_.pop_back();
}

}  // namespace divvy::simulate
