// The process that delivers one notification: to a webhook, a command or by mail. It is told what to do on its standard
// input (wire::DeliveryOrder), says how it went on its standard output (wire::DeliveryResult) and ends. A process of
// its own, as the user whose it is, since what it speaks with is somebody else's: it may be slow, and may be hostile.
#pragma once

#include <string>

#include "base/time.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

/// "divvy internal-deliver".
int DeliverMain(const std::vector<std::string>& words);

/// What that does, in this process; of one thread.
wire::DeliveryResult Deliver(const wire::DeliveryOrder& order, Time now);

/// Whether a webhook that answered so is to be asked again later.
bool MayTryAgain(int http_status);

/// A message as `sendmail -t` takes it. Names and lines from jobs cannot become header lines.
std::string MailText(const wire::DeliveryOrder& order, Time now);

}  // namespace divvy
