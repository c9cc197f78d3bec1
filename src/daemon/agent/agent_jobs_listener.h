// The Unix socket through which processes of jobs on an agent's node talk to the controller (`divvy progress`,
// `squeue`). The agent forwards each connection unchanged over its own connection to the controller. The kernel
// identifies the client, and the agent tells the controller the user. The controller serves only users with a job on
// that node (remote_streams.h). Used on the loop's thread only.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/os/unique_fd.h"
#include "wire/http/channels.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class FdBridge;

class AgentJobsListener {
 public:
  static constexpr std::size_t kMost = 256;      // Connections in total.
  static constexpr std::size_t kMostOfOne = 64;  // Connections of one user.
  /// The limit on refused clients that are being sent an error message. Further refused connections are closed without
  /// a message.
  static constexpr std::size_t kMostRefused = 64;

  struct Ports {
    /// Returns null if the controller is not connected or takes no streams.
    std::function<Channels*()> channels;
    /// Returns the controller's name for the user with this uid; empty if the user has no job here.
    std::function<std::string(std::int64_t uid)> user_name;
  };

  /// Serves at `path` with this file mode.
  static Result<std::unique_ptr<AgentJobsListener>> Open(boost::asio::io_context& loop, const std::string& path,
                                                         unsigned mode, Ports ports);
  AgentJobsListener(boost::asio::io_context& loop, Descriptor listener, Ports ports);
  ~AgentJobsListener();

  /// The connection to the controller is gone: closes all connections, so that clients do not wait.
  void CutAll();
  std::size_t connections() const { return connections_.size(); }

 private:
  void AcceptLater();
  void Accept();
  void Admit(Descriptor connection);
  /// Sends one HTTP error once a request has arrived, or after a short wait; then closes the connection.
  void Refuse(Descriptor connection, int status, const std::string& code, const std::string& why);

  boost::asio::io_context& loop_;
  boost::asio::posix::stream_descriptor listener_;
  Ports ports_;
  struct Connection {
    std::int64_t uid = -1;
    std::shared_ptr<FdBridge> bridge;
  };
  std::map<std::uint64_t, Connection> connections_;
  std::map<std::int64_t, std::size_t> of_users_;
  std::uint64_t next_ = 1;
  std::shared_ptr<std::size_t> refused_ = std::make_shared<std::size_t>(0);
  /// Reset on destruction; for callbacks that may outlive this object.
  std::shared_ptr<AgentJobsListener*> self_;
};

}  // namespace divvy
