// divvy why: explains to users why a job waits. The daemon provides the facts and the first sentence; this file does
// the layout.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/answer_options.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/table.h"
#include "cli/reports/waste_text.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

// The largest number of jobs that are shown as holders of missing resources.
constexpr std::size_t kMostHolders = 10;

/// "ends by 14:05:09, in 2 h 5 min". The blockers of a waiting holder are not known here.
std::string Until(const wire::HolderView& holder, double now) {
  if (holder.until) {
    return *holder.until <= now ? "is at its time limit"
                                : "ends by " + When(holder.until) + ", in " + InWords(*holder.until - now);
  }
  const bool is_active = holder.state == "running" || holder.state == "starting" || holder.state == "paused";
  return is_active ? "no time limit" : holder.state;
}

/// A holder, or elements of one array that differ only in their GPUs.
struct Holders {
  std::string array;  // "17_" for element 17_3; empty for a single job.
  std::vector<std::int64_t> indices;
  wire::HolderView view;
  std::string until;

  std::string Id() const {
    if (indices.size() < 2) return "job " + view.display_id;
    return "jobs " + array + "[" + GpuList(indices) + "]";
  }
};

std::vector<Holders> Merged(const std::vector<wire::HolderView>& views, double now) {
  std::vector<Holders> out;
  for (const wire::HolderView& view : views) {
    const auto underscore = view.display_id.find('_');
    const auto index = underscore == std::string::npos
                           ? std::nullopt
                           : ParseInteger(std::string_view(view.display_id).substr(underscore + 1));
    Holders one{index ? view.display_id.substr(0, underscore + 1) : "", {}, view, Until(view, now)};
    if (index) one.indices.push_back(*index);
    const auto same = std::ranges::find_if(out, [&](const Holders& other) {
      return index && other.array == one.array && other.until == one.until && other.view.name == view.name &&
             other.view.node == view.node;
    });
    if (same == out.end()) {
      out.push_back(std::move(one));
      continue;
    }
    same->indices.push_back(*index);
    same->view.gpus.insert(same->view.gpus.end(), view.gpus.begin(), view.gpus.end());
  }
  return out;
}

/// The jobs that hold, or have reserved, the missing resources: one line each, in columns.
std::string HolderLines(const std::vector<wire::HolderView>& views, bool has_more, double now) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows;
  std::array<std::size_t, 5> widest = {};
  const std::vector<Holders> holders = Merged(views, now);
  for (std::size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    const auto& gpus = holders[i].view.gpus;
    const std::string& node = holders[i].view.node;
    std::string held = gpus.empty() ? "" : (gpus.size() > 1 ? "GPUs " : "GPU ") + GpuList(gpus);
    if (!node.empty()) held += (held.empty() ? "on " : " of ") + node;
    rows.push_back({holders[i].Id(), holders[i].view.name, holders[i].view.user, std::move(held), holders[i].until});
    for (std::size_t k = 0; k < widest.size(); ++k) {
      widest[k] = std::max(widest[k], Width(rows.back()[k]));
    }
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line = "   ";
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (widest[k] > 0) line += ' ' + Fitted(row[k], widest[k]) + ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  if (has_more) {
    out += "    and others\n";
  } else if (holders.size() > kMostHolders) {
    out += "    and " + Plural(static_cast<std::int64_t>(holders.size() - kMostHolders), "more job") + "\n";
  }
  return out;
}

std::string BlockerText(const wire::BlockerView& blocker, bool is_only_one, double now) {
  std::string out;
  const std::string rule = blocker.rule.empty() ? "" : Paint(Colour::kDim, "  [" + blocker.rule + "]");
  if (!is_only_one) {
    out += "  - " + blocker.text + rule + "\n";
  } else if (!rule.empty() && blocker.held_by.empty()) {
    out += rule + "\n";  // The rule's text is already in the sentence above.
  }
  return out + HolderLines(blocker.held_by, blocker.has_more_holders, now);
}

std::string Place(const wire::WhyView& why) {
  std::string text = "next in the queue";
  if (why.position > 1) {
    text = "behind " + Plural(why.position - 1, "job");
    if (why.ahead_gpus > 0)
      text += (why.position == 2 ? " that requests " : " that request ") + Plural(why.ahead_gpus, "GPU");
  }
  return text + Paint(Colour::kDim, "  [" + why.key + "]");
}

std::string Expected(const wire::WhyView& why, double now) {
  if (!why.predicted_start) return why.prediction_basis;
  const double span = *why.predicted_start - now;
  // The estimate is too uncertain to show seconds.
  std::string text = span <= 0   ? "any moment now"
                     : span < 60 ? "within a minute"
                                 : "about " + When(why.predicted_start) + ", in " + InWords(span);
  return text + (why.prediction_basis.empty() ? "" : " (" + why.prediction_basis + ")");
}

std::string Remedy(const wire::WhyView& why) {
  if (why.command.empty()) return why.would_start_now.empty() ? "" : "with " + why.would_start_now;
  const auto reason = why.would_start_now.find(" (");
  return Paint(Colour::kBold, why.command) +
         (reason == std::string::npos ? "" : " " + why.would_start_now.substr(reason));
}

std::string WhyText(const wire::WhyView& why, double now) {
  std::string out = Paint(Colour::kBold, why.summary) + "\n";
  if (!why.blockers.empty()) {
    const bool is_only_one = why.blockers.size() == 1;
    if (!is_only_one) out += "\nBlockers:\n";
    for (const wire::BlockerView& blocker : why.blockers) out += BlockerText(blocker, is_only_one, now);
    out += "\n";
  }
  const bool can_start = !why.prediction_basis.starts_with("never");
  if (why.position > 0 && can_start) AddField(out, "place", Place(why));
  // A held job only needs its release.
  if (why.predicted_start || why.position > 0 || why.command.empty()) AddField(out, "will start", Expected(why, now));
  AddField(out, "speeds", why.speeds);
  AddField(out, "starts now", Remedy(why));
  return out;
}

}  // namespace

int WhyMain(const Words& words) {
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AnswerOptionTable(listing), words));
  if (parsed.positional.empty())
    return Fail(InvalidArgument("name a job: divvy why ID (17, 17_3, a name, or @ for your last)"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const Words ids, EachJob(api, parsed.positional));
    std::string out;
    for (const std::string& id : ids) {
      DIVVY_TRY(const wire::WhyView why, api.Why(id));
      if (!out.empty() && !listing.json) out += "\n";
      if (listing.json) {
        out += wire::Encode(why) + "\n";
        continue;
      }
      std::string text = WhyText(why, NowSeconds());
      if (why.state == "running") {
        DIVVY_TRY(const std::vector<wire::GpuView> gpus, api.Gpus());
        for (const auto& [gpu, trouble] : GpuTroubles(gpus, why.id)) AddField(text, gpu, trouble);
        for (const std::string& line : WasteOf(AskWaste(api), why.id)) AddField(text, "waste", line);
      }
      out += Folded(text, static_cast<std::size_t>(TerminalWidth()));
    }
    return out;
  });
}

}  // namespace divvy::cli
