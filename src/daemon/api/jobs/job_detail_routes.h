// Routes that show one job: its description, output, environment, array elements and steps, and why it waits.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ServiceHost;

namespace wire {
struct AgentQuestion;
struct ElementsView;
}  // namespace wire

class JobDetailRoutes {
 public:
  JobDetailRoutes(ApiContext& api, RouteTable& table);

  /// From now on, `divvy why` also explains services and their replicas.
  void SetServices(std::shared_ptr<const ServiceHost> services) { services_ = std::move(services); }

 private:
  void Show(ApiCall& call);
  void Why(ApiCall& call);
  /// Returns whether the call names a service. A job of the caller goes before a service of another user. `is_job`: it
  /// also names a job.
  bool NamesService(const ApiCall& call, bool is_job) const;
  /// Adds what a service or a sweep knows about its job.
  void AddNotes(JobId job, const Caller& caller, wire::WhyView& view) const;
  void Steps(ApiCall& call);
  void Environment(ApiCall& call);
  void Elements(ApiCall& call);
  void AnswerDetail(ApiCall& call, const FoundJob& found);
  void NameMachines(const core::Explanation& explanation, wire::WhyView& view) const;
  /// Asks the agent of the job's node for its steps; answers with none if the agent is not connected. `has_commands`:
  /// the caller may see the commands.
  void AskForSteps(ApiCall& call, const JobRecord& record, bool has_commands);
  void AnswerElements(ApiCall& call, const FoundJob& found, wire::ElementsView view);

  // job_output_routes.cc
  void Log(ApiCall& call);
  /// Asks the agent of the job's node for a piece of its log, and answers when the agent does.
  void AskForLog(ApiCall& call, const wire::AgentQuestion& question);
  /// The path of the job's output or error file, present or future; for a job that waits for its next run, of the last
  /// one. It is "n1:/home/ada/out.txt" on an agent's node, and a path without a node if it is the same on every
  /// possible node. Empty if there is no such file, or it is not certain yet.
  std::string PathOf(const FoundJob& found, const JobSpec& spec, bool is_error) const;

  ApiContext& api_;
  ControllerDriver& driver_;
  Node& node_;
  const ApiPorts& ports_;
  std::shared_ptr<const ServiceHost> services_;
};

}  // namespace divvy
