#include "cli/top/top_frame.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy::cli {
namespace top_frame_test {

constexpr double kNow = 1'772'366'400;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::string TextOf(const TopLine& line) {
  std::string text;
  for (const Cell& span : line.spans) text += span.text;
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

wire::GpuView Gpu(std::int64_t index, std::string state, std::int64_t use) {
  wire::GpuView gpu;
  gpu.index = index;
  gpu.state = std::move(state);
  gpu.utilisation_percent = use;
  gpu.memory_total_bytes = 80 * kGiB;
  gpu.memory_used_bytes = use > 0 ? 40 * kGiB : 0;
  gpu.temperature_celsius = 61;
  gpu.power_watts = 300;
  return gpu;
}

wire::JobView Job(std::uint64_t id, std::string name, std::string user, std::string state, std::int64_t gpus) {
  wire::JobView job;
  job.id = JobId(id);
  job.display_id = std::to_string(id);
  job.name = std::move(name);
  job.user = std::move(user);
  job.state = std::move(state);
  job.request.gpus = gpus;
  job.submit_time = kNow - 600;
  return job;
}

TopFacts Facts() {
  TopFacts facts;
  facts.now = kNow;
  facts.gpus = {Gpu(0, "allocated", 97), Gpu(1, "unmanaged", 30), Gpu(2, "free", 0)};
  facts.gpus[0].jobs = {JobId(17)};
  facts.gpus[0].job_display_ids = {"17"};
  facts.gpus[1].processes = {{4711, "eve", "python", 10 * kGiB, 60, false, std::nullopt, false}};
  facts.jobs = {Job(17, "train", "ada", "running", 1), Job(20, "sweep", "bob", "queued", 4),
                Job(18, "eval", "ada", "held", 1)};
  facts.jobs[0].start_time = kNow - 300;
  facts.jobs[0].gpus = {0};
  facts.jobs[0].request.time_limit_s = 3600;
  facts.jobs[1].position = 1;
  facts.jobs[1].reason = "waits for 4 GPUs, 1 free";
  facts.expected_starts["20"] = kNow + 3300;
  return facts;
}

std::vector<std::string> Screen(const TopFacts& facts, const TopChoice& choice, std::size_t columns = 80) {
  TopHistory history;
  history.Add(facts.gpus);
  std::vector<std::string> out;
  for (const TopLine& line : TopLines(facts, history, choice, columns)) {
    out.push_back(TextOf(line));
    EXPECT_LE(Width(out.back()), columns) << out.back();
  }
  return out;
}

TEST(TopFrame, ShowsWhatThrottlesClocks) {
  wire::LatestAnswer latest;
  latest.gpus = {{"", 0, 0, {{"gpu_throttle", 0x40 | 0x4}}, {}},
                 {"", 1, 0, {{"gpu_throttle", 0x80}}, {}},
                 {"", 2, 0, {{"gpu_throttle", 0x4}}, {}}};
  TopFacts facts = Facts();
  facts.slowdowns = SlowdownsOf(latest);
  const std::vector<std::string> screen = Screen(facts, {}, 120);
  EXPECT_NE(screen[0].find("17 train (ada); slowed by heat (hardware), 55m at most"), std::string::npos) << screen[0];
  EXPECT_NE(screen[1].find("pid 4711 python; slowed by power brake"), std::string::npos) << screen[1];
  EXPECT_TRUE(screen[2].ends_with("free")) << "a power cap is usual: " << screen[2];
  facts.slowdowns[{"", 2}] = "slowed by heat (driver)";
  EXPECT_TRUE(Screen(facts, {}, 120)[2].ends_with("free; slowed by heat (driver)"));
}

TEST(TopFrame, ShowsGpusWithTheirOwnersThenRunningThenWaitingJobs) {
  const std::vector<std::string> screen = Screen(Facts(), {});
  ASSERT_EQ(screen.size(), 8u);
  EXPECT_EQ(screen[0], "  0          ▇  97%      ▄    40/80G  61C  17 train (ada), 55m at most");
  EXPECT_EQ(screen[1], "  1          ▃  30%      ▄    40/80G  61C  unmanaged: eve, pid 4711 python");
  EXPECT_EQ(screen[2], "  2          ▁   0%      ▁     0/80G  61C  free");
  EXPECT_EQ(screen[3], "  Running name             user      state     GPUs      time left");
  EXPECT_EQ(screen[4], "       17 train            ada       running      1      5:00 55m at most");
  EXPECT_EQ(screen[5], "  Waiting name             user      place  GPUs      starts why it waits");
  EXPECT_EQ(screen[6], "       20 sweep            bob       #1        4      in 55m waits for 4 GPUs, …");
  EXPECT_EQ(screen[7], "       18 eval             ada       held      1");
}

TEST(TopFrame, FitsAnyWidthAndUsesAsciiWhereNeeded) {
  TopFacts facts = Facts();
  facts.jobs[0].name = std::string(300, 'x');
  facts.gpus[2].reason = std::string(300, 'y');
  for (const std::size_t columns : {40u, 60u, 79u, 80u, 100u, 200u}) Screen(facts, {}, columns);
  facts.jobs[1].name = "学習" + std::string(300, 'x');
  facts.jobs[2].user = "🚀🚀🚀🚀🚀🚀";
  for (const std::size_t columns : {40u, 41u, 60u, 80u, 200u}) Screen(facts, {}, columns);
  TopChoice plain;
  plain.is_ascii = true;
  for (const std::string& line : Screen(facts, plain)) {
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 127) << line;
  }
}

TEST(TopFrame, FiltersSortsAndGroupsJobsByUser) {
  TopChoice choice;
  choice.hides_gpus = true;
  choice.filter = "EVAL";
  ASSERT_EQ(Screen(Facts(), choice).size(), 2u);
  EXPECT_EQ(Screen(Facts(), choice)[1], "       18 eval             ada       held      1");
  choice.filter = "nobody";
  EXPECT_EQ(Screen(Facts(), choice).front(),
            "No job matches 'nobody'; press / to change the filter, u to show all users.");
  choice.is_once = true;
  EXPECT_EQ(Screen(Facts(), choice).front(), "No job matches 'nobody'.");
  choice.filter.clear();
  choice.user = "eve";
  EXPECT_EQ(Screen(Facts(), choice).front(), "No job of eve is queued or running.");
  choice.user = "bob";
  EXPECT_EQ(Screen(Facts(), choice).size(), 2u);
  choice.user.clear();
  choice.sort = TopSort::kName;
  EXPECT_NE(Screen(Facts(), choice)[3].find("eval"), std::string::npos);
  choice.is_tree = true;
  EXPECT_EQ(Screen(Facts(), choice)[1], " ada  1 job, 1 GPU");
}

TEST(TopFrame, ColumnsGetTheWidthTheyNeedWhereThereIsRoom) {
  TopFacts facts = Facts();
  facts.jobs[0].share = wire::ShareView{"1g.10gb", "running", "", "", false, {}};
  facts.jobs[0].name = "a name of thirty-two characters.";
  facts.jobs[1].display_id = "1234_[16-27]";
  facts.jobs[1].name = facts.jobs[0].name;
  facts.jobs[1].reason = std::string(60, 'r');
  const std::vector<std::string> wide = Screen(facts, {}, 200);
  EXPECT_EQ(wide[4],
            "           17 a name of thirty-two characters. ada       running   1g.10gb      5:00 55m at most");
  EXPECT_EQ(wide[6],
            " 1234_[16-27] a name of thirty-two characters. bob       #1        4             " + std::string(60, 'r'));
  EXPECT_EQ(wide[3].find("name"), wide[6].find("a name"));
  // The id and the reason have priority if not everything fits.
  EXPECT_EQ(Screen(facts, {}, 80)[6],
            " 1234_[16-27] a name of thirt… bob       #1        4             rrrrrrrrrrrrrr…");
}

TEST(TopFrame, CountsFractionsAndArrayElements) {
  TopFacts facts = Facts();
  wire::TenantView tenant;
  tenant.display_id = "17";
  tenant.request = 0.125;
  facts.gpus[0].tenants = {tenant};
  facts.jobs[0].share = wire::ShareView{"1g.10gb", "running", "", "", false, {}};
  facts.jobs.push_back(Job(30, "whole", "ada", "running", 1));
  facts.jobs.back().gpus = {1};
  facts.jobs[1].display_id = "20_[1-10]";
  facts.jobs[1].count = 10;
  facts.jobs[1].request.nodes = 2;
  facts.jobs.push_back(Job(31, "part", "bob", "queued", 1));
  facts.jobs.back().request.portion.request = GpuShare(2500);
  facts.jobs.push_back(Job(32, "slice", "bob", "queued", 1));
  facts.jobs.back().request.slice = "1g.10gb";
  facts.jobs.push_back(Job(33, "memory", "bob", "queued", 1));
  facts.jobs.back().request.portion.memory = Bytes(40 * kGiB);
  TopChoice choice;
  choice.is_tree = true;
  choice.hides_gpus = true;
  const std::vector<std::string> screen = Screen(facts, choice);
  EXPECT_EQ(screen[1], " ada  2 jobs, 1.125 GPUs");
  EXPECT_EQ(screen[5], " ada  1 job, 1 GPU");
  EXPECT_TRUE(screen[7].starts_with(" bob  13 jobs, 80.")) << screen[7];
}

TEST(TopFrame, TimesHaveOneFormatAndUnknownMemoryIsMarked) {
  TopFacts facts = Facts();
  const auto left = [&](double seconds) {
    facts.jobs[0].request.time_limit_s = 300 + seconds;
    const std::string line = Screen(facts, {})[4];
    return line.substr(line.find("5:00 ") + 5);
  };
  EXPECT_EQ(left(59), "59s at most");
  EXPECT_EQ(left(107), "1m47s at most");
  EXPECT_EQ(left(3598), "59m58s at most");
  EXPECT_EQ(left(3420), "57m at most");
  EXPECT_EQ(left(3720), "1h2m at most");
  EXPECT_EQ(left(2 * 86400 + 3 * 3600 + 59), "2d3h at most");
  facts.gpus[2].utilisation_percent = -1;
  facts.gpus[2].temperature_celsius = -1;
  facts.gpus[2].power_watts = -1;
  EXPECT_NE(Screen(facts, {})[2].find(" -/80G "), std::string::npos) << Screen(facts, {})[2];
}

TEST(TopFrame, ShowsTheFaultOfAJobsGpu) {
  TopFacts facts = Facts();
  facts.gpus[0].processes = {{4711, "eve", "python", 10 * kGiB, 60, false, std::nullopt, false}};
  EXPECT_TRUE(Screen(facts, {})[0].ends_with("17 train (ada); also used by eve, pi…")) << Screen(facts, {})[0];
  facts.gpus[0].state = "fenced";
  facts.gpus[0].reason = "XID 48 (double-bit ECC error)";
  facts.gpus[0].processes.clear();
  EXPECT_TRUE(Screen(facts, {})[0].ends_with("17 train (ada); fenced: XID 48 (doub…")) << Screen(facts, {})[0];
  wire::TenantView tenant;
  tenant.display_id = "17";
  tenant.name = "train";
  tenant.share = "0.25";
  facts.gpus[0].tenants = {tenant};
  EXPECT_TRUE(Screen(facts, {}, 120)[0].ends_with("17; fenced: XID 48 (double-bit ECC error)"));
}

TEST(TopFrame, MarksJobsThatWasteTheirGpus) {
  TopFacts facts = Facts();
  const auto state_of = [&] {
    for (const TopLine& line : TopLines(facts, TopHistory(), {}, 80)) {
      if (line.job != "17") continue;
      EXPECT_LE(Width(TextOf(line)), 80U);
      for (const Cell& span : line.spans) {
        if (span.text.starts_with("running")) return std::pair(std::string(Trim(span.text)), span.colour);
      }
    }
    return std::pair(std::string(), Colour::kNone);
  };
  EXPECT_EQ(state_of().first, "running");
  facts.wasted["17"] = 1;
  EXPECT_EQ(state_of(), std::pair(std::string("running W"), Colour::kYellow));
}

TEST(TopFrame, ShowsTrialsAndParkedJobs) {
  TopFacts facts = Facts();
  facts.jobs[0].time_sharing.emplace();
  facts.jobs[0].time_sharing->stage = "trial";
  EXPECT_NE(Screen(facts, {}, 100)[4].find("5:00 on trial, 55m at most"), std::string::npos)
      << Screen(facts, {}, 100)[4];
  facts.jobs[0].gpus.clear();
  facts.jobs[0].time_sharing = wire::TimeSharingView{"settled", true, "31", 60, kNow + 600, ""};
  EXPECT_NE(Screen(facts, {}, 100)[4].find("parked for 31, 55m at most"), std::string::npos)
      << Screen(facts, {}, 100)[4];
}

TEST(TopFrame, ShowsFractionsProgressAndNodes) {
  TopFacts facts = Facts();
  facts.gpus[2].node = "n1";
  wire::TenantView tenant;
  tenant.display_id = "17";
  tenant.name = "train";
  tenant.share = "0.25 to 0.8";
  facts.gpus[0].tenants = {tenant};
  facts.jobs[0].progress = wire::ProgressView{0.5, 0, 0, kNow - 1, kNow + 60};
  const std::vector<std::string> screen = Screen(facts, {}, 100);
  EXPECT_NE(screen[0].find("17 train (0.25 to 0.8)"), std::string::npos) << screen[0];
  TopFacts parked = facts;
  parked.gpus[0].tenants[0].state = "parked";
  const std::string line = Screen(parked, {}, 100)[0];
  EXPECT_NE(line.find("17 train (0.25 to 0.8, on host)"), std::string::npos) << line;
  EXPECT_TRUE(screen[2].starts_with("n1:2 ")) << screen[2];
  EXPECT_TRUE(screen[4].ends_with("████░░░░ 50%, 1m left")) << screen[4];
}

TEST(TopFrame, TheTitleShowsAllocatedGpusAndProblems) {
  TopFacts facts = Facts();
  facts.status.gpus = 3;
  facts.status.gpus_free = 1;
  facts.status.jobs_running = 1;
  facts.status.jobs_queued = 2;
  facts.status.policy = "small-first";
  EXPECT_EQ(TextOf(TopTitle(facts, {})),
            "divvy  1 of 3 GPUs taken  1 unmanaged  1 running  2 queued  policy small-first");
  TopChoice choice;
  choice.user = "bob";
  EXPECT_EQ(TextOf(TopTitle(facts, choice)),
            "divvy  of bob  1 of 3 GPUs taken  1 unmanaged  0 of 1 running  1 of 2 queued  policy small-first");
  choice.user = "nosuch";
  EXPECT_NE(TextOf(TopTitle(facts, choice)).find("of nosuch  1 of 3 GPUs taken  1 unmanaged  0 of 1 running  0 of 2"),
            std::string::npos);
  facts.trouble = "no daemon answers";
  EXPECT_TRUE(TextOf(TopTitle(facts, {})).starts_with("divvy  out of date: no daemon answers  1 of 3"));
  // A fenced GPU under a job counts as the job's.
  facts.gpus[0].state = "fenced";
  facts.gpus[2].state = "fenced";
  facts.status.gpus_free = 0;
  facts.trouble.clear();
  EXPECT_TRUE(TextOf(TopTitle(facts, {})).starts_with("divvy  1 of 3 GPUs taken  1 unmanaged  1 fenced  1 running"));
}

TEST(TopFrame, ShowsOnlyKeysThatFitCompletely) {
  EXPECT_EQ(TextOf(TopKeys(80)), " q quit  ? help  w why  l logs  h hold  c cancel  p priority  / filter  s sort");
  EXPECT_EQ(TextOf(TopKeys(40)), " q quit  ? help  w why  l logs  h hold");
  EXPECT_TRUE(TextOf(TopKeys(200)).ends_with("  t tree"));
}

TEST(TopFrame, SparklinesEndWithTheLatestValueAndLeaveGaps) {
  EXPECT_EQ(Sparkline({0, -1, 50, 100}, 6, false), "  ▁ ▄█");
  EXPECT_EQ(Sparkline({0, 50, 100}, 2, true), "-#");
  EXPECT_EQ(Bar(0.5, 4, false), "██░░");
  EXPECT_EQ(Bar(7, 3, true), "###");
  TopHistory history;
  const std::vector<wire::GpuView> gpus = {Gpu(0, "free", 5)};
  for (int i = 0; i < 100; ++i) history.Add(gpus);
  EXPECT_EQ(history.Of(gpus[0]).use.size(), TopHistory::kLooks);
  EXPECT_EQ(history.Of(gpus[0]).memory.back(), 50);
  EXPECT_TRUE(history.Of(Gpu(9, "free", 0)).use.empty());
}

wire::SeriesView Series(std::int64_t gpu, std::string metric, std::vector<std::optional<double>> mean) {
  wire::SeriesView series;
  series.of = "gpu";
  series.gpu = gpu;
  series.metric = std::move(metric);
  series.mean = std::move(mean);
  return series;
}

TEST(TopFrame, BeginsWithTheDaemonsHistory) {
  const TopFacts facts = Facts();
  wire::SeriesAnswer seen;
  seen.series = {Series(0, "gpu_utilization", {0.5, std::nullopt, 1, std::nullopt}),
                 Series(0, "gpu_memory_used_bytes", {20.0 * kGiB, 80.0 * kGiB}), Series(0, "gpu_power_watts", {300}),
                 Series(7, "gpu_utilization", {1})};
  TopHistory history;
  history.Seed(seen, facts.gpus);
  history.Add(facts.gpus);
  EXPECT_EQ(history.Of(facts.gpus[0]).use, (std::deque<int>{50, -1, 100, 97}));
  EXPECT_EQ(history.Of(facts.gpus[0]).memory, (std::deque<int>{25, 100, 50}));
  const std::string line = TextOf(TopLines(facts, history, {}, 80).front());
  EXPECT_TRUE(line.starts_with("  0       ▄ █▇  97%    ▂█▄    40/80G  61C  17 train")) << line;
}

TEST(TopFrame, FoldsGpusThatWouldFillTheScreen) {
  TopFacts facts = Facts();
  while (facts.gpus.size() < 64) facts.gpus.push_back(Gpu(static_cast<std::int64_t>(facts.gpus.size()), "free", 0));
  facts.gpus[60].state = "fenced";
  TopChoice choice;
  choice.most_gpu_lines = 11;
  const std::vector<std::string> screen = Screen(facts, choice);
  ASSERT_EQ(screen.size(), 11 + 5u);
  EXPECT_TRUE(screen[9].starts_with("  9 "));
  EXPECT_EQ(screen[10], "    and 54 more GPUs: 1 fenced, 53 free; a shows them all");
  EXPECT_TRUE(screen[11].starts_with("  Running"));
  choice.most_gpu_lines = 64;
  EXPECT_EQ(Screen(facts, choice).size(), 64 + 5u);
}

}  // namespace top_frame_test
}  // namespace divvy::cli
