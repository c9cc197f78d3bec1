#include "daemon/leadership/leader_answers.h"

#include <algorithm>

#include "wire/messages/codec.h"

namespace divvy {
namespace {

/// A controller that has not reported for this time is shown as silent.
constexpr Duration kSilentAfter = std::chrono::seconds(5);

HttpResponse TextResponse(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text) + "\n";
  return response;
}

/// Returns why this controller neither leads nor could lead at once; empty if it leads or could.
std::string NotReadyText(const LeaseKeeper& keeper) {
  if (keeper.may_act()) return "";
  const LeaseKeeper::View view = keeper.view();
  if (!view.trouble.empty()) return view.trouble;
  if (!view.conflict.empty()) return view.conflict;
  if (keeper.epoch() != 0) return "its lease has ended, and was not renewed";
  return view.at == Duration(0) ? "it has not reached the database yet" : "";
}

/// Returns how long the lease is still valid. The `view` of it was read some time ago.
Duration LeftOf(const LeaseKeeper& keeper, const LeaseKeeper::View& view) {
  return view.seen.lease.left - (keeper.since_boot() - view.at);
}

}  // namespace

wire::LeaderView LeaderViewOf(const LeaseKeeper& keeper) {
  const LeaseKeeper::View view = keeper.view();
  wire::LeaderView out;
  out.leads = keeper.may_act();
  for (const HostPort& address : AddressesOf(keeper, false)) out.controllers.push_back(ToString(address));
  if (out.leads) {
    out.name = keeper.self().name;
    out.address = keeper.self().address;
    out.epoch = keeper.epoch();
  } else if (keeper.epoch() == 0 && LeftOf(keeper, view) > Duration(0)) {
    out.name = view.seen.lease.name;
    out.address = view.seen.lease.address;
    out.epoch = view.seen.lease.epoch;
  }
  return out;
}

std::vector<wire::ControllerView> ControllerViewsOf(const LeaseKeeper& keeper) {
  const LeaseKeeper::View view = keeper.view();
  const wire::LeaderView leader = LeaderViewOf(keeper);
  std::vector<wire::ControllerView> out;
  for (const ControllerRow& row : view.seen.controllers) {
    const Duration silent = row.silent + (keeper.since_boot() - view.at);
    wire::ControllerView& shown = out.emplace_back();
    shown.name = row.name;
    shown.address = row.address;
    shown.version = row.version;
    shown.role = row.name == leader.name ? "leader" : silent > kSilentAfter ? "silent" : "standby";
    shown.lag_s = ToSeconds(std::max(silent, Duration(0)));
    shown.ahead_s = ToSeconds(row.ahead);
    if (row.name != leader.name) continue;
    shown.epoch = leader.epoch;
    shown.since = ToSeconds(view.seen.lease.since);
  }
  std::ranges::stable_partition(out, [](const wire::ControllerView& shown) { return shown.role == "leader"; });
  return out;
}

std::vector<HostPort> AddressesOf(const LeaseKeeper& keeper, bool others_only) {
  std::vector<HostPort> out;
  for (const ControllerRow& row : keeper.view().seen.controllers) {
    if (others_only && row.name == keeper.self().name) continue;
    if (auto address = ParseHostPort(row.address)) out.push_back(*std::move(address));
  }
  return out;
}

std::string AgeText(Duration age) {
  const auto tenths = age / std::chrono::milliseconds(100);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string AgeText(const LeaseKeeper& keeper) { return AgeText(keeper.since_boot() - keeper.view().at); }

std::string WhoLeadsText(const LeaseKeeper& keeper) {
  const wire::LeaderView leader = LeaderViewOf(keeper);
  if (!leader.name.empty()) return "controller " + leader.name + " leads";
  const LeaseKeeper::View view = keeper.view();
  if (!view.trouble.empty()) return "no controller is known to lead: " + view.trouble;
  return "no controller leads at the moment" + (view.conflict.empty() ? "" : ": " + view.conflict);
}

std::optional<HttpResponse> AnswerProbe(const HttpRequest& request, const LeaseKeeper* keeper,
                                        const ControllerSelf& self) {
  if (request.method != "GET") return std::nullopt;
  if (request.path == "/healthz") return TextResponse(200, "ok");
  if (request.path == "/readyz") {
    const std::string why = keeper == nullptr ? "" : NotReadyText(*keeper);
    return why.empty() ? TextResponse(200, "ok") : TextResponse(503, why);
  }
  if (request.path != "/leader") return std::nullopt;
  wire::LeaderView view{true, self.name, self.address, 0, {}};
  if (keeper != nullptr) view = LeaderViewOf(*keeper);
  HttpResponse response;
  response.status = view.leads ? 200 : 503;
  response.body = wire::Encode(view);
  return response;
}

}  // namespace divvy
