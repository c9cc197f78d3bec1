// Connections of people who start steps in jobs from outside, or signal them: once they speak step frames
// (platform/records/step_wire.h) each is joined with a socket, whose other end goes to the job: to its supervisor here,
// or through its agent's session (far_streams.h). Belongs to the loop's thread.
//
// Both directions are carried at the pace of whoever reads. What a caller sends is bounded by what the job's end asks
// for; one that sends more than that is cut off.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/os/launch_descriptor.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

/// What such a connection speaks after "101 Switching Protocols".
inline constexpr std::string_view kStepProtocol = "divvy-step/1";

class StepCallers {
 public:
  static constexpr std::size_t kMostOfOne = 128;
  static constexpr std::size_t kMost = 1024;
  /// Of what a caller has sent, so much may wait for the job.
  static constexpr std::size_t kMostWaiting = std::size_t{16} << 20;

  explicit StepCallers(boost::asio::io_context& loop) : loop_(loop) {}
  ~StepCallers();
  StepCallers(const StepCallers&) = delete;
  StepCallers& operator=(const StepCallers&) = delete;

  /// One caller's place among all.
  class Ticket;
  struct Admitted {
    std::shared_ptr<Ticket> ticket;
    Descriptor near, far;  // Of one socket.
  };
  /// kLimitExceeded: this user, or all together, have too many.
  Result<Admitted> Admit(std::int64_t uid);

  class Caller;
  /// Carries bytes between the caller and `near` until either end closes.
  std::shared_ptr<Caller> Join(std::shared_ptr<Ticket> ticket, std::unique_ptr<ByteStream> stream, Descriptor near);
  /// What has come is carried first; then, where `why` is not empty, the caller hears it and ends with 1.
  static void Tell(const std::shared_ptr<Caller>& caller, const std::string& why);

 private:
  boost::asio::io_context& loop_;
  /// How many each user has. Tickets may outlive this.
  std::shared_ptr<std::map<std::int64_t, std::size_t>> counts_ =
      std::make_shared<std::map<std::int64_t, std::size_t>>();
  std::map<Caller*, std::weak_ptr<Caller>> callers_;
};

}  // namespace divvy
