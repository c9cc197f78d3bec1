// Routes for services. A service is a set of replicas (jobs) behind one port, scaled by load.
#pragma once

#include <memory>
#include <utility>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "daemon/api/jobs/submit_routes.h"
#include "wire/services/service_messages.h"

namespace divvy {

class ServiceHost;

class ServiceRoutes {
 public:
  ServiceRoutes(ApiContext& api, RouteTable& table, const SubmitRoutes& submit);

  void Set(std::shared_ptr<ServiceHost> services) { services_ = std::move(services); }

 private:
  void List(ApiCall& call);
  void Show(ApiCall& call);
  void Definition(ApiCall& call);
  void Create(ApiCall& call);
  void Update(ApiCall& call);
  void Scale(ApiCall& call);
  void Promote(ApiCall& call);
  void RollBack(ApiCall& call);
  void Delete(ApiCall& call);
  /// Returns the object that manages services. If this daemon runs no services, refuses the call and returns null.
  ServiceHost* Find(ApiCall& call) const;
  /// Decodes the body of a request, completes and checks the specification in it, and checks that a replica could run.
  /// `owner` is the service's owner, whereas the caller may be an administrator.
  Result<wire::ServiceDefinition> Read(ApiCall& call, const Caller& owner) const;

  ApiContext& api_;
  ControllerDriver& driver_;
  const SubmitRoutes& submit_;
  std::shared_ptr<ServiceHost> services_;
};

}  // namespace divvy
