#include "simulate/controllers/modelled_agent.h"

#include <algorithm>
#include <variant>

namespace divvy::simulate {
namespace {

// The intervals of an agent that knows several controllers.
constexpr Duration kTickEvery = std::chrono::seconds(1);
constexpr Duration kBeatEvery = std::chrono::seconds(2);
constexpr Duration kAnswerWithin = std::chrono::seconds(2);
constexpr Duration kRedialAfter = std::chrono::milliseconds(300);

}  // namespace

ModelledAgent::ModelledAgent(std::string name, int gpus, std::size_t controllers, ChaosClock& clock, Random& random,
                             ChaosTrace& trace, ControllersChaosFigures& figures, ControllersMutation mutation,
                             Dial dial)
    : name_(std::move(name)),
      controllers_(controllers),
      clock_(clock),
      trace_(trace),
      figures_(figures),
      mutation_(mutation),
      dial_(std::move(dial)),
      machine_(gpus, clock, random, trace, figures.nodes),
      next_tick_(clock.true_time) {
  Begin();
}

void ModelledAgent::Begin() {
  machine_.DaemonStarted();
  believed_.clear();
  has_adopted_ = false;
  host_ = std::make_unique<ChaosHost>(*this, machine_, trace_, ChaosMutation::kNone);
}

void ModelledAgent::Restart() {
  trace_.Note("kill -9 of an agent");
  Lose();
  machine_.DaemonDied();
  // The newest epoch is on the node's disk.
  epochs_ = EpochGuard(mutation_ == ControllersMutation::kForgetsEpoch ? 0 : epochs_.newest());
  Begin();
  next_tick_ = clock_.true_time + kRedialAfter;
}

void ModelledAgent::Lose() {
  if (link_) link_->is_closed_by_agent = true;
  link_.reset();
  is_welcome_ = false;
}

void ModelledAgent::OnLost() {
  Lose();
  next_tick_ = std::min(next_tick_, clock_.true_time + kRedialAfter);
}

void ModelledAgent::Tick() {
  const Time now = clock_.true_time;
  next_tick_ = now + kTickEvery;
  host_->CheckSupervisors();
  if (!link_) {
    link_ = dial_(next_controller_);
    next_controller_ = (next_controller_ + 1) % controllers_;
    answered_at_ = beats_at_ = now;
    if (!link_) next_tick_ = now + kRedialAfter;
    if (link_) link_->up.emplace_back([link = link_, name = name_](LeaderEnd& life) { life.OnGreeting(name, link); });
    return;
  }
  // The controller has not answered for too long. It may have stopped while another one leads, so the agent gives up
  // the connection.
  if (now - answered_at_ > (is_welcome_ ? kBeatEvery + kAnswerWithin : kAnswerWithin)) return OnLost();
  if (!is_welcome_ || now - beats_at_ < kBeatEvery) return;
  beats_at_ = now;
  link_->up.emplace_back([link = link_](LeaderEnd& life) { life.OnBeat(link); });
}

void ModelledAgent::Send(std::function<void(LeaderEnd&)> message) {
  if (link_ && is_welcome_) link_->up.push_back(std::move(message));
}

void ModelledAgent::OnWelcome(ModelledWelcome welcome) {
  if (!epochs_.CheckWelcome(welcome.epoch)) {
    ++figures_.refused_welcomes;
    trace_.Note("an agent does not follow a controller of an earlier epoch", JobId(),
                static_cast<std::int64_t>(welcome.epoch));
    if (mutation_ != ControllersMutation::kAcceptsOldEpoch) return OnLost();
  }
  if (welcome.epoch < followed_) {
    trace_.Break("an agent follows a controller of epoch " + std::to_string(welcome.epoch) + " after one of epoch " +
                 std::to_string(followed_));
  }
  followed_ = welcome.epoch;
  epochs_.Follow(welcome.epoch);
  epochs_.BeginSession(welcome.epoch);
  is_welcome_ = true;
  OnBeatAnswer();
  trace_.Note("an agent begins a session of epoch", JobId(), static_cast<std::int64_t>(welcome.epoch));
  std::map<JobId, Believed> before = std::exchange(believed_, {});
  for (ModelledWelcome::Run& run : welcome.runs) {
    const JobId job = run.record.id;
    const auto known = before.find(job);
    const bool is_same = known != before.end() && known->second.record.attempt == run.record.attempt;
    auto spec = is_same ? known->second.spec : run.spec;
    believed_.insert_or_assign(job, Believed{std::move(run.record), std::move(spec)});
  }
  if (!std::exchange(has_adopted_, true)) host_->AdoptRuns(false);
  else if (mutation_ != ControllersMutation::kDropsReports) host_->Reconcile();
  Send([link = link_](LeaderEnd& life) { life.OnAdopted(link); });
}

void ModelledAgent::OnCommand(std::uint64_t epoch, const NodeCommand& command,
                              const std::shared_ptr<const JobSpec>& spec) {
  if (!epochs_.CheckCommand(epoch)) return OnLost();
  if (const auto* timed = std::get_if<TimeLimitCommand>(&command); timed != nullptr && Find(timed->job) == nullptr)
    return;
  Believe(command, spec);
  host_->Execute(command, spec);
}

void ModelledAgent::Believe(const NodeCommand& command, const std::shared_ptr<const JobSpec>& spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    believed_.insert_or_assign(launch->record.id, Believed{launch->record, spec});
  } else if (const auto* adopt = std::get_if<AdoptCommand>(&command)) {
    believed_.insert_or_assign(adopt->record.id, Believed{adopt->record, spec});
  } else if (const auto* stop = std::get_if<StopCommand>(&command)) {
    if (const auto at = believed_.find(stop->job); at != believed_.end())
      at->second.record.stop_intent = StopIntent::kCancel;
  } else if (const auto* forget = std::get_if<ForgetCommand>(&command)) {
    const auto at = believed_.find(forget->job);
    if (at != believed_.end() && at->second.record.attempt == forget->attempt) believed_.erase(at);
  }
}

void ModelledAgent::OnStarted(JobId job, std::uint32_t attempt, Time) {
  Send([link = link_, job, attempt](LeaderEnd& life) { life.OnStarted(link, job, attempt); });
}

void ModelledAgent::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time) {
  Send([link = link_, job, attempt, exit](LeaderEnd& life) { life.OnExited(link, job, attempt, exit); });
}

void ModelledAgent::OnVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  Send([link = link_, job, attempt, how](LeaderEnd& life) { life.OnVanished(link, job, attempt, how); });
}

bool ModelledAgent::OnFound(const RunDescription& run) {
  RunDescription found = run;
  found.record.node = name_;
  Send([link = link_, found = std::move(found)](LeaderEnd& life) { life.OnFound(link, found); });
  return true;
}

std::vector<JobId> ModelledAgent::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [job, believed] : believed_) {
    if (IsActive(believed.record.state)) active.push_back(job);
  }
  return active;
}

const JobRecord* ModelledAgent::Find(JobId job) const {
  const auto believed = believed_.find(job);
  return believed == believed_.end() ? nullptr : &believed->second.record;
}

Result<std::shared_ptr<const JobSpec>> ModelledAgent::SpecOf(const JobRecord& record) const {
  const auto believed = believed_.find(record.id);
  if (believed == believed_.end()) return NotFound("job " + ToString(record.id) + " is not known here");
  return believed->second.spec;
}

}  // namespace divvy::simulate
