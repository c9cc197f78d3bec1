#include "daemon/services/request_times.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kMostRead = 1 << 20;
constexpr std::size_t kLongestRest = 4096;
constexpr int kPipeSize = 1 << 20;  // In bytes: the largest pipe that users may have by default.
constexpr std::int64_t kMostMs = (std::int64_t{1} << 23) - 1;
constexpr std::int64_t kSwitchingProtocols = 101;
constexpr std::int64_t kTooLarge = 413;
// The service, the second of the request's begin, the times until its headers, a server, the connection and the answer
// were there, the time until the end, the status, and how it ended. No field is from the client.
constexpr std::string_view kFormat = "R %b %Ts %TR %Tw %Tc %Tr %Ta %ST %ts";

}  // namespace

std::size_t LatencyHistogram::BucketOf(std::int64_t ms) {
  if (ms <= 0) return 0;
  const auto value = static_cast<std::uint64_t>(std::min(ms, kMostMs));
  const auto octave = static_cast<std::size_t>(std::bit_width(value)) - 1;
  return 1 + octave * kPerOctave + ((value * kPerOctave) >> octave) - kPerOctave;
}

std::int64_t LatencyHistogram::LowestOf(std::size_t bucket) {
  if (bucket == 0) return 0;
  const std::size_t octave = (bucket - 1) / kPerOctave;
  const std::size_t part = (bucket - 1) % kPerOctave + kPerOctave;
  return static_cast<std::int64_t>(((part << octave) + kPerOctave - 1) / kPerOctave);
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
}

std::uint64_t LatencyHistogram::count() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) sum += count;
  return sum;
}

std::optional<double> LatencyHistogram::Quantile(double share) const {
  const std::uint64_t all = count();
  if (all == 0) return std::nullopt;
  const auto rank = static_cast<std::uint64_t>(std::max(1.0, std::ceil(share * static_cast<double>(all))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    // The middle of the whole milliseconds in this bucket.
    if (seen >= rank) return static_cast<double>(LowestOf(i) + LowestOf(i + 1) - 1) / 2000;
  }
  return std::nullopt;
}

std::uint64_t LatencyHistogram::CountBelow(int octave) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 1 + static_cast<std::size_t>(octave) * kPerOctave; ++i) sum += counts_[i];
  return sum;
}

bool RequestLine::has_latency() const {
  if (termination.size() != 2 || status < 100 || status == kSwitchingProtocols) return false;
  if (termination[0] == '-') return true;
  // The replica closed the connection, or was too slow; not: no replica was free in time, or none could be reached.
  return (termination[0] == 's' || termination[0] == 'S') && termination[1] != 'Q' && termination[1] != 'C';
}

std::string RequestPipeIn(const std::string& folder) { return folder + "/requests"; }

std::string RequestLogIn(const std::string& folder) {
  std::string path = RequestPipeIn(folder);
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISFIFO(facts.st_mode) ? path : "/dev/null";
}

std::string_view RequestLogFormat() { return kFormat; }

std::optional<RequestLine> ParseRequestLine(std::string_view line) {
  std::array<std::string_view, 10> words;
  for (std::string_view& word : words) {
    const std::size_t end = std::min(line.find(' '), line.size());
    word = line.substr(0, end);
    if (word.empty()) return std::nullopt;
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  if (words[0] != "R" || !line.empty()) return std::nullopt;
  std::array<std::int64_t, 7> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string_view word = words[i + 2];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), numbers[i]);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  const auto [began_s, headers, queue, connect, answer, total, status] = numbers;
  if (began_s < 0 || total < 0) return std::nullopt;
  RequestLine request;
  request.proxy = words[1];
  request.ended_s = began_s + total / 1000;
  request.first_ms = answer < 0 ? -1
                                : std::max<std::int64_t>(headers, 0) + std::max<std::int64_t>(queue, 0) +
                                      std::max<std::int64_t>(connect, 0) + answer;
  request.total_ms = total;
  request.status = std::max<std::int64_t>(status, 0);
  request.termination = words[9];
  return request;
}

ServiceTimes::Minute& ServiceTimes::MinuteOf(std::int64_t second) {
  const std::int64_t number = second / 60;
  Minute& minute = minutes_[static_cast<std::size_t>(number % kMinutes)];
  if (minute.number < number) minute = {number, {}};
  return minute;
}

void ServiceTimes::Add(const RequestLine& line) {
  if (!line.has_latency()) return;
  all_.Add(line.total_ms);
  all_seconds_ += static_cast<double>(line.total_ms) / 1000;
  Minute& minute = MinuteOf(line.ended_s);
  // A line that has waited in the pipe for too long is of a minute that is no longer counted.
  if (minute.number != line.ended_s / 60) return;
  minute.recent.total.Add(line.total_ms);
  if (line.first_ms >= 0) minute.recent.first.Add(line.first_ms);
}

void ServiceTimes::AddUse(Time now, double gpu_milli, double hour_milli) {
  const Time before = std::exchange(used_at_, now);
  if (before == kNoTime || now <= before) return;
  const double seconds = ToSeconds(now - before);
  const double gpu_seconds = seconds * gpu_milli / 1000;
  const double cost = seconds * hour_milli / 1000 / 3600;
  gpu_seconds_ += gpu_seconds;
  cost_ += cost;
  Minute& minute = MinuteOf(static_cast<std::int64_t>(ToSeconds(now)));
  minute.recent.gpu_seconds += gpu_seconds;
  minute.recent.cost += cost;
}

ServiceTimes::Recent ServiceTimes::RecentAt(Time now) const {
  const std::int64_t present = static_cast<std::int64_t>(ToSeconds(now)) / 60;
  Recent sum;
  for (const Minute& minute : minutes_) {
    if (minute.number <= present - kMinutes) continue;
    sum.total.Add(minute.recent.total);
    sum.first.Add(minute.recent.first);
    sum.too_large += minute.recent.too_large;
    sum.gpu_seconds += minute.recent.gpu_seconds;
    sum.cost += minute.recent.cost;
  }
  return sum;
}

Status RequestTimes::Open(const std::string& folder) {
  const std::string path = RequestPipeIn(folder);
  ::mkdir(folder.c_str(), 0700);
  if (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST)
    return Internal("cannot make the pipe " + path + ": " + std::strerror(errno));
  // With a writer of its own, the pipe keeps what is in it, and reading never ends, whichever HAProxy comes and goes.
  pipe_ = Descriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe_.is_open()) return Internal("cannot open the pipe " + path + ": " + std::strerror(errno));
  if (RequestLogIn(folder) != path) {
    pipe_.Reset();
    return Internal(path + " is not a pipe; remove it and start the daemon again");
  }
  // If this fails, the pipe stays smaller, and more lines are lost when it is full.
  ::fcntl(pipe_.get(), F_SETPIPE_SZ, kPipeSize);
  return {};
}

const ServiceTimes* RequestTimes::Find(std::string_view proxy) const {
  const auto found = services_.find(proxy);
  return found == services_.end() ? nullptr : &found->second;
}

std::size_t RequestTimes::Read(Time now) {
  if (!pipe_.is_open()) return 0;
  const bool is_first = !std::exchange(has_read_, true);
  const auto present = static_cast<std::int64_t>(ToSeconds(now));
  part_.resize(1 << 16);
  std::size_t lines = 0;
  for (std::size_t read = 0; read < kMostRead;) {
    const ssize_t got = ::read(pipe_.get(), part_.data(), part_.size());
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
    std::string_view text(part_.data(), static_cast<std::size_t>(got));
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) {
        if (rest_.size() + text.size() <= kLongestRest) rest_ += text;
        break;
      }
      std::string_view line = text.substr(0, end);
      if (!rest_.empty()) line = rest_ += line;
      ++lines;
      if (auto request = ParseRequestLine(line)) {
        request->ended_s = is_first ? std::min(request->ended_s, present) : present;
        const auto known = services_.find(request->proxy);
        if (known != services_.end()) known->second.Add(*request);
        // The front itself has answered: no backend is named.
        if (request->proxy.starts_with("f_") && request->status == kTooLarge) {
          const auto service = services_.find("s_" + std::string(request->proxy.substr(2)));
          if (service != services_.end()) service->second.AddTooLarge(request->ended_s);
        }
        // A canary's requests are the service's, too.
        if (request->proxy.starts_with("c_")) {
          const auto service = services_.find("s_" + std::string(request->proxy.substr(2)));
          if (service != services_.end()) service->second.Add(*request);
        }
      }
      rest_.clear();
      text.remove_prefix(end + 1);
    }
  }
  return lines;
}

}  // namespace divvy
