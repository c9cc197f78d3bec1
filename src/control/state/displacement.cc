#include "control/state/displacement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/text.h"

namespace divvy {
namespace {

std::int64_t CountOf(Time time) { return time.time_since_epoch().count(); }

}  // namespace

std::pair<std::string, std::string> DisplacementRow(JobId job, const Displacement& one) {
  const std::array<std::int64_t, 14> numbers = {
      one.attempt,
      static_cast<std::int64_t>(one.presence),
      static_cast<std::int64_t>(one.by.value()),
      std::bit_cast<std::int64_t>(one.gpus.bits()),
      CountOf(one.displaced_at),
      CountOf(one.here_since),
      CountOf(one.settled_at),
      one.lost.count(),
      one.lost_settled.count(),
      one.in_limit.count(),
      static_cast<std::int64_t>(one.set_aside),
      one.lost_aside.count(),
      one.extended.count(),
      one.limit.count(),
  };
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return {std::string(kDisplacementPrefix) + ToString(job), std::move(text)};
}

std::optional<Displacement> DisplacementOfRow(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view word : Split(text, ' ')) {
    const auto number = ParseInteger(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  // A row of an earlier release.
  const bool is_earlier = numbers.size() >= 10 && numbers.size() < 14;
  if (is_earlier) numbers.resize(14);
  if (numbers.size() != 14 || numbers[1] < 0 || numbers[1] > static_cast<std::int64_t>(Presence::kReturning) ||
      numbers[10] < 0 || numbers[10] > static_cast<std::int64_t>(SetAside::kPromoted))
    return std::nullopt;
  Displacement one;
  one.attempt = static_cast<std::uint32_t>(numbers[0]);
  one.presence = static_cast<Presence>(numbers[1]);
  one.by = JobId(static_cast<std::uint64_t>(numbers[2]));
  one.gpus = GpuSet::FromBits(std::bit_cast<std::uint64_t>(numbers[3]));
  one.displaced_at = Time(Duration(numbers[4]));
  one.here_since = Time(Duration(numbers[5]));
  one.settled_at = Time(Duration(numbers[6]));
  one.lost = Duration(numbers[7]);
  one.lost_settled = Duration(numbers[8]);
  one.in_limit = Duration(numbers[9]);
  one.set_aside = static_cast<SetAside>(numbers[10]);
  one.lost_aside = Duration(numbers[11]);
  one.extended = is_earlier ? one.in_limit : Duration(numbers[12]);
  one.limit = is_earlier ? kAnyLimit : Duration(numbers[13]);
  return one;
}

time_sharing::Options OptionsOf(const TimeSharingSettings& settings) {
  time_sharing::Options options;
  options.trial = settings.trial;
  options.at_most = settings.at_most;
  // With a short trial time, the times for which jobs at least run and are at least parked are short, too.
  options.min_run = std::min(options.min_run, settings.trial);
  options.min_displacement = std::min(options.min_displacement, settings.trial);
  return options;
}

bool IsParkable(const JobRecord& record) {
  const Request& request = record.request;
  const bool has_whole_gpus = request.gpus > 0 && !request.is_portioned() && request.slice.empty();
  const bool insists = record.is_preemptible_set && record.preemptible == Preemptible::kNever;
  return has_whole_gpus && !request.is_gang() && !request.is_elastic() && record.end_by == kNoTime && !insists;
}

time_sharing::JobView ViewOf(const JobRecord& record, const Displacement& one, Time now) {
  time_sharing::JobView view;
  view.id = record.id;
  view.gpus = record.request.gpus;
  view.can_park = one.can_park;
  view.is_settled = one.settled_at != kNoTime;
  view.queued_at = record.queued_at;
  view.since = one.is_displaced() ? one.displaced_at : one.here_since;
  view.lost = one.lost;
  view.lost_settled = one.lost_settled;
  if (one.is_displaced()) {
    view.lost += std::max(now - one.displaced_at, Duration(0));
    if (view.is_settled) view.lost_settled += std::max(now - std::max(one.displaced_at, one.settled_at), Duration(0));
  }
  view.ran = std::max(now - record.started - view.lost, Duration(0));
  return view;
}

}  // namespace divvy
