#include "daemon/api/call/api_call.h"

#include "wire/messages/messages_teams.h"

namespace divvy {

void AnswerMessage(ControllerDriver& driver, ApiCall& call, const Result<std::string>& done) {
  if (!done) return call.Refuse(done.error());
  AnswerAfterCommit(driver, call, wire::MessageAnswer{*done});
}

}  // namespace divvy
