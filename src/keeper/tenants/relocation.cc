#include "keeper/tenants/relocation.h"

#include <algorithm>

#include "keeper/tenants/peer.h"
#include "platform/os/process_tree.h"

namespace divvy::keeper {
namespace {

/// Timeout of one step of the library: the minimum, and the slowest link that is still waited for.
constexpr Duration kLibraryTimeout = 20s;
constexpr std::uint64_t kSlowestBytesPerSecond = 500'000'000;
/// A process that uses at least a twentieth of a CPU copies, and gets more time. New host memory may be slow: a virtual
/// machine can need a minute for 4 GiB.
constexpr std::uint64_t kTicksOfWork = 100;
constexpr Duration kLongestWork = 60s;
constexpr std::uint64_t kSlowestWork = 50'000'000;
/// A library dials at least twice a second.
constexpr Duration kDialTimeout = 5s;
constexpr Duration kDialAgain = 10ms;
/// A process has been emptied before it is locked, so nothing is in flight.
constexpr Duration kLockTimeout = 10s;

std::uint64_t NextMessage() {
  static std::uint64_t next = 0;
  return ++next;
}

}  // namespace

Relocation::Relocation(EventLoop& loop, Tenant& tenant, DriverHelpers& driver, RelocationPlan plan,
                       RelocationHooks hooks)
    : loop_(loop),
      tenant_(tenant),
      driver_(driver),
      plan_(std::move(plan)),
      hooks_(std::move(hooks)),
      way_(plan_.leaves ? Way::kDown : Way::kUp),
      began_(loop.Now()) {}

Relocation::~Relocation() = default;

void Relocation::Start() {
  if (tenant_.missing() != 0) {
    if (loop_.Now() - began_ < kDialTimeout) {
      loop_.After(kDialAgain, [this, alive = std::weak_ptr<bool>(is_alive_)] {
        if (!alive.expired()) Start();
      });
      return;
    }
    // This process could not be moved with the tenant: it would be left on the old GPU, or in host memory although its
    // calls are not blocked.
    why_ = "a process of the job runs without a connection to the keeper";
    if (way_ == Way::kDown || tenant_.IsMissingAny(plan_.left)) return End(sharing::Outcome::kUnchanged);
  }
  has_begun_ = true;
  for (auto& [slot, process] : tenant_.processes()) {
    const bool came_while_away = way_ == Way::kUp && process.depth == kAtWork;
    (came_while_away ? late_ : taking_part_).insert(slot);
    if (process.uuids.empty()) process.uuids = plan_.from;
  }
  Advance();
}

// Handles a process that connects during the move. Most have no GPU memory yet, because the library blocks programs
// that start CUDA while their tenant is moved. But a process that could not connect before may have worked on the
// tenant's old GPU.
void Relocation::OnCame(Slot slot) {
  TenantProcess& process = tenant_.processes().at(slot);
  if (process.uuids.empty()) process.uuids = plan_.from;
  if (!has_begun_) return;
  if (process.depth == kAtWork && (is_upwards() || is_late_pass_)) {
    late_.insert(slot);
  } else {
    taking_part_.insert(slot);
  }
}

// Returns true if late processes are being brought to the tenant's new place.
bool Relocation::BringLate() {
  std::erase_if(late_, [this](Slot slot) { return !tenant_.processes().contains(slot); });
  if (late_.empty() || plan_.from == plan_.to) return false;
  taking_part_ = std::exchange(late_, {});
  is_late_pass_ = true;
  way_ = Way::kDown;
  return true;
}

int Relocation::Deepest(Slot slot) const {
  return plan_.uses_driver && !without_driver_.contains(slot) ? kCheckpointed : kEmptied;
}

// Moves the least advanced processes by one step. No process starts the next step before all have completed this one.
void Relocation::Advance() {
  step_from_ = is_upwards() ? kAtWork : kCheckpointed + 1;
  for (const Slot slot : taking_part_) {
    const int depth = tenant_.processes().at(slot).depth;
    if (is_upwards()) {
      step_from_ = std::max(step_from_, depth);
    } else if (depth < Deepest(slot)) {
      step_from_ = std::min(step_from_, depth);
    }
  }
  if (is_upwards() && step_from_ == kAtWork) {
    if (way_ == Way::kUp && BringLate()) return Advance();
    return End(way_ == Way::kUp || is_late_pass_ ? sharing::Outcome::kDone : sharing::Outcome::kUnchanged);
  }
  if (!is_upwards() && step_from_ > kCheckpointed) {
    if (way_ == Way::kHold) return End(sharing::Outcome::kParked);
    if (!plan_.returns && !is_late_pass_) return End(sharing::Outcome::kDone);
    way_ = Way::kUp;
    return Advance();
  }
  Step();
}

void Relocation::Step() {
  const std::uint64_t step = ++step_;
  // Processes that connected late are moved to the tenant's new GPUs, which are already recorded.
  const Status noted = is_late_pass_ ? hooks_.note(true, plan_.to) : hooks_.note(is_upwards(), onto());
  if (!noted && !is_late_pass_ && (way_ == Way::kDown || way_ == Way::kUp)) {
    return StayBehindRecord(noted.error().message);
  }
  const bool is_library = step_from_ == (is_upwards() ? kEmptied : kAtWork);
  std::vector<Slot> those;
  for (const Slot slot : taking_part_) {
    const int depth = tenant_.processes().at(slot).depth;
    if (depth == step_from_ && (is_upwards() || depth < Deepest(slot))) those.push_back(slot);
  }
  for (const Slot slot : those) {
    if (is_library) {
      TellLibrary(slot, is_upwards() ? share::Word::kReturn : share::Word::kEvacuate);
    } else {
      with_driver_.insert(slot);
    }
  }
  if (!is_library) {
    for (const Slot slot : those) TellDriver(slot, is_upwards() ? step_from_ - 1 : step_from_ + 1);
    return;
  }
  AwaitLibraries(kLibraryTimeout + TimeFor(kSlowestBytesPerSecond), Duration(0));
  // The node continues the processes of a displaced tenant at the same time as it asks for the return.
  if (is_upwards()) LookLater();
  else LookAtThoseThatStand();
  if (!told_.empty()) return;
  // A process that could not be reached has ended, but is removed from the table only in the loop's next iteration.
  loop_.At(loop_.Now(), [this, step, alive = std::weak_ptr<bool>(is_alive_)] {
    if (!alive.expired() && step == step_) OnStepEnd();
  });
}

Duration Relocation::TimeFor(std::uint64_t bytes_per_second) const {
  return std::chrono::seconds(static_cast<std::int64_t>(plan_.bytes / bytes_per_second));
}

std::map<Slot, std::uint64_t> Relocation::CpuTicksOfTold() const {
  std::map<Slot, std::uint64_t> ticks;
  for (const auto& [id, slot] : told_) {
    const auto stat = ReadProcessStat(static_cast<pid_t>(tenant_.processes().at(slot).pid));
    ticks[slot] = stat ? stat->cpu_ticks : 0;
  }
  return ticks;
}

// Fails the processes that have not answered after `timeout`, unless all of them are still at work.
void Relocation::AwaitLibraries(Duration timeout, Duration waited) {
  loop_.After(timeout, [this, step = step_, waited = waited + timeout, before = CpuTicksOfTold(),
                        alive = std::weak_ptr<bool>(is_alive_)] {
    if (alive.expired() || step != step_) return;
    const std::map<Slot, std::uint64_t> now = CpuTicksOfTold();
    const bool all_work =
        std::ranges::all_of(now, [&](const auto& one) { return one.second >= before.at(one.first) + kTicksOfWork; });
    if (all_work && waited < kLongestWork + TimeFor(kSlowestWork)) return AwaitLibraries(kLibraryTimeout, waited);
    told_.clear();
    for (const auto& [slot, ticks] : now) Fail(slot, "it did not answer within " + std::to_string(waited / 1s) + " s");
    OnStepEnd();
  });
}

// The record of this step could not be written, so a restarted keeper would not know of it. The step is skipped, and
// the tenant returns to the recorded state.
void Relocation::StayBehindRecord(const std::string& why) {
  if (why_.empty()) why_ = why;
  if (way_ == Way::kUp) {
    way_ = Way::kHold;
    return Advance();
  }
  const bool has_begun = std::any_of(taking_part_.begin(), taking_part_.end(),
                                     [this](Slot slot) { return tenant_.processes().at(slot).depth != kAtWork; });
  if (has_begun) return TurnBack();
  End(sharing::Outcome::kUnchanged);
}

void Relocation::TellLibrary(Slot slot, share::Word word) {
  for (unsigned device = 0; device < tenant_.devices().size(); ++device) {
    share::Message message{};
    message.word = word;
    message.device = device;
    message.process = slot;
    message.id = NextMessage();
    if (tenant_.Send(slot, message)) told_[message.id] = slot;
  }
}

// Fails the move of processes that are stopped (SIGSTOP): they do not answer, and may stay stopped for days.
void Relocation::LookAtThoseThatStand() {
  std::set<Slot> standing;
  for (const auto& [id, slot] : told_) {
    const auto stat = ReadProcessStat(static_cast<pid_t>(tenant_.processes().at(slot).pid));
    if (stat && stat->state == 'T') standing.insert(slot);
  }
  for (const Slot slot : standing) {
    std::erase_if(told_, [slot](const auto& sent) { return sent.second == slot; });
    Fail(slot, "it is stopped");
  }
  LookLater();
}

void Relocation::LookLater() {
  if (told_.empty()) return;
  loop_.After(1s, [this, step = step_, alive = std::weak_ptr<bool>(is_alive_)] {
    if (alive.expired() || step != step_) return;
    LookAtThoseThatStand();
    if (told_.empty()) OnStepEnd();
  });
}

void Relocation::OnDone(Slot slot, const share::Message& done) {
  const auto sent = told_.find(done.id);
  if (sent == told_.end() || sent->second != slot) return;  // From an abandoned step.
  told_.erase(sent);
  CountMoved(slot, done);
  if (done.result != 0)
    Fail(slot, done.text[0] != '\0' ? std::string(done.text) : "error " + std::to_string(done.result));
  const bool has_more =
      std::any_of(told_.begin(), told_.end(), [slot](const auto& left) { return left.second == slot; });
  if (!has_more && !failed_now_.contains(slot)) {
    tenant_.processes().at(slot).depth = is_upwards() ? kAtWork : kEmptied;
  }
  if (told_.empty()) OnStepEnd();
}

// Memory on the host counts as in use, because it needs room when it returns. The process's report is limited to the
// tenant's limit, since an earlier keeper may not have recorded the amount.
void Relocation::CountMoved(Slot slot, const share::Message& done) {
  if (done.device >= tenant_.devices().size()) return;
  std::uint64_t& away = tenant_.processes().at(slot).away[done.device];
  const std::uint64_t bytes = std::min(done.bytes, tenant_.devices()[done.device].limit);
  if (done.result != 0) {
    if (is_upwards()) away = std::max(away, bytes);
    return;
  }
  if (is_upwards()) {
    away = 0;
  } else if (bytes != 0) {
    away = bytes;
  }
  if (way_ == Way::kDown) moved_ += bytes;
}

// The driver's state is queried first: the process may be unknown to it, or further on than recorded if a helper was
// killed.
void Relocation::TellDriver(Slot slot, int to) {
  const std::int64_t pid = tenant_.processes().at(slot).pid;
  driver_.Ask(pid, [this, slot, to, pid, alive = std::weak_ptr<bool>(is_alive_)](const Result<DriverState>& state) {
    if (alive.expired()) return;
    if (!state) return OnDriver(slot, to, state.error());
    switch (*state) {
      case DriverState::kGone:
        without_driver_.insert(slot);
        return OnDriver(slot, kEmptied, {});
      case DriverState::kRunning:
        return to == kLocked && !is_upwards() ? CallDriver(slot, to) : OnDriver(slot, kEmptied, {});
      case DriverState::kLocked:
        return to != kLocked ? CallDriver(slot, to) : OnDriver(slot, kLocked, {});
      case DriverState::kCheckpointed:
        return to == kLocked && is_upwards() ? CallDriver(slot, to) : OnDriver(slot, kCheckpointed, {});
      case DriverState::kFailed:
        return OnDriver(slot, to, FailedPrecondition("process " + std::to_string(pid) + ": the driver gave up on it"));
    }
  });
}

void Relocation::CallDriver(Slot slot, int to) {
  const auto found = tenant_.processes().find(slot);
  // If the process has ended, its pid may have been reused.
  if (found == tenant_.processes().end() || HasEnded(found->second.life.get())) return OnDriver(slot, to, {});
  const auto ended = [this, slot, to, alive = std::weak_ptr<bool>(is_alive_)](const Status& status) {
    if (!alive.expired()) OnDriver(slot, to, status);
  };
  const std::int64_t pid = found->second.pid;
  if (to == kCheckpointed) return driver_.Checkpoint(pid, plan_.bytes, ended);
  if (to == kEmptied) return driver_.Unlock(pid, ended);
  if (!is_upwards()) return driver_.Lock(pid, kLockTimeout, ended);
  std::vector<std::pair<std::string, std::string>> map;
  for (std::size_t i = 0; i < onto().size() && i < found->second.uuids.size(); ++i)
    map.emplace_back(found->second.uuids[i], onto()[i]);
  driver_.Restore(pid, map, plan_.bytes, ended);
}

/// Called when the process has reached `depth`, or has failed.
void Relocation::OnDriver(Slot slot, int depth, const Status& status) {
  with_driver_.erase(slot);
  const auto found = tenant_.processes().find(slot);
  if (found != tenant_.processes().end() && taking_part_.contains(slot)) {
    TenantProcess& process = found->second;
    if (status) {
      if (is_upwards() && process.depth == kCheckpointed && depth < kCheckpointed) process.uuids = onto();
      process.depth = depth;
    } else {
      failed_now_.insert(slot);
      if (why_.empty()) why_ = status.error().message;
    }
  }
  if (with_driver_.empty()) OnStepEnd();
}

void Relocation::OnGone(Slot slot) {
  taking_part_.erase(slot);
  late_.erase(slot);
  failed_now_.erase(slot);
  const bool was_told = std::erase_if(told_, [slot](const auto& sent) { return sent.second == slot; }) > 0;
  // If a driver call for the ended process is still running, its end is awaited; it ends by itself.
  if (was_told && told_.empty() && with_driver_.empty()) OnStepEnd();
}

void Relocation::Fail(Slot slot, const std::string& why) {
  failed_now_.insert(slot);
  const auto found = tenant_.processes().find(slot);
  if (why_.empty() && found != tenant_.processes().end())
    why_ = "process " + std::to_string(found->second.pid) + ": " + why;
}

void Relocation::OnStepEnd() {
  ++step_;
  if (failed_now_.empty()) return Advance();
  failed_now_.clear();
  TurnBack();
}

void Relocation::TurnBack() {
  switch (way_) {
    case Way::kDown:
      way_ = Way::kUndo;
      break;
    case Way::kUp:
    case Way::kUndo:
      way_ = Way::kHold;
      break;
    case Way::kHold:
      return End(sharing::Outcome::kLost);
  }
  // A process that failed on the way down may be partly emptied: it is told to return like the others.
  if (way_ == Way::kUndo) {
    for (const Slot slot : taking_part_) {
      int& depth = tenant_.processes().at(slot).depth;
      depth = std::max<int>(depth, kEmptied);
    }
  }
  // A process that connected late could not return to the GPUs. It cannot stay in host memory alone, so all processes
  // of the tenant are moved there.
  if (way_ == Way::kHold && is_late_pass_) {
    for (const auto& [slot, process] : tenant_.processes()) taking_part_.insert(slot);
  }
  // A process that failed to return may be partly on the GPU.
  if (way_ == Way::kHold) {
    for (const Slot slot : taking_part_) {
      int& depth = tenant_.processes().at(slot).depth;
      if (depth == kEmptied) depth = kAtWork;
    }
  }
  Advance();
}

void Relocation::End(sharing::Outcome outcome) {
  ++step_;
  if (outcome == sharing::Outcome::kDone || outcome == sharing::Outcome::kUnchanged) {
    for (auto& [slot, process] : tenant_.processes()) {
      const bool stays_behind = is_late_pass_ && way_ == Way::kUndo && taking_part_.contains(slot);
      if (process.depth == kAtWork && !stays_behind) process.uuids.clear();
    }
  }
  sharing::Done done;
  done.outcome = outcome;
  done.bytes = Bytes(static_cast<std::int64_t>(moved_));
  done.took = loop_.Now() - began_;
  done.why = why_;
  const auto ended = std::move(hooks_.ended);
  ended(done);
}

}  // namespace divvy::keeper
