// Routes that change jobs: actions on selected jobs, and reports of running jobs about themselves.
#pragma once

#include <functional>
#include <string>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "wire/messages/messages.h"

namespace divvy {

class JobActionRoutes {
 public:
  JobActionRoutes(ApiContext& api, RouteTable& table);

 private:
  using Action = std::function<Result<std::string>(JobId id, const wire::ActionRequest& request, const Caller& caller)>;
  /// The action for a selected job that has ended. A null function means that such a job is refused.
  using ActionOnEnded = std::function<Result<std::string>(const JobRecord& ended, const wire::ActionRequest& request,
                                                          const Caller& caller)>;
  void Act(ApiCall& call, const Action& action, const ActionOnEnded& on_ended = {});
  void Cancel(ApiCall& call);
  void Hold(ApiCall& call);
  void Release(ApiCall& call);
  void Requeue(ApiCall& call);
  void Pause(ApiCall& call);
  void Resume(ApiCall& call);
  void Signal(ApiCall& call);
  void Update(ApiCall& call);
  void GroupLimit(ApiCall& call);
  void Checkpoint(ApiCall& call);
  void ReportProgress(ApiCall& call);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
  LabelCache& labels_;
};

}  // namespace divvy
