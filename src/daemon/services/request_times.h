// Measures how long requests to services take. HAProxy writes one short line for each request to a named pipe in the
// front's folder. A line has the service, timers, the status and how the request ended, and nothing that a client sent.
// HAProxy drops lines if the pipe is full, and never waits. The times are counted in histograms per service and minute,
// so memory and time per request are bounded. Used on the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Counts times in milliseconds. The width of a bucket is at most 1/8 of its times. Times above 2^23 ms (2.3 h) count
/// as 2^23 ms.
class LatencyHistogram {
 public:
  static constexpr std::size_t kPerOctave = 8;
  static constexpr std::size_t kBuckets = 1 + 23 * kPerOctave;

  /// Counts one time.
  void Add(std::int64_t ms) { ++counts_[BucketOf(ms)]; }
  void Add(const LatencyHistogram& other);
  std::uint64_t count() const;
  /// Returns the time in seconds that this share (0 to 1) of the requests did not exceed, with an error of at most 1/16
  /// of it; nullopt if no request was counted.
  std::optional<double> Quantile(double share) const;
  /// Returns how many took less than 2^octave ms. The cost is O(buckets).
  std::uint64_t CountBelow(int octave) const;

 private:
  static std::size_t BucketOf(std::int64_t ms);
  /// The lowest time of a bucket, in milliseconds.
  static std::int64_t LowestOf(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_{};
};

/// One line of the log: a request that has ended.
struct RequestLine {
  std::string_view proxy;        // "s_chat"
  std::int64_t ended_s = 0;      // Seconds since 1970.
  std::int64_t first_ms = 0;     // Until the first byte of the answer. Below 0: there was no answer.
  std::int64_t total_ms = 0;     // Until its last byte.
  std::int64_t status = 0;       // 0: the client ended the request first.
  std::string_view termination;  // HAProxy's code: "--" is normal.

  /// Returns true if the time of this request counts: a replica has answered it, or took longer than allowed. Answers
  /// of the front itself, requests that the client has ended, and WebSockets do not count.
  bool has_latency() const;
};
/// The number of the file descriptor with which HAProxy inherits the pipe.
inline constexpr int kFrontLogFd = 3;
/// Returns the path of the pipe in the front's folder.
std::string RequestPipeIn(const std::string& folder);
/// Returns the path of the file that HAProxy gets as descriptor kFrontLogFd: the pipe, or /dev/null if there is no
/// pipe.
std::string RequestLogIn(const std::string& folder);
/// Returns the "log-format" of HAProxy's configuration that ParseRequestLine can parse.
std::string_view RequestLogFormat();
/// Parses a line of HAProxy's log. Returns nullopt for a line that is not about a request.
std::optional<RequestLine> ParseRequestLine(std::string_view line);

/// The requests of one service.
class ServiceTimes {
 public:
  /// The quantiles of request times are over this many minutes, of which the present one is the last.
  static constexpr std::int64_t kMinutes = 5;
  /// The histogram for metrics scrapers has buckets with the upper bounds 2^2 to 2^20 ms.
  static constexpr int kFirstOctave = 2;
  static constexpr int kLastOctave = 20;

  void Add(const RequestLine& line);
  /// Counts a request that the front answered with 413.
  void AddTooLarge(std::int64_t second) {
    Minute& minute = MinuteOf(second);
    minute.recent.too_large += minute.number == second / 60;
  }
  /// Adds the GPU time and the cost since the last call. `gpu_milli`: the GPUs that the service's replicas hold, in
  /// thousandths. `hour_milli`: the price of these GPUs per hour, in thousandths.
  void AddUse(Time now, double gpu_milli, double hour_milli);

  struct Recent {
    LatencyHistogram total;
    LatencyHistogram first;
    std::int64_t too_large = 0;
    double gpu_seconds = 0;
    double cost = 0;
  };
  /// Returns the sums over the last kMinutes minutes before `now`.
  Recent RecentAt(Time now) const;
  // Since the start of the controller.
  const LatencyHistogram& all() const { return all_; }
  double all_seconds() const { return all_seconds_; }
  double gpu_seconds() const { return gpu_seconds_; }
  double cost() const { return cost_; }

 private:
  struct Minute {
    std::int64_t number = -1;  // Since 1970.
    Recent recent;
  };
  Minute& MinuteOf(std::int64_t second);

  std::array<Minute, kMinutes> minutes_;
  LatencyHistogram all_;
  double all_seconds_ = 0;
  double gpu_seconds_ = 0;
  double cost_ = 0;
  Time used_at_ = kNoTime;
};

class RequestTimes {
 public:
  /// Makes the folder, which must be private to this user, and the pipe, if they do not exist.
  Status Open(const std::string& folder);
  /// Reads what HAProxy has written, at most 1 MiB: about 20,000 requests. Returns how many lines were read. Lines of
  /// HAProxy proxies that Keep was not called for are ignored. Requests count as ended at `now`, because HAProxy's
  /// clock may differ. Only those in the first call, which ended while no daemon read, count at the time in their
  /// lines.
  std::size_t Read(Time now);
  /// From now on counts the requests of this HAProxy proxy, such as "s_chat"; Forget ends that.
  ServiceTimes& Keep(const std::string& proxy) { return services_[proxy]; }
  void Forget(const std::string& proxy) { services_.erase(proxy); }
  const ServiceTimes* Find(std::string_view proxy) const;

 private:
  Descriptor pipe_;
  std::string rest_;  // An incomplete line.
  bool has_read_ = false;
  std::vector<char> part_;
  std::map<std::string, ServiceTimes, std::less<>> services_;
};

}  // namespace divvy
