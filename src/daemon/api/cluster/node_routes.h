// Routes that list nodes and pools, and let administrators change nodes.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace wire {
struct NodeRequest;
}

/// Returns the number of nodes in each state that `divvy nodes` shows, including the controller's own. `listener` is
/// null if there are no agents.
std::map<std::string, int> NodesByState(const Controller& controller, const AgentListener* listener);

class NodeRoutes {
 public:
  NodeRoutes(ApiContext& api, RouteTable& table);

 private:
  using NodeChange = std::function<Result<std::string>(AgentListener& listener, const std::string& name,
                                                       const wire::NodeRequest& request)>;
  void Nodes(ApiCall& call);
  void Pools(ApiCall& call);
  void CordonNodes(ApiCall& call);
  void DrainNodes(ApiCall& call);
  void ResumeNodes(ApiCall& call);
  void RemoveNodes(ApiCall& call);
  void LabelNodes(ApiCall& call);
  void ChangeNodes(ApiCall& call, const NodeChange& change);

  ControllerDriver& driver_;
  const About& about_;
  const ApiPorts& ports_;
};

}  // namespace divvy
