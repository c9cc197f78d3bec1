// NodeShares with a fake keeper, controller and node.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/node/node_shares.h"

namespace divvy::node_shares_test {

using namespace std::chrono_literals;

struct FakeKeeper final : KeeperPort {
  struct Asked {
    wire::KeeperRequest request;
    Answered answered;
  };
  void Open() override { opens += 1; }
  void Ask(wire::KeeperRequest request, Answered answered) override {
    asked.push_back({std::move(request), std::move(answered)});
  }
  std::string Trouble() const override { return trouble; }
  Asked Next() {
    EXPECT_FALSE(asked.empty());
    Asked first = std::move(asked.front());
    asked.pop_front();
    return first;
  }
  /// Takes the next two requests, which must be a hello and a query for the tenants, and answers both.
  void AnswerHello(const wire::KeeperState& state = {}) {
    Asked hello = Next();
    EXPECT_TRUE(hello.request.hello);
    wire::KeeperAnswer welcome;
    welcome.hello.emplace().version = version;
    hello.answered(welcome);
    Asked who = Next();
    EXPECT_TRUE(who.request.state);
    wire::KeeperAnswer answer;
    answer.state = state;
    who.answered(answer);
  }

  int opens = 0;
  int version = wire::kKeeperVersion;
  std::string trouble;
  std::deque<Asked> asked;
};

struct FakeController final : ControllerPort {
  Time Now() const override { return Time(1h); }
  void OnPrepared(JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(JobId, std::uint32_t, Time) override {}
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time) override {
    ended.push_back({job, attempt, exit});
  }
  void OnVanished(JobId, std::uint32_t, RunVanished) override {}
  void OnGpusObserved(const std::vector<GpuObservation>&) override {}
  void OnPresence(const PresenceReport& report) override { presences.push_back(report); }
  void OnShares(const wire::KeeperState& state) override { shown = state; }
  void OnRepay(JobId job, std::uint32_t, const std::string& why) override { repaid = {job, why}; }
  std::vector<JobId> ActiveRuns() const override { return {}; }
  const JobRecord* Find(JobId) const override { return nullptr; }
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord&) const override { return NotFound(""); }

  struct Ended {
    JobId job;
    std::uint32_t attempt = 0;
    Exit exit;
  };
  std::vector<Ended> ended;
  std::vector<PresenceReport> presences;
  wire::KeeperState shown;
  std::pair<JobId, std::string> repaid;
};

class NodeSharesTest : public testing::Test {
 protected:
  NodeSharesTest() : shares_(Gpus(), keeper_, MakePorts()) { shares_.Join(controller_); }

  static std::vector<GpuFacts> Gpus() {
    std::vector<GpuFacts> gpus(4);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      gpus[i].index = static_cast<GpuIndex>(i);
      gpus[i].uuid = "GPU-" + std::to_string(i);
      gpus[i].model = i < 2 ? "H100" : "L4";
      gpus[i].memory_total = i < 2 ? 64_GiB : 16_GiB;
    }
    return gpus;
  }
  NodeShares::Ports MakePorts() {
    NodeShares::Ports ports;
    ports.execute = [this](const NodeCommand& command, std::shared_ptr<const JobSpec>) { passed_.push_back(command); };
    ports.set_grant = [this](JobId job, ShareGrant grant) { grants_[job] = std::move(grant); };
    ports.owner_of = [](const User& user) -> Result<User> {
      if (user.name == "nobody") return NotFound("this machine has no user nobody");
      return User{1000, 1000, user.name};
    };
    ports.note = [this](const std::string& line) { notes_.push_back(line); };
    ports.tell = [this](const std::string& line) { told_.push_back(line); };
    ports.after = [this](Duration, std::function<void()> task) { later_.push_back(std::move(task)); };
    return ports;
  }
  static LaunchCommand Launch(int job, std::vector<int> gpus, int parts = 0) {
    LaunchCommand command;
    command.record.id = JobId(static_cast<std::uint64_t>(job));
    command.record.attempt = 1;
    command.record.user = {1000, 1000, "ada"};
    command.record.gpus = GpuSet::Of(gpus);
    command.record.request.gpus = static_cast<int>(gpus.size());
    command.record.request.portion.request = GpuShare(parts);
    return command;
  }
  static LaunchCommand Slice(int job, int gpu) {
    LaunchCommand command = Launch(job, {gpu});
    command.record.request.slice = "1g.10gb";
    command.record.gpu_slice = {"1g.10gb", 1, 1, 0};
    return command;
  }
  void Execute(const NodeCommand& command) { shares_.Execute(command, std::make_shared<const JobSpec>()); }
  /// Launches the first tenant and grants its GPU.
  void StartTenant(int job, int gpu) {
    Execute(Launch(job, {gpu}, 5'000));
    if (keeper_.opens == 1 && keeper_.asked.empty()) {
      shares_.OnKeeper();
      keeper_.AnswerHello();
    }
    wire::KeeperAnswer answer;
    answer.added = wire::KeeperAdded{{gpu}, {}, GpuSet(), "", {"DIVVY_SHARE=/x"}};
    keeper_.Next().answered(answer);
  }

  FakeKeeper keeper_;
  FakeController controller_;
  std::vector<NodeCommand> passed_;
  std::map<JobId, ShareGrant> grants_;
  std::vector<std::string> notes_, told_;
  std::vector<std::function<void()>> later_;
  NodeShares shares_;
};

}  // namespace divvy::node_shares_test
