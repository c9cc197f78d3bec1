#include "samples/run_waste.h"

#include <algorithm>

#include "samples/waste_flags.h"

namespace divvy::samples {
namespace {

/// A loss below this number of GPU-hours would be displayed as 0.00.
constexpr double kLeastLost = 0.005;

double SecondsOf(Duration span) { return ToSeconds(span); }

Waste UnusedGpus(const WasteShape& shape, const RunDetail& detail) {
  const int used = shape.gpus - detail.gpus_unused;
  return {WasteKind::kSomeIdle,
          0,
          detail.gpus_unused * shape.part,
          "used " + std::to_string(used) + " of " + GpusOf(shape) + "; the others did nothing",
          shape.is_on_one ? "--gpus " + std::to_string(used) : "",
          false};
}

/// Returns e.g. "waited for its CPUs: its 4 cores were busy"; "" if it did not wait.
std::string WaitedFor(const WasteShape& shape, double cores, std::optional<double> machine_cpus) {
  if (shape.cpus > 0) {
    if (cores < kCoresAreBusy * shape.cpus) return "";
    return "waited for its CPUs: " +
           (shape.cpus == 1 ? "its core was busy" : "its " + std::to_string(shape.cpus) + " cores were busy");
  }
  if (!IsBoundByMachine(shape, cores, machine_cpus)) return "";
  return "waited for CPUs: " + CoresOfMachine(shape) + (shape.cpus_most == 1 ? " was" : " were") + " busy, " +
         CoresText(cores) + " of them for it";
}

}  // namespace

double MemoryPeakOf(const JobUse& use, int gpus) {
  if (use.memory_most > 0) return use.memory_most;
  return use.memory_peak / std::max(1.0, static_cast<double>(gpus) / std::max(1, use.machines));
}

bool IsWorthTelling(double lost_gpu_hours, Duration ran, const WasteRules& rules) {
  return ran > rules.grace && lost_gpu_hours >= kLeastLost;
}

std::vector<Waste> WasteOfRun(const WasteShape& shape, const JobUse& use, const WasteRules& rules,
                              const RunDetail& detail) {
  std::vector<Waste> findings;
  if (use.machines == 0 || shape.gpus <= 0) return findings;
  const double seen = use.seconds / use.machines;
  if (seen <= 0 || seen < SecondsOf(rules.idle_after)) return findings;
  const double has = shape.gpus * shape.part;
  const std::string gpus = GpusOf(shape);
  const std::string were = shape.gpus == 1 ? " was" : " were";
  if (use.idle_seconds >= use.seconds) {
    findings.push_back({WasteKind::kIdle, 0, has,
                        "did nothing with " + gpus + ": 0% in all samples of " + SpanText(static_cast<Second>(seen)),
                        "", true});
    return findings;
  }
  // Time until an action would have been taken, if one had been configured.
  const double acted_on = SecondsOf(rules.idle_after) + rules.warnings * SecondsOf(rules.warn_every);
  if (use.idle_tail > 0 && use.idle_tail >= SecondsOf(rules.idle_after)) {
    findings.push_back({WasteKind::kIdle, 0, has,
                        "did nothing with " + gpus + " in its last " + SpanText(static_cast<Second>(use.idle_tail)),
                        use.idle_tail > acted_on ? "--on-waste stop" : "", false});
  }
  if (detail.gpus_unused > 0 && detail.gpus_unused < shape.gpus) findings.push_back(UnusedGpus(shape, detail));
  if (!findings.empty()) return findings;
  const double mean = std::min(1.0, use.use_seconds / use.seconds / shape.part);
  const double unused = has * (1 - mean);
  const double memory = MemoryPeakOf(use, shape.gpus);
  if (use.cpu_seconds > 0 && mean < kGpusAreBusy) {
    const double cores = use.core_seconds / use.cpu_seconds;
    const std::string waited = WaitedFor(shape, cores, detail.machine_cpus);
    if (!waited.empty()) {
      findings.push_back({WasteKind::kCpuBound, 0, unused, waited + ", and " + gpus + were + " at " + PercentText(mean),
                          CoreFlags(shape, cores), false});
      return findings;
    }
  }
  if (mean < rules.underused) {
    findings.push_back({WasteKind::kUnderused, 0, unused,
                        "hardly used " + gpus + ": " + PercentText(mean) + " on average",
                        LessFlags(shape, mean, memory), false});
  }
  const double memory_has = static_cast<double>(shape.gpu_memory.count()) * shape.part;
  if (mean < kGpusAreBusy && memory > 0 && memory < rules.small_memory * memory_has) {
    const std::string flags = PartFlags(shape, mean, memory);
    if (!flags.empty()) {
      findings.push_back({WasteKind::kSmallMemory, 0, unused,
                          "never took more than " + PercentText(memory / memory_has) + " of the memory of " + gpus,
                          flags, false});
    }
  }
  return findings;
}

}  // namespace divvy::samples
