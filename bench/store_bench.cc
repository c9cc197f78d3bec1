// Measures how fast the store commits, loads and prunes on this machine.
//
//   store_bench [FOLDER]              default: the current directory; its disk determines the results
//   store_bench postgresql://...      an empty database
//
// Prints one line per measurement. All rates count durable commits (synchronous=FULL, synchronous_commit=on).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "store/postgres/postgres_url.h"
#include "store/store.h"

namespace divvy {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <typename T>
T OrExit(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "store_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

void OrExit(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "store_bench: %s\n", status.error().message.c_str());
  std::exit(1);
}

const Time kStart = TimeFromSeconds(1'790'000'000);

// A typical submission: 60 environment variables, the same in all jobs, and a short command.
std::shared_ptr<const JobSpec> UsualSpec() {
  auto spec = std::make_shared<JobSpec>();
  spec->command = {"python", "train.py", "--epochs", "90"};
  spec->directory = "/home/ada/projects/vision";
  spec->request.gpus = 1;
  spec->time_limit = 3600s;
  for (int i = 10; i < 70; ++i)
    spec->capture.environment.push_back("VARIABLE_" + std::to_string(i) + "=" + std::string(60, 'x'));
  spec->capture.limits = {{"nofile", 1024}, {"stack", 8 << 20}};
  return spec;
}

Batch Submission(std::uint64_t id, const std::shared_ptr<const JobSpec>& spec) {
  Batch batch;
  JobRecord record;
  record.id = record.spec_of = JobId(id);
  record.user = {1000, 1000, "ada"};
  record.name = "train";
  record.request = spec->request;
  record.time_limit = spec->time_limit;
  record.submitted = record.queued_at = kStart + Duration(id);
  record.reason = "waits for 1 GPU, 0 are free";
  batch.history.push_back({record.id, record.submitted, "queued"});
  batch.inserts.push_back({std::move(record), spec});
  batch.next_id = id + 1;
  return batch;
}

// The start and the end of a job: two updates with one line of history each.
Batch Life(JobRecord record) {
  Batch batch;
  record.state = JobState::kRunning;
  record.started = record.submitted + 1s;
  record.gpus = GpuSet::FirstN(1);
  batch.updates.push_back(record);
  batch.history.push_back({record.id, record.started, "started on GPU 0"});
  record.state = JobState::kSucceeded;
  record.ended = record.started + 60s;
  record.exit = Exit();
  batch.updates.push_back(record);
  batch.history.push_back({record.id, record.ended, "succeeded"});
  return batch;
}

std::unique_ptr<Store> OpenEither(const std::string& where) {
  if (!IsPostgresUrl(where)) return OrExit(OpenSqliteStore(where));
  PostgresOptions options;
  options.url = where;
  return OrExit(OpenPostgresStore(options));
}

class Bench {
 public:
  explicit Bench(std::string path) : path_(std::move(path)), store_(OpenEither(path_)) {}

  void Submit(std::uint64_t jobs_per_commit, std::uint64_t commits) {
    std::vector<double> milliseconds;
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < commits; ++i) {
      std::vector<Batch> batches;
      for (std::uint64_t j = 0; j < jobs_per_commit; ++j) batches.push_back(Submission(++last_id_, spec_));
      const auto commit = Clock::now();
      OrExit(store_->Commit(batches));
      milliseconds.push_back(SecondsSince(commit) * 1e3);
    }
    const double rate = static_cast<double>(jobs_per_commit * commits) / SecondsSince(start);
    std::ranges::sort(milliseconds);
    std::printf("submit, %4llu jobs a commit: %8.0f jobs/s (%8.0f rows/s), commit p50 %.2f ms, p99 %.2f ms\n",
                static_cast<unsigned long long>(jobs_per_commit), rate, 3 * rate, milliseconds[milliseconds.size() / 2],
                milliseconds[milliseconds.size() * 99 / 100]);
  }

  void Reopen() {
    store_.reset();
    auto start = Clock::now();
    store_ = OpenEither(path_);
    const double open = SecondsSince(start);
    start = Clock::now();
    live_.clear();
    for (auto& [id, record] : OrExit(store_->Load()).live) live_.push_back(std::move(record));
    std::printf("open %.3f s; load %zu live jobs %.3f s; %zu MB resident\n", open, live_.size(), SecondsSince(start),
                ResidentMegabytes());
  }

  void Live(std::size_t jobs_per_commit) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < live_.size(); i += jobs_per_commit) {
      std::vector<Batch> batches;
      for (std::size_t j = i; j < std::min(i + jobs_per_commit, live_.size()); ++j) batches.push_back(Life(live_[j]));
      OrExit(store_->Commit(batches));
    }
    std::printf("start and end, %zu jobs a commit: %.0f jobs/s\n", jobs_per_commit,
                static_cast<double>(live_.size()) / SecondsSince(start));
  }

  void Read() {
    auto start = Clock::now();
    for (std::uint64_t i = 0; i < 1000; ++i) OrExit(store_->Spec(JobId(1 + i * (last_id_ / 1000))));
    std::printf("specification of a job: %.3f ms\n", SecondsSince(start));
    start = Clock::now();
    const std::size_t newest = OrExit(store_->History({.limit = 1000})).size();
    std::printf("newest %zu of the history: %.1f ms\n", newest, SecondsSince(start) * 1e3);
    start = Clock::now();
    const std::size_t recent = OrExit(store_->History({.since = kStart + Duration(last_id_) + 61s})).size();
    std::printf("the %zu since a time: %.1f ms\n", recent, SecondsSince(start) * 1e3);
    start = Clock::now();
    OrExit(store_->LastOf(1000, 10));
    OrExit(store_->Named("train", "ada"));
    std::printf("@~10 and a name: %.2f ms\n", SecondsSince(start) * 1e3);
  }

  void Prune() {
    const auto start = Clock::now();
    double longest = 0;
    while (true) {
      const auto step = Clock::now();
      const bool has_more = OrExit(store_->PruneStep(kNever));
      longest = std::max(longest, SecondsSince(step));
      if (!has_more) break;
    }
    std::printf("prune %zu jobs: %.2f s, longest step %.1f ms\n", live_.size(), SecondsSince(start), longest * 1e3);
  }

 private:
  static std::size_t ResidentMegabytes() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) >> 20;
  }

  std::string path_;
  std::unique_ptr<Store> store_;
  std::shared_ptr<const JobSpec> spec_ = UsualSpec();
  std::vector<JobRecord> live_;
  std::uint64_t last_id_ = 0;
};

}  // namespace
}  // namespace divvy

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : ".";
  const std::string path = divvy::IsPostgresUrl(where) ? where : where + "/store_bench.db";
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) ::unlink((path + suffix).c_str());
  {
    divvy::Bench bench(path);
    bench.Submit(1, 2'000);
    bench.Submit(10, 500);
    bench.Submit(100, 400);
    bench.Submit(1'000, 60);
    bench.Reopen();
    bench.Live(100);
    bench.Read();
    bench.Prune();
  }
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) ::unlink((path + suffix).c_str());
}
