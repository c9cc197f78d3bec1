// The output of a run for people and programs.
#include "simulate/report.h"

#include <gtest/gtest.h>

#include "simulate/baseline_policies.h"
#include "simulate/plot.h"
#include "simulate/report_html.h"
#include "simulate/report_text.h"

namespace divvy::simulate {
namespace report_test {

Time At(double seconds) { return TimeFromSeconds(seconds); }

class Reports : public testing::Test {
 protected:
  void SetUp() override {
    // 6 and then 4 of 8 GPUs. The third job needs 2 and could run next to the first.
    const std::vector<std::pair<double, int>> asked = {{100, 6}, {10, 4}, {10, 2}};
    for (std::size_t i = 0; i < asked.size(); ++i) {
      TraceJob job;
      job.id = std::to_string(i + 1);
      job.team = "a<b";
      job.user = "ann, \"x\"";
      job.submit = At(static_cast<double>(i));
      job.runtime = At(asked[i].first).time_since_epoch();
      job.gpus = asked[i].second;
      workload_.jobs.push_back(job);
    }
    report_.title = "Tiny & small";
    report_.notes = {"a \"note\""};
    for (const char* rule : {"fifo", "fifo-skip"}) Add(rule);
  }

  void Add(const std::string& rule) {
    const TraceCluster cluster = ParseCluster("1x8").value();
    const auto decider = MakeHouseRules(cluster, *HouseRuleFromName(rule)).value();
    Replayed replayed = Replay(workload_, *decider).value();
    replayed.decide_cpu_seconds = 0;
    RunMetrics metrics = Measure(workload_, cluster, replayed);
    report_.runs.push_back({rule, &workload_, cluster, std::move(replayed), std::move(metrics)});
  }

  Workload workload_;
  Report report_;
};

TEST_F(Reports, TableHasARowPerPolicy) {
  const std::string text = GridText(SummaryGrid(report_));
  EXPECT_EQ(text.substr(0, text.find("MEDIAN")), "POLICY     JOBS  MEAN JCT   ");
  EXPECT_NE(text.find("\nfifo          3   1.8 min  1.8 min  1.8 min       66 s"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfifo-skip     3      73 s"), std::string::npos) << text;
  EXPECT_EQ(text.find("PREEMPTIONS"), std::string::npos) << "nobody was preempted";
}

TEST_F(Reports, TableContinuesBelowOnANarrowTerminal) {
  const Grid grid = SummaryGrid(report_);
  const std::string text = GridText(grid, 80);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin))
    EXPECT_LE(end - begin, 80u) << text;
  for (const GridColumn& column : grid.columns) EXPECT_NE(text.find(column.title), std::string::npos) << column.title;
  EXPECT_NE(text.find("\n\nPOLICY "), std::string::npos) << "each says whose its rows are: " << text;
  EXPECT_EQ(GridText(grid, 1000), GridText(grid));
  EXPECT_NE(GridText(grid, 1).find("fifo"), std::string::npos);
}

TEST_F(Reports, CsvContainsPlainNumbers) {
  const std::string summary = GridCsv(SummaryGrid(report_));
  EXPECT_EQ(summary.substr(0, 36), "policy,jobs,jct_mean_seconds,jct_med");
  EXPECT_NE(summary.find("\nfifo,3,105.667,"), std::string::npos) << summary;
  const std::string jobs = GridCsv(JobGrid(report_));
  EXPECT_NE(jobs.find("\nfifo-skip,3,\"ann, \"\"x\"\"\",a<b,2.000,2.000,2.000,12.000,10.000,10.000,0.000,1.000,"),
            std::string::npos)
      << jobs;
}

TEST_F(Reports, GroupsAreShownSideBySide) {
  const Grid sizes = GroupGrid(report_, &RunMetrics::by_size, "SIZE", "size");
  ASSERT_EQ(sizes.rows.size(), 6u);
  EXPECT_EQ(sizes.rows[0][0].text + sizes.rows[0][1].text + sizes.rows[1][1].text, "2fifofifo-skip");
}

TEST_F(Reports, JsonContainsAllFiguresAndTheLoad) {
  const std::string json = ReportJson(report_);
  for (const char* part :
       {"{\"title\": \"Tiny & small\"", "\"a \\\"note\\\"\"", "\"policy\": \"fifo-skip\"", "\"gpus\": 8",
        "\"jobs_unfinished\": 0", "\"by_team\": {\"a<b\": {\"jobs\": 3", "\"longest_tenth\": {\"jobs\": 1",
        "\"first_start_seconds\": {\"mean\": ", "\"lost_seconds\": {\"mean\": ", "\"bounded_slowdown\": {\"mean\": ",
        "\"all\": {\"jobs\": 3, \"gpu_hours\": 0.1833", "\"load\": [[0, 6.00, 0.00, 0.00, 1.00]"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  int depth = 0;
  for (const char c : json) depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  EXPECT_EQ(depth, 0);
}

TEST_F(Reports, HtmlPageIsSelfContainedAndEscapesNames) {
  const std::string page = ReportHtml(report_, "divvy simulate <x>");
  for (const char* part : {"http", "src=", "url(", "<script", "@import", "a<b", "simulate <x>"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  for (const char* part : {"Tiny &amp; small", "a&lt;b", "prefers-color-scheme:dark", "width=device-width",
                           "GPUs allocated", "Jobs waiting", "Waiting time", "Completion time", "Mean wait by size"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  const auto count = [&page](std::string_view what) {
    int found = 0;
    for (std::size_t at = 0; (at = page.find(what, at)) != std::string::npos; at += what.size()) ++found;
    return found;
  };
  EXPECT_EQ(count("<figure>"), 6);
  EXPECT_EQ(count("<figure>"), count("Numbers</summary>") - 1) << "a table under each, and one of the teams";
  EXPECT_EQ(count("<svg"), count("</svg>"));
  EXPECT_EQ(count("nan"), 0);
}

TEST_F(Reports, ARunWithoutAnEndedJobStillMakesAPage) {
  workload_.jobs.resize(1);
  workload_.jobs[0].gpus = 64;
  report_.runs.clear();
  Add("fifo");
  EXPECT_EQ(report_.runs[0].metrics.unfinished, 1);
  EXPECT_NE(ReportHtml(report_, "x").find("</html>"), std::string::npos);
  EXPECT_NE(ReportJson(report_).find("\"jobs_unfinished\": 1"), std::string::npos);
}

TEST(Plots, TicksAreRoundAndReachTheTop) {
  EXPECT_EQ(Ticks(100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(Ticks(3741, 5), (std::vector<double>{0, 1000, 2000, 3000, 4000}));
  EXPECT_EQ(Ticks(0, 5), (std::vector<double>{0, 1}));
  EXPECT_GE(Ticks(1.3e-5, 5).back(), 1.3e-5);
}

TEST(ReportText, FormatsNumbersAndDurations) {
  EXPECT_EQ(Decimals(-0.001, 2), "0.00");
  EXPECT_EQ(Decimals(-1.5, 1), "-1.5");
  EXPECT_EQ(Decimals(0.0 / 1.0 * -1, 0), "0");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
  EXPECT_EQ(Grouped(-123), "-123");
  EXPECT_EQ(ShortSeconds(5), "5.0 s");
  EXPECT_EQ(ShortSeconds(99), "99 s");
  EXPECT_EQ(ShortSeconds(5999), "100.0 min");
  EXPECT_EQ(ShortSeconds(6000), "1.7 h");
  EXPECT_EQ(ShortSeconds(864000), "10.0 d");
  EXPECT_EQ(JsonString("a\"\\\n\xc3\xa4\xff"), "\"a\\\"\\\\\\u000a\xc3\xa4?\"");
  EXPECT_EQ(CsvField("a\"b"), "\"a\"\"b\"");
}

}  // namespace report_test
}  // namespace divvy::simulate
