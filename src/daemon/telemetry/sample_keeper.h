// The part of the sample book that runs on the file's thread: the file itself, and answers that merge memory and file.
// Must not be used by two threads at a time.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/telemetry/metric_store.h"

namespace divvy {

/// The part of an answer that comes from memory.
struct MetricStore::Gathered {
  Question question;
  samples::Second now = 0;
  // Seconds per point of the answer; not used for jobs, whose tracks have their own step.
  samples::Second level = 1;
  samples::Second ring_since = 0;  // The ring holds seconds from here on.
  struct Of {
    samples::Subject subject;
    std::vector<samples::Block> blocks;
    bool is_whole = false;                    // The file holds nothing more for this subject.
    std::vector<samples::Block> before = {};  // For the ring: kept points of the time before it.
  };
  std::vector<Of> parts;
};

class MetricStore::Keeper {
 public:
  Keeper(Options options, std::function<void(const std::string& line)> note)
      : options_(std::move(options)), note_(std::move(note)) {}

  /// Stores blocks, drops those that are too old at `now`, and limits the file's size.
  void Put(const std::vector<SampleBlock>& blocks, samples::Second now);
  Answer Find(Gathered gathered);
  /// Adds the use of all jobs except those whose subjects are `known`, and the kept texts of jobs that ended in the
  /// period or later.
  void AddUses(const Stretch& of, const std::set<std::string>& known, Uses& uses, Kept& kept);
  std::string KeptOf(std::uint64_t job);
  /// Adds the tracks of one job on each node, except those `known`, with the wanted columns.
  void AddTracks(std::uint64_t job, const std::set<std::string>& known, const samples::IsWanted& is_wanted,
                 std::vector<samples::Block>& tracks);
  /// The last value of each number that the job reported. Adds nothing if it reported none.
  void AddReported(std::uint64_t job, Reported& reported);
  /// The kept track of a job; nullopt if there is none.
  std::optional<samples::Track> TrackOf(const samples::Subject& subject);

 private:
  SampleFile* File();
  void Fail(const Error& error);
  void AddKept(Gathered& gathered);
  samples::IsWanted Filter(const Question& question) const;

  Options options_;
  std::function<void(const std::string& line)> note_;
  std::unique_ptr<SampleFile> file_;
  bool has_failed_ = false;  // The failure was logged.
  samples::Second thinned_at_ = 0;
};

/// Adds the job's use in the period, from its track on one node.
void AddUseOf(std::uint64_t job, const samples::Block& track, const MetricStore::Stretch& of, MetricStore::Uses& uses);
/// Returns the row that stores a block.
SampleBlock KeptBlock(const samples::Subject& subject, const samples::Block& block, samples::Second step);
/// Returns the row that stores a text about an ended job. Its subject ("ended/17") is no subject of samples, so other
/// readers skip it.
SampleBlock KeptRow(std::uint64_t job, samples::Second ended, std::string text);

}  // namespace divvy
