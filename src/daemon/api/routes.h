// The API: identifies the caller of each request, and passes the request to the handler of its path. docs/api.md and
// GET /v1/openapi.json describe the paths for users.
#pragma once

#include <functional>
#include <memory>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ServiceHost;

/// Used on the loop's thread only.
class Routes {
 public:
  Routes(ControllerDriver& driver, Node& node, About about, Admins admins, ApiPorts ports);
  ~Routes();

  void Handle(const Peer& peer, HttpRequest&& request, Reply reply);
  /// Call when the samples of another second have arrived: sends them to clients that watch.
  void OnSecond();
  /// Moves the GPU memory of a job with GPU fractions to the host, on whichever node it runs.
  void ParkTenant(const JobRecord& record, std::function<void(const Status&)> done);
  /// Performs `action`, "park" (as ParkTenant) or "wake" (the reverse), on a job with GPU fractions.
  void ActOnTenant(const JobRecord& record, const std::string& action, std::function<void(const Status&)> done);
  /// Optional. Sets a function that returns how many seconds old the shown state is, or an empty text if it is the
  /// present one. Call before the first request.
  void SetAge(std::function<std::string()> age) { age_ = std::move(age); }
  /// Takes over the labels of jobs that `before` has read from the same store. Any thread; call before the first
  /// request.
  void InheritLabels(const Routes& before) { api_.labels.Inherit(before.api_.labels); }
  /// Call before the first request; null: there are no services.
  void SetServices(std::shared_ptr<ServiceHost> services);
  /// Returns the user as a caller with the rights that the user has now.
  Caller CallerOf(const User& user);
  /// Returns true while a client watches samples.
  bool is_watched() const;

 private:
  struct Owners;  // The classes of routes. Each adds its paths to `table_`.

  void HoldChange(const RouteTable::Route& route, ApiCall call);
  void TurnAway(ApiCall& call, const Error& error);
  void OpenApi(ApiCall& call);

  ApiContext api_;
  RouteTable table_;
  std::function<std::string()> age_;
  std::unique_ptr<Owners> owners_;
};

}  // namespace divvy
