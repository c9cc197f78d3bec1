// What the door to agents (daemon/fleet/agents.h) needs of whoever decides for many nodes, and tells them. All times
// are the controller's own: a node's clock may be wrong. Called from the loop, never from inside a call on Agents or a
// RemoteNode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/books/node_book.h"
#include "daemon/runtime/controller_port.h"
#include "daemon/runtime/order_port.h"
#include "model/machine_facts.h"
#include "model/run_description.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class FleetPort {
 public:
  virtual ~FleetPort() = default;

  /// Every run that is active on the node as things are decided now, with how it is to be stopped.
  virtual std::vector<wire::AgentRun> RunsOn(const std::string& node) = 0;
  /// A live job's record; null: there is none.
  virtual const JobRecord* Find(JobId job) = 0;

  /// The node is there, perhaps with other GPUs than before: its row is durable, and `orders` reach it from now on,
  /// also over short cuts. What runs on it is known when OnAccounted says so; until then nothing new should go there.
  /// `orders` lives as long as the node is known (until Agents::Forget).
  virtual void OnJoined(const std::string& node, const MachineFacts& facts, OrderPort& orders) = 0;
  /// All that RunsOn named has been accounted for, by the reports before this. Durable from the commit on that what
  /// this says goes into.
  virtual void OnAccounted(const std::string& node) = 0;

  /// Its part of a gang is ready and waits for a GoOrder; said again until that has arrived. The other machines' parts
  /// reach it at `port` (TCP).
  virtual void OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) = 0;
  /// See ControllerPort::OnDelayed.
  virtual void OnDelayed(const std::string&, JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
  virtual void OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) = 0;
  /// To be answered with a ForgetOrder once it is durable; said again until then.
  virtual void OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) = 0;
  virtual void OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) = 0;
  virtual void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) = 0;
  /// What keeps it from taking jobs, as it finds itself; empty: nothing any more, as in the beginning of each session.
  virtual void OnTrouble(const std::string& node, const std::string& what) = 0;
  /// Who shares its GPUs, and how it is with them now.
  virtual void OnShares(const std::string&, const wire::KeeperState&) {}
  /// Of a run that is known: see ControllerPort::OnRepay.
  virtual void OnRepay(const std::string&, JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}

  /// A run on the node record.node that the welcome did not name, or what became of it. True: no store knows it.
  virtual bool OnFound(RunDescription) { return false; }

  /// What an administrator wants of it, or its labels, have changed; also said before OnJoined. Durable with the next
  /// commit.
  virtual void OnRow(const NodeRow& row) = 0;
  /// It was removed; nothing was running there.
  virtual void OnRemoved(const std::string& node) = 0;

  /// Its connection was cut; followed by OnBack, OnAccounted or OnLost.
  virtual void OnAway(const std::string& node) = 0;
  /// Not heard from for Agents::Terms::lost_after. Its jobs go on for all we know.
  virtual void OnLost(const std::string& node) = 0;
  /// It stops its jobs when it is cut off, and by its own lease has done so: what ran there may run elsewhere. Only
  /// where Agents::Terms::requeue_lost_after is set; its session is over, so nothing that was sent can arrive any more.
  virtual void OnFenced(const std::string& node) = 0;
  /// It is away, and an administrator says that it will not come back: what ran there has ended with it.
  virtual void OnGone(const std::string& node) = 0;
  /// Connected again, after OnAway or OnLost and before OnFenced, in the same session.
  virtual void OnBack(const std::string& node) = 0;
};

}  // namespace divvy
