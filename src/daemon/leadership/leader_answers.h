// Answers of controllers that need no login, for load balancers and for clients that look for the leader:
//
//   GET /healthz   200: the process answers
//   GET /readyz    200: it leads, or could lead at once
//   GET /leader    200: it leads; 503: it does not. The body names the leader (wire::LeaderView).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/host_port.h"
#include "driver/lease_keeper.h"
#include "wire/http/http.h"
#include "wire/messages/messages_remote.h"

namespace divvy {

/// Returns the answer to a request for one of these paths; nullopt for any other path. `keeper`: null for a store
/// without a lease, which only one controller uses. `self`: the name of this controller, and its address for other
/// machines.
std::optional<HttpResponse> AnswerProbe(const HttpRequest& request, const LeaseKeeper* keeper,
                                        const ControllerSelf& self);

wire::LeaderView LeaderViewOf(const LeaseKeeper& keeper);
/// All controllers, the leader first.
std::vector<wire::ControllerView> ControllerViewsOf(const LeaseKeeper& keeper);
/// Returns the addresses of all controllers that other machines can connect to; without this controller's own address
/// if `others_only`.
std::vector<HostPort> AddressesOf(const LeaseKeeper& keeper, bool others_only);
/// Returns the value of the HTTP header Divvy-Age, in seconds: "4.2".
std::string AgeText(Duration age);
/// Returns the same for the state that this controller shows while it cannot confirm that it still leads.
std::string AgeText(const LeaseKeeper& keeper);
/// Returns "controller gpu2.lab:7433 leads", or why no controller leads, for messages of a controller that does not
/// lead.
std::string WhoLeadsText(const LeaseKeeper& keeper);

}  // namespace divvy
