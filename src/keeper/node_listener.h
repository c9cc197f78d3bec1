// The keeper's socket for its node. It serves one connection at a time, the newest. Messages are lines of JSON
// (wire/messages/share_messages.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "keeper/drivers/event_loop.h"
#include "platform/os/unique_fd.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

class NodeListener {
 public:
  /// Listens for the node's daemon or agent. Calls `asked` with each of its requests, in order. `node_uid`: the user
  /// that may connect besides root and our own user; -1: none. Errors: kAlreadyExists if another keeper serves the
  /// directory.
  static Result<std::unique_ptr<NodeListener>> Open(EventLoop& loop, const std::string& directory,
                                                    std::int64_t node_uid,
                                                    std::function<void(const wire::KeeperRequest&)> asked);
  ~NodeListener();

  /// State of the socket's path. kTaken: another socket, or none in an existing directory. kGone: the directory does
  /// not exist.
  enum class Place { kThere, kTaken, kGone };
  Place Look() const;

  bool has_node() const { return link_.is_open(); }
  /// Sends a line to the node's daemon or agent, or drops it if none is connected. A peer that has left kMostUnread
  /// bytes unread is disconnected; after it has connected again, it repeats its requests.
  void Say(const wire::KeeperLine& line);
  void Answer(std::uint64_t id, const Status& status);

 private:
  NodeListener(EventLoop& loop, std::int64_t node_uid, std::function<void(const wire::KeeperRequest&)> asked)
      : loop_(loop), node_uid_(node_uid), asked_(std::move(asked)) {}
  void Accept();
  void Read();
  void Write();
  void HangUp();

  EventLoop& loop_;
  std::int64_t node_uid_;
  std::function<void(const wire::KeeperRequest&)> asked_;
  Descriptor listener_;
  std::string path_;
  std::uint64_t inode_ = 0;
  Descriptor link_;
  std::string read_;
  std::string unsent_;
  std::uint64_t generation_ = 0;
  bool is_retrying_ = false;
};

}  // namespace divvy::keeper
