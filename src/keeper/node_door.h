// The keeper's socket for its node: one connection at a time counts, the newest; lines of JSON
// (wire/messages/share_messages.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "keeper/drivers/event_loop.h"
#include "platform/os/launch_descriptor.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

class NodeDoor {
 public:
  /// `asked` is called with each request, in their order. `node_uid`: who may connect besides us and root; -1: nobody.
  /// Another keeper serves there already: kAlreadyExists.
  static Result<std::unique_ptr<NodeDoor>> Open(EventLoop& loop, const std::string& directory, std::int64_t node_uid,
                                                std::function<void(const wire::KeeperRequest&)> asked);
  ~NodeDoor();

  /// What is where its socket was: that, nothing in a directory that is there or another's socket, no directory.
  enum class Place { kThere, kTaken, kGone };
  Place Look() const;

  bool has_node() const { return link_.is_open(); }
  /// Lost where nobody is there, or the one who is does not read (kMostUnread): it asks again when it has dialled.
  void Say(const wire::KeeperLine& line);
  void Answer(std::uint64_t id, const Status& status);

 private:
  NodeDoor(EventLoop& loop, std::int64_t node_uid, std::function<void(const wire::KeeperRequest&)> asked)
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
