// What an agent does with the output of jobs: gives its controller the pieces that it asks for (also of the lists of
// steps), and removes the logs that it kept for long enough. Files are read and removed on a thread of their own, so
// that a file server that is away does not keep the agent from its orders. Belongs to the loop's thread otherwise.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "daemon/driver/old_logs.h"
#include "daemon/node/node.h"
#include "daemon/runtime/log.h"
#include "daemon/runtime/worker.h"
#include "platform/os/clock.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class AgentLogs {
 public:
  struct Ports {
    /// Runs a task on the loop's thread, from any thread.
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
    /// Jobs that are not over here, whose logs stay. On the loop's thread.
    std::function<std::set<JobId>()> alive;
  };

  /// `keep`: how long after the last word of its job a kept log stays; 0: for ever. All that is given outlives this.
  AgentLogs(const Node& node, const Clock& clock, const Log& log, std::string log_directory, Duration keep,
            Ports ports);

  using Told = std::function<void(wire::AgentAnswer answer, std::string bytes)>;
  /// `told` is called later, on the loop's thread.
  void Answer(const wire::AgentQuestion& question, Told told);
  /// A round now, and one every hour.
  void RemoveOldLogs();

 private:
  void Step(Time written_before);

  const Node& node_;
  const Clock& clock_;
  const Log& log_;
  Duration keep_;
  Ports ports_;
  std::set<JobId> alive_;  // As of the step that is under way.
  OldLogs old_logs_;       // Used by that step alone.
  std::uint64_t removed_before_ = 0;
  Worker reader_;  // Last, so that it ends first.
};

/// The piece that is asked for, of the file that the question leads to. On any thread.
struct AnsweredPiece {
  wire::AgentAnswer answer;
  std::string bytes;
};
AnsweredPiece AnswerOf(const Node& node, const wire::AgentQuestion& question);
/// The newest steps of the list in this file, as lines of such a list. On any thread.
AnsweredPiece StepsIn(const std::string& list);

}  // namespace divvy
