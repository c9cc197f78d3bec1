// Measures the controller while many jobs wait: a submission, and a scheduling cycle in which one job ends and another
// starts. Everything is in memory; store_bench measures commits.
//
//   controller_bench [--waiting N] [--kinds N] [--nodes N] [--time-sharing on|off]
//
// --nodes: N nodes of 8 GPUs; each job has one GPU and no time limit. With time-sharing, all running
// jobs may be parked.
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "control/controller/controller.h"

namespace {

using namespace divvy;

// CPU time of this thread, so that other work on the machine does not count.
double Seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

JobSpec Spec(int number, int kinds, int max_gpus) {
  JobSpec spec;
  const int kind = number % kinds;
  spec.command = {"python", "train.py", "--seed", std::to_string(number)};
  spec.name = "train" + std::to_string(kind);
  spec.request.gpus = 1 + kind % max_gpus;
  if (max_gpus > 1) spec.time_limit = std::chrono::minutes(10 + kind);
  return spec;
}

void AddNodes(Controller& controller, int nodes, const std::vector<GpuFacts>& gpus) {
  for (int i = 0; i < nodes; ++i) {
    NodeRow row;
    row.name = row.fingerprint = "n" + std::to_string(i);
    row.facts.gpus = gpus;
    row.facts.cpus = 64;
    row.facts.memory = Bytes(std::int64_t{2048} << 30);
    controller.OnNodeRow(row);
    controller.OnNodeReconciled(row.name);
  }
}

/// Does at once what the nodes would do.
void Obey(Controller& controller, Time now) {
  for (const NodeCommand& command : controller.TakeEffects().commands) {
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
      const JobRecord& record = launch->record;
      controller.OnStarted(record.id, record.attempt, now, record.node);
      if (launch->is_parkable)
        controller.OnPresence({record.id, record.attempt, Presence::kHere, record.gpus, true, ""}, now, record.node);
    } else if (const auto* displace = std::get_if<DisplaceCommand>(&command)) {
      const Presence presence = displace->is_displaced ? Presence::kAway : Presence::kHere;
      controller.OnPresence({displace->job, displace->attempt, presence, displace->gpus, !displace->is_displaced, ""},
                            now, displace->node);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int waiting = 100'000;
  int kinds = 1;
  int nodes = 0;
  Policy policy;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--waiting") == 0) waiting = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--kinds") == 0) kinds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--nodes") == 0) nodes = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--time-sharing") == 0 && std::strcmp(argv[i + 1], "on") == 0)
      policy.time_sharing.mode = TimeSharingMode::kOn;
  }
  Controller controller(policy, Limits(), 1);
  NodeCapacity capacity;
  for (int i = 0; i < 8; ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.memory_total = Bytes(std::int64_t{80} << 30);
    capacity.gpus.push_back(facts);
  }
  capacity.cpus = 64;
  capacity.memory = Bytes(std::int64_t{2048} << 30);
  controller.SetCapacity(nodes == 0 ? capacity : NodeCapacity());
  AddNodes(controller, nodes, capacity.gpus);
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  const FindOutcome nothing = [](JobId) { return std::nullopt; };
  Time now(std::chrono::hours(500'000));

  const int batch = nodes == 0 ? 100 : waiting;
  double begun = Seconds();
  for (int i = 0; i < waiting; ++i) {
    static_cast<void>(controller.Submit(Spec(i, kinds, nodes == 0 ? 4 : 1), 0, ada, now, nothing));
    if (i % batch == batch - 1) {
      controller.Decide(now);
      Obey(controller, now);
    }
  }
  std::printf("submit, with a decision after each %-6d     %8.2f us a job\n", batch,
              (Seconds() - begun) * 1e6 / waiting);

  // The trials of the running jobs are over.
  now += std::chrono::hours(5);
  const int turns = nodes >= 100 ? 50 : 2'000;
  double deciding = 0;
  double submitting = 0;
  double ending = 0;
  for (int i = 0; i < turns; ++i) {
    now += std::chrono::seconds(1);
    const JobId job = controller.scheduler().running_jobs().begin()->first;
    const std::uint32_t attempt = controller.Find(job)->attempt;
    const std::string node = controller.Find(job)->node;
    begun = Seconds();
    controller.OnExited(job, attempt, Exit(), now, now, node);
    ending += Seconds() - begun;
    begun = Seconds();
    controller.Decide(now);
    deciding += Seconds() - begun;
    begun = Seconds();
    static_cast<void>(controller.Submit(Spec(i, kinds, nodes == 0 ? 4 : 1), 0, ada, now, nothing));
    submitting += Seconds() - begun;
    begun = Seconds();
    controller.Decide(now);
    deciding += Seconds() - begun;
    Obey(controller, now);
  }
  std::printf("one more submission                          %8.2f us\n", submitting * 1e6 / turns);
  std::printf("an end                                       %8.2f us\n", ending * 1e6 / turns);
  std::printf("a decision, half of them after an end        %8.2f us\n", deciding * 1e6 / (2 * turns));
  begun = Seconds();
  const auto order = QueueOrder(controller.scheduler(), now, 0);
  std::printf("the whole queue in order, %7zu jobs        %8.2f ms\n", order.size(), (Seconds() - begun) * 1e3);
  begun = Seconds();
  const core::Explanation why = Explain(controller.scheduler(), order.back(), now, controller.run_spread());
  std::printf("why of the last                              %8.2f ms\n", (Seconds() - begun) * 1e3);
  return why.is_waiting ? 0 : 1;
}
