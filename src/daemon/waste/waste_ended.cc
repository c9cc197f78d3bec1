#include "daemon/waste/waste_ended.h"

#include "daemon/waste/waste_past.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

samples::Second SecondOf(Time time) { return static_cast<samples::Second>(ToSeconds(time)); }

}  // namespace

void FindEndedWaste(MetricStore& samples, const WasteTracker& tracker, const Controller& controller,
                    const JobRecord& record, samples::Second now, EndedFindings done) {
  if (!tracker.JudgesEnded(record)) {
    if (done) done({});
    return;
  }
  AskEnded(samples, record, tracker.own_node(), tracker.CountsFrom(record), now,
           [&samples, &tracker, &controller, record, now, done = std::move(done)](const samples::JobUse& use,
                                                                                  const samples::RunDetail& detail) {
             wire::KeptFindings kept{SecondOf(record.ended), tracker.OfEnded(record, use, detail, controller)};
             // An empty list is stored as well. While samples are still arriving the result may change, so it is not
             // stored yet.
             if (now >= kept.ended + kAllIsSeenAfter) samples.Keep(record.id.value(), kept.ended, wire::Encode(kept));
             if (done) done(kept.findings);
           });
}

void AskEndedWaste(MetricStore& samples, const WasteTracker& tracker, const Controller& controller,
                   const JobRecord& record, samples::Second now, EndedFindings done) {
  samples.AskKept(record.id.value(),
                  [&samples, &tracker, &controller, record, now, done = std::move(done)](const std::string& kept) {
                    if (const auto findings = FindingsIn(kept, record.ended)) return done(*findings);
                    FindEndedWaste(samples, tracker, controller, record, now, done);
                  });
}

std::optional<std::vector<wire::WasteFinding>> FindingsIn(std::string_view kept, Time ended) {
  if (kept.empty()) return std::nullopt;
  auto decoded = wire::Decode<wire::KeptFindings>(kept);
  if (!decoded || decoded->ended != SecondOf(ended)) return std::nullopt;
  return std::move(decoded->findings);
}

}  // namespace divvy
