// The thread's side of the sample book: the file, and answers from what memory and file have. Not for two threads at a
// time.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/telemetry/sample_book.h"

namespace divvy {

/// What memory has of an answer.
struct SampleBook::Gathered {
  Question question;
  samples::Second now = 0;
  samples::Second level = 1;       // Of the points to be shown, but for jobs: their own tell.
  samples::Second ring_since = 0;  // The ring has seconds from here on.
  struct Of {
    samples::Subject subject;
    std::vector<samples::Block> blocks;
    bool is_whole = false;                    // The file has no more of it.
    std::vector<samples::Block> before = {};  // Of what the ring shows: what was kept of the time before it.
  };
  std::vector<Of> parts;
};

class SampleBook::Keeper {
 public:
  Keeper(Options options, std::function<void(const std::string& line)> note)
      : options_(std::move(options)), note_(std::move(note)) {}

  /// Puts blocks, drops what is too old, and keeps the file small; `now` is when that is.
  void Put(const std::vector<SampleBlock>& blocks, samples::Second now);
  Answer Find(Gathered gathered);
  /// Of all jobs but those whose subjects are `known`; and what was kept of those that ended in the stretch or after
  /// it.
  void AddUses(const Stretch& of, const std::set<std::string>& known, Uses& uses, Kept& kept);
  std::string KeptOf(std::uint64_t job);
  /// The tracks of one job on each machine, except those `known`, with the columns that are wanted.
  void AddTracks(std::uint64_t job, const std::set<std::string>& known, const samples::IsWanted& is_wanted,
                 std::vector<samples::Block>& tracks);
  /// The last value of each number that the job reported. Adds nothing if it reported none.
  void AddReported(std::uint64_t job, Reported& reported);
  /// What was kept of a job as a whole; nothing: nothing was.
  std::optional<samples::Track> TrackOf(const samples::Subject& subject);

 private:
  SampleFile* File();
  void Fail(const Error& error);
  void AddKept(Gathered& gathered);
  samples::IsWanted Filter(const Question& question) const;

  Options options_;
  std::function<void(const std::string& line)> note_;
  std::unique_ptr<SampleFile> file_;
  bool has_failed_ = false;  // And it was said.
  samples::Second thinned_at_ = 0;
};

/// What the track of a job on one machine has of the stretch.
void AddUseOf(std::uint64_t job, const samples::Block& track, const SampleBook::Stretch& of, SampleBook::Uses& uses);
/// The row that keeps a block.
SampleBlock KeptBlock(const samples::Subject& subject, const samples::Block& block, samples::Second step);
/// The row that keeps words on a job that has ended. Its subject ("ended/17") is none of samples: who does not know it
/// passes over it.
SampleBlock KeptRow(std::uint64_t job, samples::Second ended, std::string text);

}  // namespace divvy
