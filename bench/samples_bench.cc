// Measures the cost of samples: one reading of 8 and of 64 GPUs per second, a month of 64 GPUs on disk, and charts of
// it.
//
//   samples_bench look GPUS SECONDS    CPU time of the probe and of the MetricStore, with emulated GPUs
//   samples_bench month GPUS FOLDER    fills samples.db in FOLDER with a month of samples and queries charts
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>

#include "daemon/telemetry/metric_store.h"
#include "daemon/views/views_samples.h"
#include "platform/emulation/emulation.h"
#include "platform/gpu/use_probe.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

using samples::Metric;
using samples::Of;

double CpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// A MetricStore with the event loop that it posts to.
class Loop {
 public:
  explicit Loop(const std::string& path) {
    MetricStore::Options options;
    options.path = path;
    options.most = 8_GiB;
    MetricStore::Ports ports;
    ports.post = [this](std::function<void()> task) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(task));
      wake_.notify_one();
    };
    ports.note = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    store = std::make_unique<MetricStore>(std::move(options), std::move(ports));
  }
  ~Loop() { store.reset(); }
  /// Returns the size of the answer as JSON, in bytes.
  std::size_t Ask(MetricStore::Question question, samples::Second now) {
    std::size_t bytes = 0;
    bool is_answered = false;
    store->Ask(std::move(question), now, [&](Result<MetricStore::Answer> answer) -> std::function<void()> {
      return [&, size = wire::Encode(SeriesViewOf(*answer, true, true)).size()] {
        bytes = size;
        is_answered = true;
      };
    });
    while (!is_answered) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !posted_.empty(); });
        task = std::move(posted_.front());
        posted_.pop_front();
      }
      task();
    }
    return bytes;
  }
  std::unique_ptr<MetricStore> store;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> posted_;
};

int Look(int gpus, int seconds) {
  char name[] = "/tmp/divvy-samples-bench.XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto library = WriteEmulation(*ParseGpuDescription(std::to_string(gpus) + "xH100-80GB"), folder);
  if (!library) return 1;
  const auto probe = OpenUseProbe(true, *library, EmulatedWorldPath(folder));
  std::vector<UseTarget> targets;
  for (int i = 0; i < gpus; ++i) {
    UseTarget target;
    target.job = static_cast<std::uint64_t>(i + 1);
    target.gpus.Insert(static_cast<GpuIndex>(i));
    if (i == 0) target.roots = {::getpid()};
    targets.push_back(target);
  }
  Loop loop(folder + "/samples.db");
  double probing = 0;
  double storing = 0;
  for (int i = 0; i < seconds; ++i) {
    const double begin = CpuSeconds();
    const samples::Snapshot seen = probe->Look(1'790'000'000 + i, "n1", targets);
    const double middle = CpuSeconds();
    loop.store->Add(seen, seen.at);
    probing += middle - begin;
    storing += CpuSeconds() - middle;
  }
  std::printf("%d GPUs, each second: probe %.3f ms, book %.3f ms of CPU time: %.3f %% of a core\n", gpus,
              probing / seconds * 1e3, storing / seconds * 1e3, (probing + storing) / seconds * 100);
  std::filesystem::remove_all(folder);
  return 0;
}

/// A GPU that trains most of the time: every metric changes each second.
class Trainer {
 public:
  explicit Trainer(unsigned seed) : random_(seed) {}

  std::vector<samples::Reading> At(samples::Second at) {
    if (at >= until_) {
      until_ = at + 1800 + static_cast<samples::Second>(random_() % 40'000);
      is_busy_ = random_() % 5 != 0;
      memory_ = static_cast<double>(random_() % 80) * 1e9;
      level_ = 0.5 + 0.5 * unit_(random_);
    }
    const double use = is_busy_ ? std::clamp(level_ + 0.15 * normal_(random_), 0.0, 1.0) : 0;
    warmth_ += 0.05 * (35 + 40 * use - warmth_);
    const double traffic = is_busy_ ? 1 + 0.3 * normal_(random_) : 0;
    return {{Metric::kGpuUtilization, use},
            {Metric::kGpuMemoryUtilization, use * 0.6},
            {Metric::kGpuSmActivity, use * 0.8},
            {Metric::kGpuMemoryUsed, is_busy_ ? memory_ : 0},
            {Metric::kGpuPower, 70 + 600 * use + 5 * normal_(random_)},
            {Metric::kGpuTemperature, std::round(warmth_)},
            {Metric::kGpuSmClock, is_busy_ ? 1980e6 - 15e6 * std::floor(4 * unit_(random_)) : 345e6},
            {Metric::kGpuMemoryClock, 2619e6},
            {Metric::kGpuThrottle, use > 0.99 ? 4.0 : 0.0},
            {Metric::kGpuPcieReceived, std::max(traffic, 0.0) * 4e9},
            {Metric::kGpuPcieSent, std::max(traffic, 0.0) * 1e9},
            {Metric::kGpuNvlinkReceived, std::max(traffic, 0.0) * 80e9},
            {Metric::kGpuNvlinkSent, std::max(traffic, 0.0) * 80e9},
            {Metric::kGpuEccErrors, 0}};
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> unit_;
  samples::Second until_ = 0;
  bool is_busy_ = false;
  double memory_ = 0;
  double level_ = 1;
  double warmth_ = 35;
};

void Chart(Loop& loop, const char* what, MetricStore::Question question, samples::Second now) {
  double worst = 0;
  std::size_t bytes = 0;
  for (int i = 0; i < 5; ++i) {
    const double begin = Seconds();
    bytes = loop.Ask(question, now);
    worst = std::max(worst, Seconds() - begin);
  }
  std::printf("%-58s %7.1f ms at worst, %8.1f KB of JSON\n", what, worst * 1e3, static_cast<double>(bytes) / 1e3);
}

int Month(int gpus, const std::string& folder) {
  constexpr samples::Second kDay = 86'400;
  constexpr samples::Second kStart = 1'790'000'100;
  constexpr samples::Second kEnd = kStart + 31 * kDay;
  const std::string path = folder + "/samples.db";
  const double begin = CpuSeconds();
  {
    Loop loop(path);
    std::vector<Trainer> trainers;
    for (int i = 0; i < gpus; ++i) trainers.emplace_back(static_cast<unsigned>(i + 1));
    // The last day has every second, and is stored as ten-second points. Before it only every 15th second is added,
    // which is as hard to compress.
    for (samples::Second at = kStart; at < kEnd; at += at >= kEnd - kDay ? 1 : 15) {
      samples::Snapshot snapshot;
      snapshot.at = at;
      for (int i = 0; i < gpus; ++i)
        snapshot.samples.push_back(
            {{Of::kGpu, "n" + std::to_string(i / 8), i % 8, -1, 0}, trainers[static_cast<std::size_t>(i)].At(at)});
      loop.store->Add(snapshot, at);
    }
    loop.store->Close();
  }
  std::printf("a month of %d GPUs: %.0f MB on disk (filled in %.0f s of CPU time)\n", gpus,
              static_cast<double>(std::filesystem::file_size(path)) / 1e6, CpuSeconds() - begin);
  Loop loop(path);
  const auto ask = [&](const char* what, samples::Second span, std::vector<std::string> metrics, bool is_one) {
    MetricStore::Question question;
    question.metrics = std::move(metrics);
    question.range = {kEnd - span, kEnd, 400};
    if (is_one) question.node = "n3", question.gpu = 5;
    Chart(loop, what, question, kEnd);
  };
  ask("one GPU, all metrics, an hour", 3600, {}, true);
  ask("one GPU, all metrics, a day", kDay, {}, true);
  ask("one GPU, all metrics, a month", 31 * kDay, {}, true);
  ask("all GPUs, utilisation, an hour", 3600, {"gpu_utilization"}, false);
  ask("all GPUs, utilisation, a day", kDay, {"gpu_utilization"}, false);
  ask("all GPUs, utilisation, a week", 7 * kDay, {"gpu_utilization"}, false);
  ask("all GPUs, utilisation, a month", 31 * kDay, {"gpu_utilization"}, false);
  return 0;
}

}  // namespace
}  // namespace divvy

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "look" && count == 4) return divvy::Look(std::atoi(words[2]), std::atoi(words[3]));
  if (what == "month" && count == 4) return divvy::Month(std::atoi(words[2]), words[3]);
  std::fprintf(stderr, "usage: samples_bench look GPUS SECONDS | month GPUS FOLDER\n");
  return 64;
}
