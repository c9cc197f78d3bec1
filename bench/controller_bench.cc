// Measures the controller while many jobs wait: a submission, and a scheduling cycle in which one job ends and another
// starts. Everything is in memory; store_bench measures commits.
//
//   controller_bench [--waiting N] [--kinds N]
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "control/controller/controller.h"

namespace {

using namespace divvy;

// CPU time of this thread, so that other work on the machine does not count.
double Seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

JobSpec Spec(int number, int kinds) {
  JobSpec spec;
  const int kind = number % kinds;
  spec.command = {"python", "train.py", "--seed", std::to_string(number)};
  spec.name = "train" + std::to_string(kind);
  spec.request.gpus = 1 + kind % 4;
  spec.time_limit = std::chrono::minutes(10 + kind);
  return spec;
}

}  // namespace

int main(int argc, char** argv) {
  int waiting = 100'000;
  int kinds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--waiting") == 0) waiting = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--kinds") == 0) kinds = std::atoi(argv[i + 1]);
  }
  Controller controller(Policy(), Limits(), 1);
  NodeCapacity capacity;
  for (int i = 0; i < 8; ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    capacity.gpus.push_back(facts);
  }
  capacity.cpus = 64;
  capacity.memory = Bytes(std::int64_t{512} << 30);
  controller.SetCapacity(capacity);
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  const FindOutcome nothing = [](JobId) { return std::nullopt; };
  Time now(std::chrono::hours(500'000));

  double begun = Seconds();
  for (int i = 0; i < waiting; ++i) {
    static_cast<void>(controller.Submit(Spec(i, kinds), 0, ada, now, nothing));
    if (i % 100 == 99) {
      controller.Decide(now);
      static_cast<void>(controller.TakeEffects());
    }
  }
  std::printf("submit, with a decision after each hundred   %8.2f us a job\n", (Seconds() - begun) * 1e6 / waiting);

  constexpr int kTurns = 2'000;
  double deciding = 0;
  double submitting = 0;
  double ending = 0;
  for (int i = 0; i < kTurns; ++i) {
    now += std::chrono::seconds(1);
    const JobId job = controller.scheduler().running_jobs().begin()->first;
    const std::uint32_t attempt = controller.Find(job)->attempt;
    begun = Seconds();
    controller.OnExited(job, attempt, Exit(), now, now);
    ending += Seconds() - begun;
    begun = Seconds();
    controller.Decide(now);
    deciding += Seconds() - begun;
    begun = Seconds();
    static_cast<void>(controller.Submit(Spec(i, kinds), 0, ada, now, nothing));
    submitting += Seconds() - begun;
    begun = Seconds();
    controller.Decide(now);
    deciding += Seconds() - begun;
    static_cast<void>(controller.TakeEffects());
  }
  std::printf("one more submission                          %8.2f us\n", submitting * 1e6 / kTurns);
  std::printf("an end                                       %8.2f us\n", ending * 1e6 / kTurns);
  std::printf("a decision, half of them after an end        %8.2f us\n", deciding * 1e6 / (2 * kTurns));
  begun = Seconds();
  const auto order = QueueOrder(controller.scheduler(), now, 0);
  std::printf("the whole queue in order, %7zu jobs        %8.2f ms\n", order.size(), (Seconds() - begun) * 1e3);
  begun = Seconds();
  const core::Explanation why = Explain(controller.scheduler(), order.back(), now, controller.run_spread());
  std::printf("why of the last                              %8.2f ms\n", (Seconds() - begun) * 1e3);
  return why.is_waiting ? 0 : 1;
}
