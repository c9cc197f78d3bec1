#include "control/controller/controller.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"

namespace divvy {

Controller::Controller(Policy policy, Limits limits, std::uint64_t seed)
    : scheduler_(policy.usage_half_life),
      gpus_(scheduler_, jobs_, effects_, nodes_, found_, limits.ignore_unmanaged_below),
      pools_(scheduler_, jobs_, nodes_, teams_.registry(), limits.default_time_limit),
      feed_(scheduler_, jobs_, effects_, {nodes_, dependencies_, pools_, teams_, predictions_, deadlines_},
            std::move(policy), seed),
      limits_(scheduler_, limits) {
  lifecycle_.SetOnFinished([this](const JobRecord& ended) { sweeps_.OnFinished(ended); });
  time_sharer_.SetMaySetAside([this](const JobRecord& record) { return sweeps_.IsParkedWhenPaused(record); });
}

Result<SubmitResult> Controller::Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                        const FindOutcome& outcome) {
  DIVVY_TRY(const auto rule, Sweeps::RuleOf(spec, elements));
  DIVVY_TRY(const SubmitResult made, submissions_.Submit(std::move(spec), elements, caller, now, outcome));
  if (rule) sweeps_.Begin(made.id, *rule);
  return made;
}

void Controller::Load(JobTable::Records live, const std::vector<std::pair<std::string, std::string>>& settings,
                      std::uint64_t next_id, std::uint64_t jobs_total, const FindOutcome& outcome) {
  jobs_.SetIds({next_id, jobs_total});
  for (const auto& [key, text] : settings) {
    if (gpus_.LoadSetting(key, text) || time_sharer_.LoadSetting(key, text)) continue;
    const int limit = static_cast<int>(std::clamp<std::int64_t>(ParseInteger(text).value_or(0), 0, 1'000'000));
    if (key.starts_with(kGroupPrefix)) {
      feed_.LoadGroupLimit(key.substr(kGroupPrefix.size()), limit);
    } else if (key.starts_with(kSharedGroupPrefix)) {
      // A group belonged to all users. Each user with jobs in it gets the limit.
      const std::string group = key.substr(kSharedGroupPrefix.size());
      for (const auto& [id, record] : live) {
        if (record.group == group) feed_.SetGroupLimit(GroupNameOf(group, record.user.name), limit);
      }
      effects_.KeepSetting(key, "");
    } else {
      static_cast<void>(teams_.LoadSetting(key, text) || reservations_.LoadSetting(key, text) ||
                        sweeps_.LoadSetting(key, text));
    }
  }
  jobs_.live() = std::move(live);
  teams_.LoadTeams(pools_.registry());
  // Few walks over all jobs: with a long queue, each one costs milliseconds.
  for (auto& [id, record] : jobs_.live()) {
    // Run times are learned for arrays as a whole, so their elements are not registered separately.
    if (!record.array.is_set()) predictions_.Know(record);
    record.progress.was_paused = record.state == JobState::kPaused;
    if (record.array_at_once > 0) feed_.SetArrayLimit(record);
    // If the job that a dependency names was deleted from the store before its end was noted, the dependency stays
    // pending.
    static_cast<void>(dependencies_.LearnOutcomes(record.dependencies, outcome));
    if (IsActive(record.state)) {
      if (record.array_count > 0) continue;
      nodes_.KeepGpusOf(record);
      feed_.Adopt(record);
      time_sharer_.Restore(record);
      // The user's program has not started, and it is not stored which nodes are ready, so the launch is rolled back.
      gangs_.NoteRestored(record);
    }
    dependencies_.Add(record);
  }
  for (auto& [id, record] : jobs_.live()) {
    if (record.state != JobState::kQueued && record.state != JobState::kHeld) continue;
    if (dependencies_.SettleDependencies(record)) effects_.Persist(record);
    feed_.Put(record);
  }
  teams_.LoadTeamUsage();
  sweeps_.Restore(outcome);
  for (NodeIndex node = kOwnNode; node < scheduler_.nodes().size(); ++node) gpus_.Refresh(node);
  effects_.RequestPlan();
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

void Controller::OnNodeRow(const NodeRow& row) {
  const bool had_pools = HasPools(pools_.registry(), scheduler_);
  gpus_.Refresh(nodes_.OnNodeRow(row));
  // The pools that waiting jobs name have become pools of nodes, or are only labels again.
  if (HasPools(pools_.registry(), scheduler_) != had_pools) feed_.PutAllAgain();
}

void Controller::OnNodeRemoved(const std::string& name) {
  const auto node = scheduler_.FindNode(name);
  if (!node) return;
  gpus_.ForgetNode(*node);
  fractions_.ForgetNode(*node);
  found_.ForgetNode(name);
  nodes_.OnNodeRemoved(*node);
}

// --- Teams ----------------------------------------------------------------------------------------------------------

void Controller::FollowTeams(Time now) {
  const bool is_told = teams_.Follow(now);
  feed_.FollowTeams(now);
  if (is_told) reservations_.ReserveAnew(now);
  effects_.RequestPlan();
}

Result<std::string> Controller::SetTeam(const TeamChange& change, const Caller& caller, Time now) {
  auto done = teams_.SetTeam(change, caller);
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::RemoveTeam(const std::string& name, const Caller& caller, Time now) {
  auto done = teams_.RemoveTeam(name, caller, reservations_.registry());
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::SetTeamUser(const UserChange& change, const Caller& caller, Time now) {
  auto done = teams_.SetTeamUser(change, caller);
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::SetQuotas(bool are_on, const Caller& caller, Time now) {
  auto done = teams_.SetQuotas(are_on, caller);
  if (done) FollowTeams(now);
  return done;
}

// --- Decisions ------------------------------------------------------------------------------------------------------

void Controller::Decide(Time now) {
  runs_.KeepStarts(now);
  if (!effects_.needs_plan() && now < effects_.next_wakeup()) return;
  feed_.WatchBudgets(now);
  reservations_.Follow(now);
  for (const NodeIndex node : nodes_.FollowMachines(now)) runs_.StopForDrain(node, now);
  gangs_.Follow(now);
  lifecycle_.EndLate(now);
  sweeps_.Follow(now);
  for (const JobId job : predictions_.Sweep(now)) feed_.Put(jobs_.live().at(job));
  teams_.KeepTeamUsage(now);
  progress_.Keep(now);
  time_sharer_.Follow(now);
  constexpr int kMostRounds = 64;
  feed_.FollowPools();
  fractions_.Pack();
  Time wakeup = CarryOut(now);
  for (int round = 1; round < kMostRounds && feed_.FollowPools(); ++round) wakeup = CarryOut(now);
  if (feed_.FollowPools()) wakeup = now;
  feed_.WatchBudgets(now);
  effects_.SetNextWakeup(std::min(
      {wakeup, teams_.budgets().next_change(), reservations_.next_change(), progress_.next_keep(), runs_.next_keep()}));
  effects_.WakeBy(nodes_.next_change());
  effects_.WakeBy(deadlines_.next_late());
  effects_.WakeBy(gangs_.next_deadline());
  effects_.WakeBy(predictions_.next_sweep());
  effects_.WakeBy(time_sharer_.next_change());
}

Time Controller::CarryOut(Time now) {
  effects_.SetNeedsPlan(false);
  const auto [plan, jobs] = scheduler_.Decide(now, [this](JobId entry) { return runs_.NextMember(entry); });
  for (std::size_t i = 0; i < jobs.size(); ++i) runs_.Start(plan.starts[i], jobs[i], now);
  for (const Preemption& preemption : plan.preemptions) runs_.Preempt(preemption, now);
  for (const Parking& parking : plan.parkings) time_sharer_.Park(parking, now);
  for (const Resizing& resizing : plan.resizings) elastic_.Resize(resizing, now);
  // Dependencies of the type "after:" are met when a job starts. They are resolved only after all records say which
  // jobs have started.
  for (const JobId job : jobs) {
    if (const JobRecord* record = jobs_.Find(job)) lifecycle_.ResolveDependents(*record, now);
  }
  if (!plan.starts.empty()) teams_.budgets().NoteStarts();
  return plan.next_wakeup;
}

std::string Controller::CheckInvariants() const {
  if (std::string broken = scheduler_.CheckInvariants(); !broken.empty()) return broken;
  for (const auto& [id, record] : jobs_.live()) {
    const std::string name = "job " + ToString(id);
    if (record.id != id) return name + " is stored under another id";
    if (IsFinal(record.state)) return name + " has ended, but is still among the live jobs";
    if (id.value() >= jobs_.ids().next) return name + " has an id that was never assigned";
    const bool is_array = record.array_count > 0;
    const RunningJob* running = scheduler_.running(id);
    if (IsActive(record.state) && !is_array) {
      if (running == nullptr) return name + " is active, but does not run in the scheduler";
      if (running->gpus != record.gpus || nodes_.NodeName(running->node) != record.node)
        return name + " holds other GPUs in the scheduler";
      if (running->gang.size() != record.gang.size()) return name + " is on other nodes in the scheduler";
      for (std::size_t i = 0; i < record.gang.size(); ++i) {
        const bool is_same = nodes_.NodeName(running->gang[i].node) == record.gang[i].node &&
                             running->gang[i].gpus == record.gang[i].gpus;
        if (!is_same) return name + " holds other GPUs of its nodes in the scheduler";
      }
      const int gpus = running->gpu_count();
      const int least = record.request.gpus_in_all();
      const Displacement* state = time_sharer_.Find(record);
      const bool is_away = state != nullptr && state->presence == Presence::kAway;
      const bool is_displaced = is_away || (state != nullptr && state->presence == Presence::kLeaving);
      if (running->is_displaced != is_displaced)
        return name + " is displaced only in the scheduler, or only in the controller";
      if (is_away && gpus == 0) continue;
      if (gpus < least || gpus > std::max(least, record.request.gpus_at_most()))
        return name + " holds another number of GPUs than it asked for";
    } else if (running != nullptr) {
      return name + " runs in the scheduler, but is not active";
    }
    const bool should_wait = record.state == JobState::kQueued || record.state == JobState::kHeld;
    const WaitingEntry* entry = scheduler_.waiting(id);
    if (should_wait != (entry != nullptr))
      return name + (should_wait ? " waits, but is not in the queue" : " is in the queue, but does not wait");
    if (entry != nullptr && is_array && entry->count != record.array_waiting.size())
      return name + " has another number of waiting elements in the queue";
  }
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    if (!jobs_.live().contains(id))
      return "job " + ToString(id) + " runs in the scheduler, but is not among the live jobs";
  }
  return "";
}

}  // namespace divvy
