#include "daemon/api/ui/submit_form_routes.h"

#include <ctime>

#include "base/text.h"
#include "base/uuid.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/api/call/ui_auth.h"
#include "daemon/requests/resubmit_form.h"
#include "daemon/requests/valohai_reading.h"
#include "daemon/views/job_selector.h"
#include "dialect/script/option_line_limit.h"
#include "platform/net/tls.h"

namespace divvy {
SubmitFormRoutes::SubmitFormRoutes(ApiContext& api, RouteTable& table)
    : api_(api), driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/jobs/*/again", &SubmitFormRoutes::Again},
                   {"POST", "/v1/words", &SubmitFormRoutes::Words, RouteKind::kQuestion},
                   {"POST", "/v1/script", &SubmitFormRoutes::Script, RouteKind::kQuestion},
                   {"POST", "/v1/valohai", &SubmitFormRoutes::Valohai, RouteKind::kQuestion}});
}

std::function<dialect::ParseContext()> SubmitFormRoutes::ContextOf(const ApiCall& call) const {
  dialect::ParseContext known;
  known.now = driver_.Now();
  known.user = call.caller.user.name;
  if (ports_.ui != nullptr) known.hostname = ports_.ui->host();
  return [known = std::move(known), user = call.caller.user, login = ports_.login_environment] {
    dialect::ParseContext around = known;
    const auto seconds = static_cast<std::time_t>(ToSeconds(around.now));
    std::tm local{};
    localtime_r(&seconds, &local);
    around.utc_offset = std::chrono::seconds(local.tm_gmtoff);
    if (login) around.environment = login(user);
    constexpr std::string_view kHome = "HOME=";
    for (const std::string& pair : around.environment) {
      if (pair.starts_with(kHome)) around.home = pair.substr(kHome.size());
    }
    around.directory = around.home;
    return around;
  };
}

// The environment belongs to the job's owner; no other user, not even an administrator, may run with it.
void SubmitFormRoutes::Again(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  FoundJob found = FindHere(driver_, *id);
  const auto answer = [now = driver_.Now(), grace = ports_.default_grace](ApiCall& asked, const FoundJob& whole) {
    if (!MaySee(asked.caller, *whole.record)) {
      return asked.Refuse(PermissionDenied("job " + asked.argument + " belongs to " + whole.record->user.name +
                                           ", and only the owner may submit it again"));
    }
    wire::AgainView view = AskedAgain(*whole.record, *whole.spec, grace, now);
    if (asked.caller.user.uid != whole.record->user.uid) {
      if (!view.spec.capture.environment.empty())
        view.left_out.push_back("its environment, which belongs to " + whole.record->user.name);
      view.spec.capture = Capture();
    }
    asked.Send(200, wire::EncodeChanged(view));
  };
  api_.reader.ReadUnless(found.record.has_value() && found.spec != nullptr, call,
                         [this, id = *id, answer, found = std::move(found)]() mutable -> FinishCall {
                           const Status done = Complete(driver_.store(), id, found);
                           if (!done || found.spec == nullptr) return RefuseMissing(done, found);
                           return [answer, found = std::move(found)](ApiCall& asked) { answer(asked, found); };
                         });
}

// Parsing and formatting may take a while for a long text, so they run on another thread.
void SubmitFormRoutes::Words(ApiCall& call) {
  auto question = wire::Decode<wire::WordsQuestion>(call.request.body);
  if (!question) return call.Refuse(question.error());
  api_.reader.Read(call, [question = *std::move(question), context = ContextOf(call)]() -> FinishCall {
    return [text = wire::Encode(SaidInWords(question.spec, context()))](ApiCall& asked) { asked.Send(200, text); };
  });
}

void SubmitFormRoutes::Script(ApiCall& call) {
  auto question = wire::Decode<wire::ScriptQuestion>(call.request.body);
  if (!question) return call.Refuse(question.error());
  if (!question->directory.empty() && question->directory.front() != '/')
    return call.Refuse(InvalidArgument("'directory': give an absolute path"));
  if (const Status good = dialect::CheckOptionLines(question->text); !good) return call.Refuse(good.error());
  api_.reader.Read(call, [question = *std::move(question), context = ContextOf(call)]() -> FinishCall {
    return
        [text = wire::EncodeChanged(ReadScriptLines(question, context()))](ApiCall& asked) { asked.Send(200, text); };
  });
}

void SubmitFormRoutes::Valohai(ApiCall& call) {
  auto question = wire::Decode<wire::ValohaiQuestion>(call.request.body);
  if (!question) return call.Refuse(question.error());
  // The checks compare all names in the text with each other, which takes long for a long text.
  constexpr std::size_t kMostText = 128 << 10;
  if (question->text.size() > kMostText) {
    return call.Refuse(InvalidArgument("the file has " + std::to_string(question->text.size()) +
                                       " bytes, but at most " + std::to_string(kMostText) +
                                       " can be read here; use vh lint on its machine"));
  }
  ValohaiPlace place;
  const auto drawn = RandomHex(16);
  if (!drawn) return call.Refuse(drawn.error());
  place.execution_id = UuidOfRandom(*drawn);
  // As in vh: a daemon of one user keeps them with its other files.
  if (!api_.about.is_machine_wide && !api_.about.home.empty())
    place.root = api_.about.home + "/executions/" + place.execution_id;
  place.default_gpus = driver_.controller().scheduler().gpu_count() > 0 ? 1 : 0;
  // Parsing a long text may take a while.
  api_.reader.Read(
      call,
      [question = *std::move(question), place = std::move(place), context = ContextOf(call)]() mutable -> FinishCall {
        place.around = context();
        return [text = wire::Encode(ReadValohai(question, place))](ApiCall& asked) { asked.Send(200, text); };
      });
}

}  // namespace divvy
