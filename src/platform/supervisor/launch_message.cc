#include "platform/supervisor/launch_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>

#include "platform/os/foreign_descriptor.h"
#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

// One list of fields serves both directions, so that they cannot differ.
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
  archive(request.window.rows);
  archive(request.window.columns);
  archive(request.time_limit);
  archive(request.started);
  archive(request.warn.signal);
  archive(request.warn.before);
  archive(request.warn.batch_only);
  archive(request.is_slurm_script);
  archive(request.stop_signal);
  archive(request.grace);
  archive(request.leftover_grace);
  archive(request.directory_timeout);
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
  archive(request.gang.index);
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
  void operator()(DeviceLock lock) { (*this)(static_cast<std::uint8_t>(lock)); }
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

/// Stops reading at the first invalid value.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <typename Value>
  void operator()(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    if (!Has(sizeof value)) return;
    std::memcpy(static_cast<void*>(&value), in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    is_good_ = is_good_ && byte <= 1;
    value = byte == 1;
  }
  void operator()(DeviceLock& lock) {
    std::uint8_t byte = 0;
    (*this)(byte);
    is_good_ = is_good_ && byte <= static_cast<std::uint8_t>(kLastDeviceLock);
    if (is_good_) lock = static_cast<DeviceLock>(byte);
  }
  void operator()(std::string& text) {
    const std::uint32_t size = Count();
    if (!Has(size)) return;
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void operator()(std::vector<std::string>& texts) {
    for (std::uint32_t left = Count(); left > 0 && is_good_; --left) (*this)(texts.emplace_back());
  }
  void operator()(std::map<std::string, std::int64_t>& numbers) {
    for (std::uint32_t left = Count(); left > 0 && is_good_; --left) {
      std::string name;
      (*this)(name);
      (*this)(numbers[name]);
    }
  }

  /// True if all values were valid and no bytes are left.
  bool is_done() const { return is_good_ && in_.empty(); }

 private:
  bool Has(std::size_t size) { return is_good_ = is_good_ && in_.size() >= size; }
  std::uint32_t Count() {
    std::uint32_t count = 0;
    (*this)(count);
    return count;
  }

  std::string_view in_;
  bool is_good_ = true;
};

bool IsFrame(const LaunchFrameHeader& header) {
  return header.form == kLaunchForm && header.body_size <= kMostLaunchBody &&
         header.stream_count <= kMostLaunchStreams && header.is_part <= 1 && header.is_removal <= 1;
}

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
  header.gid = request.gid;
  header.right = request.right;
  header.is_part = request.gang.is_set() ? 1 : 0;
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

Result<LaunchRequest> DecodeLaunch(std::string_view body, const std::vector<ForeignDescriptor>& streams) {
  LaunchRequest request;
  Reader reader(body);
  Visit(reader, request);
  std::size_t next = 0;
  VisitDescriptors(request, [&](int& descriptor) {
    descriptor = next < streams.size() ? streams[next].get() : -1;
    ++next;
  });
  // These texts become paths and lines of the run record, so they must not contain zero bytes.
  const auto is_text = [](const std::string* text) { return text->find('\0') == std::string::npos; };
  const bool are_texts = std::ranges::all_of(
      std::array{&request.script_name, &request.directory, &request.input, &request.output, &request.error,
                 &request.held_log, &request.about, &request.lease.file, &request.lease.boot_id, &request.gang.starter,
                 &request.gang.key, &request.isolation.cores},
      is_text);
  if (!reader.is_done() || next != streams.size() || !are_texts) return InvalidArgument("not a launch message");
  return request;
}

ssize_t SendFramePart(int socket, std::string_view bytes, const std::vector<ForeignDescriptor>& streams, int flags) {
  DIVVY_ASSERT(streams.size() <= kMostLaunchStreams);
  std::array<int, kMostLaunchStreams> fds = {};
  std::ranges::transform(streams, fds.begin(), &ForeignDescriptor::get);
  return SendWithDescriptors(socket, bytes, std::span(fds).first(streams.size()), flags);
}

bool SendFrame(int socket, const LaunchFrame& frame) {
  static const std::vector<ForeignDescriptor> kNone;
  for (std::size_t sent = 0; sent < frame.bytes.size();) {
    const std::string_view rest = std::string_view(frame.bytes).substr(sent);
    const ssize_t size = SendFramePart(socket, rest, sent == 0 ? frame.streams : kNone, 0);
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) sent += static_cast<std::size_t>(size);
  }
  return true;
}

bool LaunchFrameReader::ReadMore() {
  if (is_broken_) return false;
  // Most frames fit at once; the buffer grows for larger ones.
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
  ForeignMessage got;
  do got = ReceiveForeign(socket_, buffer_.data() + filled_, buffer_.size() - filled_, 0);
  while (got.size < 0 && errno == EINTR);
  if (got.size <= 0) return false;
  filled_ += static_cast<std::size_t>(got.size);
  for (ForeignDescriptor& one : got.descriptors) streams_.push_back(std::move(one));
  return true;
}

std::optional<LaunchFrame> LaunchFrameReader::Next() {
  LaunchFrameHeader header;
  const std::string_view rest = std::string_view(buffer_).substr(taken_, filled_ - taken_);
  if (rest.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, rest.data(), sizeof header);
  // The descriptors arrive with the first byte.
  is_broken_ = is_broken_ || !IsFrame(header) || header.stream_count > streams_.size();
  const std::size_t size = sizeof header + header.body_size;
  if (is_broken_ || rest.size() < size) return std::nullopt;
  LaunchFrame frame = {.bytes = std::string(rest.substr(0, size))};
  ::explicit_bzero(buffer_.data() + taken_, size);
  taken_ += size;
  for (std::uint32_t i = 0; i < header.stream_count; ++i) {
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
