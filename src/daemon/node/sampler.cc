#include "daemon/node/sampler.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_timer.hpp>
#include <utility>

#include "platform/os/clock.h"

namespace divvy {

namespace asio = boost::asio;

struct Sampler::Timer {
  explicit Timer(asio::io_context& loop) : timer(loop) {}
  asio::system_timer timer;
};

Sampler::Sampler(asio::io_context& loop, const Node& node, std::unique_ptr<UseProbe> probe, Options options)
    : loop_(loop),
      node_(node),
      options_(std::move(options)),
      timer_(std::make_unique<Timer>(loop)),
      began_(RealClock().Now()),
      probe_(std::move(probe)),
      worker_(std::make_unique<Worker>()) {}

Sampler::~Sampler() = default;

void Sampler::Begin(OnSnapshot on_snapshot) {
  on_snapshot_ = std::move(on_snapshot);
  Arm();
}

// Samples are due at whole multiples of the period in wall clock time, so that all nodes sample at the same moments.
void Sampler::Arm() {
  using Wall = std::chrono::system_clock;
  const auto period = std::chrono::duration_cast<Wall::duration>(options_.every);
  const Wall::duration now = Wall::now().time_since_epoch();
  timer_->timer.expires_at(Wall::time_point((now / period + 1) * period));
  timer_->timer.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    Look();
    Arm();
  });
}

std::vector<OwnMetrics::Source> Sampler::Sources(const std::vector<Node::RunHere>& runs) {
  std::map<JobId, OwnMetrics::Source> known;
  std::vector<OwnMetrics::Source> sources;
  for (const Node::RunHere& run : runs) {
    const auto before = sources_.find(run.job);
    OwnMetrics::Source source;
    if (before != sources_.end() && before->second.attempt == run.attempt) {
      source = before->second;
    } else {
      source = SourceOf(run.job, run.attempt);
    }
    known.emplace(run.job, source);
    looked_at_[run.job] = run.attempt;
    if (!source.log.path.empty()) sources.push_back(std::move(source));
  }
  sources_ = std::move(known);
  for (OwnMetrics::Source& source : std::exchange(unseen_, {})) {
    // A restarted job appends to the same log.
    if (!sources_.contains(JobId(source.job))) sources.push_back(std::move(source));
  }
  std::erase_if(looked_at_, [this](const auto& run) { return !node_.Runs(run.first); });
  return sources;
}

OwnMetrics::Source Sampler::SourceOf(JobId job, std::uint32_t attempt) const {
  return {job.value(), attempt, node_.LogOfRun(job).value_or(JobLog()), node_.StartOfRun(job) < began_};
}

void Sampler::OnOver(JobId job, std::uint32_t attempt) {
  const auto at = looked_at_.find(job);
  const bool was_seen = at != looked_at_.end() && at->second == attempt;
  if (at != looked_at_.end()) looked_at_.erase(at);
  if (was_seen) return;
  OwnMetrics::Source source = SourceOf(job, attempt);
  if (!source.log.path.empty()) unseen_.push_back(std::move(source));
}

void Sampler::Look() {
  if (std::exchange(is_looking_, true)) return;
  const std::vector<Node::RunHere> runs = node_.runs_here();
  std::vector<UseTarget> targets;
  for (const Node::RunHere& run : runs) {
    targets.push_back(run.use);
    const auto now = options_.parts_now ? options_.parts_now(run.job) : std::nullopt;
    if (!now) continue;
    targets.back().is_parked = now->is_parked;
    if (!now->gpus.empty()) targets.back().gpus = now->gpus;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const samples::Second at = std::chrono::floor<std::chrono::seconds>(now).count();
  worker_->Do([this, at, targets = std::move(targets), sources = Sources(runs)] {
    samples::Snapshot seen = probe_->Look(at, options_.node, targets);
    own_.Look(sources, options_.node, seen);
    asio::post(loop_, [this, seen = std::move(seen)]() mutable {
      is_looking_ = false;
      on_snapshot_(std::move(seen));
    });
  });
}

}  // namespace divvy
