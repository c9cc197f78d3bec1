// The state and the services that all routes share. Each class of routes takes from it what it needs.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "daemon/api/call/api_call.h"
#include "daemon/api/call/api_ports.h"
#include "daemon/api/call/caller_identifier.h"
#include "daemon/node/node.h"
#include "daemon/views/label_cache.h"
#include "daemon/views/user_loads.h"
#include "driver/controller_driver.h"

namespace divvy {

class RemoteNode;

/// Turns the result of a read into the call's answer, on the loop's thread.
using FinishCall = std::function<void(ApiCall& call)>;

/// Answers calls whose answers are slow to read or to build, on another thread (ApiPorts::read).
class CallReader {
 public:
  explicit CallReader(const ApiPorts& ports) : ports_(ports) {}

  /// Runs `read` on another thread, where it may use only the store and LabelCache::OfStored, and then the function
  /// that it returns on the loop's thread, to answer the call. Moves from `call`.
  void Read(ApiCall& call, std::function<FinishCall()> read);
  /// Does the same. If `is_quick`, both functions run at once on the loop's thread.
  void ReadUnless(bool is_quick, ApiCall& call, std::function<FinishCall()> read);

 private:
  const ApiPorts& ports_;
  std::map<std::uint64_t, std::shared_ptr<ApiCall>> calls_;  // Calls whose answers are being read.
  std::uint64_t next_ = 1;
};

/// The objects that all routes use. Used on the loop's thread only, except where a member allows other threads.
struct ApiContext {
  ControllerDriver& driver;
  Node& node;
  const About about;
  const ApiPorts ports;
  Admins admins;
  CallerIdentifier callers{driver, admins, ports};
  LabelCache labels{driver};
  UserLoads loads = {};
  CallReader reader{ports};
};

/// Returns the agent's node of this name, or null if it has never connected.
RemoteNode* FindRemoteNode(const ApiPorts& ports, const std::string& name);
/// Returns the name of the controller's own node.
std::string OwnNodeName(const ApiPorts& ports);

}  // namespace divvy
