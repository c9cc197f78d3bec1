// What a job says of itself in the output that this process carries to its caller: {"step": 10, "loss": 0.3}. The
// daemon reads the files that jobs write; what goes to a caller's terminal or pipe only who carries it can read.
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

/// Whole lines of a stream that look like objects: so little that whoever carries the stream is not slowed by it.
class ObjectLines {
 public:
  void Read(std::string_view bytes);
  /// The line that has begun is whole: nothing follows.
  void End();
  /// The last wire::kMostOwnLines since the last call.
  std::deque<std::string> Take();
  /// How many were before those that Take gives, and are not among them.
  std::int64_t left_out() const { return left_out_; }
  bool empty() const { return lines_.empty(); }

 private:
  enum class At { kLineStart, kObject, kOther };
  At at_ = At::kLineStart;
  std::string begun_;
  std::deque<std::string> lines_;
  std::int64_t left_out_ = 0;
};

/// Tells the numbers of a stream each second, on a thread of its own that begins with the first of them.
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

  /// On the thread that carries the stream.
  void Read(std::string_view bytes);
  /// From now on there is somebody to tell of: the job has its number.
  void Begin();
  /// Tells what is left. Nothing is read after that.
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

/// Of a job, for its metrics. The answer is a message, and says nothing.
Result<std::string> AddOwnMetrics(Api& api, const std::string& id, const wire::OwnMetricsRequest& request);

}  // namespace divvy::cli
