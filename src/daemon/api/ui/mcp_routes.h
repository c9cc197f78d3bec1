// The Model Context Protocol over HTTP, for agents on other machines: POST /v1/mcp takes a message, and its answer is
// the answer to that message. There are no sessions and no streams, as the protocol allows (GET gets status 405).
//
// Each tool sends requests of the API with the caller's own token or session (Ports::send), so it has exactly the
// rights that the caller has without the protocol. A page of another origin gets status 403.
#pragma once

#include <functional>
#include <memory>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "daemon/api/ui/submit_form_routes.h"

namespace divvy {

class McpRoutes {
 public:
  struct Ports {
    /// Returns the client of the request that is being handled.
    std::function<Peer()> peer;
    /// Handles a request of the API as if it had arrived from `peer`.
    std::function<void(const Peer& peer, HttpRequest&& request, Reply reply)> send;
  };
  McpRoutes(ApiContext& api, RouteTable& table, const SubmitFormRoutes& form, Ports ports);

 private:
  struct Talk;

  void Begin(ApiCall& call);
  /// Sends the next request that the answer needs, or the complete answer. Takes the call over.
  void Continue(ApiCall& call, const std::shared_ptr<Talk>& talk);

  ApiContext& api_;
  const SubmitFormRoutes& form_;
  const Ports ports_;
  std::shared_ptr<const bool> is_alive_ = std::make_shared<bool>(true);  // Ends with this object; replies may not.
};

}  // namespace divvy
