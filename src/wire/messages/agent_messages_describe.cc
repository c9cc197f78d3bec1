#include "wire/messages/agent_messages_describe.h"

namespace divvy::wire {
namespace {

// Copies all fields that both types have, by name.
template <typename To, typename From>
To Copied(const From& from) {
  To to;
  to.id = from.id;
  to.spec_of = from.spec_of;
  to.state = from.state;
  to.user = from.user;
  to.name = from.name;
  to.request = from.request;
  to.priority = from.priority;
  to.submitted = from.submitted;
  to.started = from.started;
  to.time_limit = from.time_limit;
  to.node = from.node;
  to.gpus = from.gpus;
  to.gang = from.gang;
  to.was_let_go = from.was_let_go;
  to.gpu_model = from.gpu_model;
  to.gpu_slice = from.gpu_slice;
  to.takes_resizes = from.takes_resizes;
  to.gpus_asked_back = from.gpus_asked_back;
  to.gpus_used = from.gpus_used;
  to.attempt = from.attempt;
  to.restarts = from.restarts;
  to.retries_used = from.retries_used;
  to.project = from.project;
  to.team = from.team;
  to.pool = from.pool;
  to.comment = from.comment;
  to.group = from.group;
  to.dialect = from.dialect;
  to.stop_intent = from.stop_intent;
  to.is_foreground = from.is_foreground;
  to.wants_pty = from.wants_pty;
  to.retries = from.retries;
  to.array = from.array;
  to.array_index = from.array_index;
  to.array_ordinal = from.array_ordinal;
  to.array_count = from.array_count;
  to.array_indices = from.array_indices;
  return to;
}

}  // namespace

RecordMessage MessageOf(const JobRecord& record) {
  RecordMessage message = Copied<RecordMessage>(record);
  if (!record.pool_of_run.empty()) message.pool = record.pool_of_run;
  return message;
}
JobRecord RecordOf(RecordMessage message) { return Copied<JobRecord>(message); }

}  // namespace divvy::wire
