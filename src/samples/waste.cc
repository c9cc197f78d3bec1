#include "samples/waste.h"

#include <algorithm>

namespace divvy::samples {
namespace {

constexpr double kSecondsPerHour = 3600;
/// The time between observations that are further apart is unknown.
constexpr Second kLongestGap = 120;
/// A GPU that became idle within this time after the first observation was idle before it, too.
constexpr Second kFromTheFirst = 60;
/// The fraction of a window that must have been observed.
constexpr double kKnown = 0.9;

Second WholeSeconds(Duration span) { return std::chrono::duration_cast<std::chrono::seconds>(span).count(); }

}  // namespace

std::string_view Name(WasteKind kind) {
  switch (kind) {
    case WasteKind::kIdle:
      return "idle";
    case WasteKind::kSomeIdle:
      return "some_idle";
    case WasteKind::kCpuBound:
      return "cpu_bound";
    case WasteKind::kUnderused:
      return "underused";
    case WasteKind::kSmallMemory:
      break;
  }
  return "small_memory";
}

void WasteWatch::Reshape(const WasteShape& shape) {
  if (shape == shape_) return;
  shape_ = shape;
  streaks_.clear();
  buckets_.fill({});
  memory_peak_ = 0;
}

void WasteWatch::Add(const Look& look, const WasteRules& rules) {
  if (look.at <= newest_ || look.gpus.empty() || shape_.gpus <= 0) return;
  // The use of this observation is assumed for the whole time since the previous one.
  const Second gap = look.at - newest_;
  const double seconds = newest_ == 0 || gap > kLongestGap ? 0 : static_cast<double>(gap);
  if (first_ == 0) first_ = look.at;
  if (seen_since_ <= resumed_at_) seen_since_ = look.at;
  newest_ = look.at;
  streaks_.resize(look.gpus.size());
  const double worth = shape_.part * shape_.gpus / static_cast<double>(look.gpus.size());
  double sum = 0;
  std::size_t known = 0;
  for (std::size_t i = 0; i < look.gpus.size(); ++i) {
    const Gpu& gpu = look.gpus[i];
    if (gpu.memory) memory_peak_ = std::max(memory_peak_, *gpu.memory);
    if (!gpu.use) continue;
    const double use = std::clamp(*gpu.use / shape_.part, 0.0, 1.0);
    sum += use;
    ++known;
    Streak& streak = streaks_[i];
    if (look.at - streak.known_at > kLongestGap) streak.zero_since = 0;
    streak.known_at = look.at;
    if (use > 0) streak.zero_since = 0;
    else if (streak.zero_since == 0) streak.zero_since = look.at;
    const double hours = worth * seconds / kSecondsPerHour;
    gpu_hours_ += hours;
    lost_gpu_hours_ += hours * (1 - use);
    if (use <= 0) idle_gpu_hours_ += hours;
  }
  // The mean of some GPUs is not representative of all.
  if (known == look.gpus.size()) AddToBucket(look, sum / static_cast<double>(known), seconds, rules);
}

void WasteWatch::Resume(const Past& past) {
  resumed_at_ = newest_;
  gpu_hours_ = past.gpu_hours;
  lost_gpu_hours_ = past.lost_gpu_hours;
  idle_gpu_hours_ = past.idle_gpu_hours;
  memory_peak_ = std::max(memory_peak_, past.memory_peak);
  // The stored observations reach back as far as the rules need. If a GPU was idle in all of them, it has been idle
  // since the time in `past`.
  for (std::size_t i = 0; i < std::min(streaks_.size(), past.idle_since.size()); ++i) {
    Second& since = streaks_[i].zero_since;
    if (past.idle_since[i] > 0 && since > past.idle_since[i] && since <= first_ + kFromTheFirst)
      since = past.idle_since[i];
  }
  if (past.idle_for <= 0) return;
  for (Streak& streak : streaks_) {
    if (streak.zero_since > 0) streak.zero_since = std::min(streak.zero_since, newest_ - past.idle_for);
  }
}

void WasteWatch::AddToBucket(const Look& look, double use, double seconds, const WasteRules& rules) {
  if (look.at - started_ <= WholeSeconds(rules.grace)) return;
  const Second length = std::max<Second>(1, WholeSeconds(rules.window) / static_cast<Second>(kBuckets));
  const Second number = look.at / length;
  Bucket& bucket = buckets_[static_cast<std::size_t>(number) % kBuckets];
  if (bucket.number != number) {
    bucket = {};
    bucket.number = number;
  }
  bucket.use += static_cast<float>(use * seconds);
  bucket.seconds += static_cast<float>(seconds);
  if (look.cpus) {
    bucket.cpus += static_cast<float>(*look.cpus * seconds);
    bucket.cpu_seconds += static_cast<float>(seconds);
  }
  if (look.machine_cpus) {
    bucket.machine_cpus += static_cast<float>(*look.machine_cpus * seconds);
    bucket.machine_seconds += static_cast<float>(seconds);
  }
}

std::optional<WasteWatch::Means> WasteWatch::MeansOf(const WasteRules& rules) const {
  const Second length = std::max<Second>(1, WholeSeconds(rules.window) / static_cast<Second>(kBuckets));
  const Second first = newest_ / length - static_cast<Second>(kBuckets) + 1;
  double use = 0, seconds = 0, cpus = 0, cpu_seconds = 0, machine_cpus = 0, machine_seconds = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.number < first) continue;
    use += static_cast<double>(bucket.use);
    seconds += static_cast<double>(bucket.seconds);
    cpus += static_cast<double>(bucket.cpus);
    cpu_seconds += static_cast<double>(bucket.cpu_seconds);
    machine_cpus += static_cast<double>(bucket.machine_cpus);
    machine_seconds += static_cast<double>(bucket.machine_seconds);
  }
  const double whole = static_cast<double>(length) * static_cast<double>(kBuckets);
  if (seconds < kKnown * whole) return std::nullopt;
  Means means;
  means.use = use / seconds;
  if (cpu_seconds >= kKnown * whole) means.cpus = cpus / cpu_seconds;
  if (machine_seconds >= kKnown * whole) means.machine_cpus = machine_cpus / machine_seconds;
  means.since = first * length;
  return means;
}

bool WasteWatch::IsIdle(const Streak& streak, const WasteRules& rules) const {
  if (streak.zero_since == 0 || newest_ - streak.known_at > kLongestGap) return false;
  const Second since = std::max(streak.zero_since, started_ + WholeSeconds(rules.grace));
  return streak.known_at - since >= WholeSeconds(rules.idle_after);
}

bool WasteWatch::KnowsEnough(const WasteRules& rules, bool only_idle) const {
  if (first_ == 0 || seen_since_ <= resumed_at_) return false;
  const auto works = [&](const Streak& streak) { return streak.known_at > resumed_at_ && streak.zero_since == 0; };
  if (only_idle && !streaks_.empty() && std::ranges::all_of(streaks_, works)) return true;
  const Duration longest = only_idle ? rules.idle_after : std::max(rules.idle_after, rules.window);
  return newest_ - std::max(seen_since_, started_ + WholeSeconds(rules.grace)) > WholeSeconds(longest);
}

std::vector<Waste> WasteWatch::Findings(const WasteRules& rules) const {
  std::vector<Waste> findings;
  const auto add = [&](std::optional<Waste> waste) {
    if (waste) findings.push_back(*std::move(waste));
    return !findings.empty();
  };
  if (add(Idle(rules)) || add(SomeIdle(rules))) return findings;
  const std::optional<Means> means = MeansOf(rules);
  if (!means) return findings;
  // A job that waits for cores needs more cores. Whether its GPU is too large can be judged only afterwards.
  if (add(CpuBound(*means))) return findings;
  add(Underused(*means, rules));
  add(SmallMemory(*means, rules));
  return findings;
}

std::optional<Waste> WasteWatch::Idle(const WasteRules& rules) const {
  if (streaks_.empty()) return std::nullopt;
  Second since = 0;
  for (const Streak& streak : streaks_) {
    if (!IsIdle(streak, rules)) return std::nullopt;
    since = std::max(since, streak.zero_since);
  }
  const std::string for_how_long = SpanText(newest_ - since);
  return Waste{WasteKind::kIdle,
               since,
               shape_.gpus * shape_.part,
               "does nothing with " + GpusOf(shape_) + ": 0% for " + for_how_long,
               "",
               true};
}

std::optional<Waste> WasteWatch::SomeIdle(const WasteRules& rules) const {
  int idle = 0;
  Second since = 0;
  for (const Streak& streak : streaks_) {
    if (!IsIdle(streak, rules)) continue;
    ++idle;
    since = std::max(since, streak.zero_since);
  }
  if (idle == 0 || streaks_.size() != static_cast<std::size_t>(shape_.gpus)) return std::nullopt;
  const int used = shape_.gpus - idle;
  return Waste{WasteKind::kSomeIdle,
               since,
               idle * shape_.part,
               "uses " + std::to_string(used) + " of " + GpusOf(shape_) + "; the others are at 0% for " +
                   SpanText(newest_ - since),
               shape_.is_on_one ? "--gpus " + std::to_string(used) : "",
               false};
}

std::optional<Waste> WasteWatch::CpuBound(const Means& means) const {
  if (!means.cpus || means.use >= kGpusAreBusy) return std::nullopt;
  return shape_.cpus > 0 ? BoundByOwnCores(means) : BoundByMachine(means);
}

std::optional<Waste> WasteWatch::BoundByOwnCores(const Means& means) const {
  if (*means.cpus < kCoresAreBusy * shape_.cpus) return std::nullopt;
  const std::string cores =
      shape_.cpus == 1 ? "its core is busy" : "its " + std::to_string(shape_.cpus) + " cores are busy";
  return Waste{WasteKind::kCpuBound,
               means.since,
               shape_.gpus * shape_.part * (1 - means.use),
               "waits for its CPUs: " + cores + ", and " + GpusOf(shape_) + (shape_.gpus == 1 ? " is" : " are") +
                   " at " + PercentText(means.use),
               CoreFlags(shape_, *means.cpus),
               false};
}

std::optional<Waste> WasteWatch::BoundByMachine(const Means& means) const {
  if (!IsBoundByMachine(shape_, *means.cpus, means.machine_cpus)) return std::nullopt;
  return Waste{WasteKind::kCpuBound,
               means.since,
               shape_.gpus * shape_.part * (1 - means.use),
               "waits for CPUs: " + CoresOfMachine(shape_) + (shape_.cpus_most == 1 ? " is" : " are") + " busy, " +
                   CoresText(*means.cpus) + " of them for it, and " + GpusOf(shape_) +
                   (shape_.gpus == 1 ? " is" : " are") + " at " + PercentText(means.use),
               CoreFlags(shape_, *means.cpus),
               false};
}

std::optional<Waste> WasteWatch::Underused(const Means& means, const WasteRules& rules) const {
  if (means.use >= rules.underused) return std::nullopt;
  return Waste{WasteKind::kUnderused,
               means.since,
               shape_.gpus * shape_.part * (1 - means.use),
               "hardly uses " + GpusOf(shape_) + ": " + PercentText(means.use) + " in the last " +
                   SpanText(WholeSeconds(rules.window)),
               LessFlags(shape_, means.use, memory_peak_),
               false};
}

std::optional<Waste> WasteWatch::SmallMemory(const Means& means, const WasteRules& rules) const {
  // A GPU with high use is well used, however little memory it holds.
  if (means.use >= kGpusAreBusy || shape_.gpu_memory <= Bytes() || memory_peak_ <= 0) return std::nullopt;
  const double has = static_cast<double>(shape_.gpu_memory.count()) * shape_.part;
  if (memory_peak_ >= rules.small_memory * has) return std::nullopt;
  const std::string flags = PartFlags(shape_, means.use, memory_peak_);
  if (flags.empty()) return std::nullopt;
  return Waste{WasteKind::kSmallMemory,
               means.since,
               shape_.gpus * shape_.part * (1 - means.use),
               "never took more than " + PercentText(memory_peak_ / has) + " of the memory of " + GpusOf(shape_),
               flags,
               false};
}

}  // namespace divvy::samples
