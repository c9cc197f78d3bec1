// Where the processes of jobs on an agent's machine speak with the controller (`divvy progress`, `squeue`): a Unix
// socket, whose connections the agent carries as they are through its own to the controller. The kernel says who
// connects, and the agent says as whom; the controller answers nobody who has no job there (far_streams.h).
// Belongs to the loop's thread.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/os/launch_descriptor.h"
#include "wire/http/channels.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class ChannelJoint;

class AgentJobsDoor {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostOfOne = 64;
  /// Who is told why not at once; others are closed without a word.
  static constexpr std::size_t kMostRefused = 64;

  struct Ports {
    /// Null: the controller is away, or takes no streams.
    std::function<Channels*()> channels;
    /// What the controller calls the user with this uid who has a job here; empty: has none.
    std::function<std::string(std::int64_t uid)> user_name;
  };

  /// Serves at `path`, with this mode.
  static Result<std::unique_ptr<AgentJobsDoor>> Open(boost::asio::io_context& loop, const std::string& path,
                                                     unsigned mode, Ports ports);
  AgentJobsDoor(boost::asio::io_context& loop, Descriptor listener, Ports ports);
  ~AgentJobsDoor();

  /// The connection to the controller is gone: whoever waits for an answer is cut off rather than kept.
  void CutAll();
  std::size_t connections() const { return connections_.size(); }

 private:
  void AcceptLater();
  void Accept();
  void Admit(Descriptor connection);
  /// One HTTP answer once a request has come, or not for long; then it is closed.
  void Refuse(Descriptor connection, int status, const std::string& code, const std::string& why);

  boost::asio::io_context& loop_;
  boost::asio::posix::stream_descriptor listener_;
  Ports ports_;
  struct Connection {
    std::int64_t uid = -1;
    std::shared_ptr<ChannelJoint> joint;
  };
  std::map<std::uint64_t, Connection> connections_;
  std::map<std::int64_t, std::size_t> of_users_;
  std::uint64_t next_ = 1;
  std::shared_ptr<std::size_t> refused_ = std::make_shared<std::size_t>(0);
  /// What may outlive this.
  std::shared_ptr<AgentJobsDoor*> self_;
};

}  // namespace divvy
