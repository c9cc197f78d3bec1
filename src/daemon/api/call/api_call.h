// One request while the routes handle it. Used on the loop's thread only.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/auth/audit.h"
#include "daemon/http/http_server.h"
#include "daemon/views/job_privacy.h"
#include "daemon/views/views.h"
#include "driver/controller_driver.h"
#include "wire/http/http.h"
#include "wire/messages/codec.h"

namespace divvy {

struct ApiCall {
  Caller caller;
  HttpRequest request;
  Reply reply;
  std::string argument;          // The path segment that "*" matched.
  std::string address;           // The address of a caller on another machine; "node n1" for a process of a job there.
  bool is_on_node = false;       // True if the caller is a process of a job on an agent's node.
  bool is_at_page = false;       // True for a logged-in browser.
  bool is_plain = false;         // True for a browser on this machine, over plain HTTP.
  Audit* audit = nullptr;        // Optional. The audit log that gets the result of the request; null for mere reads.
  Audit* refusals = nullptr;     // Optional. The audit log that gets the result only if it is a refusal (403).
  const Clock* clock = nullptr;  // Set if `audit` or `refusals` is.
  JobPrivacy privacy = {};       // Decides what the caller sees of other users' jobs.
  // How many seconds old the state is that the answer shows; empty: it is the present one (see LeaseKeeper::may_act).
  std::string age = {};
  std::string asked = {};  // Optional. The body for the audit log, if it must differ from `request`.

  void Send(int status, std::string body) const {
    constexpr int kForbidden = 403;
    if (Audit* log = audit != nullptr || status != kForbidden ? audit : refusals) {
      log->Write({clock->Now(), caller.user.name, caller.user.uid, address, request.method, request.path,
                  asked.empty() ? request.body : asked, status, body});
    }
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    if (is_at_page) response.headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}};
    if (!age.empty()) response.headers.emplace_back("Divvy-Age", age);
    Reply(reply).Answer(response);
  }
  void Refuse(const Error& error) const { Send(HttpStatusOf(error.code), wire::Encode(ErrorViewOf(error))); }
  template <typename Message>
  void Answer(const Message& message) const {
    if constexpr (requires(Message copy) { privacy.Conceal(copy); }) {
      if (!privacy.sees_all()) {
        Message shown = message;
        privacy.Conceal(shown);
        return Send(200, wire::Encode(shown));
      }
    }
    Send(200, wire::Encode(message));
  }
};

/// Sends `answer` once everything applied so far is durable. `otherwise`: what happens while nothing can be stored.
/// Takes the call over.
template <typename Message>
void AnswerAfterCommit(ControllerDriver& driver, ApiCall& call, Message answer,
                       ControllerDriver::IfNotStored otherwise = ControllerDriver::IfNotStored::kReport) {
  driver.AfterCommit([call = std::make_shared<ApiCall>(std::move(call)), answer = std::move(answer)](
                         const Status& stored) { stored ? call->Answer(answer) : call->Refuse(stored.error()); },
                     otherwise);
}

/// Answers a call for a change. If `done` is an error, refuses the call with it. Otherwise sends its text once all
/// changes applied so far are durable, as AnswerAfterCommit does.
void AnswerMessage(ControllerDriver& driver, ApiCall& call, const Result<std::string>& done);

}  // namespace divvy
