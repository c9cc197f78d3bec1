// For a command whose answer may take a while: on a terminal a line below says that it is under way, and since when.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace divvy::cli {

/// While it lives: after two seconds "moving ... 3 s" on standard error, each second anew, and gone at its end. Says
/// nothing where that is no terminal. Of several that live, the one that began last speaks: it knows best what is going
/// on. They end in the reverse order.
class Patience {
 public:
  explicit Patience(std::string what);
  /// For tests: onto `to`, after `after` and then each `after`.
  Patience(std::string what, std::FILE* to, std::chrono::milliseconds after);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// Before anything else is written to standard error: takes its line away, until it has something new to say.
  static void ClearLine();

 private:
  void Run();
  void Clear();

  std::string what_;
  std::FILE* to_ = nullptr;  // Null: it is silent.
  std::chrono::milliseconds after_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  bool is_shown_ = false;
  Patience* outer_ = nullptr;  // That spoke before.
  std::thread thread_;
};

}  // namespace divvy::cli
