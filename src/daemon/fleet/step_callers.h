// Connections of clients that start steps in jobs from outside, or signal them. Once a client has switched to step
// frames (platform/records/step_wire.h), its connection is joined with a socket whose other end goes to the job: to its
// supervisor on this node, or through its agent's session (remote_streams.h). Used on the loop's thread only.
//
// Both directions run at the pace of the reader. The job's end decides how much a caller may send; a caller that sends
// more is disconnected.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/os/unique_fd.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

/// The protocol of such a connection after "101 Switching Protocols".
inline constexpr std::string_view kStepProtocol = "divvy-step/1";

class StepCallers {
 public:
  static constexpr std::size_t kMostOfOne = 128;
  static constexpr std::size_t kMost = 1024;
  /// The limit on bytes from a caller that wait for the job.
  static constexpr std::size_t kMostWaiting = std::size_t{16} << 20;

  explicit StepCallers(boost::asio::io_context& loop) : loop_(loop) {}
  ~StepCallers();
  StepCallers(const StepCallers&) = delete;
  StepCallers& operator=(const StepCallers&) = delete;

  /// One caller's entry in the count of all callers.
  class Ticket;
  struct Admitted {
    std::shared_ptr<Ticket> ticket;
    Descriptor near, far;  // The two ends of one socket pair.
  };
  /// Counts a new caller of this user and makes a socket pair for it. Fails with kLimitExceeded if this user, or all
  /// users together, have too many callers.
  Result<Admitted> Admit(std::int64_t uid);

  class Caller;
  /// Carries bytes in both directions between the caller's connection `stream` and `near`, until either closes. `near`
  /// is this process's end of the socket pair from Admit; the job has the other end. `ticket`, also from Admit, counts
  /// the caller while it is connected.
  std::shared_ptr<Caller> Join(std::shared_ptr<Ticket> ticket, std::unique_ptr<ByteStream> stream, Descriptor near);
  /// Ends the connection of a caller, after delivering pending output. If `why` is not empty, the caller gets it as an
  /// error message and ends with exit code 1.
  static void Tell(const std::shared_ptr<Caller>& caller, const std::string& why);

 private:
  boost::asio::io_context& loop_;
  /// The number of callers of each user. Tickets may outlive this object.
  std::shared_ptr<std::map<std::int64_t, std::size_t>> counts_ =
      std::make_shared<std::map<std::int64_t, std::size_t>>();
  std::map<Caller*, std::weak_ptr<Caller>> callers_;
};

}  // namespace divvy
