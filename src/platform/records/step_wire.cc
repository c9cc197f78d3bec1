#include "platform/records/step_wire.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "platform/os/foreign_descriptor.h"
#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr std::uint32_t kStepMagic = 0x31737664;         // "dvs1"
constexpr std::size_t kBodyMost = std::size_t{8} << 20;  // The environment and arguments have at most 2 MiB.
constexpr std::size_t kDescriptorsMost = 200;

struct StepHead {
  std::uint32_t magic;
  std::uint32_t word;
  std::int32_t value;
  std::uint32_t size;
};

struct CallHead {
  std::uint32_t umask;
  std::uint32_t words;
  std::uint32_t environment;
  std::uint32_t reserved;
  std::uint64_t limits[RLIM_NLIMITS][2];
  cpu_set_t cores;
};

/// Takes the next zero-terminated string off `text`.
std::optional<std::string> TakeString(std::string_view& text) {
  const std::size_t end = text.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  std::string out(text.substr(0, end));
  text.remove_prefix(end + 1);
  return out;
}

bool TakeStrings(std::string_view& text, std::uint32_t count, std::vector<std::string>& out) {
  if (count > text.size()) return false;
  out.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto one = TakeString(text);
    if (!one) return false;
    out.push_back(*std::move(one));
  }
  return true;
}

}  // namespace

std::string EncodeStepFrame(StepWord word, int value, std::string_view body) {
  const StepHead head = {kStepMagic, static_cast<std::uint32_t>(word), value, static_cast<std::uint32_t>(body.size())};
  std::string frame(sizeof head + body.size(), '\0');
  std::memcpy(frame.data(), &head, sizeof head);
  std::copy(body.begin(), body.end(), frame.begin() + sizeof head);
  return frame;
}

bool SendStepFrame(int socket, StepWord word, int value, std::string_view body, std::span<const int> fds) {
  const std::string frame = EncodeStepFrame(word, value, body);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = SendWithDescriptors(socket, rest, rest.size() == frame.size() ? fds : fds.first(0), 0);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

StepFrameReader::Outcome StepFrameReader::Fill(int socket) {
  constexpr std::size_t kPiece = 32'768;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kPiece);
  ForeignMessage got = ReceiveForeign(socket, buffer_.data() + before, kPiece, MSG_DONTWAIT);
  const int error = errno;
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got.size, 0)));
  if (got.size < 0) return error == EAGAIN || error == EINTR ? Outcome::kNothing : Outcome::kClosed;
  for (ForeignDescriptor& one : got.descriptors) descriptors_.emplace_back(one.Release());
  if (got.size == 0 || descriptors_.size() > 2 * kDescriptorsMost) return Outcome::kClosed;
  if (buffer_.size() < sizeof(StepHead)) return Outcome::kSome;
  StepHead head;
  std::memcpy(&head, buffer_.data(), sizeof head);
  return head.magic == kStepMagic && head.size <= kBodyMost ? Outcome::kSome : Outcome::kClosed;
}

std::optional<StepFrame> StepFrameReader::Next() {
  StepHead head;
  if (buffer_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, buffer_.data(), sizeof head);
  if (head.magic != kStepMagic || head.size > kBodyMost || buffer_.size() < sizeof head + head.size)
    return std::nullopt;
  StepFrame frame;
  frame.word = static_cast<StepWord>(head.word);
  frame.value = head.value;
  frame.body = buffer_.substr(sizeof head, head.size);
  // Only these messages come with descriptors. Another message may arrive together with the descriptors of the next
  // one, which must not be given to it.
  if (frame.word == StepWord::kCall || frame.word == StepWord::kStreams || frame.word == StepWord::kTerminal ||
      frame.word == StepWord::kFiles) {
    frame.descriptors = std::exchange(descriptors_, {});
  }
  buffer_.erase(0, sizeof head + head.size);
  return frame;
}

std::string EncodeStepCall(std::span<const char* const> words, const char* const* environment) {
  CallHead head = {};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  head.umask = mask;
  head.words = static_cast<std::uint32_t>(words.size());
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    rlimit limit = {};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    head.limits[resource][0] = limit.rlim_cur;
    head.limits[resource][1] = limit.rlim_max;
  }
  ::sched_getaffinity(0, sizeof head.cores, &head.cores);
  char directory[4096];
  if (::getcwd(directory, sizeof directory) == nullptr) std::strcpy(directory, "/");

  std::size_t size = sizeof head + std::strlen(directory) + 1;
  for (const char* word : words) size += std::strlen(word) + 1;
  for (const char* const* entry = environment; *entry != nullptr; ++entry, ++head.environment) {
    size += std::strlen(*entry) + 1;
  }
  std::string body;
  body.reserve(size);
  body.append(reinterpret_cast<const char*>(&head), sizeof head);
  body.append(directory).push_back('\0');
  for (const char* word : words) body.append(word).push_back('\0');
  for (const char* const* entry = environment; *entry != nullptr; ++entry) body.append(*entry).push_back('\0');
  return body;
}

std::optional<StepCall> DecodeStepCall(StepFrame frame) {
  CallHead head;
  if (frame.body.size() < sizeof head || frame.descriptors.size() != 3) return std::nullopt;
  std::memcpy(&head, frame.body.data(), sizeof head);
  std::string_view rest = std::string_view(frame.body).substr(sizeof head);
  StepCall call;
  auto directory = TakeString(rest);
  if (!directory || !TakeStrings(rest, head.words, call.words) || call.words.empty() ||
      !TakeStrings(rest, head.environment, call.environment)) {
    return std::nullopt;
  }
  call.directory = *std::move(directory);
  call.umask = head.umask & 0777;
  for (std::size_t i = 0; i < call.limits.size(); ++i) call.limits[i] = {head.limits[i][0], head.limits[i][1]};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &head.cores)) call.cores.push_back(core);
  }
  for (std::size_t i = 0; i < call.streams.size(); ++i) call.streams[i] = std::move(frame.descriptors[i]);
  call.bytes = std::move(frame.body);
  return call;
}

std::optional<StepAddress> MakeStepAddress(const std::string& path) {
  StepAddress address;
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::string reached = path;
  if (reached.size() >= sizeof name.sun_path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return std::nullopt;
    address.folder.Reset(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.folder.is_open()) return std::nullopt;
    reached = "/proc/self/fd/" + std::to_string(address.folder.get()) + path.substr(slash);
    if (reached.size() >= sizeof name.sun_path) return std::nullopt;
  }
  std::memcpy(name.sun_path, reached.c_str(), reached.size() + 1);
  static_assert(sizeof name <= sizeof address.storage);
  std::memcpy(address.storage.data(), &name, sizeof name);
  address.size = offsetof(sockaddr_un, sun_path) + reached.size() + 1;
  return address;
}

}  // namespace divvy
