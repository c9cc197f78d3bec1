#include "daemon/node/node_shares.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/borrow_requeue_policy.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

constexpr std::string_view kNotMadeRoom = "not made room";
constexpr std::string_view kOtherKeeper =
    "the keeper of the shared GPUs was started by another release of divvy, and is not asked for MIG instances; it "
    "goes on with the jobs that it has, and another takes its place when they are over";

// Returns the same number for all GPUs of the same model and memory size: the index of the first of them.
GpuIndex KindOf(const std::vector<GpuFacts>& gpus, const GpuFacts& gpu) {
  const auto first = std::ranges::find_if(
      gpus, [&](const GpuFacts& other) { return other.model == gpu.model && other.memory_total == gpu.memory_total; });
  return first->index;
}

}  // namespace

wire::ShareTerms TermsOf(const GpuPortion& portion, Bytes gpu_memory) {
  return {RequestedMemory(portion, gpu_memory), LimitOfMemory(portion, gpu_memory),
          RequestedCompute(portion, gpu_memory), LimitOfCompute(portion)};
}

wire::KeeperHello NodeShares::Hello() const {
  wire::KeeperHello hello;
  hello.version = wire::kKeeperVersion;
  hello.may_switch_mig = may_switch_mig_;
  for (const GpuFacts& gpu : gpus_) {
    wire::KeeperGpu& said = hello.gpus.emplace_back();
    said = {gpu.index, gpu.uuid, gpu.memory_total, PortionedMemory(gpu.memory_total), false, KindOf(gpus_, gpu),
            {},        {}};
    const auto withheld = withheld_.find(gpu.index);
    const auto broken = broken_.find(gpu.index);
    said.is_withheld = withheld != withheld_.end();
    said.is_broken = broken != broken_.end();
    if (said.is_withheld) said.why = withheld->second;
    // If the keeper switches MIG mode itself, it knows the mode better than the facts from the start.
    if (gpu.is_mig_enabled && !may_switch_mig_ && !said.is_withheld) {
      said.is_withheld = true;
      said.why = "is in MIG mode and provides slices only";
    }
    if (said.is_broken) said.why = broken->second;
  }
  return hello;
}

void NodeShares::Open() {
  if (std::exchange(is_open_, true)) return;
  keeper_.Open();
}

wire::KeeperRequest NodeShares::RequestFor(const Holder& holder) const {
  const JobRecord& record = holder.record;
  wire::KeeperRequest request;
  if (!holder.is_tenant()) {
    request.take_whole = wire::KeeperAcquireExclusive{record.id, holder.gpus};
    return request;
  }
  wire::KeeperAdd add;
  add.job = record.id;
  add.attempt = holder.attempt;
  add.uid = holder.owner.uid;
  add.gid = holder.owner.gid;
  add.owner = record.user.name;
  add.paper = holder.gpus.ToVector();
  const auto first = static_cast<std::size_t>(add.paper.empty() ? 0 : add.paper.front());
  if (holder.is_parkable) {
    add.is_whole = true;
    add.share = WholeTerms(holder.gpus);
  } else if (record.gpu_slice.any()) add.slice = record.gpu_slice;
  else add.share = TermsOf(record.request.portion, gpus_.at(first).memory_total);
  add.idle_park = record.request.portion.idle_park;
  add.priority = record.priority;
  add.is_interactive = record.wants_pty;
  add.may_requeue = MayRequeueToRepay(record);
  add.uses_mps = record.request.portion.uses_mps;
  request.add = std::move(add);
  return request;
}

wire::ShareTerms NodeShares::WholeTerms(GpuSet gpus) const {
  // No other tenant fits on these GPUs, because this one has all of their compute time.
  Bytes least;
  Bytes most;
  for (const int gpu : gpus.ToVector()) {
    const Bytes memory = gpus_.at(static_cast<std::size_t>(gpu)).memory_total;
    least = least == Bytes(0) ? memory : std::min(least, memory);
    most = std::max(most, memory);
  }
  const GpuShare whole(GpuShare::kWhole);
  return {PortionedMemory(least), most, whole, whole};
}

wire::KeeperRequest NodeShares::ResizeOf(const Holder& tenant) const {
  wire::KeeperRequest request;
  const wire::KeeperRequest known = RequestFor(tenant);
  request.resize = wire::KeeperResize{tenant.record.id, known.add->share, known.add->paper};
  return request;
}

void NodeShares::Adopt(const JobRecord& record, GpuSet gpus) {
  Holder holder{record.attempt, record, gpus, {}};
  if (const auto owner = ports_.owner_of(record.user)) holder.owner = *owner;
  const bool is_tenant = holder.is_tenant();
  // The machine may have come back with fewer GPUs. Capacity that is kept for its tenants stays theirs.
  if (!is_tenant) holder.gpus = gpus & SeenGpus();
  // A displaced job (whose GPU memory is parked for another job) has no GPUs here; the keeper reports it.
  if (holder.gpus.empty() && record.request.gpus == 0) return;
  holders_.insert_or_assign(record.id, std::move(holder));
  if (is_tenant) Open();
}

void NodeShares::Refresh(const JobRecord& record, GpuSet gpus) {
  const auto at = holders_.find(record.id);
  if (at == holders_.end() || at->second.attempt != record.attempt || !at->second.has_fraction()) return;
  Holder& holder = at->second;
  if (gpus.size() != holder.gpus.size()) gpus = holder.gpus;
  if (holder.gpus == gpus && holder.record.request.portion == record.request.portion) return;
  holder.gpus = gpus;
  holder.record.request.portion = record.request.portion;
  if (waiting_.contains(record.id)) return Ask(record.id);
  if (!IsSeen(holder)) return;
  keeper_.Ask(ResizeOf(holder), Noting("event=resize_failed job=" + ToString(record.id)));
}

KeeperPort::Answered NodeShares::Noting(const std::string& event) const {
  return [this, event](const Result<wire::KeeperAnswer>& answer) {
    if (!answer && answer.error().code != ErrorCode::kUnreachable)
      ports_.note(event + " what=\"" + answer.error().message + "\"");
  };
}

void NodeShares::OnKeeper() {
  wire::KeeperRequest hello;
  hello.hello = Hello();
  for (const auto& [job, holder] : holders_) {
    if (holder.is_tenant() || holder.gpus.empty()) continue;
    hello.hello->whole_jobs.push_back(job);
    hello.hello->whole_gpus.push_back(holder.gpus);
  }
  keeper_version_ = 0;
  processes_.clear();
  keeper_.Ask(std::move(hello), [this](const Result<wire::KeeperAnswer>& answer) {
    Noting("event=keeper_refused")(answer);
    if (answer) OnWelcome(*answer);
  });
  // Ended runs are removed first: an earlier attempt of a job would block its next one.
  wire::KeeperRequest asked;
  asked.state = wire::KeeperStateAsked();
  keeper_.Ask(std::move(asked), [this](const Result<wire::KeeperAnswer>& answer) {
    if (!answer) return;  // Another keeper will connect.
    if (answer->state) OnKept(*answer->state);
    TellAll();
  });
}

// A keeper of an earlier or later release continues with its GPU fractions, whose protocol is the same, and ends as
// soon as it has none. The next keeper is of this release.
void NodeShares::OnWelcome(const wire::KeeperAnswer& answer) {
  keeper_version_ = answer.hello ? answer.hello->version : wire::kFirstKeeperVersion;
  had_keeper_ = true;
  if (keeper_version_ == wire::kKeeperVersion) return;
  ports_.note("event=keeper_version keeper=" + std::to_string(keeper_version_) +
              " divvy=" + std::to_string(wire::kKeeperVersion) + " what=\"" + std::string(kOtherKeeper) + "\"");
  wire::KeeperRequest leave;
  leave.leave = wire::KeeperLeave();
  keeper_.Ask(std::move(leave), Noting("event=keeper_stays"));
}

// Returns true if the keeper is, or may be, of another release. The next keeper is then asked, or the job waits for
// one.
bool NodeShares::AskSliceLater(JobId job, std::uint64_t number) {
  if (!holders_.at(job).record.gpu_slice.any() || keeper_version_ == wire::kKeeperVersion) return false;
  const bool may_end = keeper_version_ == 0 || state_.tenants.empty();
  if (may_end) GiveUp(job, number, kKeeperComesWithin, "not come back");
  else Fail(job, std::string(kOtherKeeper), kNoRoomMade);
  return true;
}

void NodeShares::TellAll() {
  // Whole GPUs first: they must not be used for shares. Jobs that still wait for room ask again as well.
  for (const bool are_tenants : {false, true}) {
    for (const auto& [job, holder] : holders_) {
      if (holder.is_tenant() != are_tenants || waiting_.contains(job) || !IsSeen(holder)) continue;
      if (holder.gpus.empty()) continue;  // The job is displaced, and the keeper has it in its list.
      // The job has its slice, and the keeper knows it.
      if (holder.record.gpu_slice.any() && keeper_version_ != wire::kKeeperVersion) continue;
      keeper_.Ask(RequestFor(holder), [this, job = job](const Result<wire::KeeperAnswer>& answer) {
        // A tenant may be refused because another is still registered on its GPU. It is sent once more, after that one
        // was updated.
        const auto refused = holders_.find(job);
        if (answer || answer.error().code == ErrorCode::kUnreachable || refused == holders_.end()) return;
        keeper_.Ask(RequestFor(refused->second), Noting("event=share_lost job=" + ToString(job)));
      });
    }
  }
  std::vector<JobId> asking;
  for (const auto& [job, waiting] : waiting_) asking.push_back(job);
  for (const JobId job : asking) {
    if (waiting_.contains(job)) Ask(job);
  }
  for (const auto& [job, holder] : holders_) {
    if (holder.command) AskToDisplace(job);
  }
  for (Action& action : std::exchange(postponed_, {})) Ask(std::move(action));
}

void NodeShares::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) return Begin(*launch, spec);
  if (const auto* displace = std::get_if<DisplaceCommand>(&command)) return OnDisplace(*displace);
  const JobId job = JobOf(command);
  if (const auto* portion = std::get_if<PortionCommand>(&command)) {
    const auto holder = holders_.find(job);
    if (holder == holders_.end() || holder->second.is_parkable) return;
    holder->second.record.request.portion = portion->portion;
    if (portion->gpus.size() == holder->second.gpus.size()) holder->second.gpus = portion->gpus;
    if (waiting_.contains(job)) return Ask(job);
    if (!IsSeen(holder->second)) return;
    return keeper_.Ask(ResizeOf(holder->second), Noting("event=resize_failed job=" + ToString(job)));
  }
  const auto waiting = waiting_.find(job);
  if (const auto holder = holders_.find(job); holder != holders_.end() && std::holds_alternative<StopCommand>(command))
    holder->second.is_ending = true;
  if (waiting == waiting_.end()) {
    if (const auto pausing = pausing_.find(job); pausing != pausing_.end()) {
      pausing->second.commands.push_back(command);
      // A job that is to end does not wait until its memory is moved away.
      return std::holds_alternative<StopCommand>(command) ? PassPausing(job, pausing->second.number) : void();
    }
    const auto* pause = std::get_if<PauseCommand>(&command);
    const auto holder = holders_.find(job);
    const bool is_tenant = holder != holders_.end() && holder->second.has_fraction();
    if (pause != nullptr && pause->is_paused && is_tenant) return ParkThenPause(command);
    return ports_.execute(command, std::move(spec));
  }
  if (std::holds_alternative<StopCommand>(command)) return Fail(job, "stopped before it started", 127);
  waiting->second.behind.push_back(command);
}

void NodeShares::ParkThenPause(const NodeCommand& command) {
  const JobId job = JobOf(command);
  const std::uint64_t number = next_number_++;
  pausing_.insert_or_assign(job, Pausing{{command}, number});
  wire::KeeperRequest request;
  request.park = wire::KeeperPark{job};
  keeper_.Ask(std::move(request), [this, job, number](const Result<wire::KeeperAnswer>& answer) {
    if (!answer && ports_.tell)
      ports_.tell("event=paused_on_gpu job=" + ToString(job) + " what=\"" + answer.error().message + "\"");
    PassPausing(job, number);
  });
  ports_.after(kParksWithin, [this, job, number] { PassPausing(job, number); });
}

void NodeShares::PassPausing(JobId job, std::uint64_t number) {
  const auto at = pausing_.find(job);
  if (at == pausing_.end() || at->second.number != number) return;
  const auto pausing = std::move(pausing_.extract(at).mapped());
  for (const NodeCommand& command : pausing.commands) ports_.execute(command, nullptr);
}

void NodeShares::Begin(const LaunchCommand& command, const std::shared_ptr<const JobSpec>& spec) {
  const JobRecord& record = command.record;
  const GpuSet gpus =
      command.allocation_index < record.gang.size() ? record.gang[command.allocation_index].gpus : record.gpus;
  if (gpus.empty() || spec == nullptr) return ports_.execute(command, spec);
  Holder holder{record.attempt, record, gpus, {}};
  holder.is_parkable = command.is_parkable && why_never_parks_.empty() && (gpus - SeenGpus()).empty();
  if (holder.is_tenant()) {
    const auto owner = ports_.owner_of(record.user);
    // The node finds the same error when it executes the command, and reports it.
    if (!owner) return ports_.execute(command, spec);
    holder.owner = *owner;
  }
  const bool is_tenant = holder.is_tenant();
  Release(record.id);  // For an earlier attempt whose end was not reported.
  holders_.insert_or_assign(record.id, std::move(holder));
  if (!is_tenant && !is_open_) return ports_.execute(command, spec);
  waiting_.insert_or_assign(record.id, Waiting{command, spec, {}, 0});
  const bool was_open = is_open_;
  Open();
  if (was_open) return Ask(record.id);
  // The request is sent when a keeper is connected (OnKeeper).
  GiveUp(record.id, waiting_.at(record.id).number = next_number_++, kKeeperComesWithin, "not come");
}

void NodeShares::GiveUp(JobId job, std::uint64_t number, Duration within, const std::string& what) {
  ports_.after(within, [this, job, number, within, what] {
    const auto at = waiting_.find(job);
    if (at == waiting_.end() || at->second.number != number) return;
    const auto wait = std::ranges::find(state_.waits, job, &wire::KeptWait::job);
    const bool is_there = what == kNotMadeRoom && wait != state_.waits.end();
    const std::string trouble = is_there ? wait->why : keeper_.Trouble();
    // No tenant can be on its GPUs.
    const bool has_no_keeper = keeper_version_ == 0 && !had_keeper_ && state_.tenants.empty();
    if (has_no_keeper && StartAsOrdinary(job, "no keeper of shared GPUs runs: " + trouble)) return Pass(job);
    Fail(job,
         "the keeper of the shared GPUs has " + what + " within " + std::to_string(within / std::chrono::seconds(1)) +
             " s" + (trouble.empty() ? "" : ": " + trouble),
         kMachineCannot);
  });
}

void NodeShares::Ask(JobId job) {
  const std::uint64_t number = waiting_.at(job).number = next_number_++;
  if (AskSliceLater(job, number)) return;
  // A keeper of an earlier release would take it for a job with GPU fractions.
  const bool is_other = holders_.at(job).is_parkable && keeper_version_ != wire::kKeeperVersion;
  // OnKeeper sends the request.
  if (is_other && keeper_version_ == 0) return GiveUp(job, number, kKeeperComesWithin, "not come back");
  if (is_other) StartAsOrdinary(job, "the keeper of the shared GPUs was started by another release of divvy");
  keeper_.Ask(RequestFor(holders_.at(job)),
              [this, job, number](const Result<wire::KeeperAnswer>& answer) { OnRoom(job, number, answer); });
  GiveUp(job, number, kMakesRoomWithin, std::string(kNotMadeRoom));
}

void NodeShares::OnRoom(JobId job, std::uint64_t number, const Result<wire::KeeperAnswer>& answer) {
  const auto at = waiting_.find(job);
  if (at == waiting_.end() || at->second.number != number) return;
  // The keeper is gone; when the next one is connected, OnKeeper sends the request to it.
  if (!answer && answer.error().code == ErrorCode::kUnreachable)
    return GiveUp(job, number, kKeeperComesWithin, "not come back");
  // If the driver cannot create an instance now, it cannot do so in a minute either.
  const bool is_slice = !at->second.command.record.request.slice.empty();
  if (!answer && StartAsOrdinary(job, answer.error().message)) return Ask(job);
  if (!answer) return Fail(job, answer.error().message, is_slice ? kCannotRun : kNoRoomMade);
  if (const auto& added = answer->added)
    ports_.set_grant(job, {added->gpus, added->reachable, added->folder, added->environment, added->device_files,
                           holders_.at(job).is_parkable});
  if (answer->room && answer->room->bound > Duration(0) && ports_.tell) {
    // Nothing is logged if no memory had to be moved to make the GPUs empty.
    const auto ms = [](Duration time) { return std::to_string(time / std::chrono::milliseconds(1)); };
    ports_.tell("event=made_room job=" + ToString(job) + " took_ms=" + ms(answer->room->took) +
                " bound_ms=" + ms(answer->room->bound));
  }
  Pass(job);
}

void NodeShares::Pass(JobId job) {
  auto waiting = std::move(waiting_.extract(job).mapped());
  ports_.execute(waiting.command, waiting.spec);
  for (const NodeCommand& command : waiting.behind) ports_.execute(command, nullptr);
}

void NodeShares::Fail(JobId job, const std::string& why, int code) {
  const auto waiting = std::move(waiting_.extract(job).mapped());
  Release(job);
  Exit exit;
  exit.code = code;
  exit.failure = why;
  controller_->OnExited(job, waiting.command.record.attempt, exit, controller_->Now());
}

void NodeShares::Release(JobId job) {
  const auto holder = holders_.extract(job);
  if (holder.empty() || !is_open_ || (!holder.mapped().is_tenant() && holder.mapped().gpus.empty())) return;
  wire::KeeperRequest request;
  if (holder.mapped().is_tenant()) request.remove = wire::KeeperRemove{job, holder.mapped().attempt};
  else request.give_whole = wire::KeeperReleaseExclusive{job};
  keeper_.Ask(std::move(request), [](const Result<wire::KeeperAnswer>&) {});
}

void NodeShares::OnOver(JobId job, std::uint32_t attempt) {
  const auto holder = holders_.find(job);
  if (holder == holders_.end() || holder->second.attempt != attempt || waiting_.contains(job)) return;
  Release(job);
}

void NodeShares::DropWaiting() {
  for (auto& [job, waiting] : std::exchange(waiting_, {})) Release(job);
}

void NodeShares::SetWithheld(Reasons withheld) {
  if (withheld == withheld_) return;
  withheld_ = std::move(withheld);
  TellGpus();
}

void NodeShares::SetBroken(Reasons broken) {
  if (broken == broken_) return;
  broken_ = std::move(broken);
  TellGpus();
}

void NodeShares::SetSeen(const std::vector<GpuObservation>& seen) {
  if (!is_open_) return;
  std::map<std::int64_t, wire::KeeperProcess> processes;  // By pid, because one process may be on several GPUs.
  for (const GpuObservation& gpu : seen) {
    for (const GpuProcess& process : gpu.processes) {
      const auto holder = holders_.find(JobId(process.job));
      if (holder == holders_.end() || !holder->second.is_tenant()) continue;
      const ProcessIdentity& known = process.identity;
      processes[known.pid] = {known.pid, known.start_ticks, holder->first, holder->second.attempt};
    }
  }
  wire::KeeperRequest request;
  request.processes.emplace();
  for (const auto& [pid, process] : processes) request.processes->processes.push_back(process);
  if (request.processes->processes == processes_) return;
  processes_ = request.processes->processes;
  // A keeper of another release may not know this request.
  keeper_.Ask(std::move(request), [this](const Result<wire::KeeperAnswer>& answer) {
    if (!answer && answer.error().code == ErrorCode::kUnreachable) processes_.clear();
  });
}

void NodeShares::TellGpus() {
  if (!is_open_) return;
  wire::KeeperRequest request;
  request.gpus = wire::KeeperGpusChanged{Hello().gpus};
  keeper_.Ask(std::move(request), [](const Result<wire::KeeperAnswer>&) {});
}

void NodeShares::Act(JobId job, const std::string& action, const std::vector<int>& to, Done done) {
  if (action != "park" && action != "wake" && action != "move" && action != "resize")
    return done(InvalidArgument("'" + action + "' is not an action for a GPU fraction"));
  Ask(Action{job, action, to, std::move(done), controller_->Now() + kKeeperComesWithin});
}

// If the keeper is lost meanwhile, the next one is asked: the actions are idempotent.
void NodeShares::Ask(Action action) {
  const auto holder = holders_.find(action.job);
  // The job has not been launched yet, and its launch will use the new size.
  if (waiting_.contains(action.job) && action.what == "resize") return action.done({});
  if (holder == holders_.end() || !holder->second.has_fraction() || waiting_.contains(action.job))
    return action.done(FailedPrecondition("job " + ToString(action.job) + " has no shared GPU on this node now"));
  if (action.what == "resize" && !IsSeen(holder->second))
    return action.done(FailedPrecondition("the driver does not report the GPUs of job " + ToString(action.job) +
                                          " here now; it will be resized when they are back"));
  wire::KeeperRequest request;
  if (action.what == "park") request.park = wire::KeeperPark{action.job};
  else if (action.what == "resize") request = ResizeOf(holder->second);
  else if (action.what == "wake") request.wake = wire::KeeperWake{action.job};
  else request.move = wire::KeeperMove{action.job, action.to};
  keeper_.Ask(std::move(request), [this, action = std::move(action)](const Result<wire::KeeperAnswer>& answer) mutable {
    const bool is_lost = !answer && answer.error().code == ErrorCode::kUnreachable;
    if (!is_lost) return action.done(answer ? Status() : answer.error());
    postponed_.push_back(std::move(action));
    ports_.after(kKeeperComesWithin, [this] { GiveUpPostponed(); });
  });
}

void NodeShares::GiveUpPostponed() {
  for (Action& action : std::exchange(postponed_, {})) {
    if (controller_->Now() < action.until) postponed_.push_back(std::move(action));
    else action.done(Unreachable("the keeper of the shared GPUs cannot be reached; the daemon's log says why"));
  }
}

void NodeShares::OnKept(const wire::KeeperState& state) {
  state_ = state;
  for (const ShareEvent& event : journal_.Follow(state, controller_->Now())) {
    if (ports_.tell) ports_.tell("event=share job=" + ToString(event.job) + " what=\"" + event.text + "\"");
  }
  TellTroubles(state);
  // Removes tenants whose runs ended while no keeper was connected.
  for (const wire::KeptTenant& tenant : state.tenants) {
    const auto holder = holders_.find(tenant.job);
    if (holder != holders_.end() && holder->second.attempt == tenant.attempt) {
      if (tenant.is_whole) FollowPresence(tenant);
      continue;
    }
    wire::KeeperRequest request;
    request.remove = wire::KeeperRemove{tenant.job, tenant.attempt};
    keeper_.Ask(std::move(request), [](const Result<wire::KeeperAnswer>&) {});
  }
  // A job with whole GPUs is shown like any other, whether or not it can be parked.
  wire::KeeperState shown = state_;
  std::erase_if(shown.tenants, [](const wire::KeptTenant& tenant) { return tenant.is_whole; });
  controller_->OnShares(shown);
}

void NodeShares::TellTroubles(const wire::KeeperState& state) {
  std::set<std::string> now;
  for (const std::string& trouble : state.troubles) now.insert("what=\"" + trouble + "\"");
  for (const wire::KeptGpu& gpu : state.gpus)
    now.insert("gpu=" + std::to_string(gpu.index) + " what=\"" + gpu.trouble + "\"");
  for (const wire::KeptTenant& tenant : state.tenants) {
    if (tenant.mechanism != wire::kByMig || tenant.trouble.empty()) continue;
    now.insert("job=" + ToString(tenant.job) + " what=\"" + tenant.trouble + "\"");
  }
  for (const std::string& trouble : now) {
    if (!troubles_.contains(trouble)) ports_.note("event=keeper_trouble " + trouble);
  }
  for (const std::string& trouble : troubles_) {
    if (!now.contains(trouble) && ports_.tell) ports_.tell("event=keeper_trouble_over " + trouble);
  }
  troubles_ = std::move(now);
}

void NodeShares::OnRequeue(const wire::KeeperRequeue& requeue) {
  if (ports_.tell) {
    ports_.tell("event=share_requeue job=" + ToString(requeue.job) + " owner=" + ToString(requeue.owner) +
                " bytes=" + std::to_string(requeue.bytes.count()));
  }
  controller_->OnRepay(requeue.job, requeue.attempt,
                       "job " + ToString(requeue.owner) + " needs " + std::to_string(requeue.bytes.count() >> 20) +
                           " MiB of its guaranteed memory, and no other way was left to free it");
}

}  // namespace divvy
