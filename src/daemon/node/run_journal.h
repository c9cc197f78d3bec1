// The run journal: data that must not be lost when the store is restored from a backup, in a separate file next to the
// store. It holds the next free id, every launch, and the end of every run, one per line:
//
//   next 501                  no id below this is free
//   epoch 7                   the controller's number among all that agents have followed
//   run 17 3 {...}            a RunDescription: attempt 3 of job 17 was launched, or has ended
//
// A line about a run is written after the store's commit of the same change, and before commands are sent and answers
// given. So the journal never knows more than its own store, and knows more than every older copy of that store. The
// next free id is written before the commit: an older copy may replace the store before a new job is in the journal,
// and no other job must get that job's id. The file is not synced: it survives a crash of the daemon, but a power cut
// loses the last seconds. Used on the loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/books/effects.h"
#include "model/run_description.h"
#include "platform/os/unique_fd.h"

namespace divvy {

class RunJournal {
 public:
  /// In bytes. A larger file is renamed to PATH.1, which replaces the file that had this name. Each has about 30,000
  /// runs.
  static constexpr std::int64_t kMaxSize = std::int64_t{16} << 20;

  /// The last values of these two lines in the journal; 0: none.
  struct Kept {
    std::uint64_t next_id = 0;
    std::uint64_t epoch = 0;
  };

  static Result<RunJournal> Open(const std::string& path, std::int64_t max_size = kMaxSize);

  /// Reads all lines, oldest first; skips a truncated line, and each launch whose end is in a later line. `wants`
  /// decides whether a run's description is decoded; `take` receives it.
  Result<Kept> Read(const std::function<bool(JobId, std::uint32_t attempt)>& wants,
                    const std::function<void(const RunDescription&)>& take);

  /// Call with the id counter of each batch before it is committed. Does nothing if the file has this or a higher one.
  Status ReserveIds(std::uint64_t next_id);
  /// Writes the lines for these effects. Call once the effects are durable in the store. Fails with
  /// kFailedPrecondition if the file cannot be written; these lines are then missing.
  Status Write(const Effects& effects);
  Status WriteEpoch(std::uint64_t epoch);

 private:
  RunJournal(std::string path, std::int64_t max_size) : path_(std::move(path)), max_size_(max_size) {}
  Status OpenFile();
  Status Append(const std::string& lines);

  std::string path_;
  std::int64_t max_size_ = 0;
  Descriptor file_;
  std::int64_t size_ = 0;
  std::uint64_t next_id_ = 0;  // As last written.
  std::uint64_t epoch_ = 0;
};

}  // namespace divvy
