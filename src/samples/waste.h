// Whether one job wastes its GPUs, and what it should ask for in place of them: shown what it uses now and then, it
// says what is wrong. Bounded memory, however long the job runs.
//
// Rules as monitors of GPU clusters have them (docs/reports.md, "Waste"): a grace after the start, 0% on all GPUs for
// half an hour, a mean below a quarter over an hour, a peak of memory below a quarter of the GPU's.
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

namespace divvy::samples {

enum class WasteKind : std::uint8_t {
  kIdle,         // 0% on all its GPUs.
  kSomeIdle,     // 0% on some of them.
  kCpuBound,     // The cores that it may use are all busy, and its GPUs are not.
  kUnderused,    // A low mean.
  kSmallMemory,  // A small peak of GPU memory.
};
std::string_view Name(WasteKind kind);  // "idle", "some_idle", "cpu_bound", "underused", "small_memory"

/// What is wrong with a job.
struct Waste {
  WasteKind kind = WasteKind::kIdle;
  Second since = 0;
  double gpus = 0;    // What others could have: whole GPUs, and parts of them.
  std::string text;   // "uses 1 of its 4 GPUs; the others are at 0%".
  std::string flags;  // That it should have instead: "--gpus 0.25". Empty: it needs no GPU, or none helps.
  bool ends = false;  // There is nothing to keep: it should give them back.
};

class WasteWatch {
 public:
  /// What the job has.
  struct Shape {
    int gpus = 0;               // On all its machines.
    double part = 1;            // Of each of them.
    Bytes gpu_memory;           // Of a whole one; 0: not known.
    bool is_on_one = true;      // Machine; then --gpus says how many it has in all.
    int cpus = 0;               // Cores that it asked for on each machine; 0: it named none.
    int cpus_most = 0;          // That it could ask for; 0: not known.
    double cpus_fair = 0;       // Of its machine's, as many as it has of its GPUs; 0: not known.
    bool may_share = false;     // It may be given parts of GPUs.
    bool may_slice = false;     // Its GPU could be cut into MIG instances.
    bool is_by_memory = false;  // Its parts were asked for by memory.

    friend bool operator==(const Shape&, const Shape&) = default;
  };
  struct Gpu {
    std::optional<double> use;     // 0..1 of the whole GPU; nothing: not known.
    std::optional<double> memory;  // Bytes.
  };
  /// One look. `gpus`: each of its GPUs, always in the same order; or one for all, with the mean of both.
  struct Look {
    Second at = 0;
    std::vector<Gpu> gpus;
    std::optional<double> cpus;  // Cores' worth of CPU time, on each machine.
    /// Of all cores of its machines the part that is busy, whoever keeps them so, 0..1; of several machines' the least.
    std::optional<double> machine_cpus = std::nullopt;
  };

  WasteWatch() = default;
  WasteWatch(const Shape& shape, Second started) : shape_(shape), started_(started) {}

  const Shape& shape() const { return shape_; }
  /// It has other GPUs now: what it uses of them is looked at anew; what was lost stays lost.
  void Reshape(const Shape& shape);
  /// In order of time, two minutes apart at most: of what lies between two that are further apart nothing is known.
  void Add(const Look& look, const WasteRules& rules);
  /// What is kept of a run that began before it was looked at.
  struct Past {
    double gpu_hours = 0;  // As below, up to now.
    double lost_gpu_hours = 0;
    double idle_gpu_hours = 0;
    double memory_peak = 0;  // Of one GPU, bytes.
    Second idle_for = 0;     // All of its GPUs were at 0% for so long, up to now.
    /// Each of its GPUs has been at 0% since then, as far as was kept; 0: it was at work. In the order of looks.
    std::vector<Second> idle_since;
  };
  /// After the looks that are known of it were added: hours and what is older than these looks are as they were.
  void Resume(const Past& past);
  /// What is not found is not there: it was watched for as long as the longest of these rules takes (`only_idle`: those
  /// of idle GPUs), or was seen at work where that is enough. What was kept is no proof: its last minute may be lost.
  bool KnowsEnough(const WasteRules& rules, bool only_idle) const;
  /// As of the last look, the worst first.
  std::vector<Waste> Findings(const WasteRules& rules) const;

  // GPU-hours since it was first looked at, or as Resume says since its start, as far as its use was known. Parts
  // count as parts.
  double gpu_hours() const { return gpu_hours_; }
  double lost_gpu_hours() const { return lost_gpu_hours_; }  // By (1 - use).
  double idle_gpu_hours() const { return idle_gpu_hours_; }  // At exactly 0%.

 private:
  static constexpr std::size_t kBuckets = 60;
  struct Bucket {
    Second number = -1;  // Of its beginning, in lengths of a bucket since 1970.
    float use = 0;       // Sum over seconds of the mean over its GPUs, of what it has.
    float seconds = 0;
    float cpus = 0;  // Sum over seconds.
    float cpu_seconds = 0;
    float machine_cpus = 0;  // Sum over seconds.
    float machine_seconds = 0;
  };
  struct Streak {
    Second zero_since = 0;  // 0: it is at work.
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
  /// Nothing: too little is known of the window.
  std::optional<Means> MeansOf(const WasteRules& rules) const;
  std::optional<Waste> Idle(const WasteRules& rules) const;
  std::optional<Waste> SomeIdle(const WasteRules& rules) const;
  std::optional<Waste> CpuBound(const Means& means) const;
  std::optional<Waste> BoundByOwnCores(const Means& means) const;
  std::optional<Waste> BoundByMachine(const Means& means) const;
  std::optional<Waste> Underused(const Means& means, const WasteRules& rules) const;
  std::optional<Waste> SmallMemory(const Means& means, const WasteRules& rules) const;

  Shape shape_;
  Second started_ = 0;
  Second first_ = 0;       // The first look; 0: there was none.
  Second resumed_at_ = 0;  // The last of the looks that were kept; 0: there were none.
  Second seen_since_ = 0;  // The first look after these, or of all.
  Second newest_ = 0;
  std::vector<Streak> streaks_;
  std::array<Bucket, kBuckets> buckets_;
  double memory_peak_ = 0;  // Of one GPU.
  double gpu_hours_ = 0;
  double lost_gpu_hours_ = 0;
  double idle_gpu_hours_ = 0;
};

}  // namespace divvy::samples
