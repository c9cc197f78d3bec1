// Notifications: what receivers are told, what is set and shown of them, and what the process that delivers one is told
// and answers. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

struct NoticeJob {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string team;
  std::string state;
  std::string reason;
  std::string node;  // Empty: the controller's own machine, or it has not started.
  double gpus = 0;
  std::int64_t attempt = 0;
  std::optional<std::int64_t> exit_code;
  double submit_time = 0;
  double start_time = 0;  // 0: it never started.
  double end_time = 0;    // 0: it has not ended.
};
struct NoticeGpu {
  std::string node;
  std::int64_t index = 0;
  std::string uuid;
  std::string model;
  std::string reason;
};
/// One event, as webhooks get it, and commands on their standard input.
/// Of event "waste": what the run has lost so far.
struct NoticeWaste {
  double lost_gpu_hours = 0;
  std::optional<double> lost_cost;  // Where prices are known.
};
struct Notice {
  std::string id;     // The same whenever it is sent again.
  std::string event;  // "start", "end", "fail", "requeue", "waste", "gpu_fenced", "gpu_unmanaged", "test".
  double time = 0;
  std::string host;  // Where the daemon is.
  std::string text;  // One line for people.
  std::optional<NoticeJob> job;
  std::optional<NoticeGpu> gpu;
  std::optional<NoticeWaste> waste;
};
/// As it waits for its delivery.
struct QueuedNotice {
  std::string to;  // "admin/ops", "user/1000/phone", "mail/1000/ada@example.org"
  Notice notice;
};

struct ReceiverRequest {
  std::string name;
  std::string events = "end";  // "start,fail", "all"
  std::string webhook;         // One of these three.
  std::string command;
  std::string mail;
  std::string secret;     // Of a webhook; empty: one is made.
  bool replaces = false;  // One of the same name, if there is one; else that is an error.
};
struct ReceiverAnswer {
  std::string message;
  std::string secret;  // Of a webhook, where it was made now; shown once.
};
struct ReceiverView {
  std::string name;
  std::string user;  // Whose it is; empty: the administrators', in divvy.toml.
  std::string events;
  std::string channel;  // "webhook", "command", "mail"
  std::string target;   // As far as it may be shown: of a URL its host.
  bool is_signed = false;
  bool may_be_removed = false;  // By who asks: a receiver of their own.
  std::int64_t waiting = 0;
  std::int64_t sent = 0;
  std::int64_t lost = 0;  // Given up, refused for good, or beyond what may wait.
  double last_success = 0;
  double last_failure = 0;
  std::string failure;  // What went wrong last; empty: nothing since the last success.
  double next_try = 0;  // 0: nothing waits.
};
struct NotifyAnswer {
  bool is_on = true;
  std::vector<ReceiverView> receivers;
};
struct ReceiverName {
  std::string name;
};
struct NotifyTestAnswer {
  bool is_done = false;
  std::string message;  // "204 No Content in 0.1 s", "exit code 3: no such host"
};

/// A user's receiver, as it is kept.
struct KeptReceiver {
  std::string name;
  std::string user;
  std::int64_t gid = -1;
  std::string events;
  std::string channel;
  std::string target;
  std::string secret;
};
/// How deliveries to a receiver went, as it is kept.
struct KeptDeliveries {
  std::int64_t sent = 0;
  std::int64_t lost = 0;
  double last_success = 0;
  double last_failure = 0;
  std::string failure;
};
/// What a job says of its own.
struct KeptWish {
  std::string events;  // Empty: nothing of what is to be told.
  bool of_elements = false;
  bool is_mail = false;
  std::vector<std::string> to;
  std::string on_waste;
};
/// A GPU of which administrators were told.
struct ToldGpu {
  std::string node;
  std::int64_t index = 0;
  std::string fenced;     // Why; empty: it is not.
  std::string unmanaged;  // By whom.

  friend bool operator==(const ToldGpu&, const ToldGpu&) = default;
};

/// What the process that delivers one notice is to do, on its standard input.
struct DeliveryOrder {
  std::string channel;
  std::string target;
  std::string secret;
  std::string run_as;     // A user's name; empty: as the daemon.
  std::int64_t uid = -1;  // The number that this user had; -1: whatever the name has.
  std::string event;
  std::string id;
  std::string subject;                   // Of mail.
  std::string body;                      // The notice as JSON; of mail the text.
  std::vector<std::string> environment;  // Of a command, besides a login's.
  bool may_go_inside = true;             // To loopback and private addresses.
  std::string ca_file;
  std::string sendmail;
  std::string from;
  double time_limit_s = 30;
};
struct DeliveryResult {
  bool is_done = false;
  bool may_try_again = false;  // It may go better later.
  double try_after_s = 0;      // As the receiver wants it; 0: it said nothing.
  std::string message;
};

}  // namespace divvy::wire
