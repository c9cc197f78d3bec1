#include "dialect/config/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/text.h"

namespace divvy::dialect {
namespace config_test {

TEST(Config, AnEmptyFileGivesTheDefaults) {
  EXPECT_EQ(ParseConfig("", "divvy.toml").value(), Config());
  EXPECT_EQ(ParseConfig("[queue]\n[jobs]\n", "divvy.toml").value(), Config());
}

TEST(Config, EveryKeySetsItsField) {
  const auto config = ParseConfig(R"(
[daemon]
log_level = "debug"
[gpus]
use = "0-3"
emulate = "8xH100-80GB"
ignore_unmanaged_below = "500M"
poll = "500ms"
[queue]
policy = "fifo"
escalate_after = "30m"
placement = "best"
cpu_jobs_at_once = 16
max_queued = 5000
[jobs]
default_time_limit = "8h"
max_time_limit = "3d"
grace = "1m"
keep_finished = "1w"
keep_logs = "2d"
[isolation]
devices = "mounts"
device_files = "/tmp/gpu*"
require = true
near_gpus = true
processes = 4096
private_tmp = true
new_privileges = false
[controller]
listen = "[::]:7433"
name = "gpu1.lab:7000"
[ui]
listen = "localhost:8642"
remote = true
[admin]
users = ["ada"]
groups = ["wheel", "gpu-admins"]
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  Config want;
  want.log_level = "debug";
  want.use = GpuSet::FirstN(4);
  want.emulate = "8xH100-80GB";
  want.ignore_unmanaged_below = 500_MiB;
  want.poll = 500ms;
  want.policy = {.order = QueuePolicy::kFifo,
                 .escalate_after = 30min,
                 .placement = PlacementStrategy::kBest,
                 .cpu_jobs_at_once = 16};
  want.max_queued = 5000;
  want.default_time_limit = 8h;
  want.max_time_limit = 72h;
  want.grace = 1min;
  want.keep_finished = 168h;
  want.keep_logs = 48h;
  want.isolation = {.devices = "mounts",
                    .device_files = "/tmp/gpu*",
                    .is_required = true,
                    .keeps_near_gpus = true,
                    .processes = 4096,
                    .has_own_tmp = true,
                    .keeps_privileges = false};
  want.listen = {"::", 7433};
  want.name = "gpu1.lab:7000";
  want.ui_listen = HostPort{"localhost", 8642};
  want.is_ui_remote = true;
  want.admin_users = {"ada"};
  want.admin_groups = {"wheel", "gpu-admins"};
  EXPECT_EQ(*config, want);
}

TEST(Config, ReadsWasteRules) {
  const auto config = ParseConfig(R"([waste]
grace = "5min"
idle_after = "1h"
window = "2h"
underused = 0.1
small_memory = 0
exempt_users = ["ada"]
exempt_teams = ["vision"]
exempt_names = ["notebook*"]
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  WasteRules want;
  want.grace = 5min;
  want.idle_after = 1h;
  want.window = 2h;
  want.underused = 0.1;
  want.small_memory = 0;
  want.exempt_users = {"ada"};
  want.exempt_teams = {"vision"};
  want.exempt_names = {"notebook*"};
  EXPECT_EQ(config->waste, want);
  EXPECT_EQ(ParseConfig("[waste]\nunderused = \"25%\"\n", "f").error().message,
            "f:2: underused is not a number from 0 to 1 such as 0.25, without quotes");
  EXPECT_FALSE(ParseConfig("[waste]\nunderused = 25\n", "f"));
}

TEST(Config, ReadsProvidersWithTheirShapes) {
  const auto config = ParseConfig(R"(
[[providers]]
name = "aws-us"
kind = "command"
max_nodes = 10
max_per_hour = 50
teams = ["vision"]
billing_period = "1h"

[[providers.shapes]]
name = "p3.2xlarge"
gpu_model = "V100-16GB"
gpus = 1
cpus = 8
memory = "61G"
labels = ["fast"]
price = 3.06
startup = "3min"

[[providers.shapes]]
name = "cpu"
cpus = 64
memory = "128G"
price = 1
startup = "1min"
spot = true

[[providers]]
name = "lab"
kind = "slurm"
enabled = false
command = ["/opt/pilot", "-v"]
credentials = "/etc/divvy/lab.json"
options = ["--partition=gpu"]
timeout = "30s"
poll = "5s"
idle = "1min"
[[providers.shapes]]
name = "cpu"
cpus = 64
memory = "128G"
price = 0.5
startup = "1min"
max_lifetime = "12h"
options = ["--exclusive"]

[queue]
policy = "fifo"
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->policy.order, QueuePolicy::kFifo);
  ASSERT_EQ(config->providers.size(), 2U);
  Provider aws;
  aws.name = "aws-us";
  aws.limits.nodes = 10;
  aws.limits.hourly = Money(50'000'000);
  aws.teams = {"vision"};
  aws.billing_period = 1h;
  aws.shapes.resize(2);
  aws.shapes[0] = {"p3.2xlarge", "V100-16GB", 1, 8, Bytes(std::int64_t{61} << 30), {"fast"}, Money(3'060'000), 3min};
  aws.shapes[1] = {"cpu", "", 0, 64, Bytes(std::int64_t{128} << 30), {}, Money(1'000'000), 1min, {}, true};
  EXPECT_EQ(config->providers[0], aws);
  EXPECT_EQ(config->providers[1].kind, ProviderKind::kSlurm);
  EXPECT_FALSE(config->providers[1].is_enabled);
  ASSERT_EQ(config->providers[1].shapes.size(), 1U);
  EXPECT_EQ(config->providers[1].shapes[0].max_lifetime, 12h);
  EXPECT_EQ(config->providers[1].shapes[0].options, std::vector<std::string>{"--exclusive"});
  const std::vector<std::string> command = {"/opt/pilot", "-v"};
  EXPECT_EQ(config->providers[1].command, command);
  EXPECT_EQ(config->providers[1].credentials, "/etc/divvy/lab.json");
  EXPECT_EQ(config->providers[1].options, std::vector<std::string>{"--partition=gpu"});
  EXPECT_EQ(config->providers[1].timeout, 30s);
  EXPECT_EQ(config->providers[1].poll, 5s);
  EXPECT_EQ(config->providers[1].idle, 1min);
}

TEST(Config, ReadsPoliciesAndPreemption) {
  const auto config = ParseConfig(R"([queue]
policy = "fair"
usage_half_life = "14d"
[preemption]
reclaims = true
preempts = true
consolidates = true
preemptible = "requeue"
min_runtime = "10min"
wait_before = "1min"
grace = "2min"
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->policy.order, QueuePolicy::kFair);
  EXPECT_EQ(config->policy.usage_half_life, std::chrono::hours(24 * 14));
  EXPECT_EQ(config->policy.preemptible, Preemptible::kRequeue);
  const PreemptionSettings want{.reclaims = true,
                                .preempts = true,
                                .consolidates = true,
                                .min_runtime = 10min,
                                .wait_before = 1min,
                                .grace = 2min};
  EXPECT_EQ(config->policy.preemption, want);
  EXPECT_EQ(ParseConfig("[queue]\npolicy = \"shortest\"\n", "f").value().policy.order, QueuePolicy::kShortest);
}

TEST(Config, OldNamesOfPreemptionWorkAndAreNoted) {
  const auto config = ParseConfig("[taking_back]\nreclaims = true\nleast_run = \"10min\"\npatience = \"1min\"\n", "f");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->policy.preemption.reclaims);
  EXPECT_EQ(config->policy.preemption.min_runtime, 10min);
  EXPECT_EQ(config->policy.preemption.wait_before, 1min);
  ASSERT_EQ(config->notes.size(), 3U);
  EXPECT_EQ(config->notes[0], "f:1: [taking_back] is now called [preemption]; the old name works in this release only");
  EXPECT_EQ(config->notes[1], "f:3: least_run is now called min_runtime; the old name works in this release only");
  EXPECT_TRUE(ParseConfig("[preemption]\nreclaims = true\n", "f")->notes.empty());
  EXPECT_EQ(ParseConfig("[samples]\nmost = \"1G\"\n", "f")->most_samples, Bytes(1 << 30));
  EXPECT_EQ(ParseConfig("[notify]\nmost_per_minute = 7\n", "f")->notify.most_per_minute, 7);
  EXPECT_EQ(ParseConfig("[preemption]\nmin_runtime = \"1s\"\nleast_run = \"2s\"\n", "f").error().message,
            "f:3: least_run is the old name of min_runtime, which is in line 2; remove one of them");
  EXPECT_EQ(ParseConfig("[preemption]\n[taking_back]\n", "f").error().message,
            "f:2: [taking_back] is the old name of [preemption], which is in line 1; remove one of them");
  EXPECT_EQ(ParseConfig("[taking_back]\nleast_run = \"2s\"\nmin_runtime = \"1s\"\n", "f").error().message,
            "f:2: least_run is the old name of min_runtime, which is in line 3; remove one of them");
  EXPECT_EQ(ParseConfig("[taking_back]\nmin_runtime = \"1s\"\nleast_run = \"2s\"\n", "f").error().message,
            "f:3: least_run is the old name of min_runtime, which is in line 2; remove one of them");
}

TEST(Config, ReportsErrorsInPreemptionSettings) {
  const auto fails = [](const std::string& line) {
    return ParseConfig("[preemption]\n" + line + "\n", "f").error().message;
  };
  EXPECT_NE(fails("preempts = \"yes\"").find("true or false"), std::string::npos) << fails("preempts = \"yes\"");
  EXPECT_NE(fails("preemptible = \"always\"").find("\"requeue\""), std::string::npos);
  EXPECT_NE(fails("preempt = true").find("did you mean 'preempts'"), std::string::npos) << fails("preempt = true");
}

TEST(Config, ReadsTimeSharing) {
  const TimeSharingSettings defaults = ParseConfig("", "f")->policy.time_sharing;
  EXPECT_EQ(defaults.mode, TimeSharingMode::kOff);
  EXPECT_EQ(defaults.trial, 4h);
  EXPECT_EQ(defaults.at_most, 0.2);
  const auto config = ParseConfig("[time_sharing]\nmode = \"on\"\ntrial = \"30min\"\nat_most = \"12.5%\"\n", "f");
  ASSERT_TRUE(config) << config.error().message;
  const TimeSharingSettings want{.mode = TimeSharingMode::kOn, .trial = 30min, .at_most = 0.125};
  EXPECT_EQ(config->policy.time_sharing, want);
  const auto fails = [](const std::string& line) {
    return ParseConfig("[time_sharing]\n" + line + "\n", "f").error().message;
  };
  EXPECT_EQ(ParseConfig("[time_sharing]\nmode = \"auto\"\n", "f")->policy.time_sharing.mode, TimeSharingMode::kAuto);
  EXPECT_NE(fails("mode = \"yes\"").find("\"off\", \"auto\", \"on\""), std::string::npos) << fails("mode = \"yes\"");
  EXPECT_NE(fails("at_most = \"120%\"").find("write it like \"20%\""), std::string::npos);
  EXPECT_NE(fails("at_most = \"nan%\"").find("write it like \"20%\""), std::string::npos);
  EXPECT_NE(fails("trial = \"0s\"").find("allowed are"), std::string::npos) << fails("trial = \"0s\"");
}

TEST(Config, ReportsErrorsInIsolationSettings) {
  const auto fails = [](const std::string& line) {
    return ParseConfig("[isolation]\n" + line + "\n", "f").error().message;
  };
  EXPECT_NE(fails("devices = \"cgroups\"").find("did you mean \"cgroup\""), std::string::npos);
  EXPECT_NE(fails("device_files = \"/dev/nvidia\"").find("write it like \"/dev/nvidia*\""), std::string::npos);
  EXPECT_NE(fails("processes = -1").find("from 0 to"), std::string::npos);
}

TEST(Config, GpusMayBeAListOfNumbers) {
  EXPECT_EQ(ParseConfig("[gpus]\nuse = [0, 2]\n", "f").value().use, GpuSet::FromBits(5));
  EXPECT_EQ(ParseConfig("[gpus]\nuse = \"all\"\n", "f").value().use, std::nullopt);
  EXPECT_EQ(ParseConfig("gpus.use = \"1\"\n", "f").value().use, GpuSet::FromBits(2));
}

TEST(Config, SupportedSyntaxMatchesToml) {
  const auto config = ParseConfig(
      "\xEF\xBB\xBF# words\r\n[ gpus ] # more\r\n\"use\" = [ 0, # first\n  2,\n]\n'emulate' = "
      "'C:\\x'\n[admin]\nusers=[\"\\u0061da\",\"b\"]",
      "f");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->use, GpuSet::FromBits(5));
  EXPECT_EQ(config->emulate, "C:\\x");
  EXPECT_EQ(config->admin_users, (std::vector<std::string>{"ada", "b"}));
  EXPECT_EQ(ParseConfig("[queue]\nmax_queued = 1_000\n", "f").value().max_queued, 1000u);
}

TEST(Config, ReportsTheFirstErrorFromTheTop) {
  const auto config = ParseConfig("[queue]\npolicy = \"fifo\"\n\n\nzzz = 1\n[jobs]\naaa = 1\n", "/etc/divvy.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message.substr(0, 40), "/etc/divvy.toml:5: unknown key 'zzz' in ") << config.error().message;
}

TEST(Config, ReadsTablesOfTeamsAndUsers) {
  const auto config = ParseConfig(R"(
[teams]
quotas = true
[teams.vision]
parent = "lab"
quota = 2.5
limit = 6
weight = 3
priority = -1
users = ["ada", "*"]
groups = ["cv"]
running = 4
gpu_hours = 100
period = "week"
[teams.lab]
[users.ada]
team = "vision"
gpus = 2
queued = 0
cost = 12.5
[prices]
H100 = 2.5
default = 1
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  TeamRow vision;
  vision.name = "vision";
  vision.parent = "lab";
  vision.quota_milli = 2500;
  vision.limit_milli = 6000;
  vision.weight = 3;
  vision.priority = -1;
  vision.users = {"ada", "*"};
  vision.groups = {"cv"};
  vision.caps.running = 4;
  vision.caps.gpu_hours_milli = 100'000;
  vision.caps.period = BudgetPeriod::kWeek;
  TeamRow lab;
  lab.name = "lab";
  UserRow ada;
  ada.user = "ada";
  ada.team = "vision";
  ada.gpus = 2;
  ada.caps.queued = 0;
  ada.caps.cost_milli = 12'500;
  TeamsFile want;
  want.are_quotas_on = true;
  want.teams = {vision, lab};
  want.users = {ada};
  want.prices = {{"H100", 2500}, {"", 1000}};
  EXPECT_EQ(config->teams, want);
}

TEST(Config, ErrorsInTeamTablesNameTheLine) {
  const auto refusal = [](std::string_view text) {
    const auto config = ParseConfig(text, "divvy.toml");
    return config ? "" : config.error().message;
  };
  EXPECT_EQ(refusal("[teams.vision]\nquotta = 4\n"),
            "divvy.toml:2: unknown key 'quotta' in [teams.vision]; did you mean 'quota'?");
  EXPECT_EQ(refusal("[teams.vision]\nquota = \"4\"\n"),
            "divvy.toml:2: quota is '4', not a number from 0 to 1000000000, without quotes");
  EXPECT_EQ(refusal("[users.ada]\nperiod = \"year\"\n"),
            "divvy.toml:2: period: 'year' is not valid: expected one of \"day\", \"week\", \"month\"");
  const std::map<std::string, std::string> wrong = {
      {"-1", "is -1, not"}, {"1.5", "is not"}, {"\"2\"", "is '2', not"}, {"1_000_001", "is 1000001, not"}};
  for (const auto& [value, reason] : wrong) {
    EXPECT_EQ(refusal("[users.ada]\ngpus = " + value + "\n"),
              "divvy.toml:2: gpus " + reason + " a whole number from 0 to 1000000, without quotes");
  }
  EXPECT_EQ(refusal("[teams.vision]\ngpus = 2\n"), "divvy.toml:2: gpus is only for users; for a team, set limit");
  EXPECT_EQ(refusal("[teams.lab]\n[teams.vision]\nparent = \"labs\"\n"),
            "divvy.toml:3: parent: there is no team 'labs' in this file; did you mean 'lab'?");
  EXPECT_EQ(refusal("[users.ada]\nteam = \"vision\"\n"),
            "divvy.toml:2: team: there is no team 'vision' in this file; write [teams.vision]");
  EXPECT_EQ(refusal("[teams]\nquotas = \"on\"\n"), "divvy.toml:2: quotas must be true or false, without quotes");
}

TEST(Config, AWrongStoreUrlIsNotQuoted) {
  const auto config = ParseConfig("[store]\nurl = \"mysql://divvy:secret@db/divvy\"\n", "divvy.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message,
            "divvy.toml:2: url is not a URL of PostgreSQL; write it like \"postgresql://divvy@db.lab/divvy\"");
}

/// The installed file shows every key with its default behind '#'. Users copy it, so it must be right.
TEST(Config, AControllerIsOneOfSeveralOnlyIfTheFileSaysSo) {
  EXPECT_FALSE(Config().has_standbys);
  EXPECT_TRUE(ParseConfig("[controller]\nhigh_availability = true\n", "divvy.toml")->has_standbys);
}

TEST(Config, ThePackagedFileShowsTheDefaultOfEveryKey) {
  std::ifstream file(DIVVY_SOURCE_DIR "/packaging/divvy.toml");
  ASSERT_TRUE(file);
  std::string text;
  std::string with_keys;
  int keys = 0;
  for (std::string line; std::getline(file, line);) {
    text += line + "\n";
    // "#key = value" is a key; "# text" is a comment.
    const bool is_key = line.size() > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';
    with_keys += (is_key ? line.substr(1) : line) + "\n";
    keys += is_key ? 1 : 0;
  }
  EXPECT_EQ(ParseConfig(text, "divvy.toml").value(), Config());
  const auto config = ParseConfig(with_keys, "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(keys, 83);
  Config want;
  // These keys have no default that could be written down: emulated GPUs, the address for other machines, and the
  // page's address.
  want.emulate = "8xH100-80GB";
  want.listen = {"0.0.0.0", 7433};
  want.name = "gpu1.lab";
  want.store_url = "postgresql://divvy@db.lab/divvy";
  want.ui_listen = {"127.0.0.1", 8642};
  want.haproxy = "/usr/sbin/haproxy";
  want.services_address = "0.0.0.0";
  want.notify.user_webhooks = NotifySettings::Webhooks::kPublic;
  want.notify.user_commands = true;
  want.notify.from = "divvy@example.org";
  want.notify.ca_file = "/etc/ssl/lab.pem";
  EXPECT_EQ(*config, want);
}

TEST(Config, ReadsTablesOfNotificationReceivers) {
  const auto config = ParseConfig(R"(
[notify]
user_webhooks = "off"
webhook_hosts = ["Hooks.lab", "*.lab"]
max_per_minute = 5
retry_after = "2s"
[notify.ops]
events = ["fail", "gpu_fenced"]
webhook = "https://hooks.example.org/x"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
[notify.vision]
events = "waste"
command = "/usr/local/bin/say it"
run_as = "ops"
teams = ["vision"]
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  const NotifySettings& notify = config->notify;
  EXPECT_EQ(notify.user_webhooks, NotifySettings::Webhooks::kOff);
  EXPECT_EQ(notify.webhook_hosts, (std::vector<std::string>{"hooks.lab", "*.lab"}));
  EXPECT_EQ(notify.most_per_minute, 5);
  EXPECT_EQ(notify.retry_after, 2s);
  ASSERT_EQ(notify.receivers.size(), 2u);
  EXPECT_EQ(notify.receivers[0].name, "ops");
  EXPECT_EQ(notify.receivers[0].channel, NotifyChannel::kWebhook);
  EXPECT_EQ(ToText(notify.receivers[0].events), "fail,gpu_fenced");
  EXPECT_EQ(notify.receivers[1].channel, NotifyChannel::kCommand);
  EXPECT_EQ(notify.receivers[1].target, "/usr/local/bin/say it");
  EXPECT_EQ(notify.receivers[1].run_as, "ops");
  EXPECT_EQ(notify.receivers[1].teams, std::vector<std::string>{"vision"});
}

TEST(Config, ReadsWasteActions) {
  const auto config =
      ParseConfig("[waste]\naction = \"pause\"\naction_on = [\"idle\", \"some_idle\"]\nwarn_every = \"5min\"\n", "x");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->waste.action, WasteAction::kPause);
  EXPECT_EQ(config->waste.action_on, (std::vector<std::string>{"idle", "some_idle"}));
  EXPECT_EQ(config->waste.warn_every, 5min);
  EXPECT_EQ(config->waste.warnings, 2);
}

TEST(Config, ReadsTablesOfPools) {
  const auto config = ParseConfig(R"(
[pools.debug]
nodes = "n[1-2],m1"
max_time = "30m"
default_time = "10m"
min_gpus = 1
max_gpus = 2
max_nodes = 1
running = 8
gpus = 12
priority = -3
users = ["ada"]
teams = ["vision"]
[pools.big]
nodes = ["all"]
constraint = "(ib|nvme)&h100"
policy = "fifo"
placement = "pack"
exclusive = true
default = true
state = "drain"
)",
                                  "divvy.toml");
  ASSERT_TRUE(config) << config.error().message;
  PoolRow debug;
  debug.name = "debug";
  debug.nodes = {"n1", "n2", "m1"};
  debug.max_time = 30min;
  debug.default_time = 10min;
  debug.min_gpus = 1;
  debug.max_gpus = 2;
  debug.max_nodes = 1;
  debug.running = 8;
  debug.gpus = 12;
  debug.priority = -3;
  debug.users = {"ada"};
  debug.teams = {"vision"};
  ASSERT_EQ(config->pools.size(), 2u);
  EXPECT_EQ(config->pools[0], debug);
  const PoolRow& big = config->pools[1];
  EXPECT_TRUE(big.has_all && big.is_exclusive && big.is_default);
  EXPECT_EQ(big.condition.Text(), "h100&ib or h100&nvme");
  EXPECT_EQ(big.policy, QueuePolicy::kFifo);
  EXPECT_EQ(big.placement, PlacementStrategy::kPack);
  EXPECT_EQ(big.state, PoolState::kDrain);
}

TEST(Config, AnInvalidPoolIsRefusedWithItsPlace) {
  const auto error = [](const std::string& text) {
    const auto config = ParseConfig("[pools.a]\n" + text + "\n", "divvy.toml");
    return config ? std::string() : config.error().message;
  };
  EXPECT_EQ(error("max_tiem = \"1h\""), "divvy.toml:2: unknown key 'max_tiem' in [pools.a]; did you mean 'max_time'?");
  EXPECT_EQ(
      error("exclusive = true\njobs_per_gpu = 4"),
      "divvy.toml:3: pool a gives whole nodes (exclusive), but its jobs_per_gpu shares each GPU; omit one of them");
  EXPECT_EQ(error("nodes = \"n[1-\"").find("divvy.toml:2: nodes: "), 0u);
  EXPECT_EQ(error("nodes = 4"),
            "divvy.toml:2: nodes is not a list of nodes; write it like \"n[1-4]\", [\"n1\", \"n2\"] or \"all\"");
  EXPECT_EQ(
      error("constraint = \"a*2\""),
      "divvy.toml:2: constraint: counts and [...] apply only to the nodes of one job; write features with & and |");
  EXPECT_EQ(error("constraint = \"a&\"").find("divvy.toml:2: constraint: "), 0u);
  EXPECT_EQ(error("running = 0"), "divvy.toml:2: running is 0, not a whole number from 1 to 1000000, without quotes");
  EXPECT_EQ(error("state = \"pu\""),
            "divvy.toml:2: state: 'pu' is not valid: expected one of \"up\", \"down\", \"drain\", \"inactive\"");
  EXPECT_EQ(error("users = []"), "divvy.toml:2: users is not a list of names; write it like [\"ada\", \"grace\"]");
  EXPECT_EQ(ParseConfig("[pools.\"a,b\"]\n", "divvy.toml").error().message,
            "divvy.toml:1: [pools.a,b]: a pool name has letters, digits, '.', '_' and '-' only, 64 at most");
}

}  // namespace config_test
}  // namespace divvy::dialect
