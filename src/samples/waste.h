// Watches whether one job wastes its GPUs and what it should request instead. It receives periodic observations and
// returns findings. Memory is bounded, however long the job runs.
//
// The rules resemble those of GPU cluster monitors (docs/reports.md, "Waste"): after a grace period, 0% on all GPUs for
// half an hour, a mean below a quarter over an hour, or a memory peak below a quarter of the GPU's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/waste_rules.h"
#include "samples/sample.h"
#include "samples/waste_flags.h"

namespace divvy::samples {

enum class WasteKind : std::uint8_t {
  kIdle,         // 0% on all its GPUs.
  kSomeIdle,     // 0% on some of its GPUs.
  kCpuBound,     // All cores that it may use are busy, but its GPUs are not.
  kUnderused,    // Low mean use.
  kSmallMemory,  // Low peak of GPU memory.
};
std::string_view Name(WasteKind kind);  // "idle", "some_idle", "cpu_bound", "underused", "small_memory"

/// One finding about a job.
struct Waste {
  WasteKind kind = WasteKind::kIdle;
  Second since = 0;
  double gpus = 0;    // GPUs that others could use, including fractions.
  std::string text;   // E.g. "uses 1 of its 4 GPUs; the others are at 0%".
  std::string flags;  // Suggested options, e.g. "--gpus 0.25". Empty: it needs no GPU, or no option helps.
  bool ends = false;  // The job needs none of its GPUs and should release them.
};

class WasteWatch {
 public:
  struct Gpu {
    std::optional<double> use;     // 0..1 of the whole GPU; std::nullopt: unknown.
    std::optional<double> memory;  // In bytes.
  };
  /// One observation. `gpus`: each of the job's GPUs, always in the same order, or one entry with the mean of all.
  struct Look {
    Second at = 0;
    std::vector<Gpu> gpus;
    std::optional<double> cpus;  // CPU cores in use per node.
    /// Busy fraction (0..1) of its node's cores, whoever uses them. With several nodes, the lowest.
    std::optional<double> machine_cpus = std::nullopt;
  };

  WasteWatch() = default;
  WasteWatch(const WasteShape& shape, Second started) : shape_(shape), started_(started) {}

  const WasteShape& shape() const { return shape_; }
  /// The job has new resources: use is observed from scratch, losses so far are kept.
  void Reshape(const WasteShape& shape);
  /// Adds an observation; call this in order of time. A gap of more than two minutes counts as unknown.
  void Add(const Look& look, const WasteRules& rules);
  /// Stored data of a run that began before it was observed.
  struct Past {
    double gpu_hours = 0;  // As in the accessors below, until now.
    double lost_gpu_hours = 0;
    double idle_gpu_hours = 0;
    double memory_peak = 0;  // On one GPU, in bytes.
    Second idle_for = 0;     // How long all its GPUs have been at 0% until now, in seconds.
    /// Since when each GPU has been at 0% according to stored data, in the order of the observations; 0: busy.
    std::vector<Second> idle_since;
  };
  /// Call this after the stored observations were added. Hours, and anything older than these observations, are taken
  /// from `past`.
  void Resume(const Past& past);
  /// Returns true if an empty list of findings means that the job wastes nothing. For that, the job must have been
  /// observed for the longest duration of these rules. With `only_idle`, only the rules about idle GPUs count, and it
  /// is also enough that all GPUs were seen busy. Stored data does not count, since its last minute may be lost.
  bool KnowsEnough(const WasteRules& rules, bool only_idle) const;
  /// Returns the findings as of the last observation, worst first.
  std::vector<Waste> Findings(const WasteRules& rules) const;

  // GPU-hours with known use since the first observation, or since the start of the run after Resume. Fractions count
  // as fractions.
  double gpu_hours() const { return gpu_hours_; }
  double lost_gpu_hours() const { return lost_gpu_hours_; }  // Weighted by (1 - use).
  double idle_gpu_hours() const { return idle_gpu_hours_; }  // At exactly 0%.

 private:
  static constexpr std::size_t kBuckets = 60;
  struct Bucket {
    Second number = -1;  // Start time in bucket lengths since 1970.
    float use = 0;       // Integral of the mean use of its GPUs, relative to its fraction.
    float seconds = 0;
    float cpus = 0;  // Integral over the seconds.
    float cpu_seconds = 0;
    float machine_cpus = 0;  // Integral over the seconds.
    float machine_seconds = 0;
  };
  struct Streak {
    Second zero_since = 0;  // 0: busy.
    Second known_at = 0;
  };
  struct Means {
    double use = 0;
    std::optional<double> cpus;
    std::optional<double> machine_cpus;
    Second since = 0;
  };
  bool IsIdle(const Streak& streak, const WasteRules& rules) const;
  void AddToBucket(const Look& look, double use, double seconds, const WasteRules& rules);
  /// Returns std::nullopt if too little of the window is known.
  std::optional<Means> MeansOf(const WasteRules& rules) const;
  std::optional<Waste> Idle(const WasteRules& rules) const;
  std::optional<Waste> SomeIdle(const WasteRules& rules) const;
  std::optional<Waste> CpuBound(const Means& means) const;
  std::optional<Waste> BoundByOwnCores(const Means& means) const;
  std::optional<Waste> BoundByMachine(const Means& means) const;
  std::optional<Waste> Underused(const Means& means, const WasteRules& rules) const;
  std::optional<Waste> SmallMemory(const Means& means, const WasteRules& rules) const;

  WasteShape shape_;
  Second started_ = 0;
  Second first_ = 0;       // The first observation; 0: none.
  Second resumed_at_ = 0;  // The last stored observation; 0: none.
  Second seen_since_ = 0;  // The first observation after the stored ones, or the very first.
  Second newest_ = 0;
  std::vector<Streak> streaks_;
  std::array<Bucket, kBuckets> buckets_;
  double memory_peak_ = 0;  // On one GPU.
  double gpu_hours_ = 0;
  double lost_gpu_hours_ = 0;
  double idle_gpu_hours_ = 0;
};

}  // namespace divvy::samples
