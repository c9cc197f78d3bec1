#include "platform/supervisor/run_record.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <stdlib.h>
#include <unistd.h>
#include <array>

#include <filesystem>
#include <fstream>

#include "platform/os/process_tree.h"
#include "platform/supervisor/launch_message.h"

namespace divvy {
namespace run_record_test {

RunRecord Full() {
  RunRecord record;
  record.job = JobId(17);
  record.attempt = 3;
  record.supervisor = {.pid = 100, .start_ticks = 2000};
  record.guard = {.pid = 99, .start_ticks = 1999};
  record.process = {.pid = 101, .start_ticks = 2001};
  record.control = "@0001f";
  record.secret = std::string(64, 'a');
  record.uid = 1000;
  record.gid = 1001;
  record.script = "17.train.sh";
  record.cgroup = "/sys/fs/cgroup/memory/divvy-0/17";
  record.started = Time(Duration(1'700'000'000'123'456'789));
  record.lease = {.file = "/var/lib/divvy/my agent/lease", .boot_id = "boot-1"};
  record.was_cut_off = true;
  record.is_part = true;
  record.port = 40001;
  record.has_gone = true;
  Exit exit;
  exit.code = 137;
  exit.signal = 9;
  exit.was_oom_killed = true;
  exit.hit_time_limit = true;
  exit.failure = "cannot run 'a=b'";
  exit.cpu_time = Duration(42);
  exit.memory_peak = 5_MiB;
  record.exit = exit;
  record.ended = record.started + std::chrono::seconds(5);
  return record;
}

std::string Format(const RunRecord& record) {
  RecordWriter out;
  AddWatch(record, out);
  AddProcess(record, out);
  if (record.exit) AddExit(record, out);
  return out.text();
}

TEST(RunRecord, ReadsBackWhatItWrites) {
  const RunRecord record = Full();
  EXPECT_EQ(ReadRecordFields(RecordFields(Format(record))), record);
}

TEST(RunRecord, ATruncatedExitIsIgnored) {
  const RunRecord record = Full();
  const std::string text = Format(record);
  RunRecord without = record;
  without.exit.reset();
  without.ended = kNoTime;
  without.was_cut_off = false;
  for (std::size_t size = text.find("code="); size < text.size(); ++size) {
    EXPECT_EQ(ReadRecordFields(RecordFields(text.substr(0, size))), without) << "cut at " << size;
  }
}

TEST(RunRecord, LineFeedsInAValueCannotForgeLines) {
  RecordWriter out;
  out.Add("failure", "cannot run 'x\ncomplete=1'");
  EXPECT_EQ(RecordFields(out.text()).Number("complete"), 0);
}

TEST(RunRecord, ScanFindsRecordsAndTheirStates) {
  std::string pattern = testing::TempDir() + "divvy-record-test.XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
  RunRecord ended = Full();
  write("17", Format(ended));
  RunRecord vanished = Full();
  vanished.job = JobId(9);
  vanished.exit.reset();
  vanished.was_cut_off = false;
  vanished.process = {.pid = ::getpid(), .start_ticks = 1};  // Another process uses this pid.
  write("9", Format(vanished));
  RunRecord orphan = vanished;
  orphan.job = JobId(10);
  orphan.process = IdentifyProcess(::getpid());
  write("10", Format(orphan));
  write("11", "");
  RunRecord guarded = vanished;
  guarded.job = JobId(13);
  guarded.guard = IdentifyProcess(::getpid());
  write("13", Format(guarded));
  write("17.train.sh", "#!/bin/sh\n");
  write("reports", "x");
  write("12", "job=99\n");  // The record of another job: ignored.

  const auto records = ScanRunDirectory(folder);
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 5U);
  EXPECT_EQ((*records)[0].job, JobId(9));
  EXPECT_EQ(StateOf((*records)[0]), RunState::kVanished);
  EXPECT_EQ(StateOf((*records)[1]), RunState::kOrphaned);
  EXPECT_EQ((*records)[2].job, JobId(11));
  EXPECT_EQ(StateOf((*records)[2]), RunState::kNeverStarted);
  EXPECT_EQ(StateOf((*records)[3]), RunState::kWatched);
  EXPECT_EQ(StateOf((*records)[4]), RunState::kEnded);
  EXPECT_EQ(ReadRunRecord(folder, JobId(13)), (*records)[3]);
  EXPECT_EQ(ReadRunRecord(folder, JobId(14)).error().code, ErrorCode::kNotFound);

  RemoveRunRecord(folder, (*records)[4]);
  EXPECT_FALSE(std::filesystem::exists(folder + "/17"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/17.train.sh"));
  std::filesystem::remove_all(folder);
}

TEST(RunRecord, AMissingFolderIsAnError) { EXPECT_FALSE(ScanRunDirectory("/nowhere/at/all")); }

TEST(LaunchMessage, ArrivesAsItWasSent) {
  LaunchRequest request;
  request.job = JobId(1ULL << 40);
  request.attempt = 7;
  request.argv = {"python", "", "a\nb"};
  request.script = std::string(100'000, 's');
  request.environment = {"A=1", "B="};
  request.limits = {{"nofile", -1}, {"core", 0}};
  request.output = "out";
  request.is_own_log = true;
  request.uid = 1000;
  request.window = {.rows = 5, .columns = 6};
  request.warn = {.signal = 10, .before = std::chrono::seconds(60), .batch_only = true};
  request.memory_limit = 3_GiB;
  request.isolation.lock = DeviceLock::kMounts;
  request.isolation.closed_devices = {"/dev/nvidia1", "/dev/nvidia2"};
  request.isolation.cores = "0-3";
  request.isolation.processes = 100;
  request.isolation.has_own_tmp = true;
  request.isolation.keeps_privileges = false;
  request.gang = {.starter = "/usr/bin/divvy", .index = 3, .key = "ab", .go_within = std::chrono::seconds(7)};
  request.lease = {.file = "/var/lib/divvy/agent/lease", .boot_id = "boot-1"};
  request.streams = {-1, ::dup(1), -1};

  LaunchFrame frame = {.bytes = EncodeLaunch(request)};
  frame.streams.emplace_back(request.streams[1]);
  const LaunchRequest read = DecodeLaunch(frame.body(), frame.streams).value();
  EXPECT_EQ(read.job, request.job);
  EXPECT_EQ(read.argv, request.argv);
  EXPECT_EQ(read.script, request.script);
  EXPECT_EQ(read.environment, request.environment);
  EXPECT_EQ(read.limits, request.limits);
  EXPECT_TRUE(read.is_own_log);
  EXPECT_EQ(read.window.columns, 6);
  EXPECT_EQ(read.lease, request.lease);
  EXPECT_EQ(read.gang.starter, request.gang.starter);
  EXPECT_EQ(read.gang.index, 3u);
  EXPECT_EQ(read.gang.key, "ab");
  EXPECT_EQ(read.gang.go_within, request.gang.go_within);
  EXPECT_EQ(read.warn, request.warn);
  EXPECT_EQ(read.memory_limit, request.memory_limit);
  EXPECT_EQ(read.isolation, request.isolation);
  EXPECT_EQ(read.streams, request.streams);
}

// If this fails, the layout or a default has changed: count kLaunchForm up, and note the new values here.
TEST(LaunchMessage, ANewLayoutHasANewForm) {
  const std::string frame = EncodeLaunch(LaunchRequest());
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  for (const char byte : frame.substr(sizeof(LaunchFrameHeader)))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  EXPECT_EQ(kLaunchForm, 0xD1FF0003);
  EXPECT_EQ(sizeof(LaunchFrameHeader), 120u);
  EXPECT_EQ(frame.size(), 353u);
  EXPECT_EQ(hash, 0x94e1741adeb0bc4d);
}

TEST(LaunchMessage, RefusesInvalidBytes) {
  LaunchRequest request;
  request.argv = {"true"};
  request.uid = 1000;
  const std::string frame = EncodeLaunch(request);
  const std::string body = frame.substr(sizeof(LaunchFrameHeader));
  EXPECT_TRUE(DecodeLaunch(body, {}));
  for (std::size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(DecodeLaunch(body.substr(0, size), {})) << size;
  EXPECT_FALSE(DecodeLaunch(body + "x", {}));
  // A zero byte would cut the run record to which this is written.
  LaunchRequest cut;
  cut.script_name = std::string("a\0b", 3);
  EXPECT_FALSE(DecodeLaunch(std::string_view(EncodeLaunch(cut)).substr(sizeof(LaunchFrameHeader)), {}));
  std::vector<ForeignDescriptor> one_too_many;
  one_too_many.emplace_back(::dup(1));
  EXPECT_FALSE(DecodeLaunch(body, one_too_many));
}

TEST(LaunchMessage, AReaderStopsAtAnInvalidFrame) {
  LaunchFrameHeader old, large;
  old.form = kLaunchForm + 1;
  large.body_size = kMostLaunchBody + 1;
  for (const LaunchFrameHeader& header : {old, large}) {
    std::array<int, 2> ends = {};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    const Descriptor ours(ends[0]), theirs(ends[1]);
    ASSERT_EQ(::send(ours.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    LaunchFrameReader reader(theirs.get());
    EXPECT_TRUE(reader.ReadMore());
    EXPECT_FALSE(reader.Next());
    EXPECT_FALSE(reader.ReadMore());
  }
}

}  // namespace run_record_test
}  // namespace divvy
