#include "daemon/api/call/api_call.h"

#include "wire/messages/messages_teams.h"

namespace divvy {

void AnswerMessage(ControllerDriver& core, ApiCall& call, const Result<std::string>& done) {
  if (!done) return call.Refuse(done.error());
  AnswerAfterCommit(core, call, wire::MessageAnswer{*done});
}

}  // namespace divvy
