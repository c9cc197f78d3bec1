#include "daemon/node_shares.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

// GPUs of one kind have the number of the first of them.
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
  hello.may_switch_mig = may_switch_mig_;
  for (const GpuFacts& gpu : gpus_) {
    hello.gpus.push_back({gpu.index, gpu.uuid, gpu.memory_total, PortionedMemory(gpu.memory_total),
                          withheld_.Contains(gpu.index), KindOf(gpus_, gpu)});
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
    request.take_whole = wire::KeeperTakeWhole{record.id, holder.gpus};
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
  if (record.gpu_slice.any()) add.slice = record.gpu_slice;
  else add.share = TermsOf(record.request.portion, gpus_.at(first).memory_total);
  add.idle_park = record.request.portion.idle_park;
  add.priority = record.priority;
  add.is_interactive = record.wants_pty;
  add.may_requeue = record.is_preemptible_set && record.preemptible == Preemptible::kRequeue;
  add.uses_mps = record.request.portion.uses_mps;
  request.add = std::move(add);
  return request;
}

void NodeShares::Adopt(const JobRecord& record, GpuSet gpus) {
  if (gpus.empty()) return;
  Holder holder{record.attempt, record, gpus, {}};
  if (const auto owner = ports_.owner_of(record.user)) holder.owner = *owner;
  const bool is_tenant = holder.is_tenant();
  holders_.insert_or_assign(record.id, std::move(holder));
  if (is_tenant) Open();
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
  keeper_.Ask(std::move(hello), Noting("event=keeper_refused"));
  // Who is gone goes first: an earlier attempt of a job would be in the way of its next.
  wire::KeeperRequest asked;
  asked.state = wire::KeeperStateAsked();
  keeper_.Ask(std::move(asked), [this](const Result<wire::KeeperAnswer>& answer) {
    if (!answer) return;  // Another one will come.
    if (answer->state) OnKept(*answer->state);
    TellAll();
  });
}

void NodeShares::TellAll() {
  // Whole ones first: they are not for anybody to be spread over. Those that still wait for room ask again as well.
  for (const bool are_tenants : {false, true}) {
    for (const auto& [job, holder] : holders_) {
      if (holder.is_tenant() != are_tenants || waiting_.contains(job)) continue;
      keeper_.Ask(RequestFor(holder), Noting("event=share_lost job=" + ToString(job)));
    }
  }
  for (const auto& [job, waiting] : waiting_) Ask(job);
  for (Action& action : std::exchange(postponed_, {})) Ask(std::move(action));
}

void NodeShares::Execute(const Order& order, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchOrder>(&order)) return Begin(*launch, spec);
  const JobId job = JobOf(order);
  if (const auto* portion = std::get_if<PortionOrder>(&order)) {
    const auto holder = holders_.find(job);
    if (holder == holders_.end()) return;
    holder->second.record.request.portion = portion->portion;
    if (waiting_.contains(job)) return Ask(job);
    wire::KeeperRequest request;
    const wire::KeeperRequest known = RequestFor(holder->second);
    request.resize = wire::KeeperResize{job, known.add->share};
    return keeper_.Ask(std::move(request), Noting("event=resize_failed job=" + ToString(job)));
  }
  const auto waiting = waiting_.find(job);
  if (waiting == waiting_.end()) return ports_.execute(order, std::move(spec));
  if (std::holds_alternative<StopOrder>(order)) return Fail(job, "stopped before it began", 127);
  waiting->second.behind.push_back(order);
}

void NodeShares::Begin(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec) {
  const JobRecord& record = order.record;
  const GpuSet gpus = order.seat < record.gang.size() ? record.gang[order.seat].gpus : record.gpus;
  if (gpus.empty() || spec == nullptr) return ports_.execute(order, spec);
  Holder holder{record.attempt, record, gpus, {}};
  if (holder.is_tenant()) {
    const auto owner = ports_.owner_of(record.user);
    // The node says what is wrong with it.
    if (!owner) return ports_.execute(order, spec);
    holder.owner = *owner;
  }
  const bool is_tenant = holder.is_tenant();
  Release(record.id);  // Of an attempt that nobody has said the end of.
  holders_.insert_or_assign(record.id, std::move(holder));
  if (!is_tenant && !is_open_) return ports_.execute(order, spec);
  waiting_.insert_or_assign(record.id, Waiting{order, spec, {}, 0});
  const bool was_open = is_open_;
  Open();
  if (was_open) Ask(record.id);  // Else OnKeeper does.
}

void NodeShares::Ask(JobId job) {
  const std::uint64_t number = waiting_.at(job).number = next_number_++;
  keeper_.Ask(RequestFor(holders_.at(job)),
              [this, job, number](const Result<wire::KeeperAnswer>& answer) { OnRoom(job, number, answer); });
  ports_.after(kMakesRoomWithin, [this, job, number] {
    OnRoom(job, number,
           FailedPrecondition("the keeper of the shared GPUs has not made room within " +
                              std::to_string(kMakesRoomWithin / std::chrono::seconds(1)) + " s"));
  });
}

void NodeShares::OnRoom(JobId job, std::uint64_t number, const Result<wire::KeeperAnswer>& answer) {
  const auto at = waiting_.find(job);
  if (at == waiting_.end() || at->second.number != number) return;
  if (!answer && answer.error().code == ErrorCode::kUnreachable) return;  // OnKeeper asks the next one.
  if (!answer) return Fail(job, answer.error().message, kMachineCannot);
  if (answer->added) {
    const wire::KeeperAdded& added = *answer->added;
    ports_.set_grant(job, {added.gpus, added.reachable, added.environment, added.device_files});
  }
  Pass(job);
}

void NodeShares::Pass(JobId job) {
  auto waiting = std::move(waiting_.extract(job).mapped());
  ports_.execute(waiting.order, waiting.spec);
  for (const Order& order : waiting.behind) ports_.execute(order, nullptr);
}

void NodeShares::Fail(JobId job, const std::string& why, int code) {
  const auto waiting = std::move(waiting_.extract(job).mapped());
  Release(job);
  Exit exit;
  exit.code = code;
  exit.failure = why;
  controller_->OnExited(job, waiting.order.record.attempt, exit, controller_->Now());
}

void NodeShares::Release(JobId job) {
  const auto holder = holders_.extract(job);
  if (holder.empty() || !is_open_) return;
  wire::KeeperRequest request;
  if (holder.mapped().is_tenant()) request.remove = wire::KeeperRemove{job, holder.mapped().attempt};
  else request.give_whole = wire::KeeperGiveWhole{job};
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

void NodeShares::SetWithheld(GpuSet withheld) {
  if (std::exchange(withheld_, withheld) == withheld || !is_open_) return;
  wire::KeeperRequest request;
  request.gpus = wire::KeeperGpusChanged{Hello().gpus};
  keeper_.Ask(std::move(request), [](const Result<wire::KeeperAnswer>&) {});
}

void NodeShares::Act(JobId job, const std::string& action, const std::vector<int>& to, Done done) {
  if (action != "park" && action != "wake" && action != "move")
    return done(InvalidArgument("'" + action + "' is nothing that can be done with a part of a GPU"));
  Ask(Action{job, action, to, std::move(done), controller_->Now() + kKeeperComesWithin});
}

// Where the keeper goes meanwhile the next one is asked: doing it twice is as doing it once.
void NodeShares::Ask(Action action) {
  const auto holder = holders_.find(action.job);
  if (holder == holders_.end() || !holder->second.is_tenant() || waiting_.contains(action.job))
    return action.done(FailedPrecondition("job " + ToString(action.job) + " is on no shared GPU of this machine now"));
  wire::KeeperRequest request;
  if (action.what == "park") request.park = wire::KeeperPark{action.job};
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
  // Whoever went while there was no keeper to be told so.
  for (const wire::KeptTenant& tenant : state.tenants) {
    const auto holder = holders_.find(tenant.job);
    if (holder != holders_.end() && holder->second.attempt == tenant.attempt) continue;
    wire::KeeperRequest request;
    request.remove = wire::KeeperRemove{tenant.job, tenant.attempt};
    keeper_.Ask(std::move(request), [](const Result<wire::KeeperAnswer>&) {});
  }
  controller_->OnShares(state_);
}

void NodeShares::OnRequeue(const wire::KeeperRequeue& requeue) {
  controller_->OnRepay(requeue.job, requeue.attempt,
                       "job " + ToString(requeue.owner) + " needs " + std::to_string(requeue.bytes.count() >> 20) +
                           " MiB that are its own, and nothing else was left to give them back");
}

}  // namespace divvy
