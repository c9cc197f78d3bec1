// A controller with agent nodes, for tests.
#pragma once

#include <set>
#include <string>
#include <variant>

#include "control/controller/controller_test_world.h"

namespace divvy {

struct Machines : World {
  explicit Machines(int count, int gpus = 4, int own = 0) : World(own) {
    controller_.SetOwnName("head");
    for (int i = 1; i <= count; ++i) Come("n" + std::to_string(i), gpus);
    controller_.TakeEffects();
  }

  void Come(const std::string& name, int gpus) {
    controller_.OnNodeRow(MachineRow(name, gpus));
    controller_.OnNodeReconciled(name);
  }

  JobId SubmitGang(int nodes, int gpus, int retries = 0, Duration stale_grace = Duration(0)) {
    JobSpec spec;
    spec.command = {"train"};
    spec.name = "gang";
    spec.request.gpus = gpus;
    spec.retries = retries;
    spec.stale_grace = stale_grace;
    spec.request.nodes = spec.request.tasks = nodes;
    const auto result = controller_.Submit(std::move(spec), 0, ada_, now_, NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }

  const JobRecord& Of(JobId job) const { return controller_.live().at(job); }

  void Prepare(JobId job, const std::string& node) { controller_.OnPrepared(job, Of(job).attempt, node, 4711, now_); }
  void End(JobId job, const std::string& node, int code, const std::string& failure = "") {
    divvy::Exit exit;
    exit.code = code;
    exit.failure = failure;
    controller_.OnExited(job, Of(job).attempt, exit, now_, now_, node);
  }
  void StartGang(JobId job) {
    for (const NodeAllocation& allocation : AllocationsOf(Of(job))) Prepare(job, allocation.node);
    controller_.OnStarted(job, Of(job).attempt, now_, Of(job).node);
  }

  template <typename Kind>
  static std::set<std::string> Told(const Effects& effects, JobId job) {
    std::set<std::string> nodes;
    for (const NodeCommand& command : effects.commands) {
      if (std::holds_alternative<Kind>(command) && JobOf(command) == job) nodes.insert(NodeOf(command));
    }
    return nodes;
  }
};

/// Node names.
using Names = std::set<std::string>;

}  // namespace divvy
