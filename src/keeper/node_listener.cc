#include "keeper/node_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/describe/class.hpp>
#include <cerrno>
#include <cstring>

#include "platform/os/unix_socket.h"
#include "wire/json/json.h"
#include "wire/messages/share_codec.h"

namespace divvy::keeper {

/// The part of a request that is the same in every version.
struct Numbered {
  std::uint64_t id = 0;
};
BOOST_DESCRIBE_STRUCT(Numbered, (), (id))

namespace {

constexpr std::size_t kMostUnread = std::size_t{8} << 20;

}  // namespace

Result<std::unique_ptr<NodeListener>> NodeListener::Open(EventLoop& loop, const std::string& directory,
                                                         std::int64_t node_uid,
                                                         std::function<void(const wire::KeeperRequest&)> asked) {
  std::unique_ptr<NodeListener> listener(new NodeListener(loop, node_uid, std::move(asked)));
  const std::string path = directory + "/" + std::string(wire::kKeeperSocket);
  DIVVY_TRY(listener->listener_, ListenUnix(path, 0600));
  // Only the node may connect: a stranger could send descriptors whose close(2) blocks. Root can always connect.
  if (node_uid >= 0 && ::chown(path.c_str(), static_cast<uid_t>(node_uid), static_cast<gid_t>(-1)) != 0)
    return Internal("giving " + path + " to the node: " + std::strerror(errno));
  listener->path_ = path;
  struct stat about {};
  if (::stat(listener->path_.c_str(), &about) == 0) listener->inode_ = about.st_ino;
  NodeListener* raw = listener.get();
  loop.Watch(listener->listener_.get(), [raw] { raw->Accept(); });
  return listener;
}

NodeListener::~NodeListener() {
  if (link_.is_open()) HangUp();
  loop_.Forget(listener_.get());
}

void NodeListener::Accept() {
  Descriptor link(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!link.is_open()) return;
  const std::int64_t uid = CredentialsOf(link.get()).uid;
  if (uid != static_cast<std::int64_t>(::geteuid()) && uid != 0 && (uid != node_uid_ || uid < 0)) return;
  if (link_.is_open()) HangUp();
  link_ = std::move(link);
  loop_.Watch(link_.get(), [this] { Read(); });
}

NodeListener::Place NodeListener::Look() const {
  struct stat about {};
  if (::stat(path_.c_str(), &about) == 0) return about.st_ino == inode_ ? Place::kThere : Place::kTaken;
  if (errno != ENOENT && errno != ENOTDIR) return Place::kThere;  // The path cannot be checked now.
  const std::string directory = path_.substr(0, path_.rfind('/'));
  return ::stat(directory.c_str(), &about) == 0 ? Place::kTaken : Place::kGone;
}

void NodeListener::HangUp() {
  ++generation_;
  loop_.Forget(link_.get());
  link_.Reset();
  read_.clear();
  unsent_.clear();
}

void NodeListener::Read() {
  char bytes[65536];
  const ssize_t size = ::recv(link_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return HangUp();
  read_.append(bytes, static_cast<std::size_t>(size));
  const std::uint64_t generation = generation_;
  for (std::size_t end = read_.find('\n'); end != std::string::npos; end = read_.find('\n')) {
    const std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    const auto request = wire::DecodeShare<wire::KeeperRequest>(line);
    if (request) {
      asked_(*request);
    } else {
      // The request is of another version and cannot be read. Its sender still needs an answer.
      const auto numbered = FromJson<Numbered>(line);
      Answer(numbered ? numbered->id : 0,
             InvalidArgument("the keeper is from a different release and cannot read the request: " +
                             request.error().message));
    }
    if (generation != generation_) return;
  }
  if (read_.size() > wire::kKeeperLineBytes) HangUp();
}

void NodeListener::Say(const wire::KeeperLine& line) {
  if (!link_.is_open()) return;
  unsent_ += wire::EncodeShare(line) + "\n";
  if (unsent_.size() > kMostUnread) return HangUp();
  Write();
}

void NodeListener::Write() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(link_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return;  // The read side detects the end.
    if (is_retrying_) return;
    is_retrying_ = true;
    loop_.After(10ms, [this] {
      is_retrying_ = false;
      if (link_.is_open()) Write();
    });
    return;
  }
}

void NodeListener::Answer(std::uint64_t id, const Status& status) {
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  if (!status) line.answer->error = status.error().message;
  Say(line);
}

}  // namespace divvy::keeper
