// The fixture of tests of samples and waste: a node, a job that runs on it, and a metric store on disk.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/telemetry/metric_store.h"

namespace divvy {

inline NodeCapacity MachineOfH100s(int gpus) {
  NodeCapacity capacity;
  for (int i = 0; i < gpus; ++i) {
    GpuFacts& facts = capacity.gpus.emplace_back();
    facts.index = static_cast<GpuIndex>(i);
    facts.uuid = "GPU-" + std::to_string(i);
    facts.model = "NVIDIA H100 80GB HBM3";
    facts.memory_total = 80_GiB;
  }
  capacity.cpus = 64;
  capacity.memory = 256_GiB;
  return capacity;
}

/// Submits a job and makes it start.
inline JobId StartJob(Controller& controller, JobSpec spec, const Caller& caller, Time now) {
  spec.command = {"true"};
  const auto made = controller.Submit(std::move(spec), 0, caller, now, [](JobId) { return std::nullopt; });
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  controller.Decide(now);
  controller.TakeEffects();
  controller.OnStarted(made->id, controller.Find(made->id)->attempt, now);
  EXPECT_EQ(controller.Find(made->id)->state, JobState::kRunning);
  return made->id;
}

/// A metric store with its own file. Tasks that its thread posts run when the test asks for it.
class MetricStoreOnDisk : public testing::Test {
 protected:
  MetricStoreOnDisk() {
    std::string name = testing::TempDir() + "divvy-samples-test.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    OpenSamples();
  }
  ~MetricStoreOnDisk() override {
    samples_.reset();
    std::filesystem::remove_all(folder_);
  }

  /// Opens the store as a restarted daemon does: everything that is not on disk is lost.
  void OpenSamples() {
    samples_.reset();
    posted_.clear();
    MetricStore::Options options;
    options.path = folder_ + "/samples.db";
    options.most = 100_MiB;
    MetricStore::Ports ports;
    ports.post = [this](std::function<void()> task) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(task));
      wake_.notify_one();
    };
    ports.note = [this](const std::string& line) { notes_.push_back(line); };
    samples_ = std::make_unique<MetricStore>(std::move(options), std::move(ports));
  }
  /// Runs one task, as the loop would.
  void RunOnePosted() {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(wake_.wait_for(lock, std::chrono::seconds(30), [this] { return !posted_.empty(); }));
      task = std::move(posted_.front());
      posted_.pop_front();
    }
    task();
  }
  /// Calls `ask` with a callback, waits until the callback gets the answer, and returns it.
  template <typename Answer, typename Ask>
  Answer Await(const Ask& ask) {
    std::optional<Answer> answer;
    ask([&answer](Answer found) { answer = std::move(found); });
    while (!answer && !HasFatalFailure()) RunOnePosted();
    return answer ? *std::move(answer) : Answer();
  }

  std::string folder_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> posted_;
  std::vector<std::string> notes_;
  std::unique_ptr<MetricStore> samples_;
};

}  // namespace divvy
