#include "simulate/chaos/chaos_clients.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <memory>

#include "control/books/record_parts.h"

namespace divvy::simulate {
namespace {

constexpr std::size_t kKnown = 24;
constexpr std::uint64_t kGroups = 3;

Duration Seconds(int count) { return std::chrono::seconds(count); }

}  // namespace

Caller ChaosClients::Admin() {
  Caller caller;
  caller.user = {0, 0, "root"};
  caller.is_admin = true;
  return caller;
}

Caller ChaosClients::DrawCaller() {
  if (Happens(40)) return Admin();
  Caller caller;
  caller.user = Happens(50) ? User{1000, 1000, "ada"} : User{1001, 1001, "bo"};
  return caller;
}

std::optional<JobRecord> ChaosClients::Find(const Controller& controller, JobId id) {
  if (const JobRecord* live = controller.Find(id)) return *live;
  if (const JobRecord* array = controller.ArrayOf(id))
    return ElementOf(*array, static_cast<std::uint32_t>(id.value() - array->id.value() - 1));
  return std::nullopt;
}

JobId ChaosClients::DrawJob(const Controller& controller) {
  const auto& live = controller.live();
  if (!live.empty() && Happens(60)) return std::next(live.begin(), Draw(live.size()))->first;
  if (known_.empty()) return JobId(1);
  const Known& known = known_[parts_.random.Below(known_.size())];
  if (known.elements == 0 || Happens(50)) return known.id;
  return ElementId(known.id, static_cast<std::uint32_t>(parts_.random.Below(known.elements)));
}

JobId ChaosClients::DrawActive(const Controller& controller) {
  const auto& running = controller.scheduler().running_jobs();
  return running.empty() ? DrawJob(controller) : std::next(running.begin(), Draw(running.size()))->first;
}

Dependency ChaosClients::DrawDependency() {
  Dependency dependency;
  const Known& known = known_[parts_.random.Below(known_.size())];
  switch (Draw(8)) {
    case 0:
      dependency.kind = DependencyKind::kSingleton;
      return dependency;
    case 1:
      dependency.kind = DependencyKind::kAfter;
      if (Happens(50)) dependency.delay = Seconds(Draw(20));
      break;
    case 2:
      dependency.kind = DependencyKind::kAfterNotOk;
      break;
    case 3:
    case 4:
      dependency.kind = DependencyKind::kAfterOk;
      break;
    default:
      dependency.kind = DependencyKind::kAfterAny;
  }
  dependency.job = known.id;
  if (known.elements > 0 && Happens(50))
    dependency.element = static_cast<std::uint32_t>(parts_.random.Below(known.elements));
  return dependency;
}

JobSpec ChaosClients::DrawSpec(Time now) {
  JobSpec spec;
  spec.command = {std::to_string(++last_command_)};
  spec.name = "n" + std::to_string(Draw(4));
  const std::uint64_t most = static_cast<std::uint64_t>(parts_.machine.gpus());
  spec.request.gpus = Happens(15) ? 0 : static_cast<int>(Happens(60) ? 1 : 1 + parts_.random.Below(most));
  spec.request.cpus = Draw(3);
  spec.priority = Happens(20) ? Draw(3) : 0;
  spec.is_held = Happens(3);
  if (Happens(4)) spec.begin = now + Seconds(Draw(60));
  if (Happens(30)) spec.time_limit = Seconds(1 + Draw(Happens(50) ? 30 : 3000));
  spec.grace = Seconds(Draw(8) * Draw(5));
  if (Happens(25)) spec.retries = 1 + Draw(2);
  spec.retry_delay = Seconds(Happens(50) ? 0 : Draw(20));
  spec.requeues_after_reboot = Happens(40);
  if (Happens(15)) {
    spec.group = ChaosGroup(parts_.random.Below(kGroups));
    if (Happens(50)) spec.group_limit = 1 + Draw(2);
  }
  for (int i = Happens(20) ? 1 + Draw(2) : 0; i > 0 && !known_.empty(); --i)
    spec.dependencies.push_back(DrawDependency());
  spec.needs_any_dependency = !spec.dependencies.empty() && Happens(30);
  spec.keeps_waiting = Happens(10);
  if (Happens(10)) {
    spec.array.emplace();
    const auto first = static_cast<std::uint32_t>(Draw(3));
    spec.array->indices = IndexRanges(first, first + static_cast<std::uint32_t>(Draw(6)));
    spec.array->at_once = Happens(40) ? 1 + Draw(2) : 0;
    spec.request.gpus = std::min(spec.request.gpus, 1);
  }
  return spec;
}

void ChaosClients::Submit(DaemonLife& daemon) {
  JobSpec spec = DrawSpec(daemon.Now());
  const std::uint64_t elements = spec.array ? spec.array->indices.size() : 0;
  const Caller caller = DrawCaller();
  const int group_limit = spec.group_limit;
  std::uint64_t group = 0;
  if (group_limit > 0) {
    group = static_cast<std::uint64_t>(spec.group.back() - '0') * kChaosUsers.size() +
            static_cast<std::uint64_t>(std::ranges::find(kChaosUsers, caller.user.name) - kChaosUsers.begin());
  }
  const int before = daemon.controller().scheduler().group_limit(ChaosGroupOfUser(group));
  const auto result =
      daemon.controller().Submit(std::move(spec), elements, caller, daemon.Now(), daemon.driver().Outcomes());
  if (!result) return;
  parts_.trace.Note("submitted: job", result->id, static_cast<std::int64_t>(elements));
  std::vector<Fact> facts = {{FactKind::kSubmitted, result->id, 0, static_cast<std::int64_t>(elements)},
                             {FactKind::kCommand, result->id, last_command_, last_command_}};
  if (group_limit > 0) facts.push_back({FactKind::kGroupLimit, JobId(group), before, group_limit});
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), true);
  known_.push_back({result->id, static_cast<std::uint32_t>(elements)});
  if (known_.size() > kKnown) known_.erase(known_.begin());
}

template <typename Value>
std::vector<Fact> ChaosClients::FactsOfAll(const Controller& controller, FactKind kind, JobId id, Value value) {
  std::vector<Fact> facts;
  const JobRecord* record = controller.Find(id);
  const std::uint64_t last = id.value() + (record != nullptr ? record->array_count : 0);
  for (auto at = controller.live().lower_bound(id); at != controller.live().end() && at->first.value() <= last; ++at)
    facts.push_back({kind, at->first, value(at->second), 0});
  return facts;
}

void ChaosClients::Cancel(DaemonLife& daemon, JobId id, const Caller& caller) {
  // Collects the array's elements before the cancellation, because some of them are gone afterwards.
  std::vector<Fact> facts =
      FactsOfAll(daemon.controller(), FactKind::kCancelled, id, [](const JobRecord&) { return std::int64_t{0}; });
  if (facts.empty()) facts.push_back({FactKind::kCancelled, id, 0, 0});
  for (Fact& fact : facts) fact.value = 1;
  const auto before = Find(daemon.controller(), id);
  const Duration grace = Happens(30) ? Seconds(0) : Duration(-1);
  if (!daemon.controller().Cancel(id, 0, grace, "", caller, daemon.Now())) return;
  parts_.trace.Note("cancelled: job", id);
  std::erase_if(facts, [&](const Fact& fact) { return fact.job != id && daemon.controller().Find(id) == nullptr; });
  parts_.ledger.Applied(facts);
  // Cancelling an array also releases its hold.
  if (const JobRecord* array = daemon.controller().Find(id); array != nullptr && array->array_count > 0) {
    const Fact released{FactKind::kHeld, id, before->is_held ? 1 : 0, 0};
    parts_.ledger.Applied({released});
    facts.push_back(released);
  }
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::SetHeld(DaemonLife& daemon, JobId id, bool is_held, const Caller& caller) {
  const auto before = Find(daemon.controller(), id);
  std::vector<Fact> facts;
  if (before) facts.push_back({FactKind::kHeld, id, before->is_held ? 1 : 0, is_held ? 1 : 0});
  // For an array whose elements all have records of their own, the command concerns those that wait.
  if (before && before->array_count > 0 && before->array_waiting.empty()) {
    for (const auto& [element, record] : daemon.controller().live()) {
      if (record.array == id && IsWaiting(record.state))
        facts.push_back({FactKind::kHeld, element, record.is_held ? 1 : 0, is_held ? 1 : 0});
    }
  }
  const auto done = is_held ? daemon.controller().Hold(id, caller, daemon.Now())
                            : daemon.controller().Release(id, kNoTime, caller, daemon.Now());
  if (!done || !before) return;
  parts_.trace.Note(is_held ? "held: job" : "released: job", id);
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::SetGroupLimit(DaemonLife& daemon, std::uint64_t group, int limit) {
  std::vector<Fact> facts;
  for (std::uint64_t user = 0; user < kChaosUsers.size(); ++user) {
    const bool has_jobs = std::ranges::any_of(daemon.controller().live(), [&](const auto& live) {
      return live.second.group == ChaosGroup(group) && live.second.user.name == kChaosUsers[user];
    });
    const std::uint64_t number = group * kChaosUsers.size() + user;
    const int before = daemon.controller().scheduler().group_limit(ChaosGroupOfUser(number));
    if (has_jobs) facts.push_back({FactKind::kGroupLimit, JobId(number), before, limit});
  }
  if (!daemon.controller().SetGroupLimit(ChaosGroup(group), limit, Admin(), daemon.Now())) return;
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::Restrict(DaemonLife& daemon, std::optional<GpuSet> allowed) {
  const auto number = [](const std::optional<GpuSet>& set) {
    return set ? static_cast<std::int64_t>(set->bits()) : std::int64_t{-1};
  };
  const auto before = daemon.controller().restriction();
  if (!daemon.controller().Restrict(allowed, Admin())) return;
  parts_.trace.Note("restricted", JobId(), number(allowed));
  std::vector<Fact> facts = {{FactKind::kRestriction, JobId(), number(before), number(allowed)}};
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::ChangeCommand(DaemonLife& daemon, JobId id) {
  const auto record = Find(daemon.controller(), id);
  if (!record) return;
  const auto found = daemon.driver().NewestSpecOf(*record);
  if (!found) return parts_.trace.Break("job " + ToString(id) + " is live, but has no specification");
  const JobSpec& spec = **found;
  JobSpec wanted = spec;
  wanted.command = {std::to_string(++last_command_)};
  JobChanges changes;
  changes.spec_fields = {"command"};
  changes.spec = std::make_shared<const JobSpec>(std::move(wanted));
  if (!daemon.controller().Update(id, changes, Admin(), daemon.Now(), daemon.driver().Outcomes())) return;
  parts_.trace.Note("command changed: job", id, last_command_);
  std::vector<Fact> facts = {{FactKind::kCommand, id, CommandNumber(spec), last_command_}};
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::Change(DaemonLife& daemon, JobId id) {
  Controller& controller = daemon.controller();
  JobChanges changes;
  std::vector<Fact> facts;
  if (Happens(40)) {
    changes.priority = Draw(5) - 2;
    facts =
        FactsOfAll(controller, FactKind::kPriority, id, [](const JobRecord& r) { return std::int64_t{r.priority}; });
    for (Fact& fact : facts) fact.value = *changes.priority;
  } else if (Happens(60)) {
    changes.time_limit = Seconds(Draw(4) == 0 ? 0 : 1 + Draw(600));
    facts = FactsOfAll(controller, FactKind::kTimeLimit, id, [&](const JobRecord& r) {
      return (r.time_limit - controller.time_sharer().LimitExtensionOf(r)).count();
    });
    for (Fact& fact : facts) fact.value = changes.time_limit->count();
  } else if (Happens(40)) {
    changes.name = "n" + std::to_string(Draw(4));
  } else if (Happens(50) && !known_.empty()) {
    changes.dependencies.emplace();
    if (Happens(70)) changes.dependencies->all.push_back(DrawDependency());
  } else if (Happens(50)) {
    changes.gpus = Draw(static_cast<std::uint64_t>(parts_.machine.gpus()) + 1);
  } else {
    changes.array_at_once = Draw(3);
  }
  if (!controller.Update(id, changes, DrawCaller(), daemon.Now(), daemon.driver().Outcomes())) return;
  parts_.trace.Note("changed: job", id, facts.empty() ? 0 : facts.front().value);
  parts_.ledger.Applied(facts);
  daemon.AfterCommit(std::move(facts), false);
}

void ChaosClients::Steer(DaemonLife& daemon, JobId id) {
  Controller& controller = daemon.controller();
  const Caller caller = DrawCaller();
  bool is_done = false;
  switch (Draw(8)) {
    case 0:
      is_done = controller.Requeue(id, RequeueAs::kQueued, caller, daemon.Now()).has_value();
      if (is_done) parts_.trace.Note("requeued: job", id);
      break;
    case 1:
    case 2:
      if (leaves_gpus_alone_) break;
      is_done = controller.Pause(id, caller, daemon.Now()).has_value();
      if (is_done) parts_.trace.Note("paused: job", id);
      break;
    case 3:
    case 4:
    case 5:
      is_done = controller.Resume(id, caller, daemon.Now()).has_value();
      if (is_done) parts_.trace.Note("resumed: job", id);
      break;
    case 6:
      is_done = controller.Signal(id, Happens(50) ? SIGUSR1 : SIGTERM, SignalReach::kTree, caller).has_value();
      break;
    default:
      is_done = true;  // A query.
  }
  if (is_done) daemon.AfterCommit({}, false);
}

void ChaosClients::Act(DaemonLife& daemon) {
  const bool has_room = daemon.controller().live().size() < jobs_;
  if (has_room && daemon.takes_work() && Happens(60)) return Submit(daemon);
  const JobId id = DrawJob(daemon.controller());
  if (daemon.controller().restriction() && Happens(15)) return Restrict(daemon, std::nullopt);
  switch (Draw(has_room ? 14 : 12)) {
    case 0:
    case 1:
      if (cancels_less_ && !Happens(20)) return;
      return Cancel(daemon, id, DrawCaller());
    case 2:
      return SetHeld(daemon, id, Happens(60), DrawCaller());
    case 3:
    case 4:
      return SetHeld(daemon, id, false, DrawCaller());
    case 5:
    case 6:
      return Change(daemon, id);
    case 7:
      return ChangeCommand(daemon, id);
    case 8:
      return Happens(30) ? SetGroupLimit(daemon, parts_.random.Below(kGroups), Draw(4)) : Change(daemon, id);
    case 9:
      if (leaves_gpus_alone_ || !Happens(20)) return Change(daemon, DrawActive(daemon.controller()));
      return Restrict(daemon, GpuSet::FromBits(parts_.random.Below(std::uint64_t{1} << parts_.machine.gpus())));
    default:
      return Steer(daemon, DrawActive(daemon.controller()));
  }
}

void ChaosClients::EndFoundRuns(DaemonLife& daemon) {
  std::vector<JobId> found;
  for (const auto& [id, run] : daemon.controller().found()) {
    if (!run.is_ending) found.push_back(id);
  }
  for (JobId id : found) {
    if (!daemon.controller().EndFound(id, Admin())) continue;
    parts_.trace.Note("a run that the store does not know is ended: job", id);
    daemon.AfterCommit({}, false);
  }
}

void ChaosClients::LetEverythingEnd(DaemonLife& daemon) {
  EndFoundRuns(daemon);
  if (daemon.controller().restriction()) Restrict(daemon, std::nullopt);
  for (std::uint64_t group = 0; group < kGroups; ++group) SetGroupLimit(daemon, group, 0);
  std::vector<JobId> held, paused, hopeless;
  for (const auto& [id, record] : daemon.controller().live()) {
    if (record.is_held) held.push_back(id);
    if (record.state == JobState::kPaused) paused.push_back(id);
    if (record.keeps_waiting && IsWaiting(record.state)) hopeless.push_back(id);
  }
  for (JobId id : held) SetHeld(daemon, id, false, Admin());
  for (JobId id : hopeless) Cancel(daemon, id, Admin());
  for (JobId id : paused) {
    if (daemon.controller().Resume(id, Admin(), daemon.Now())) daemon.AfterCommit({}, false);
  }
}

}  // namespace divvy::simulate
