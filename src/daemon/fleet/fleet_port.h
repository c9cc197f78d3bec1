// The interface between the endpoint for agents (daemon/fleet/agents.h) and the component that decides for many nodes.
// All times are the controller's own, since a node's clock may be wrong. Called from the loop, never from inside a call
// on Agents or a RemoteNode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/books/node_registry.h"
#include "daemon/runtime/controller_port.h"
#include "driver/node_command_port.h"
#include "model/machine_facts.h"
#include "model/run_description.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class FleetPort {
 public:
  virtual ~FleetPort() = default;

  /// Every run that should now be active on the node, with how to stop it.
  virtual std::vector<wire::AgentRun> RunsOn(const std::string& node) = 0;
  /// Returns a live job's record, or null.
  virtual const JobRecord* Find(JobId job) = 0;

  /// The node has joined, perhaps with other GPUs than before. Its row is durable, and `commands` reaches it from now
  /// on, also across short disconnects. Its runs are known only after OnAccounted; until then nothing new should be
  /// placed there. `commands` lives as long as the node is known (until Agents::Forget).
  virtual void OnJoined(const std::string& node, const MachineFacts& facts, NodeCommandPort& commands) = 0;
  /// Every run that RunsOn named has been accounted for by the earlier reports. Durable with the commit that contains
  /// those reports.
  virtual void OnAccounted(const std::string& node) = 0;

  /// A gang's node allocation is prepared and waits for a GoCommand; repeated until that has arrived. The gang's other
  /// nodes reach it at `port` (TCP).
  virtual void OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) = 0;
  /// See ControllerPort::OnDelayed.
  virtual void OnDelayed(const std::string&, JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
  virtual void OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) = 0;
  /// Must be answered with a ForgetCommand once it is durable; repeated until then.
  virtual void OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) = 0;
  virtual void OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) = 0;
  virtual void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) = 0;
  /// The node reports why it cannot take jobs; an empty text means that it can, as at the start of each session.
  virtual void OnTrouble(const std::string& node, const std::string& what) = 0;
  /// The node reports the tenants of its shared GPUs and their present state.
  virtual void OnShares(const std::string&, const wire::KeeperState&) {}
  /// Only for known runs: see NodeReportPort::OnPresence.
  virtual void OnPresence(const std::string&, const PresenceReport&) {}
  /// Only for known runs: see ControllerPort::OnRepay.
  virtual void OnRepay(const std::string&, JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}

  /// The node (run.record.node) reports a run, or the end of a run, that the controller has not named in its Welcome.
  /// Returns true if the run is not in the store.
  virtual bool OnFound(RunDescription) { return false; }

  /// The administrator's settings for the node, or its labels, have changed. Also called before OnJoined. Durable with
  /// the next commit.
  virtual void OnRow(const NodeRow& row) = 0;
  /// The node was removed; nothing was running there.
  virtual void OnRemoved(const std::string& node) = 0;

  /// The node was disconnected; followed by OnBack, OnAccounted or OnLost.
  virtual void OnAway(const std::string& node) = 0;
  /// The node was silent for Agents::Terms::lost_after. Its jobs presumably continue.
  virtual void OnLost(const std::string& node) = 0;
  /// The node stops its jobs when it is disconnected, and its own lease has ended, so its jobs may be started
  /// elsewhere. Called only if Agents::Terms::requeue_lost_after is set. The node's session is over, so nothing that
  /// was sent can still arrive.
  virtual void OnFenced(const std::string& node) = 0;
  /// The node is disconnected, and an administrator says that it will not come back: its runs have ended with it.
  virtual void OnGone(const std::string& node) = 0;
  /// The node is connected again in the same session, after OnAway or OnLost and before OnFenced.
  virtual void OnBack(const std::string& node) = 0;
};

}  // namespace divvy
