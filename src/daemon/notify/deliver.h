// The process that delivers one notification: to a webhook, to a command, or by mail. It reads an order from its
// standard input (wire::DeliveryOrder), writes the result to its standard output (wire::DeliveryResult) and ends. It is
// a separate process that runs as the receiver's owner, since the receiver is not trusted: it may be slow or hostile.
#pragma once

#include <string>

#include "base/time.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

/// Runs the delivering process, "divvy internal-deliver". Returns its exit code.
int DeliverMain(const std::vector<std::string>& words);

/// Performs the delivery in this process. Only for single-threaded processes.
wire::DeliveryResult Deliver(const wire::DeliveryOrder& order, Time now);

/// Returns true if a webhook that answered with this status may be tried again later.
bool MayTryAgain(int http_status);

/// Formats a message for `sendmail -t`. Names and lines from jobs cannot become header lines.
std::string MailText(const wire::DeliveryOrder& order, Time now);

}  // namespace divvy
