// Routes for clients that stay connected to a job: `divvy run`, which waits for its foreground job; terminals that
// attach to a running job; and clients outside a job that start steps in it. The job may run on this node or on an
// agent's node.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "daemon/fleet/remote_streams.h"

namespace divvy {

/// Checks that the file descriptors which a caller has passed are safe to use (CheckPassedStream): the caller's three
/// streams, and then a relay for each (remote_streams.h explains relays). `uid` is the caller's. `has_terminal`: the
/// job has a terminal, so the job's supervisor and not the job reads and writes the streams.
Status CheckCallersStreams(const PassedFds& passed, bool has_terminal, std::int64_t uid);

class TerminalRoutes {
 public:
  TerminalRoutes(ApiContext& api, RouteTable& table);

  /// Keeps the file descriptors that a foreground job's caller has passed: its three streams, and a relay for each if
  /// the caller can copy the streams' bytes itself (remote_streams.h). `had`: for a caller that reconnects, what it has
  /// received before.
  Status KeepCaller(JobId id, PassedFds& fds, const RemoteStreams::Had& had = std::nullopt);
  void DropCaller(JobId id);
  /// Call when a foreground job was submitted. Its caller will soon send the request that waits for the job.
  void ExpectCaller(JobId id);

 private:
  void Wait(ApiCall& call);
  void Rejoin(ApiCall& call);
  void Attach(ApiCall& call);
  void Resize(ApiCall& call);
  /// A client outside a job starts a step in it, or signals one.
  void CallStep(ApiCall& call);
  void AnswerWhenFinal(ApiCall& call, JobId id, std::function<void()> on_closed);
  /// Answers the caller of a foreground job once the job is final, or the caller has detached (Ctrl-P Ctrl-Q in its
  /// terminal).
  void AnswerCaller(ApiCall& call, JobId id);
  void OnTerminalLeft(JobId id);
  std::function<void()> EndsWithItsTerminal(JobId id, const Caller& caller);
  /// Attaches to the terminal of a job on an agent's node.
  void AttachRemote(ApiCall& call, const JobRecord& record);

  ControllerDriver& driver_;
  Node& node_;
  const ApiPorts& ports_;
  std::map<JobId, Reply> callers_;  // The callers of foreground jobs, which wait at their terminals.
  std::set<JobId> submitted_;       // Foreground jobs whose callers are about to wait for them.
  std::set<JobId> left_;            // Foreground jobs that continue after their caller has detached.
};

}  // namespace divvy
