#include "daemon/requests/job_update.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace divvy {
namespace job_update_test {

JobSpec Queued() {
  JobSpec spec;
  spec.command = {"python", "train.py"};
  spec.name = "python";
  spec.directory = "/work";
  spec.extra_environment = {"A=1", "B=2"};
  return spec;
}

JobRecord RecordOf(const JobSpec& spec) {
  JobRecord record;
  record.id = record.spec_of = JobId(17);
  record.name = spec.name;
  record.request = spec.request;
  record.retry_delay = spec.retry_delay;
  return record;
}

Result<JobChanges> Read(const wire::JobUpdate& update, const JobSpec& spec = Queued()) {
  DIVVY_TRY(JobChanges changes, ChangesOf(update));
  DIVVY_CHECK(CompleteChanges(update, RecordOf(spec), spec, changes));
  return changes;
}

TEST(JobUpdate, FieldsOfTheRowLeaveTheSpecificationUnchanged) {
  wire::JobUpdate update;
  update.gpus = 2;
  update.time_limit_s = 0.5;
  update.dependencies = {"afterok:12?afterany:13_4"};
  const auto changes = Read(update);
  ASSERT_TRUE(changes) << changes.error().message;
  EXPECT_EQ(changes->spec, nullptr);
  EXPECT_EQ(changes->gpus, 2);
  EXPECT_EQ(changes->time_limit, std::chrono::milliseconds(500));
  EXPECT_TRUE(changes->dependencies->needs_any);
  EXPECT_EQ(changes->dependencies->all.size(), 2u);
}

TEST(JobUpdate, ManyDependenciesAreAllKept) {
  wire::JobUpdate update;
  update.dependencies = {"afterok:12", "afterany:13"};
  const auto changes = Read(update);
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->dependencies->all.size(), 2u);
}

TEST(JobUpdate, LimitsForNodesOnDemandAreLabels) {
  wire::JobUpdate update;
  update.grows = false;
  update.providers = "aws,lab";
  update.max_price = "3.50";
  auto changes = Read(update);
  ASSERT_TRUE(changes) << changes.error().message;
  EXPECT_EQ(changes->spec_fields, (std::vector<std::string_view>{"no-grow", "provider", "max-price"}));
  const std::map<std::string, std::string> wanted = {
      {"divvy.max-price", "3.50"}, {"divvy.no-grow", "yes"}, {"divvy.provider", "aws,lab"}};
  EXPECT_EQ(changes->spec->labels, wanted);
  update.grows = true;
  update.providers = update.max_price = "";
  changes = Read(update, *changes->spec);
  ASSERT_TRUE(changes) << changes.error().message;
  EXPECT_TRUE(changes->spec->labels.empty());
}

TEST(JobUpdate, OtherFieldsChangeTheSpecification) {
  wire::JobUpdate update;
  update.command = {"sh", "-c", "true"};
  update.output = "out-%j";
  update.directory = "/elsewhere";
  update.environment = {"B=0", "B=3", "C=4"};
  update.grace_s = 5;
  update.comment = "new";
  const auto changes = Read(update);
  ASSERT_TRUE(changes) << changes.error().message;
  ASSERT_NE(changes->spec, nullptr);
  EXPECT_EQ(changes->spec->command.front(), "sh");
  EXPECT_EQ(changes->spec->output, "out-%j");
  EXPECT_EQ(changes->spec->directory, "/elsewhere");
  EXPECT_EQ(changes->spec->extra_environment, (std::vector<std::string>{"A=1", "B=3", "C=4"}));
  EXPECT_EQ(changes->spec->grace, std::chrono::seconds(5));
  EXPECT_EQ(changes->spec->comment, "new");
  EXPECT_EQ(changes->spec_fields, (std::vector<std::string_view>{"command", "output", "chdir", "env", "grace"}));
}

TEST(JobUpdate, AScriptReplacesACommandAndViceVersa) {
  wire::JobUpdate update;
  update.script = "#!/bin/sh\necho $1\n";
  update.arguments = {"one"};
  auto changes = Read(update);
  ASSERT_TRUE(changes);
  EXPECT_TRUE(changes->spec->command.empty());
  const JobSpec script = *changes->spec;
  wire::JobUpdate back;
  back.command = {"true"};
  changes = Read(back, script);
  ASSERT_TRUE(changes) << changes.error().message;
  EXPECT_TRUE(changes->spec->script.empty());
  EXPECT_TRUE(changes->spec->arguments.empty());
}

TEST(JobUpdate, InvalidValuesAreRefusedByFieldName) {
  struct Case {
    std::string begins_with;
    std::function<void(wire::JobUpdate&)> make;
  };
  const std::string long_text(70'000, 'x');
  const Case cases[] = {
      {"gpus: ", [](auto& u) { u.gpus = -1; }},
      {"max_gpus: ", [](auto& u) { u.gpus = 1, u.max_gpus = 65; }},
      {"--gpus", [](auto& u) { u.gpus = 0, u.max_gpus = 4; }},
      {"topology: ", [](auto& u) { u.gpus = 2, u.topology = "near"; }},
      {"--topology", [](auto& u) { u.topology = "numa"; }},
      {"slice: ", [](auto& u) { u.slice = "9g"; }},
      {"--slice", [](auto& u) { u.slice = "2g", u.gpus = 2; }},
      {"--gpu-limit", [](auto& u) { u.portion.emplace().limit = GpuShare(5'000); }},
      {"cpus: ", [](auto& u) { u.cpus = std::numeric_limits<std::int64_t>::max(); }},
      {"memory: ", [](auto& u) { u.memory_bytes = -1; }},
      {"gpu-memory: ", [](auto& u) { u.gpu_memory_bytes = -5; }},
      {"tasks: ", [](auto& u) { u.tasks = 0; }},
      {"priority: ", [](auto& u) { u.priority = 1'000'001; }},
      {"time: ", [](auto& u) { u.time_limit_s = -1; }},
      {"time: ", [](auto& u) { u.time_limit_s = std::numeric_limits<double>::quiet_NaN(); }},
      {"begin: ", [](auto& u) { u.begin = 1e300; }},
      {"retries: ", [](auto& u) { u.retries = -1; }},
      {"retry-delay: ", [](auto& u) { u.retry_delay_s = 1e12; }},
      {"at-once: ", [](auto& u) { u.array_at_once = -1; }},
      {"name: ", [&](auto& u) { u.name = long_text; }},
      {"comment: ", [&](auto& u) { u.comment = long_text; }},
      {"project: ", [](auto& u) { u.project = std::string("a\0b", 3); }},
      {"dependency: ", [](auto& u) { u.dependencies = {"afterok:x"}; }},
      {"dependency: ",
       [](auto& u) {
         u.dependencies = {"afterok:1?afterok:2", "afterok:3"};
       }},
      {"output: ", [&](auto& u) { u.output = long_text; }},
      {"grace: ", [](auto& u) { u.grace_s = -1; }},
      {"stop-signal: ", [](auto& u) { u.stop_signal = 99; }},
      {"signal: ",
       [](auto& u) {
         u.warn = WarnSignal{99, Duration(0), false};
       }},
      {"arguments: ", [](auto& u) { u.arguments = {"x"}; }},
      {"command: ", [](auto& u) { u.command = {"x"}, u.script = "y"; }},
      {"--env", [](auto& u) { u.environment = {"novalue"}; }},
      {"spec.directory: ", [](auto& u) { u.directory = "here"; }},
      {"nothing to run", [](auto& u) { u.command.emplace(); }},
      {"--gpu-type", [](auto& u) { u.gpu_type = "h100"; }},
      {"--signal",
       [](auto& u) {
         u.warn = WarnSignal{10, std::chrono::minutes(5), false};
       }},
  };
  for (const Case& c : cases) {
    wire::JobUpdate update;
    c.make(update);
    const auto changes = Read(update);
    ASSERT_FALSE(changes) << c.begins_with;
    EXPECT_TRUE(changes.error().message.starts_with(c.begins_with)) << c.begins_with << changes.error().message;
    EXPECT_EQ(changes.error().message.find('\n'), std::string::npos);
  }
}

TEST(JobUpdate, AFractionUpdateKeepsItsOtherSettings) {
  JobSpec spec = Queued();
  spec.request.gpus = 1;
  spec.request.portion.request = GpuShare(2'500);
  spec.request.portion.limit = GpuShare(8'000);
  wire::JobUpdate update;
  update.portion.emplace().request = GpuShare(5'000);
  const auto more = Read(update, spec);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->portion->request, GpuShare(5'000));
  EXPECT_EQ(more->portion->limit, GpuShare(8'000));
  spec.request.portion = GpuPortion();
  spec.request.portion.memory = Bytes(std::int64_t{20} << 30);
  wire::JobUpdate memory;
  memory.gpu_memory_bytes = std::int64_t{30} << 30;
  const auto larger = Read(memory, spec);
  ASSERT_TRUE(larger) << larger.error().message;
  EXPECT_EQ(larger->portion->memory, Bytes(std::int64_t{30} << 30));
  EXPECT_FALSE(larger->gpu_memory) << "the part is by memory, and so is what it is now";
}

TEST(JobUpdate, ASliceReplacesTheEarlierGpuRequest) {
  JobSpec spec = Queued();
  spec.request.gpus = 2;
  spec.request.gpu_memory = Bytes(std::int64_t{40} << 30);
  wire::JobUpdate update;
  update.slice = "2G";
  const auto changes = Read(update, spec);
  ASSERT_TRUE(changes) << changes.error().message;
  JobRecord record = RecordOf(spec);
  changes->ApplyTo(record);
  EXPECT_EQ(record.request, (Request{.gpus = 1, .slice = "2g"}));
}

TEST(JobUpdate, ASingleGpuCountReplacesARange) {
  wire::JobUpdate range;
  range.gpus = 2;
  range.max_gpus = 8;
  range.topology = "nvlink:required";
  range.placement = PlacementStrategy::kSpread;
  range.preemptible = Preemptible::kRequeue;
  const auto elastic = Read(range);
  ASSERT_TRUE(elastic) << elastic.error().message;
  JobRecord record;
  elastic->ApplyTo(record);
  EXPECT_EQ(record.request,
            (Request{.gpus = 2, .max_gpus = 8, .topology = TopologyNeed::kNvlink, .requires_topology = true}));
  EXPECT_EQ(record.placement, PlacementStrategy::kSpread);
  EXPECT_TRUE(record.is_preemptible_set);
  EXPECT_EQ(elastic->NamesForWaiting(),
            (std::vector<std::string_view>{"gpus", "placement", "preemptible", "topology"}));
  wire::JobUpdate one;
  one.gpus = 4;
  one.topology = "any";
  Read(one)->ApplyTo(record);
  EXPECT_EQ(record.request, Request{.gpus = 4});
}

TEST(JobUpdate, AJobOnATerminalKeepsItsStreams) {
  JobSpec spec = Queued();
  spec.is_foreground = true;
  wire::JobUpdate update;
  update.output = "file";
  EXPECT_FALSE(Read(update, spec));
  wire::JobUpdate command;
  command.command = {"true"};
  EXPECT_TRUE(Read(command, spec));
}

TEST(JobUpdate, AnEmptyNameBecomesTheProgramsName) {
  wire::JobUpdate update;
  update.name = "";
  update.command = {"/usr/bin/nproc"};
  EXPECT_EQ(Read(update)->name, "nproc");
}

}  // namespace job_update_test
}  // namespace divvy
