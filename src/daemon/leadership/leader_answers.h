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

/// Returns nullopt if the request is for another path. `keeper`: null for a store without a lease. `self`: the name of
/// this controller, and its address for other machines.
std::optional<HttpResponse> AnswerProbe(const HttpRequest& request, const LeaseKeeper* keeper,
                                        const ControllerSelf& self);

wire::LeaderView LeaderViewOf(const LeaseKeeper& keeper);
/// All controllers, the leader first.
std::vector<wire::ControllerView> ControllerViewsOf(const LeaseKeeper& keeper);
/// The addresses of all controllers that listen for other machines; without this one's if `others_only`.
std::vector<HostPort> AddressesOf(const LeaseKeeper& keeper, bool others_only);
/// "4.2": the value of the header Divvy-Age.
std::string AgeText(Duration age);
/// The age of what a controller knows that can neither confirm nor make changes now.
std::string AgeText(const LeaseKeeper& keeper);
/// "controller gpu2.lab:7433 leads", or why none does. For messages of a controller that does not lead.
std::string WhoLeadsText(const LeaseKeeper& keeper);

}  // namespace divvy
