// Starts a process for each notification to deliver, and receives its result. Runs on the loop's thread, which never
// waits for such a process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "platform/supervisor/root_errand.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

class Courier {
 public:
  /// Starts the process that delivers, with the socket `end` as its standard input and output. It runs as the user that
  /// the order names (DeliveryOrder::run_as), or as the daemon's user if the order names none. Used for deliveries
  /// whose process only the launcher can start: those for users, and mail.
  using StartAs = std::function<Result<StartedProgram>(const wire::DeliveryOrder& order, int end)>;

  /// `command`: {"/path/of/divvy", "internal-deliver"}.
  Courier(boost::asio::io_context& loop, std::vector<std::string> command, StartAs start_as = nullptr);
  /// Deliveries that are under way continue, but their results are lost.
  ~Courier();

  using Done = std::function<void(const wire::DeliveryResult&)>;
  /// Starts a delivery. Calls `done` once, after Send has returned and at most some seconds after the order's time
  /// limit.
  void Send(const wire::DeliveryOrder& order, Done done);

 private:
  struct Errand;
  void Finish(const std::shared_ptr<Errand>& errand);

  boost::asio::io_context& loop_;
  std::vector<std::string> command_;
  StartAs start_as_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
