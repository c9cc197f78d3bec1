#include "platform/launch_message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

namespace divvy {
namespace {

constexpr std::size_t kMaxStreams = 6;

// One list of the fields serves both directions, so that they cannot differ.
template <typename Archive, typename Launch>
void Visit(Archive& archive, Launch& request) {
  archive(request.job);
  archive(request.attempt);
  archive(request.argv);
  archive(request.script);
  archive(request.script_name);
  archive(request.arguments);
  archive(request.environment);
  archive(request.directory);
  archive(request.umask);
  archive(request.limits);
  archive(request.input);
  archive(request.output);
  archive(request.error);
  archive(request.appends_output);
  archive(request.is_own_log);
  archive(request.uid);
  archive(request.gid);
  archive(request.wants_pty);
  archive(request.window);
  archive(request.time_limit);
  archive(request.started);
  archive(request.warn);
  archive(request.stop_signal);
  archive(request.grace);
  archive(request.leftover_grace);
  archive(request.directory_patience);
  archive(request.memory_limit);
  archive(request.isolation.lock);
  archive(request.isolation.closed_devices);
  archive(request.isolation.cores);
  archive(request.isolation.processes);
  archive(request.isolation.cpus);
  archive(request.isolation.has_own_tmp);
  archive(request.isolation.has_own_shm);
  archive(request.isolation.keeps_privileges);
  archive(request.lease.file);
  archive(request.lease.boot_id);
  archive(request.gang.starter);
  archive(request.gang.seat);
  archive(request.gang.key);
  archive(request.gang.go_within);
  archive(request.about);
  archive(request.streams);
  archive(request.held);
  archive(request.held_log);
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename Value>
  void operator()(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void operator()(const std::vector<std::string>& texts) {
    (*this)(static_cast<std::uint32_t>(texts.size()));
    for (const std::string& text : texts) (*this)(text);
  }
  void operator()(const std::map<std::string, std::int64_t>& numbers) {
    (*this)(static_cast<std::uint32_t>(numbers.size()));
    for (const auto& [name, number] : numbers) {
      (*this)(name);
      (*this)(number);
    }
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <typename Value>
  void operator()(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    DIVVY_ASSERT(in_.size() >= sizeof value);
    std::memcpy(static_cast<void*>(&value), in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
  }
  void operator()(std::string& text) {
    const std::uint32_t size = Count();
    DIVVY_ASSERT(in_.size() >= size);
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void operator()(std::vector<std::string>& texts) {
    texts.resize(Count());
    for (std::string& text : texts) (*this)(text);
  }
  void operator()(std::map<std::string, std::int64_t>& numbers) {
    for (std::uint32_t left = Count(); left > 0; --left) {
      std::string name;
      (*this)(name);
      (*this)(numbers[name]);
    }
  }

 private:
  std::uint32_t Count() {
    std::uint32_t count = 0;
    (*this)(count);
    return count;
  }

  std::string_view in_;
};

}  // namespace

void Wipe(std::string& bytes) {
  ::explicit_bzero(bytes.data(), bytes.size());
  bytes.clear();
}

LaunchFrameHeader LaunchFrame::header() const {
  LaunchFrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

std::string EncodeLaunch(const LaunchRequest& request) {
  LaunchFrameHeader header;
  VisitDescriptors(request, [&](int) { ++header.stream_count; });
  std::size_t size = 1024 + request.script.size();
  for (const std::string& text : request.environment) size += text.size() + sizeof(std::uint32_t);
  std::string frame;
  frame.reserve(size);
  frame.assign(sizeof header, '\0');
  Writer writer(frame);
  Visit(writer, request);
  header.body_size = static_cast<std::uint32_t>(frame.size() - sizeof header);
  header.uid = request.uid;
  header.is_part = request.gang.is_set();
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

LaunchRequest DecodeLaunch(std::string_view body, const std::vector<Descriptor>& streams) {
  LaunchRequest request;
  Reader reader(body);
  Visit(reader, request);
  std::size_t next = 0;
  VisitDescriptors(request, [&](int& descriptor) {
    DIVVY_ASSERT(next < streams.size());
    descriptor = streams[next++].get();
  });
  return request;
}

ssize_t SendFramePart(int socket, std::string_view bytes, const std::vector<Descriptor>& streams, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxStreams * sizeof(int))] = {};
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!streams.empty()) {
    DIVVY_ASSERT(streams.size() <= kMaxStreams);
    std::array<int, kMaxStreams> fds = {};
    for (std::size_t i = 0; i < streams.size(); ++i) fds[i] = streams[i].get();
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(streams.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(streams.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), streams.size() * sizeof(int));
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

bool SendFrame(int socket, const LaunchFrame& frame) {
  static const std::vector<Descriptor> kNone;
  for (std::size_t sent = 0; sent < frame.bytes.size();) {
    const std::string_view rest = std::string_view(frame.bytes).substr(sent);
    const ssize_t size = SendFramePart(socket, rest, sent == 0 ? frame.streams : kNone, 0);
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) sent += static_cast<std::size_t>(size);
  }
  return true;
}

bool LaunchFrameReader::ReadMore() {
  // Most frames fit at once; the buffer grows for those that do not.
  constexpr std::size_t kReadSize = 65536;
  if (taken_ == filled_) taken_ = filled_ = 0;
  if (buffer_.size() - filled_ < kReadSize) {
    std::string larger;
    larger.reserve(2 * filled_ + kReadSize);
    larger.assign(buffer_, 0, filled_);
    larger.resize(filled_ + kReadSize);
    buffer_.swap(larger);
    Wipe(larger);
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxStreams * sizeof(int))];
  iovec part = {.iov_base = buffer_.data() + filled_, .iov_len = buffer_.size() - filled_};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = -1;
  do size = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  while (size < 0 && errno == EINTR);
  if (size <= 0) return false;
  filled_ += static_cast<std::size_t>(size);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof fd);
      streams_.emplace_back(fd);
    }
  }
  return true;
}

std::optional<LaunchFrame> LaunchFrameReader::Next() {
  LaunchFrameHeader header;
  const std::string_view rest = std::string_view(buffer_).substr(taken_, filled_ - taken_);
  if (rest.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, rest.data(), sizeof header);
  const std::size_t size = sizeof header + header.body_size;
  if (rest.size() < size) return std::nullopt;
  LaunchFrame frame = {.bytes = std::string(rest.substr(0, size))};
  ::explicit_bzero(buffer_.data() + taken_, size);
  taken_ += size;
  for (std::uint32_t i = 0; i < header.stream_count; ++i) {
    DIVVY_ASSERT(!streams_.empty());  // They travel with the first byte.
    frame.streams.push_back(std::move(streams_.front()));
    streams_.pop_front();
  }
  return frame;
}

void LaunchFrameReader::Forget() {
  Wipe(buffer_);
  filled_ = taken_ = 0;
  streams_.clear();
}

}  // namespace divvy
