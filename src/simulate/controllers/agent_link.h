// A connection between an agent and a controller in a chaos run. A message that one side has sent arrives at the other
// one even if the sender dies or is stopped afterwards, unless the connection is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/books/effects.h"
#include "driver/node_report_port.h"

namespace divvy::simulate {

/// The first message of a controller that follows the agent's greeting: the runs that should be active on the node.
struct ModelledWelcome {
  std::uint64_t epoch = 0;
  struct Run {
    JobRecord record;
    std::shared_ptr<const JobSpec> spec;
  };
  std::vector<Run> runs;
};

struct AgentLink;

/// An agent, as controllers see it.
class AgentEnd {
 public:
  virtual ~AgentEnd() = default;
  virtual void OnWelcome(ModelledWelcome welcome) = 0;
  virtual void OnCommand(std::uint64_t epoch, const NodeCommand& command,
                         const std::shared_ptr<const JobSpec>& spec) = 0;
  virtual void OnBeatAnswer() = 0;
};

/// A controller that leads, as agents see it. Messages of a connection that is not the node's present one are ignored.
class LeaderEnd {
 public:
  using Link = std::shared_ptr<AgentLink>;
  virtual ~LeaderEnd() = default;
  virtual void OnGreeting(const std::string& node, const Link& link) = 0;
  virtual void OnBeat(const Link& link) = 0;
  virtual void OnAdopted(const Link& link) = 0;
  virtual void OnStarted(const Link& link, JobId job, std::uint32_t attempt) = 0;
  virtual void OnExited(const Link& link, JobId job, std::uint32_t attempt, const Exit& exit) = 0;
  virtual void OnVanished(const Link& link, JobId job, std::uint32_t attempt, RunVanished how) = 0;
  virtual void OnFound(const Link& link, const RunDescription& run) = 0;
};

struct AgentLink {
  std::size_t agent = 0;
  std::size_t controller = 0;
  std::uint64_t process = 0;  // The controller's process.
  std::deque<std::function<void(LeaderEnd&)>> up;
  std::deque<std::function<void(AgentEnd&)>> down;
  bool is_closed_by_agent = false;
  bool is_closed_by_controller = false;
  bool is_stuck = false;  // Nothing arrives any more, and neither side notices.

  void Cut() {
    up.clear();
    down.clear();
    is_closed_by_agent = is_closed_by_controller = true;
  }
};

}  // namespace divvy::simulate
