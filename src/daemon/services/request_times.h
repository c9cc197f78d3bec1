// How long requests take, from the front's log: a named pipe in the front's folder, to which HAProxy writes one short
// line for each request. A line has the service, timers, the status and how the request ended, and nothing that a
// client sent. HAProxy drops lines if the pipe is full, and never waits. The times are counted in histograms per
// service and minute, so memory and time per request are bounded. Used on the loop's thread.
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

/// Counts times in milliseconds in buckets that are at most 1/8 wide, up to 2^23 ms (2.3 h); longer ones count as that.
class LatencyHistogram {
 public:
  static constexpr std::size_t kPerOctave = 8;
  static constexpr std::size_t kBuckets = 1 + 23 * kPerOctave;

  /// Counts one time.
  void Add(std::int64_t ms) { ++counts_[BucketOf(ms)]; }
  void Add(const LatencyHistogram& other);
  std::uint64_t count() const;
  /// Returns the time in seconds that this share of the requests did not exceed, to 1/16, or nullopt without requests.
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

  /// Returns whether a replica has answered, or took longer than allowed. An answer of the front itself, a request that
  /// the client has ended, and a WebSocket have no latency.
  bool has_latency() const;
};
/// HAProxy gets the pipe as this descriptor.
inline constexpr int kFrontLogFd = 3;
/// Returns the path of the pipe in the front's folder.
std::string RequestPipeIn(const std::string& folder);
/// Returns the path that HAProxy opens as that descriptor: the pipe, or /dev/null if there is none.
std::string RequestLogIn(const std::string& folder);
/// Returns the "log-format" of the front for these lines.
std::string_view RequestLogFormat();
/// Returns nullopt if HAProxy reports something else.
std::optional<RequestLine> ParseRequestLine(std::string_view line);

/// The requests of one service.
class ServiceTimes {
 public:
  /// The window of the quantiles: the present minute and those before.
  static constexpr std::int64_t kMinutes = 5;
  /// Bounds of the buckets for metrics scrapers: 2^2 to 2^20 ms.
  static constexpr int kFirstOctave = 2;
  static constexpr int kLastOctave = 20;

  void Add(const RequestLine& line);
  /// Adds what its replicas held since the last call: thousandths of GPUs, and their price per hour in thousandths.
  void AddUse(Time now, double gpu_milli, double hour_milli);

  struct Recent {
    LatencyHistogram total;
    LatencyHistogram first;
    double gpu_seconds = 0;
    double cost = 0;
  };
  /// Returns the sum over the window that ends at `now`.
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
  /// proxies without Keep are ignored. Requests count as ended at `now`, because HAProxy's clock may differ. Only those
  /// of the first call, which an earlier daemon has left, count at the second in their lines.
  std::size_t Read(Time now);
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
