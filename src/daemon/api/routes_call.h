// One request on its way through the routes.
#pragma once

#include <string>
#include <vector>

#include "daemon/api/routes.h"
#include "daemon/views/job_privacy.h"
#include "daemon/views/views.h"
#include "wire/http/http.h"
#include "wire/messages/codec.h"

namespace divvy {

struct Routes::Call {
  Caller caller;
  HttpRequest request;
  Reply reply;
  std::string argument;       // What "*" stood for in the path.
  std::string address;        // Of a caller on another machine; "node n1": of a job's process there.
  bool is_on_node = false;    // That one.
  bool is_at_page = false;    // Of a browser that is logged in;
  bool is_plain = false;      // on this machine itself.
  Audit* audit = nullptr;     // Where what comes of it is written; null: nowhere.
  Audit* refusals = nullptr;  // Where it is written that somebody may not have what they asked for, if only to see it.
  const Clock* clock = nullptr;  // With these.
  JobPrivacy privacy = {};       // What the caller is shown of others' jobs.
  std::string asked = {};        // The body as it came, where a route has put another in its place; for these as well.

  void Send(int status, std::string body) const {
    constexpr int kForbidden = 403;
    if (Audit* book = audit != nullptr || status != kForbidden ? audit : refusals) {
      book->Write({clock->Now(), caller.user.name, caller.user.uid, address, request.method, request.path,
                   asked.empty() ? request.body : asked, status, body});
    }
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    if (is_at_page) response.headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}};
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

/// The descriptors that came with a request: its caller's three streams, then a relay for each (far_streams.h). `uid`:
/// the caller's. `has_terminal`: the job has one, and its supervisor reads and writes the streams (CheckPassedStream).
divvy::Status CheckCallersStreams(const PassedFds& passed, bool has_terminal, std::int64_t uid);

}  // namespace divvy
