// The nodes of agents under a daemon: the book of them, the door that they come through, and who decides for them, put
// together over the daemon's own commits and tokens.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/books/node_book.h"
#include "daemon/auth/remote_callers.h"
#include "daemon/driver/core.h"
#include "daemon/fleet/agents.h"
#include "daemon/runtime/log.h"

namespace divvy {

class AgentDoor {
 public:
  /// Row of the store: how often a controller began on it.
  static constexpr std::string_view kEpochKey = "controller.epoch";

  /// Before anything else: the rows of the store. True if it was one of ours.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// The name and GPUs of this machine, which no agent may claim.
  void SetOwn(std::string name, const std::vector<GpuFacts>& gpus) { book_.SetOwn(std::move(name), gpus); }

  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    const Log* log = nullptr;
    // As of Agents::Ports.
    std::function<std::string(JobId, std::uint32_t attempt)> gang_key;
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    std::function<std::string(const User& user)> right_of;
  };
  /// `callers`, `core` and `fleet`, who decides for these nodes, outlive this. Null: nobody does, and nothing is placed
  /// there.
  void Open(Core& core, RemoteCallers& callers, Agents::Terms terms, FleetPort* fleet, Ports ports);

  /// Requests for wire::kAgentPath; refused before Open.
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply);

  // For administrators; each says what was done. `core`: where it is kept.
  Status Knows(const std::string& name) const;
  Result<std::string> Cordon(Core& core, const std::string& name, const std::string& reason);
  Result<std::string> Drain(Core& core, const std::string& name, Time deadline, const std::string& reason);
  Result<std::string> Resume(Core& core, const std::string& name);
  /// Refused while something runs there.
  /// `is_gone`: it is away and will not come back; what ran there counts as lost.
  Result<std::string> Remove(Core& core, const std::string& name, bool is_gone);
  Result<std::string> Label(Core& core, const std::string& name, const std::map<std::string, std::string>& labels);

  NodeBook& book() { return book_; }
  const NodeBook& book() const { return book_; }
  /// "up", "away", "lost", "awaited", "cordoned" or "draining".
  std::string StateOf(const NodeRow& row) const;
  /// Null before Open.
  Agents* agents() { return agents_.get(); }
  std::uint64_t epoch() const { return epoch_; }
  /// Before Open: agents follow no controller of an earlier epoch, whatever store it began with.
  void ReserveEpochs(std::uint64_t epoch) { epoch_ = std::max(epoch_, epoch); }

 private:
  Status CheckRemovable(const std::string& name, bool is_gone);
  NodeBook book_;
  std::uint64_t epoch_ = 0;
  Status Keep(Core& core, const std::string& name, Result<NodeBook::Setting> setting);

  std::unique_ptr<FleetPort> nobody_;
  FleetPort* fleet_ = nullptr;
  std::unique_ptr<Agents> agents_;
};

}  // namespace divvy
