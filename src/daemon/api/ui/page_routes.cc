#include "daemon/api/ui/page_routes.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "control/controller/start_reason.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/api/call/request_query.h"
#include "daemon/api/call/ui_auth.h"
#include "daemon/node/machine.h"
#include "wire/http/token_line.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/ui_messages.h"

namespace divvy {
namespace {

constexpr std::int64_t kUsualLines = 500;
constexpr std::int64_t kMostLines = 5'000;
constexpr std::int64_t kUsualStarts = 5'000;
constexpr std::int64_t kMostStarts = 100'000;
/// The time limit for computing estimated starts, short because the event loop serves no other request meanwhile.
constexpr auto kStartsTakeAtMost = std::chrono::milliseconds(15);

}  // namespace

PageRoutes::PageRoutes(ApiContext& api, RouteTable& table) : api_(api), driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"POST", "/v1/ui/links", &PageRoutes::UiLink, RouteKind::kQuestion},
                   {"GET", "/v1/ui/me", &PageRoutes::UiMe},
                   {"GET", "/v1/history", &PageRoutes::LatestHistory},
                   {"GET", "/v1/starts", &PageRoutes::Starts}});
}

void PageRoutes::UiLink(ApiCall& call) {
  const auto request = wire::Decode<wire::UiLinkRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  if (call.is_on_node || call.is_at_page || ports_.ui == nullptr) {
    return call.Refuse(
        PermissionDenied("links to the web page are created by divvy ui on a command line, not in a job on another "
                         "node or from the page"));
  }
  UiIdentity identity{call.caller.user.uid, call.caller.user.gid, call.caller.user.name, "", true};
  if (!call.address.empty()) {
    const auto bearer = ParseBearer(call.request.header("authorization"));
    if (!bearer) return call.Refuse(bearer.error());
    identity.token = bearer->id;
  }
  identity.is_plain = call.address.empty() && !request->is_remote;
  auto answer = ports_.ui->MakeLink(std::move(identity));
  if (!answer) return call.Refuse(answer.error());
  AnswerAfterCommit(driver_, call, *std::move(answer));
}

void PageRoutes::UiMe(ApiCall& call) {
  wire::UiMe me;
  me.user = call.caller.user.name;
  me.uid = call.caller.user.uid;
  me.is_admin = call.caller.is_admin;
  me.time = ToSeconds(driver_.Now());
  me.program = OwnPath();
  if (ports_.ui != nullptr) {
    me.host = ports_.ui->host();
    const auto identity = ports_.ui->IdentityOf(call.is_plain, call.request);
    const TokenRow* row = identity ? ports_.remote->callers.registry().Find(identity->token) : nullptr;
    me.may_change = row == nullptr || row->role != TokenRole::kViewer;
  }
  call.Answer(me);
}

// Contains nothing that `divvy show` does not show to every user.
void PageRoutes::LatestHistory(ApiCall& call) {
  const auto limit = CountIn(call.request, "limit", kUsualLines, kMostLines);
  if (!limit) return call.Refuse(limit.error());
  api_.reader.Read(call, [this, count = static_cast<std::uint64_t>(*limit), privacy = call.privacy]() -> FinishCall {
    auto lines = driver_.store().LatestHistory(count);
    if (!lines) return [error = lines.error()](ApiCall& from) { from.Refuse(error); };
    std::map<JobId, std::string> owners;
    for (Batch::HistoryLine& line : *lines) {
      if (privacy.sees_all() || !line.job.is_set()) continue;
      const auto [owner, is_new] = owners.try_emplace(line.job);
      if (is_new) {
        if (const auto record = driver_.store().Find(line.job)) owner->second = record->user.name;
      }
      line.text = privacy.Reason(owner->second, std::move(line.text));
    }
    return [this, lines = *lines](ApiCall& from) {
      const FindOutcome find = LiveNames(driver_.controller());
      std::vector<wire::HistoryEvent> events;
      for (const Batch::HistoryLine& line : lines)
        events.push_back({ToSeconds(line.at), line.job.is_set() ? std::optional(line.job) : std::nullopt,
                          WithPublicIds(line.text, find)});
      from.Answer(events);
    };
  });
}

// Each value equals that of GET /v1/jobs/ID/why, at most a few seconds old.
void PageRoutes::Starts(ApiCall& call) {
  const auto limit = CountIn(call.request, "limit", kUsualStarts, kMostStarts);
  if (!limit) return call.Refuse(limit.error());
  const Controller& controller = driver_.controller();
  const Time now = driver_.Now();
  const std::vector<JobId> waiting = QueueOrder(controller.scheduler(), now, static_cast<std::size_t>(*limit));
  const auto until = std::chrono::steady_clock::now() + kStartsTakeAtMost;
  starts_.Update(
      waiting, now,
      [&, spread = controller.run_spread()](JobId job) { return StartOf(controller.scheduler(), job, now, spread); },
      [&] { return std::chrono::steady_clock::now() < until; });
  wire::StartsAnswer answer;
  answer.time = ToSeconds(now);
  const FindOutcome find = LiveNames(driver_.controller());
  for (const JobId job : waiting) {
    const core::Estimate* start = starts_.Find(job);
    answer.is_complete &= start != nullptr;
    if (start == nullptr) continue;
    wire::StartView& view = answer.starts.emplace_back();
    view.id = job;
    if (start->typical != kNever) view.start = ToSeconds(std::max(start->typical, now));
    view.basis = WithPublicIds(WithTeamNames(start->basis), find);
  }
  call.Answer(answer);
}

}  // namespace divvy
