// Reads metrics that a job prints ({"step": 10, "loss": 0.3}) in output that this process copies to its caller. The
// daemon reads log files itself; only the process that copies the output can read what goes to a caller's terminal or
// pipe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/client/api.h"
#include "wire/http/own_numbers.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// Collects the whole lines of a stream that look like JSON objects. Cheap, so that it does not slow down the stream.
class ObjectLines {
 public:
  void Read(std::string_view bytes);
  /// Call at the end of the stream. Treats the last line as complete although it has no line break.
  void End();
  /// Returns the newest lines since the last call, at most wire::kMostOwnLines.
  std::deque<std::string> Take();
  /// How many older lines were dropped before those that Take returns.
  std::int64_t left_out() const { return left_out_; }
  bool empty() const { return lines_.empty(); }

 private:
  enum class At { kLineStart, kObject, kOther };
  At at_ = At::kLineStart;
  std::string begun_;
  std::deque<std::string> lines_;
  std::int64_t left_out_ = 0;
};

/// Reads the metrics that a job prints to a stream and passes them to `tell` at most once a second. `tell` is called on
/// a separate thread, which starts when the first line with a JSON object arrives.
class CarriedMetrics {
 public:
  struct Said {
    wire::OwnNumbers numbers;
    std::int64_t lines_left_out = 0;
    std::int64_t names_left_out = 0;
  };
  using Tell = std::function<void(const Said& said)>;
  explicit CarriedMetrics(Tell tell) : tell_(std::move(tell)) {}
  CarriedMetrics(const CarriedMetrics&) = delete;
  CarriedMetrics& operator=(const CarriedMetrics&) = delete;
  ~CarriedMetrics() { Finish(); }

  /// Call on the thread that copies the stream.
  void Read(std::string_view bytes);
  /// Call when the job has received its id. Reporting starts then: metrics that were read from the job's output before
  /// are kept until then.
  void Begin();
  /// Reports the numbers that are still unreported, and ends the thread. Later calls of Read() have no effect.
  void Finish();

 private:
  void Serve();

  Tell tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  ObjectLines lines_;
  bool has_begun_ = false;
  bool is_over_ = false;
  std::thread thread_;
};

/// Sends metric values of job `id` to the daemon. Returns the body of the daemon's response, a message without content.
Result<std::string> AddOwnMetrics(Api& api, const std::string& id, const wire::OwnMetricsRequest& request);

}  // namespace divvy::cli
