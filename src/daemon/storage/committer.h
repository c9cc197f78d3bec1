// Makes batches durable. Small commits run on the loop's own thread, as long as the disk is faster than a hand-over to
// another thread and back: each hand-over wakes a sleeping CPU, which costs as much as a write to a good disk. Commits
// run on the writer's thread when they are large, the disk is slow, the store is remote, or they follow each other
// closely. The loop then does other work meanwhile, and the changes that gather make the next commit larger.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/time.h"
#include "daemon/runtime/worker.h"
#include "platform/os/clock.h"
#include "store/store.h"

namespace divvy {

class Committer {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using Done = std::function<void(Status)>;

  /// Commits that are expected to take longer go to the writer.
  static constexpr Duration kQuick = std::chrono::milliseconds(1);
  /// A batch with more rows goes to the writer, whatever the disk's speed.
  static constexpr std::size_t kFewRows = 256;
  /// A small commit runs on the loop's thread only if no commit has ended within this many expected commit durations.
  static constexpr int kCalm = 2;

  Committer(Store& store, Worker& writer, const Clock& clock, Post post)
      : store_(store), writer_(writer), clock_(clock), post_(std::move(post)) {}

  /// Only one commit may be under way. `done` is called on the loop's thread, before or after this returns.
  void Commit(std::vector<Batch> batches, Done done);
  /// Runs another task with the store on the writer's thread. Until it is done, commits are queued behind it there,
  /// because the store has one writer and the loop must not wait.
  void Do(std::function<void()> task);
  /// Returns true if a small commit is expected to take less than kQuick.
  bool is_quick() const { return expected_ < kQuick; }

 private:
  void Learn(Duration took);

  Store& store_;
  Worker& writer_;
  const Clock& clock_;
  Post post_;
  int tasks_ = 0;  // Tasks that were passed to Do and are not done.
  Time last_ended_ = kNoTime;
  Duration expected_ = kQuick;  // The expected duration of a small commit. The first commit measures this disk.
};

}  // namespace divvy
