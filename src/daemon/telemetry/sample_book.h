// What the controller knows of how everything is used: rings of seconds and thinner levels of every GPU, machine and
// job in memory, and behind them the blocks of samples.db. On the loop's thread, but for the file, which has one of its
// own; a full or broken disk costs history, and nothing else.
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
#include "daemon/telemetry/said_metrics.h"
#include "samples/chart.h"
#include "samples/history.h"
#include "samples/job_use.h"
#include "samples/sample.h"
#include "samples/track.h"
#include "store/sample_file.h"

namespace divvy {

class SampleBook {
 public:
  struct Options {
    std::string path;       // Empty: nothing is kept on disk.
    Bytes most;             // Of the file.
    Duration keep_jobs{0};  // How long jobs are known after their ends; 0: for ever.
    samples::Second flush_every = 60;
    samples::Second every = 1;  // Between two samples of a machine.
  };
  struct Ports {
    std::function<void(std::function<void()>)> post;  // Onto the loop's thread.
    std::function<void(const std::string& line)> note;
  };
  SampleBook(Options options, Ports ports);
  ~SampleBook();

  /// What a machine showed, or the cluster as a whole. `now`: of the controller's clock.
  void Add(const samples::Snapshot& snapshot, samples::Second now);
  /// What a job said of itself past its output: it is seen with the next sample of the job's machine, where the job was
  /// seen at all.
  void AddSaid(std::uint64_t job, const std::vector<samples::Reading>& readings, samples::Second now);
  /// All that is open goes to the disk; waits for it.
  void Close();

  // --- Now

  struct Newest {
    samples::Second at = 0;
    std::vector<samples::Reading> readings;
    const std::map<std::string, double>* own = nullptr;  // Of jobs.
  };
  /// Of one of them, over the last so many seconds that were seen; nothing where Latest would leave it out.
  std::optional<double> MeanOf(const samples::Subject& subject, samples::Metric metric, samples::Second seconds,
                               samples::Second now) const;
  /// Of everything that was seen in the last half minute, or that long and two samples.
  std::map<samples::Subject, Newest> Latest(samples::Second now) const;
  /// The sum of the utilisations of all GPUs.
  double GpusUsed(samples::Second now) const;
  std::vector<samples::ProcessUse> ProcessesOn(const std::string& node, samples::Second now) const;
  /// What the GPUs of a machine have counted until they were seen last; none where Latest would leave them out.
  std::vector<samples::GpuCounters> CountersOn(const std::string& node, samples::Second now) const;

  // --- Over time

  struct Question {
    samples::Of of = samples::Of::kGpu;
    std::optional<std::string> node;
    std::optional<int> gpu;
    std::optional<std::uint64_t> job;
    std::vector<std::string> metrics;  // None: all that there are.
    samples::Range range;              // `since` 0: as far back as the ring goes; of a job, its beginning.
  };
  struct Series {
    samples::Subject subject;
    std::vector<samples::Curve> curves;
  };
  struct Answer {
    samples::Second begin = 0;
    samples::Second step = 1;
    std::vector<Series> series;  // By subject; a job on several machines as one.
  };
  /// `done` is called on the loop's thread, later. `shape` runs on the file's thread before that, for what takes time.
  void Ask(Question question, samples::Second now, std::function<std::function<void()>(Result<Answer>)> shape);
  /// What each job used, by the beginning of the piece of time that it is of, and by job.
  using Uses = std::map<samples::Second, std::map<std::uint64_t, samples::JobUse>>;
  enum class Pieces { kWhole, kHours };  // All under its beginning; or by hours of the clock (UTC).
  struct Stretch {
    samples::Second since = 0;
    samples::Second until = 0;  // Not in it.
    Pieces pieces = Pieces::kWhole;
  };
  /// What was kept of jobs that have ended, by job.
  using Kept = std::map<std::uint64_t, std::string>;
  /// Of jobs that have ended too. `done` is called on the loop's thread, later.
  void AskUses(const Stretch& of, std::function<void(Uses, Kept)> done);
  /// What one job used from each of these until before `until`.
  void AskUsesOf(std::uint64_t job, std::vector<samples::Second> since, samples::Second until,
                 std::function<void(std::vector<samples::JobUse>)> done);
  /// By job and name: the last value of each number that a job reported. A job that reported none is left out.
  using Reported = std::map<std::uint64_t, std::map<std::string, double>>;
  /// Of these jobs, running or ended. `done` is called on the loop's thread, later.
  void AskReported(std::set<std::uint64_t> jobs, std::function<void(Reported)> done);
  /// A few words on a job that has ended, in place of what was kept of it before; for as long as its samples.
  void Keep(std::uint64_t job, samples::Second ended, std::string text);
  /// Empty: nothing was kept. `done` is called on the loop's thread, later.
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
  SaidMetrics said_;
  samples::Second flushed_at_ = 0;
  samples::Second begun_at_ = 0;  // The first second that was seen; 0: none.
  std::shared_ptr<Keeper> keeper_;
  std::unique_ptr<Worker> worker_;  // Last, so that it ends first.
};

}  // namespace divvy
