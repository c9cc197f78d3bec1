// Makes batches durable: on the loop's own thread while the disk is quicker than handing the work to another thread and
// back (each hand-over wakes a sleeping processor, which costs as much as a write to a good disk), and on the writer's
// thread as soon as commits are large, the disk is slow or commits follow each other closely: then the loop has better
// things to do than to wait, and what gathers meanwhile makes the next commit worth more.
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

  /// A commit that is expected to take longer goes to the writer.
  static constexpr Duration kQuick = std::chrono::milliseconds(1);
  /// A batch with more rows goes to the writer whatever the disk did before.
  static constexpr std::size_t kFewRows = 256;
  /// Calm is when nothing was committed for this many times as long as a commit takes.
  static constexpr int kCalm = 2;

  Committer(Store& store, Worker& writer, const Clock& clock, Post post)
      : store_(store), writer_(writer), clock_(clock), post_(std::move(post)) {}

  /// One at a time. `done` is called on the loop's thread, before this returns or later.
  void Commit(std::vector<Batch> batches, Done done);
  /// Does another thing with the store on the writer's thread. Commits go there as well, behind it, until it is done:
  /// the store has one writer, and the loop must not wait for it.
  void Do(std::function<void()> task);
  bool is_quick() const { return expected_ < kQuick; }

 private:
  void Learn(Duration took);

  Store& store_;
  Worker& writer_;
  const Clock& clock_;
  Post post_;
  int tasks_ = 0;  // Given to Do and not done.
  Time last_ended_ = kNoTime;
  Duration expected_ = kQuick;  // Of a small commit; the first one shows what this disk is like.
};

}  // namespace divvy
