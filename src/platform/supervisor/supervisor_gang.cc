// A supervisor whose job is a part of a gang. It waits until all nodes of the gang are ready, and does not count that
// time as run time.
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "platform/records/step_list_file.h"
#include "platform/supervisor/node_allocation_start.h"
#include "platform/supervisor/supervisor_life.h"

namespace divvy {
namespace {

// Poll interval if no event reports when the first process is ready.
constexpr Duration kLookPause = std::chrono::milliseconds(5);

}  // namespace

std::string Supervisor::StepsPath() const {
  return StepListPath(station_.setup.run_directory, record_.uid, record_.job.value());
}

// Returns the descriptor from which the job's first process reads its key, so that the key is on no command line and in
// no environment. The reader reports an empty key. It closes the descriptor when it is ready.
Descriptor Supervisor::OfferKey() {
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  allocation_channel_.Reset(ends[1]);
  // The key fits into the socket's buffer.
  static_cast<void>(
      !::send(allocation_channel_.get(), request_.gang.key.data(), request_.gang.key.size(), MSG_NOSIGNAL));
  ::shutdown(allocation_channel_.get(), SHUT_WR);
  return Descriptor(ends[0]);
}

void Supervisor::HearAllocation() {
  allocation_channel_.Reset();
  LookAtAllocation();
}

void Supervisor::LookAtAllocation() {
  watch_.look_at = kNeverDue;
  const auto said = ReadAllocationReport(StepsPath());
  if (!said) {
    watch_.look_at = DueAfter(MonotonicNow(), kLookPause);
  } else if (said->port != 0 && record_.port == 0) {
    record_.port = said->port;
    RecordWriter line;
    line.Add("port", record_.port);
    static_cast<void>(!::write(record_file_.get(), line.text().data(), line.text().size()));
    reports_.ReportState();
  }  // A failure ends the process, and is reported with its end.
}

void Supervisor::Go() {
  if (!watch_.awaits_go) return reports_.ReportState();
  if (watch_.is_stopping) return;
  record_.has_gone = true;
  record_.started = WallNow();
  // Writes the record before the signal to start, so that no user code runs before the record says so.
  RecordWriter lines;
  AddProcess(record_, lines);
  static_cast<void>(!::write(record_file_.get(), lines.text().data(), lines.text().size()));
  LetGo();
  reports_.ReportState();
}

void Supervisor::LetGo() {
  SayGo(StepsPath());
  watch_.counts_from = record_.started;
  watch_.awaits_go = false;
  SetTimeLimit(watch_.time_limit);
}

}  // namespace divvy
