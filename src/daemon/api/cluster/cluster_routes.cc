// The routes of runs that the store does not know.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

std::string StateText(const Controller::FoundRun& found) {
  if (found.run.exit) return "ended";
  return found.is_ending ? "ending" : "running";
}

}  // namespace

void ClusterRoutes::FoundRuns(ApiCall& call) {
  std::vector<wire::FoundView> views;
  for (const auto& [id, found] : core_.controller().found()) {
    if (found.is_adopted) continue;
    const JobRecord& record = found.run.record;
    wire::FoundView& view = views.emplace_back();
    view.job = id;
    view.name = record.name;
    view.user = record.user.name.empty() ? ports_.user_name(record.user.uid) : record.user.name;
    view.node = record.node.empty() ? OwnNodeName(ports_) : record.node;
    for (const int gpu : record.gpus.ToVector()) view.gpus.push_back(gpu);
    view.started = ToSeconds(record.started);
    view.state = StateText(found);
    if (found.run.exit && found.run.exit->is_known) view.exit_code = found.run.exit->code;
  }
  call.Answer(views);
}

void ClusterRoutes::ChangeFound(ApiCall& call) {
  const auto request = wire::Decode<wire::FoundRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto done = request->ends ? core_.controller().EndFound(request->job, call.caller)
                                  : core_.controller().Adopt(request->job, call.caller, core_.Now());
  if (!done) return call.Refuse(done.error());
  wire::MessageAnswer answer{ToString(request->job) + " " + *done};
  core_.AfterCommit(
      [call = std::make_shared<ApiCall>(std::move(call)), answer = std::move(answer)](const Status& kept) {
        if (kept) call->Answer(answer);
        else call->Refuse(kept.error());
      },
      true);
}

std::vector<std::string> ClusterRoutes::FoundWarnings() const {
  std::vector<std::string> warnings;
  for (const auto& [id, found] : core_.controller().found()) {
    if (found.is_adopted) continue;
    const JobRecord& record = found.run.record;
    const std::string gpus = GpuListText(record.gpus);
    warnings.push_back("job " + ToString(id) + " of " +
                       (record.user.name.empty() ? "uid " + std::to_string(record.user.uid) : record.user.name) +
                       (found.run.exit ? " has ended" : " runs") +
                       (record.node.empty() ? "" : " on node " + record.node) +
                       (gpus.empty() ? "" : " on GPU " + gpus) + ", and the store does not know it: divvy adopt " +
                       ToString(id) + " takes it over, divvy adopt --end " + ToString(id) + " ends it");
  }
  return warnings;
}

}  // namespace divvy
