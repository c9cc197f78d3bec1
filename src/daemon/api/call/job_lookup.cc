#include "daemon/api/call/job_lookup.h"

#include "control/controller/start_reason.h"
#include "daemon/fleet/agent_listener.h"
#include "model/reason_words.h"

namespace divvy {

FoundJob FindHere(ControllerDriver& driver, JobId id) {
  FoundJob found;
  found.record = driver.FindUnstored(id);
  if (found.record) found.spec = driver.UnstoredSpecOf(*found.record);
  return found;
}

Status Complete(Store& store, JobId id, FoundJob& found) {
  if (!found.record) {
    DIVVY_TRY(found.record, store.Find(id));
  }
  if (found.spec == nullptr) {
    if (auto spec = store.Spec(found.record->spec_of)) found.spec = std::make_shared<const JobSpec>(*std::move(spec));
    else found.spec_read = spec.error();
  }
  return {};
}

Error MissingJob(const Error& error, std::string_view word) {
  return error.code == ErrorCode::kUnreachable ? error : NotFound("there is no job " + std::string(word));
}

FinishCall RefuseMissing(const Status& done, const FoundJob& found) {
  const Error cause = !done ? done.error() : !found.spec_read ? found.spec_read.error() : NotFound("");
  return [cause](ApiCall& asked) { asked.Refuse(MissingJob(cause, asked.argument)); };
}

bool MaySee(const Caller& caller, const JobRecord& record) {
  return caller.is_admin || caller.user.uid == record.user.uid;
}

std::shared_ptr<const JobSpec> VisibleSpec(const Controller& controller, const Caller& caller, const FoundJob& found) {
  if (MaySee(caller, *found.record)) return found.spec;
  return controller.Leads(caller, *found.record) ? found.spec : nullptr;
}

FindOutcome LiveNames(const Controller& controller) {
  return [&controller](JobId id) -> std::optional<JobRecord> {
    const JobRecord* record = controller.Find(id);
    return record == nullptr ? std::nullopt : std::optional(*record);
  };
}

Reason ReasonNow(ControllerDriver& driver, AgentListener* listener, const JobRecord& record, FirstBlockers* blockers) {
  std::optional<FirstBlockers> own;
  if (blockers == nullptr) blockers = &own.emplace(driver.controller().scheduler(), driver.Now());
  Reason reason = StateReason(driver.controller(), record, blockers);
  if (reason == record.reason) {
    if (Reason parked = driver.controller().time_sharer().ReasonOf(record, driver.Now()); !parked.empty())
      return parked;
  }
  if (!reason.ends_with(kMayGoOn) || listener == nullptr || listener->agents() == nullptr) return reason;
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    const NodeRow* row = listener->registry().Find(allocation.node);
    const RemoteNode* node = listener->agents()->Find(allocation.node);
    if (row == nullptr || node == nullptr || node->heard() == kNoTime || !row->terms.stops_jobs) continue;
    if (driver.Now() < AddSaturating(node->heard(), row->terms.lease)) continue;
    reason.replace(reason.size() - kMayGoOn.size(), kMayGoOn.size(),
                   "its lease has expired: it is being stopped there");
    break;
  }
  return reason;
}

std::optional<wire::ShareView> ShareOf(const Controller& controller, const SharingSnapshot* shares,
                                       const JobRecord& record) {
  std::optional<wire::ShareView> view =
      ShareViewOf(record, shares == nullptr ? nullptr : shares->Find(record.node, record.id));
  if (view) MarkAbsent(controller.DisconnectReason(record.node), view->state, view->note);
  return view;
}

std::optional<wire::TimeSharingView> TimeSharingOf(ControllerDriver& driver, const JobRecord& record) {
  const auto status = driver.controller().time_sharer().StatusOf(record, driver.Now());
  if (!status) return std::nullopt;
  wire::TimeSharingView view;
  view.stage = status->stage == TimeSharingStage::kTrial     ? "trial"
               : status->stage == TimeSharingStage::kSettled ? "settled"
                                                             : "long";
  view.is_parked = status->is_displaced;
  view.parked_for = status->parked_for;
  view.lost_s = ToSeconds(status->lost);
  if (status->returns_by != kNever) view.returns_by = ToSeconds(status->returns_by);
  view.why_kept = status->why_kept;
  return view;
}

}  // namespace divvy
