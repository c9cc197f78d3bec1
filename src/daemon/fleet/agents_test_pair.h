// A controller's endpoint and an agent process, which a test starts, kills and disconnects at will.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/fleet/agents_test_world.h"

namespace divvy {

/// An agent process on a machine. Imitates the runs of Node in a few lines.
class AgentProcess final : public NodeCommandPort {
 public:
  AgentProcess(Machine& machine, std::string name, Duration& now, Duration skew, std::function<void()> dial)
      : machine_(machine), now_(now), timers_(now) {
    AgentSession::Start start;
    start.name = std::move(name);
    start.session = "s" + std::to_string(++processes_);
    start.newest_epoch = machine.epoch;
    start.seed = 7;
    start.failure_hold = machine.failure_hold;
    start.facts.boot_id = machine.boot;
    for (const std::string& uuid : machine.gpus) {
      GpuFacts gpu;
      gpu.index = static_cast<GpuIndex>(start.facts.gpus.size());
      gpu.uuid = uuid;
      start.facts.gpus.push_back(gpu);
    }
    if (machine.lease) start.lease = Lease::FromText(*machine.lease, machine.boot);
    AgentSession::Ports ports;
    ports.now = [this, skew] { return Time(std::chrono::hours(500'000)) + now_ + skew; };
    ports.since_boot = [this] { return now_; };
    ports.after = [this](Duration delay, std::function<void()> task) { timers_.After(delay, std::move(task)); };
    ports.log = [this](const std::string& line) { log.push_back(line); };
    ports.dial = std::move(dial);
    ports.node = this;
    ports.set_gang_key = [this](JobId, std::uint32_t, std::string key) { gang_key_ = std::move(key); };
    ports.adopt_runs = [this](bool was_rebooted) -> Status {
      if (was_rebooted) machine_.runs.clear();
      Account(was_rebooted ? RunVanished::kRebooted : RunVanished::kNeverStarted);
      return {};
    };
    ports.reconcile = [this] { Account(RunVanished::kNeverStarted); };
    ports.learn_right = [this](const User&, const std::string& right) { rights.push_back(right); };
    ports.look = [this](GpuSet which) {
      session->OnGpusObserved(std::vector<GpuObservation>(which.ToVector().size()));
    };
    ports.withhold = [this](const std::vector<wire::WithheldGpu>& gpus) { withheld = gpus; };
    ports.answer = [this](const wire::AgentQuestion& question, AgentSession::Ports::Told told) {
      questions.push_back({question, std::move(told)});
    };
    ports.on_channel = [this](std::uint64_t number, std::string_view purpose) {
      if (on_channel) on_channel(number, purpose);
    };
    ports.stop_all = [this] {
      for (auto& [job, run] : machine_.runs) End(job, 143);
    };
    ports.keep_epoch = [this](std::uint64_t epoch) { machine_.epoch = epoch; };
    ports.keep_lease = [this](const Lease& lease) { machine_.lease = lease.ToText(machine_.boot); };
    ports.keep_controllers = [this](const std::vector<std::string>& addresses) { machine_.controllers = addresses; };
    ports.on_refused = [this](const Error& error, bool) { refused = error.message; };
    ports.on_renewed = [this](const std::string& fingerprint) { machine_.fingerprint = fingerprint; };
    session = std::make_unique<AgentSession>(std::move(start), std::move(ports));
    session->Begin();
  }

  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override {
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
      EXPECT_EQ(spec->command, std::vector<std::string>{"true"});
      EXPECT_FALSE(machine_.runs.contains(launch->record.id)) << "a job runs twice";
      const bool is_part = !launch->record.gang.empty();
      machine_.runs[launch->record.id] = {launch->record.attempt, {}, is_part};
      machine_.commands.push_back("launch " + ToString(launch->record.id) + AllocationText(*launch));
      Say(launch->record.id);
    } else if (const auto* go = std::get_if<GoCommand>(&command)) {
      machine_.commands.push_back("go " + ToString(go->job));
      for (const AllocationAddress& at : go->addresses)
        machine_.commands.back() += " " + at.host + ":" + std::to_string(at.port);
      const auto run = machine_.runs.find(go->job);
      if (run == machine_.runs.end() || run->second.attempt != go->attempt) return;
      run->second.awaits_go = false;
      Say(go->job);
    } else if (const auto* stop = std::get_if<StopCommand>(&command)) {
      machine_.commands.push_back("stop " + ToString(stop->job));
      End(stop->job, 143);
    } else if (const auto* limit = std::get_if<TimeLimitCommand>(&command)) {
      machine_.commands.push_back("limit " + ToString(limit->job) + " " +
                                  std::to_string(session->Find(limit->job)->time_limit / 1s));
    } else if (const auto* forget = std::get_if<ForgetCommand>(&command)) {
      const auto run = machine_.runs.find(forget->job);
      if (run != machine_.runs.end() && run->second.attempt == forget->attempt) machine_.runs.erase(run);
    }
  }
  void End(JobId job, int code) {
    auto run = machine_.runs.find(job);
    if (run == machine_.runs.end() || run->second.exit) return;
    run->second.exit = Exit();
    run->second.exit->code = code;
    session->OnExited(job, run->second.attempt, *run->second.exit, session->Now());
  }
  /// Reports the run's progress.
  void Say(JobId job) {
    const Machine::Run& run = machine_.runs.at(job);
    if (run.awaits_go) session->OnPrepared(job, run.attempt, 40001);
    else session->OnStarted(job, run.attempt, session->Now());
  }
  bool Tick() {
    session->Tick();
    return timers_.RunDue();
  }

  struct Asked {
    wire::AgentQuestion question;
    AgentSession::Ports::Told told;
  };
  Channels::OnOpen on_channel;
  std::vector<wire::WithheldGpu> withheld;
  std::vector<Asked> questions;  // In order of arrival.
  std::unique_ptr<AgentSession> session;
  std::string refused;
  std::vector<std::string> log;
  std::vector<std::string> rights;  // In order of arrival.

 private:
  void Account(RunVanished how) {
    auto active = session->ActiveRuns();
    for (const JobId job : active) {
      const JobRecord record = *session->Find(job);
      const auto run = machine_.runs.find(job);
      if (run == machine_.runs.end() || run->second.attempt != record.attempt)
        session->OnVanished(job, record.attempt, how);
      else if (!run->second.exit) Say(job);
    }
    for (auto& [job, run] : std::map(machine_.runs)) {
      if (run.exit) session->OnExited(job, run.attempt, *run.exit, session->Now());
      else if (std::ranges::find(active, job) == active.end()) End(job, 137);
    }
  }
  /// " 1 of n1,ctl by KEY": the node allocation's number, the gang's nodes, the key.
  std::string AllocationText(const LaunchCommand& launch) const {
    std::string names;
    for (const NodeAllocation& allocation : launch.record.gang) names += (names.empty() ? "" : ",") + allocation.node;
    return names.empty() ? "" : " " + std::to_string(launch.allocation_index) + " of " + names + " by " + gang_key_;
  }
  static inline int processes_ = 0;
  std::string gang_key_;
  Machine& machine_;
  Duration& now_;
  Timers timers_;
};

class AgentsWorld : public testing::Test {
 protected:
  AgentsWorld() { StartController(); }

  void StartController() {
    controller_timers_ = std::make_unique<Timers>(now_);
    Agents::Ports ports;
    ports.now = [this] { return Time(std::chrono::hours(500'000)) + now_; };
    ports.keep = [this](NodeRegistry::Setting setting) { kept_[setting.first] = setting.second; };
    ports.after_commit = [this](std::function<void()> task) { controller_timers_->After(0s, std::move(task)); };
    ports.after = [this](Duration delay, std::function<void()> task) {
      controller_timers_->After(delay, std::move(task));
    };
    ports.log = [this](const std::string& line) { log_.push_back(line); };
    ports.gang_key = [](JobId job, std::uint32_t attempt) {
      return "key" + ToString(job) + "." + std::to_string(attempt);
    };
    ports.on_channel = [this](RemoteNode& node, std::uint64_t number, std::string_view purpose) {
      if (on_channel_) on_channel_(node, number, purpose);
    };
    ports.on_samples = [this](const std::vector<samples::Snapshot>& seen) {
      samples_.insert(samples_.end(), seen.begin(), seen.end());
    };
    ports.right_of = [](const User& user) { return user.uid == 7 ? "right" : ""; };
    ports.may_act = [this] { return may_act_; };
    ports.controllers = [this] { return controllers_; };
    ports.before_foreground = [this](RemoteNode& node, JobId job) {
      if (before_foreground_) before_foreground_(node, job);
    };
    ports.admit = [this](std::string_view header) -> Result<std::string> {
      if (header == "Bearer good" && uses_ > 0) return std::string("t1");
      return PermissionDenied("no good token");
    };
    ports.spend = [this](std::string_view) -> Result<NodeRegistry::Setting> {
      if (uses_-- <= 0) return PermissionDenied("used up");
      return NodeRegistry::Setting{"token.t1", ""};
    };
    registry_ = std::make_unique<NodeRegistry>();
    for (const auto& [key, text] : kept_) registry_->LoadSetting(key, text);
    agents_ = std::make_unique<Agents>(*registry_, ++epoch_, terms_, fleet_, std::move(ports));
    fleet_.ports.clear();
    for (const auto& [name, records] : fleet_.active) {
      for (const auto& [job, record] : records) agents_->Of(name).Knows(job, record.attempt);
      fleet_.ports[name] = &agents_->Of(name);
    }
    agents_->Start();
  }
  void KillController() {
    agents_.reset();
    controller_timers_.reset();
    wire_.CutAll();
  }
  AgentProcess& StartAgent(const std::string& name = "n1", const std::string& token = "good") {
    agent_ = std::make_unique<AgentProcess>(machine_, name, now_, skew_, [this, token] { Dial(token); });
    return *agent_;
  }
  void KillAgent() {
    agent_.reset();
    wire_.CutAll();
  }
  /// Connects as the HTTP server and TLS would.
  void Dial(const std::string& token) {
    if (!agents_ || is_partitioned_) return agent_->session->OnDialFailed(Unreachable("nobody there"), false);
    auto [theirs, ours] = wire_.MakePair();
    const auto let_in =
        agents_->LetKnock("10.0.0.9", machine_.fingerprint, token.empty() ? "" : "Bearer " + token, std::move(theirs));
    if (!let_in) return agent_->session->OnDialFailed(let_in.error(), true);
    agent_->session->OnDialled(std::move(ours));
  }
  void Settle() {
    bool has_moved = true;
    for (int i = 0; i < 1000 && has_moved; ++i) {
      has_moved = wire_.Carry();
      if (agents_) has_moved |= controller_timers_->RunDue();
      if (agent_) has_moved |= agent_->Tick();
    }
    EXPECT_FALSE(has_moved);
  }
  void Pass(Duration span) {
    for (const Duration end = now_ + span; now_ < end;) {
      now_ += 100ms;
      Settle();
    }
  }
  void Launch(int id, std::uint32_t attempt = 1, bool is_foreground = false) {
    JobRecord record;
    record.id = JobId(static_cast<std::uint64_t>(id));
    record.attempt = attempt;
    record.state = JobState::kStarting;
    record.node = "n1";
    record.is_foreground = is_foreground;
    record.user.uid = user_;
    fleet_.active["n1"][record.id] = record;
    auto spec = std::make_shared<JobSpec>();
    spec->command = {"true"};
    fleet_.ports["n1"]->Execute(LaunchCommand{record}, spec);
  }
  /// Launches node allocation 1 of a gang on this node and the controller's own node.
  void LaunchPart(int id) {
    JobRecord record;
    record.id = JobId(static_cast<std::uint64_t>(id));
    record.attempt = 1;
    record.state = JobState::kStarting;
    record.gang.resize(2);
    record.gang[1].node = "n1";
    fleet_.active["n1"][record.id] = record;
    auto spec = std::make_shared<JobSpec>();
    spec->command = {"true"};
    fleet_.ports["n1"]->Execute(LaunchCommand{record, "n1", 1}, spec);
  }
  static JobId Job(int id) { return JobId(static_cast<std::uint64_t>(id)); }

  std::function<void(RemoteNode&, std::uint64_t, std::string_view)> on_channel_;
  std::function<void(RemoteNode&, JobId)> before_foreground_;
  std::int64_t user_ = -1;  // The user of the next jobs.
  Duration now_ = 100s;
  Duration skew_{0};
  Agents::Terms terms_;
  int uses_ = 1;
  bool is_partitioned_ = false;
  bool may_act_ = true;                   // The controller has its lease.
  std::vector<std::string> controllers_;  // The addresses of all controllers.
  std::uint64_t epoch_ = 0;
  Wire wire_;
  std::map<std::string, std::string> kept_;
  RecordingFleet fleet_;
  std::unique_ptr<NodeRegistry> registry_;
  std::unique_ptr<Timers> controller_timers_;
  std::unique_ptr<Agents> agents_;
  Machine machine_;
  std::unique_ptr<AgentProcess> agent_;
  std::vector<std::string> log_;
  std::vector<samples::Snapshot> samples_;  // Samples received from nodes.
};

}  // namespace divvy
