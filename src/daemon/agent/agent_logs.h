// Job output on an agent's node: sends pieces of output files and of lists of steps to the controller when it asks for
// them, and removes old logs. Files are read and removed on other threads, so that a file server that does not answer
// blocks neither the agent nor the logs of other users. Everything else runs on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "daemon/node/node.h"
#include "daemon/runtime/fair_workers.h"
#include "daemon/runtime/log.h"
#include "daemon/storage/old_logs.h"
#include "platform/os/clock.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class AgentLogs {
 public:
  struct Ports {
    /// Runs a task on the loop's thread, from any thread.
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
    /// The jobs that are not over on this node, whose logs are kept. Called on the loop's thread.
    std::function<std::set<JobId>()> alive;
  };

  /// `keep`: how long a log is kept after its last write; 0: indefinitely. All arguments must outlive this object.
  AgentLogs(const Node& node, const Clock& clock, const Log& log, std::string log_directory, Duration keep,
            Ports ports);

  using Told = std::function<void(wire::AgentAnswer answer, std::string bytes)>;
  /// Answers a question of the controller. `told` is called with the answer later, on the loop's thread.
  void Answer(const wire::AgentQuestion& question, Told told);
  /// Starts to remove old logs, now and then every hour.
  void RemoveOldLogs();

 private:
  void Step(Time written_before);

  const Node& node_;
  const Clock& clock_;
  const Log& log_;
  Duration keep_;
  Ports ports_;
  std::set<JobId> alive_;  // As of the step that is under way.
  OldLogs old_logs_;       // Used by that step only.
  std::uint64_t removed_before_ = 0;
  FairWorkers readers_;  // Declared last, so that it ends first.
};

/// Reads the requested piece of the file that the question names. Any thread.
struct AnsweredPiece {
  wire::AgentAnswer answer;
  std::string bytes;
};
AnsweredPiece AnswerOf(const Node& node, const wire::AgentQuestion& question);
/// Returns the newest steps of the list in this file, in the format of such a list. Any thread.
AnsweredPiece StepsIn(const std::string& list);

}  // namespace divvy
