// The controller's usage history. For each GPU, node and job, ring buffers in memory hold the values of the last
// seconds and means over longer steps; older values are in blocks in the file samples.db. Used on the loop's thread;
// the file has its own thread. If the disk is full or broken, history is lost and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "daemon/runtime/worker.h"
#include "daemon/telemetry/reported_metrics.h"
#include "samples/chart.h"
#include "samples/history.h"
#include "samples/job_use.h"
#include "samples/sample.h"
#include "samples/track.h"
#include "store/sample_file.h"

namespace divvy {

class MetricStore {
 public:
  struct Options {
    std::string path;                  // Empty: nothing is kept on disk.
    Bytes most;                        // The limit on the size of the file.
    Duration keep_jobs{0};             // How long jobs are kept after their end; 0: indefinitely.
    samples::Second flush_every = 60;  // Seconds between two writes to the file.
    samples::Second every = 1;         // Seconds between two samples of a node.
  };
  struct Ports {
    std::function<void(std::function<void()>)> post;  // Runs a task on the loop's thread.
    std::function<void(const std::string& line)> note;
  };
  MetricStore(Options options, Ports ports);
  ~MetricStore();

  /// Adds a sample of a node or of the cluster as a whole. `now` is the controller's time.
  void Add(const samples::Snapshot& snapshot, samples::Second now);
  /// Adds metrics that a job has reported by a request instead of a line of its output (ReportedMetrics). They are
  /// stored with the next sample of the job's node, if the job was ever sampled there.
  void AddSaid(std::uint64_t job, const std::vector<samples::Reading>& readings, samples::Second now);
  /// Writes all open blocks to disk and waits until that is done.
  void Close();

  // --- Present values

  struct Newest {
    samples::Second at = 0;
    std::vector<samples::Reading> readings;
    const std::map<std::string, double>* own = nullptr;  // Metrics that a job reports itself; null for other subjects.
  };
  /// Returns the mean of a metric over the last `seconds` sampled seconds of one subject (a GPU, a node, a job);
  /// nullopt if the subject has no recent sample (see Latest).
  std::optional<double> MeanOf(const samples::Subject& subject, samples::Metric metric, samples::Second seconds,
                               samples::Second now) const;
  /// Returns the last value of a metric that the job itself reports; nullopt if the job has never reported it, or has
  /// no recent sample (see Latest).
  std::optional<double> OwnOf(const samples::Subject& job, const std::string& name, samples::Second now) const;
  /// Returns the newest sample of every subject with a recent one: not older than 30 s plus two sampling periods.
  std::map<samples::Subject, Newest> Latest(samples::Second now) const;
  /// Returns the sum of the utilisation of all GPUs with a recent sample, each from 0 to 1.
  double GpusUsed(samples::Second now) const;
  /// Returns the processes on a node's GPUs at the node's last sample; empty if that is not recent (see Latest).
  std::vector<samples::ProcessUse> ProcessesOn(const std::string& node, samples::Second now) const;
  /// Returns the counters of a node's GPUs at the node's last sample; empty if that is not recent (see Latest).
  std::vector<samples::GpuCounters> CountersOn(const std::string& node, samples::Second now) const;

  // --- History

  struct Question {
    samples::Of of = samples::Of::kGpu;
    std::optional<std::string> node;
    std::optional<int> gpu;
    std::optional<std::uint64_t> job;
    std::vector<std::string> metrics;  // Empty: all metrics.
    samples::Range range;              // `since` 0: as far back as the ring goes; for a job, its beginning.
  };
  struct Series {
    samples::Subject subject;
    std::vector<samples::Curve> curves;
  };
  struct Answer {
    samples::Second begin = 0;
    samples::Second step = 1;
    std::vector<Series> series;  // Ordered by subject; a job on several nodes is one series.
  };
  /// Answers a question about the history. `shape` is called with the answer on the file's thread, where slow work such
  /// as formatting is possible; it returns a function, which is then called on the loop's thread.
  void Ask(Question question, samples::Second now, std::function<std::function<void()>(Result<Answer>)> shape);
  /// How much each job has used, by the period's begin and by job.
  using Uses = std::map<samples::Second, std::map<std::uint64_t, samples::JobUse>>;
  enum class Pieces { kWhole, kHours };  // kWhole: one period. kHours: one period per clock hour (UTC).
  struct Stretch {
    samples::Second since = 0;
    samples::Second until = 0;  // Exclusive.
    Pieces pieces = Pieces::kWhole;
  };
  /// The texts that were stored about ended jobs (Keep), by job.
  using Kept = std::map<std::uint64_t, std::string>;
  /// Reads how much all jobs, also ended ones, have used in the stretch of time `of`, and the texts about ended jobs.
  /// `done` is called later on the loop's thread.
  void AskUses(const Stretch& of, std::function<void(Uses, Kept)> done);
  /// Reads how much one job has used from each time in `since` until `until` (exclusive). `done` gets one result for
  /// each element of `since`, later on the loop's thread.
  void AskUsesOf(std::uint64_t job, std::vector<samples::Second> since, samples::Second until,
                 std::function<void(std::vector<samples::JobUse>)> done);
  /// By job and name: the last value of each number that a job reported. A job that reported none is left out.
  using Reported = std::map<std::uint64_t, std::map<std::string, double>>;
  /// Reads the last numbers that these jobs reported; they may run or have ended. `done` is called later on the loop's
  /// thread.
  void AskReported(std::set<std::uint64_t> jobs, std::function<void(Reported)> done);
  /// Keeps a short text about an ended job, as long as its samples. Replaces an earlier text.
  void Keep(std::uint64_t job, samples::Second ended, std::string text);
  /// Reads the text that Keep has stored about this job; empty if there is none. `done` is called later on the loop's
  /// thread.
  void AskKept(std::uint64_t job, std::function<void(std::string)> done);

 private:
  struct Job {
    samples::History seconds{false};
    samples::Track track;
  };
  struct Gathered;
  class Keeper;

  void AddOf(const samples::Sample& sample, samples::Second at);
  void AddSaidOn(const std::string& node, samples::Second at);
  samples::Second FreshSince(samples::Second now) const;
  void Flush(samples::Second now);
  void Forget(samples::Second now);
  Gathered Gather(Question question, samples::Second now) const;

  Options options_;
  Ports ports_;
  std::map<samples::Subject, samples::History> histories_;
  std::map<samples::Subject, Job> jobs_;
  struct OfNow {
    samples::Second at = 0;
    std::vector<samples::ProcessUse> on;
    std::vector<samples::GpuCounters> counters;
  };
  std::map<std::string, OfNow> of_now_;  // By node.
  ReportedMetrics said_;
  samples::Second flushed_at_ = 0;
  samples::Second begun_at_ = 0;  // The first second that was sampled; 0: none.
  std::shared_ptr<Keeper> keeper_;
  std::unique_ptr<Worker> worker_;  // Declared last, so that it ends first.
};

}  // namespace divvy
