#include "simulate/chaos/chaos_world.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/duration_text.h"
#include "control/books/record_parts.h"

namespace divvy::simulate {
namespace {

constexpr std::uint64_t kSettleEvery = 400;
constexpr std::uint64_t kTimeSharingSalt = 0x7473;
// Host memory for the content of as many half GPUs is never full.
constexpr std::int64_t kAmpleHalfGpus = 1 << 16;
// Messages and commits take some time, which the controller does not foresee.
constexpr Duration kContractSlack = std::chrono::seconds(30);
// After several minutes the controller gives up a park. A later report that the job is away then counts as the answer
// to the latest command, although it may be that to the one given up.
constexpr Duration kLongestParkingMessage = std::chrono::minutes(1);
// The most messages that one Settle delivers. More than one world can have in transit, so it ends a loop of messages.
constexpr int kMostSettled = 2'000;
constexpr Duration kMostDrain = std::chrono::hours(24 * 60);
constexpr std::uint64_t kMostDrainSteps = 300'000;
// Without timers and messages, this many polls find everything.
constexpr int kIdleLooks = 5;

}  // namespace

ChaosWorld::ChaosWorld(std::uint64_t seed, const ChaosOptions& options, ChaosFigures& figures)
    : options_(options),
      figures_(figures),
      random_(seed),
      trace_(options.events_kept),
      machine_(DrawGpus(random_), clock_, random_, trace_, figures),
      ledger_(machine_, trace_, figures),
      parts_{clock_, random_, trace_, figures, machine_, store_, ledger_, options.mutation},
      temper_(DrawTemper()),
      clients_(parts_, 3 + random_.Below(24)) {
  policy_.order = random_.Below(3) == 0 ? QueuePolicy::kFifo : QueuePolicy::kSmallFirst;
  policy_.placement = random_.Below(3) == 0 ? PlacementStrategy::kRandom : PlacementStrategy::kSequential;
  if (random_.Below(2) == 0) policy_.escalate_after = std::chrono::seconds(1 + random_.Below(120));
  if (random_.Below(4) == 0) policy_.cpu_jobs_at_once = 2;
  Random of_time_sharing(seed ^ kTimeSharingSalt);
  if (of_time_sharing.Below(3) == 0) SwitchOnTimeSharing(of_time_sharing);
}

void ChaosWorld::SwitchOnTimeSharing(Random random) {
  policy_.time_sharing.mode = TimeSharingMode::kOn;
  policy_.time_sharing.trial = std::chrono::seconds(1 + random.Below(random.Below(2) == 0 ? 30 : 900));
  contract_ = policy_.time_sharing;
  temper_.keeps_contracts = random.Below(3) == 0;
  ParkingFaults faults;
  faults.has_failures = !temper_.keeps_contracts && random.Below(2) == 0;
  faults.has_delays = !temper_.keeps_contracts && random.Below(3) == 0;
  // The host memory is for the content of as many half GPUs. Mostly there is room to park several jobs.
  const auto gpus = static_cast<std::uint64_t>(machine_.gpus());
  auto half_gpus =
      static_cast<std::int64_t>(random.Below(3) == 0 ? 1 + random.Below(2 * gpus) : 4 + random.Below(4 * gpus));
  // The contract may be broken when the host memory is full (docs/time-sharing.md).
  if (temper_.keeps_contracts) half_gpus = kAmpleHalfGpus;
  machine_.SetParking(Bytes(half_gpus * machine_.gpu_memory().count() / 2), faults);
  clients_.CancelLess();
  if (temper_.keeps_contracts) clients_.LeaveGpusAlone();
  if (temper_.keeps_contracts) temper_.faults = std::min<std::uint64_t>(temper_.faults, 8);
  if (temper_.keeps_contracts) temper_.commands = 40;
  if (options_.mutation == ChaosMutation::kLoosensContract) policy_.time_sharing.at_most = 20;
}

void ChaosWorld::CheckContracts() {
  const Time now = daemon_->Now();
  for (const auto& [id, record] : daemon_->controller().live()) {
    const Displacement* state = daemon_->controller().time_sharer().Find(record);
    if (state == nullptr) continue;
    const time_sharing::JobView view = ViewOf(record, *state, now);
    if (!view.is_settled) continue;
    const Duration over = -time_sharing::BudgetLeft(view, OptionsOf(contract_));
    if (over > kContractSlack)
      trace_.Break("job " + ToString(id) + " has lost " + DurationText(view.lost_settled) + " in a run of " +
                   DurationText(view.ran) + ", " + DurationText(over) + " more than its contract allows");
  }
}

ChaosWorld::Temper ChaosWorld::DrawTemper() {
  static constexpr std::array<std::uint64_t, 6> kFaults = {2, 8, 20, 40, 80, 150};
  static constexpr std::array<std::uint64_t, 4> kCommands = {40, 100, 160, 250};
  static constexpr std::array<std::uint64_t, 4> kCrashes = {5, 20, 40, 70};
  Temper temper;
  temper.steps = 2'000 + random_.Below(18'001);
  temper.faults = kFaults[random_.Below(kFaults.size())];
  temper.commands = kCommands[random_.Below(kCommands.size())];
  temper.crashes = kCrashes[random_.Below(kCrashes.size())];
  temper.has_reboots = random_.Below(3) == 0;
  temper.has_clock_jumps = random_.Below(2) == 0;
  temper.has_full_disks = random_.Below(2) == 0;
  return temper;
}

bool ChaosWorld::Run() {
  StartDaemon();
  while (trace_.step < temper_.steps && trace_.broken().empty()) Step();
  return trace_.broken().empty() && Drain();
}

void ChaosWorld::Step() {
  const std::uint64_t draw = random_.Below(1000);
  if (draw < temper_.faults) {
    Fault();
  } else if (draw < temper_.faults + temper_.commands) {
    if (daemon_) clients_.Act(*daemon_);
    else if (random_.Below(2) == 0) StartDaemon();
  } else if (draw < temper_.faults + temper_.commands + 30) {
    Poll();
  } else if ((draw < temper_.faults + temper_.commands + 130 && !temper_.keeps_contracts) || !Deliver()) {
    PassTime();
  }
  AfterStep((trace_.step + 1) % options_.check_every == 0);
  if (daemon_ && random_.Below(kSettleEvery) == 0) Settle();
}

void ChaosWorld::Settle() {
  trace_.Note("all messages in transit are delivered");
  daemon_->DieAfterEffects(-1);
  int left = kMostSettled;
  for (int round = 0; round < 3; ++round) {
    while (left > 0 && trace_.broken().empty() && Deliver()) {
      AfterStep(false);
      --left;
    }
    Poll();
    AfterStep(false);
  }
  while (left > 0 && trace_.broken().empty() && Deliver()) {
    AfterStep(false);
    --left;
  }
  // Effects that wait for disk space are not carried out.
  if (left > 0 && daemon_->takes_work() && !daemon_->is_task_due()) CheckAgreement();
}

void ChaosWorld::CheckAgreement() {
  const Controller& controller = daemon_->controller();
  for (const auto& [id, record] : controller.live()) {
    if (!IsActive(record.state) || record.array_count > 0) continue;
    const std::string name = "job " + ToString(id) + " is " + std::string(Name(record.state)) + " (attempt " +
                             std::to_string(record.attempt) + ")";
    const auto at = machine_.trees().find({id, record.attempt});
    if (at == machine_.trees().end() || !at->second.is_alive()) {
      trace_.Break(name + ", but has no process and no supervisor");
      return;
    }
    const Tree& tree = at->second;
    if (record.state == JobState::kStarting) trace_.Break(name + ", but its process has started");
    const bool is_steady = tree.is_watched && tree.has_process && !tree.is_stopping;
    const bool may_be_paused = record.state == JobState::kRunning || record.state == JobState::kPaused;
    if (tree.has_process && HasLeftItsGpus(record) && !tree.is_away())
      trace_.Break(name + " and parked, but is on its GPUs");
    // A job that could not return stays stopped.
    const bool is_frozen =
        record.state == JobState::kPaused || (tree.is_away() && tree.is_paused) || HasLeftItsGpus(record);
    if (is_steady && may_be_paused && tree.is_paused != is_frozen)
      trace_.Break(name + ", but its process is " + (tree.is_paused ? "frozen" : "not frozen"));
    if (is_steady && tree.limit != LimitOnNode(record))
      trace_.Break(name + ", but its supervisor has another time limit");
    const bool is_watched = tree.is_watched || daemon_->node().Knows(id);
    if (!is_watched) trace_.Break(name + ", but no process watches it");
  }
  for (const auto& [key, tree] : machine_.trees()) {
    const JobRecord* record = controller.Find(key.first);
    const bool is_known = record != nullptr && record->attempt == key.second && IsActive(record->state);
    if (tree.is_alive() && !is_known)
      trace_.Break("attempt " + std::to_string(key.second) + " of job " + ToString(key.first) +
                   " runs, but the controller does not know it");
  }
}

void ChaosWorld::AfterStep(bool is_thorough) {
  ++trace_.step;
  ++figures_.steps;
  if (daemon_ && daemon_->is_dead()) {
    ++figures_.crashes_midway;
    trace_.Note("kill -9 of the daemon between two effects of a commit");
    BuryDaemon();
  }
  if (!daemon_ || !is_thorough) return;
  ++figures_.checks;
  if (std::string broken = daemon_->controller().CheckInvariants(); !broken.empty()) trace_.Break(std::move(broken));
  ledger_.CheckValues(daemon_->controller());
  if (temper_.keeps_contracts && !is_calm_) CheckContracts();
}

std::size_t ChaosWorld::Index(std::size_t count) { return random_.Below(4) == 0 ? random_.Below(count) : 0; }

// Delivers one message under way, or lets one due event happen. Returns false if there is none.
bool ChaosWorld::Deliver() {
  enum class What {
    kLaunch,
    kCommand,
    kTree,
    kTimer,
    kTask,
    kWrite,
    kDaemonTimer,
    kLook,
    kAdopted,
    kReport,
    kLauncher,
    kDisplacement,
    kPresence
  };
  std::array<What, 16> ready{};
  std::size_t count = 0;
  const auto offer = [&](bool is_ready, What what) {
    if (is_ready) ready[count++] = what;
  };
  offer(machine_.launches() > 0, What::kLaunch);
  offer(machine_.commands() > 0, What::kCommand);
  offer(machine_.displacements() > 0, What::kDisplacement);
  const std::size_t trees = machine_.CountReady();
  offer(trees > 0, What::kTree);
  offer(machine_.NextDue() <= clock_.true_time, What::kTimer);
  std::vector<JobId> adopted;
  if (daemon_) {
    DaemonLife& daemon = *daemon_;
    offer(daemon.is_task_due(), What::kTask);
    offer(daemon.is_writing(), What::kWrite);
    offer(daemon.next_timer() <= clock_.true_time, What::kDaemonTimer);
    offer(daemon.node().looks() > 0, What::kLook);
    offer(!machine_.reports().empty(), What::kReport);
    offer(!machine_.presences().empty(), What::kPresence);
    offer(launcher_died_ || machine_.stranded() > 0, What::kLauncher);
    adopted = daemon.node().EndedAdopted();
    offer(!adopted.empty(), What::kAdopted);
  }
  if (count == 0) return false;
  switch (ready[random_.Below(count)]) {
    case What::kLaunch:
      machine_.Claim(Index(machine_.launches()));
      break;
    case What::kCommand:
      machine_.DeliverCommand(Index(machine_.commands()));
      break;
    case What::kDisplacement:
      machine_.DeliverDisplacement(Index(machine_.displacements()));
      break;
    case What::kPresence:
      DeliverPresence();
      break;
    case What::kTree:
      machine_.AdvanceReady(random_.Below(trees));
      break;
    case What::kTimer:
      machine_.FireOneDue();
      break;
    case What::kTask:
      daemon_->RunTask();
      break;
    case What::kWrite: {
      const bool is_full = full_commits_ > 0;
      if (is_full && --full_commits_ >= 0) ++figures_.full_disks;
      daemon_->FinishCommit(is_full);
      break;
    }
    case What::kDaemonTimer:
      daemon_->FireTimer();
      break;
    case What::kLook:
      daemon_->node().FinishLook(Index(daemon_->node().looks()));
      break;
    case What::kAdopted:
      daemon_->node().OnAdoptedEnded(adopted[random_.Below(adopted.size())]);
      break;
    case What::kReport:
      DeliverReport();
      break;
    case What::kLauncher:
      for (const auto& [job, attempt] : machine_.TakeStranded()) daemon_->node().OnStranded(job, attempt);
      if (!std::exchange(launcher_died_, false)) break;
      machine_.StartLauncher();
      daemon_->node().OnLauncherDied();
      break;
  }
  return true;
}

void ChaosWorld::DeliverReport() {
  auto& reports = machine_.reports();
  std::size_t index = Index(reports.size());
  // Reports of one attempt arrive in order.
  for (std::size_t i = 0; i < index; ++i) {
    const bool is_same = reports[i].file.job == reports[index].file.job;
    if (is_same && reports[i].file.attempt == reports[index].file.attempt) index = i;
  }
  if (index > 0) ++figures_.late_messages;
  const ReportMessage report = reports[index];
  reports.erase(reports.begin() + static_cast<std::ptrdiff_t>(index));
  trace_.Note(report.is_exit ? "report of an end received: job" : "report received: job", report.file.job,
              report.file.attempt);
  daemon_->node().OnReport(report);
}

void ChaosWorld::DeliverPresence() {
  auto& presences = machine_.presences();
  std::size_t index = Index(presences.size());
  for (std::size_t i = 0; i < index; ++i) {
    if (presences[i].job == presences[index].job) index = i;
  }
  const PresenceReport report = presences[index];
  // Some reports arrive twice.
  if (random_.Below(20) == 0) ++figures_.doubled_messages;
  else presences.erase(presences.begin() + static_cast<std::ptrdiff_t>(index));
  trace_.Note("report of its presence received: job", report.job, static_cast<std::int64_t>(report.presence));
  daemon_->node().OnPresence(report);
}

void ChaosWorld::Poll() {
  if (!daemon_) return StartDaemon();
  trace_.Note("the daemon polls the node");
  daemon_->node().CheckSupervisors();
  if (random_.Below(3) == 0 || is_calm_) ObserveGpus();
}

void ChaosWorld::ObserveGpus() {
  daemon_->controller().OnGpusObserved(machine_.Observe(GpuSet::FirstN(machine_.gpus()), daemon_->node().known()));
  daemon_->Touch();
}

Time ChaosWorld::NextTimer() const {
  Time next = machine_.NextDue();
  if (!daemon_) return next;
  next = std::min(next, daemon_->next_timer());
  if (const Time adopted = daemon_->node().NextDue(); adopted != kNever)
    next = std::min(next, clock_.true_time + (adopted - daemon_->Now()));
  return next;
}

// The loop's timers cannot be cancelled: an old one may be due weeks from now, when the controller waits for nothing.
bool ChaosWorld::HasNothingDue() const {
  return daemon_->controller().next_wakeup() == kNever && daemon_->takes_work() && machine_.NextDue() == kNever &&
         daemon_->node().NextDue() == kNever;
}

void ChaosWorld::PassTime() {
  const std::uint64_t draw = random_.Below(200);
  const Time next = NextTimer();
  Time& now = clock_.true_time;
  if (temper_.keeps_contracts) {
    // A new run counts as a foreign process until its supervisor has reported. Until the next look, its GPUs are
    // closed.
    if (daemon_) ObserveGpus();
    now = std::max(now, std::min(next, now + std::chrono::milliseconds(random_.Below(20'000))));
    return;
  }
  const Time before = now;
  if (!machine_.has_parking_messages()) parking_messages_since_ = now;
  if (draw < 90 && next != kNever && next > now) now = next;
  else if (draw < 180) now += std::chrono::microseconds(random_.Below(50'000));
  else if (draw < 199) now += std::chrono::milliseconds(random_.Below(20'000));
  else now += std::chrono::seconds(random_.Below(7200));
  if (machine_.has_parking_messages())
    now = std::max(before, std::min(now, parking_messages_since_ + kLongestParkingMessage));
}

void ChaosWorld::StartDaemon() {
  if (daemon_) return;
  trace_.Note("the daemon starts", JobId(), static_cast<std::int64_t>(machine_.boot()));
  machine_.DaemonStarted();
  launcher_died_ = false;
  daemon_ = std::make_unique<DaemonLife>(parts_, policy_, limits_);
  daemon_->Recover();
  if (std::string broken = daemon_->controller().CheckInvariants(); !broken.empty())
    trace_.Break("after a restart: " + std::move(broken));
}

void ChaosWorld::BuryDaemon() {
  ++figures_.crashes;
  daemon_.reset();
  machine_.DaemonDied();
  full_commits_ = 0;
}

void ChaosWorld::Crash() {
  if (!daemon_) return StartDaemon();
  trace_.Note("kill -9 of the daemon");
  if (daemon_->is_writing()) {
    ++figures_.crashes_in_commit;
    daemon_->DieWriting(random_.Below(2) == 0);
  }
  BuryDaemon();
}

void ChaosWorld::Fault() {
  if (temper_.keeps_contracts) {
    if (random_.Below(3) == 0) machine_.KillProcess();
    else if (random_.Below(2) == 0) machine_.DoubleReport();
    else machine_.DoubleCommand();
    return;
  }
  if (policy_.time_sharing.is_on() && random_.Below(5) == 0) {
    if (random_.Below(2) == 0) machine_.KillKeeper();
    else machine_.ChangeParkability();
    return;
  }
  if (random_.Below(100) < temper_.crashes) {
    const bool is_midway = daemon_ && random_.Below(3) == 0;
    if (is_midway) daemon_->DieAfterEffects(static_cast<int>(random_.Below(4)));
    else Crash();
    return;
  }
  const std::uint64_t draw = random_.Below(100);
  if (draw < 6 && temper_.has_full_disks) {
    full_commits_ = static_cast<int>(1 + random_.Below(4));
    trace_.Note("the disk is full");
  } else if (draw < 10 && temper_.has_clock_jumps) {
    const auto seconds = static_cast<std::int64_t>(random_.Below(7201)) - 3600;
    clock_.skew += std::chrono::seconds(seconds);
    ++figures_.clock_jumps;
    trace_.Note("the clock jumps by this number of seconds:", JobId(), seconds);
  } else if (draw < 12 && temper_.has_reboots) {
    if (daemon_) Crash();
    machine_.Reboot();
  } else if (draw < 14) {
    Prune();
  } else {
    NodeFault(random_.Below(100));
  }
}

void ChaosWorld::NodeFault(std::uint64_t draw) {
  const auto gpu = static_cast<GpuIndex>(random_.Below(static_cast<std::uint64_t>(machine_.gpus())));
  if (draw < 26) {
    machine_.KillSupervisor();
  } else if (draw < 38) {
    machine_.KillGuard();
  } else if (draw < 42) {
    // Kills all of divvy's processes at once.
    for (int i = 0; i < 4; ++i) {
      machine_.KillSupervisor();
      if (random_.Below(2) == 0) machine_.KillGuard();
    }
    Crash();
  } else if (draw < 52) {
    machine_.KillProcess();
  } else if (draw < 58 && daemon_) {
    machine_.KillLauncher();
    launcher_died_ = true;
  } else if (draw < 64 && daemon_) {
    machine_.LoseLaunch();
  } else if (draw < 72) {
    machine_.DoubleReport();
  } else if (draw < 80) {
    machine_.DoubleCommand();
  } else if (draw < 90) {
    machine_.SetFault(gpu, random_.Below(6) == 0);
  } else {
    machine_.SetForeign(gpu, random_.Below(6) == 0);
  }
}

// Housekeeping removes old jobs, even if other jobs depend on them.
void ChaosWorld::Prune() {
  if (!daemon_) return;
  const Time before = daemon_->Now() - std::chrono::seconds(random_.Below(600));
  if (store_.Prune(before)) ledger_.OnPruned(before);
  trace_.Note("old jobs are pruned");
}

// Without further faults, every acknowledged job must end.
bool ChaosWorld::Drain() {
  trace_.Note("the faults stop");
  is_calm_ = true;
  machine_.CalmDown();
  full_commits_ = 0;
  if (daemon_) daemon_->DieAfterEffects(-1);
  StartDaemon();
  const Time deadline = clock_.true_time + kMostDrain;
  const std::uint64_t last_step = trace_.step + kMostDrainSteps;
  clients_.LetEverythingEnd(*daemon_);
  int idle = 0;
  while (trace_.broken().empty() && idle < kIdleLooks) {
    if (Deliver()) {
      AfterStep(trace_.step % 64 == 0);
    } else {
      const Time next = HasNothingDue() ? kNever : NextTimer();
      idle = next == kNever ? idle + 1 : 0;
      // A daemon notices dead supervisors only when it looks, so time does not pass all at once.
      const Time hour = clock_.true_time + std::chrono::hours(1);
      if (next > clock_.true_time && next != kNever) clock_.true_time = std::min(next, hour);
      else clock_.true_time += std::chrono::seconds(1);
      Poll();
      clients_.LetEverythingEnd(*daemon_);
      AfterStep(false);
    }
    if (clock_.true_time > deadline || trace_.step > last_step) {
      trace_.Break("the world does not come to rest: " + std::to_string(daemon_->controller().live().size()) +
                   " jobs are live, and the node has these process trees:" + machine_.DescribeTrees());
    }
  }
  if (trace_.broken().empty()) CheckEnd();
  return trace_.broken().empty();
}

void ChaosWorld::CheckEnd() {
  AfterStep(true);
  for (const auto& [id, record] : daemon_->controller().live()) {
    trace_.Break("job " + ToString(id) + " is " + std::string(Name(record.state)) +
                 " at the end of the world: " + daemon_->controller().WaitingReason(record));
  }
  ledger_.CheckAllEnded(store_);
  if (!machine_.is_empty()) trace_.Break("process trees are left on the node:" + machine_.DescribeTrees());
  if (daemon_->controller().scheduler().free() != GpuSet::FirstN(machine_.gpus()))
    trace_.Break("a GPU is not free at the end of the world");
  Crash();
  StartDaemon();
  if (!daemon_->controller().live().empty()) trace_.Break("a job that had ended is live again after a restart");
}

}  // namespace divvy::simulate
