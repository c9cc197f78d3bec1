// A few lines of each published format, and typical invalid lines.
#include "simulate/traces/trace_formats.h"

#include "simulate/traces/test_files.h"
#include "simulate/traces/trace_time.h"

namespace divvy::simulate {
namespace trace_formats_test {

class Traces : public TestFiles {
 protected:
  Workload Read(std::string_view format, const std::string& text, const std::string& name = "trace") {
    auto workload = ReadWorkload(format, {File(name, text)});
    EXPECT_TRUE(workload) << workload.error().message;
    return workload ? *workload : Workload();
  }
  /// The error message without the folder.
  std::string Refused(std::string_view format, const std::string& text) {
    const auto workload = ReadWorkload(format, {File("trace", text)});
    if (workload) return "was read";
    std::string message = workload.error().message;
    for (std::size_t at; (at = message.find(folder_ + "/")) != std::string::npos;)
      message.erase(at, folder_.size() + 1);
    return message;
  }
};

Time At(double seconds) { return TimeFromSeconds(seconds); }

TEST_F(Traces, HeliosFullTable) {
  const Workload workload =
      Read("helios",
           "job_id,submit_time,arrival_s,gpu_num,duration_capped_s,vc,user,duration_full_s,state\n"
           "10,2020-09-01 00:00:05,5,8,172800,,,,\n"
           "9,2020-09-01 00:00:05,5,1,24,vcA,u1,24,FAILED\n");
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.jobs[0].id, "9") << "at one moment the lower id is first, as a number";
  EXPECT_EQ(workload.jobs[0].team, "vcA");
  EXPECT_EQ(workload.jobs[0].kind, "FAILED");
  EXPECT_EQ(workload.jobs[0].submit, *ParseDateTime("2020-09-01T00:00:05"));
  EXPECT_EQ(workload.jobs[1].gpus, 8);
  EXPECT_EQ(workload.jobs[1].runtime, 48h);
  EXPECT_EQ(workload.notes, std::vector<std::string>{"the file has run times cut at 48 hours"});
}

TEST_F(Traces, HeliosAsPublished) {
  const Workload workload =
      Read("helios",
           "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
           "duration,queue\n"
           "7,u1,vcA,train,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,"
           "2020-04-03 08:00:20,201600,10\n"
           "8,u1,vcA,prep,0,4,1,COMPLETED,2020-04-01 00:00:11,2020-04-01 00:00:11,"
           "2020-04-01 00:00:21,10,0\n");
  ASSERT_EQ(workload.jobs.size(), 1U);
  EXPECT_EQ(workload.jobs[0].runtime, std::chrono::hours(56)) << "not cut";
  EXPECT_EQ(workload.jobs[0].name, "train");
  EXPECT_EQ(workload.notes, std::vector<std::string>{"1 job left out: no GPUs"});
}

TEST_F(Traces, HeliosSliceContainsItsNodes) {
  const Workload workload = Read("helios",
                                 "# selection: September window 2020-09-01..2020-09-26 inclusive\n"
                                 "# per-VC pool sizes (nodes, 8 GPU/node): vcA=20, vcB=2\n"
                                 "job_id,user,tenant,class,submit_time,num_chips,chip_type,num_nodes,duration_s,"
                                 "walltime_limit_s,final_status\n"
                                 "7,u,vcB,finetune,1500000,16,,2,46520.0,46520.0,CANCELED\n");
  ASSERT_EQ(workload.jobs.size(), 1u);
  EXPECT_EQ(workload.jobs[0].submit, *ParseDateTime("2020-09-01") + 1500ms);
  EXPECT_EQ(workload.jobs[0].runtime, 46520s);
  EXPECT_EQ(workload.jobs[0].nodes, 2);
  ASSERT_TRUE(workload.cluster);
  ASSERT_EQ(workload.cluster->groups.size(), 2u);
  EXPECT_EQ(workload.cluster->groups[0].team, "vcA");
  EXPECT_EQ(workload.cluster->gpus(), 22 * 8);
}

TEST_F(Traces, PhillyIsSortedBySubmission) {
  const Workload workload = Read("philly",
                                 "timestamp,duration,num_gpus,gpu_time,cluster\n"
                                 "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
                                 "2017-10-09 06:13:03,2951.0,4,1.0,6214e9\n");
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.jobs[0].id, "2");
  EXPECT_EQ(workload.jobs[0].gpus, 4);
  EXPECT_EQ(workload.jobs[0].runtime, 2951s);
  EXPECT_EQ(workload.jobs[1].team, "11cb48");
}

TEST_F(Traces, FormatsWithStepsInsteadOfRunTimes) {
  const Workload pollux = Read("pollux", "name,time,application,num_replicas,batch_size\nncf-2,135.5,ncf,2,32768\n");
  EXPECT_FALSE(pollux.knows_runtimes);
  EXPECT_EQ(pollux.jobs[0].submit, At(135.5));
  EXPECT_EQ(pollux.jobs[0].name, "ncf");
  EXPECT_EQ(pollux.jobs[0].gpus, 2);

  const Workload physical = Read("gavel", "LM (batch size 10)\tlm\t--steps\t1\t8601\t2\t3\t-1.000000\t7\n");
  EXPECT_FALSE(physical.knows_runtimes);
  EXPECT_EQ(physical.jobs[0].steps, 8601);
  EXPECT_EQ(physical.jobs[0].gpus, 2);
  EXPECT_EQ(physical.jobs[0].weight, 3);
  EXPECT_EQ(physical.jobs[0].submit, At(7));

  const Workload philly = Read("gavel", "LM (batch size 10)\t--steps\t1\t500\t6.000000\t4\n", "0e4a51.tsv");
  EXPECT_EQ(philly.jobs[0].team, "0e4a51");
  EXPECT_EQ(philly.jobs[0].gpus, 4);
  EXPECT_EQ(philly.jobs[0].submit, At(6));
  EXPECT_EQ(Refused("gavel", "a\tb\tc\n"),
            "trace:1: has 3 fields between tabs; a Gavel trace without its command column has 6 or 9");
}

TEST_F(Traces, ShockwaveHasStepsAndRunTimes) {
  const Workload workload =
      Read("shockwave", "LM (batch size 10)\tlm\t--steps\t1\t134583\t2\tgns\t1\t-1.000000\t1418\t55\n");
  EXPECT_TRUE(workload.knows_runtimes);
  EXPECT_EQ(workload.jobs[0].runtime, 1418s);
  EXPECT_EQ(workload.jobs[0].steps, 134583);
  EXPECT_EQ(workload.jobs[0].kind, "gns");
  EXPECT_EQ(workload.jobs[0].submit, At(55));
}

TEST_F(Traces, MuriUsesMillisecondsAndTiresiasSeconds) {
  const std::string text =
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n3,8,1500,606,vgg19,164,30\n";
  EXPECT_EQ(Read("muri", text).jobs[0].submit, At(1.5));
  EXPECT_EQ(Read("muri", text).jobs[0].runtime, 164ms);
  EXPECT_EQ(Read("tiresias", text).jobs[0].submit, At(1500));
  EXPECT_EQ(Read("tiresias", text).jobs[0].runtime, 164s);
  EXPECT_EQ(Read("tiresias", text).jobs[0].steps, 606);
}

TEST_F(Traces, PaiAndOpenbFormats) {
  const Workload pai = Read("pai", "job_id,arrival_s,service_sec,gpu_count\nali-1,16670.0,167731.0,8\n");
  EXPECT_EQ(pai.jobs[0].runtime, 167731s);
  const Workload openb = Read("openb",
                              "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
                              "deletion_time,scheduled_time\n"
                              "p0,6500,12288,1,460,V100M16|V100M32,LS,Running,100,250,110\n"
                              "p1,6000,12288,1,460,,LS,Pending,100,,\n");
  ASSERT_EQ(openb.jobs.size(), 1u);
  EXPECT_EQ(openb.jobs[0].share.ten_thousandths(), 4600);
  EXPECT_EQ(openb.jobs[0].cpus, 7);
  EXPECT_EQ(openb.jobs[0].memory, 12_GiB);
  EXPECT_EQ(openb.jobs[0].gpu_type, "V100M16|V100M32");
  EXPECT_EQ(openb.jobs[0].runtime, 140s);
  EXPECT_EQ(openb.notes, std::vector<std::string>{"1 job left out: never started or ended"});
}

TEST_F(Traces, SacctWithAllocatedAndRequestedGpuColumns) {
  const Workload workload =
      Read("sacct",
           "JobID|User|Account|Partition|Submit|Start|End|ElapsedRaw|Timelimit|Priority|State|AllocTRES|Req"
           "TRES\n"
           "17|ann|vision|gpu|2024-01-05T12:00:00|2024-01-05T12:10:00|2024-01-05T13:10:00|3600|1-02:00:00|4"
           "294901|COMPLETED|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|cpu=1\n"
           "17.batch|||||||3600|||COMPLETED|cpu=8,gres/gpu=2|\n"
           "18_3|bob||gpu|2024-01-05T11:00:00|2024-01-05T11:00:00|Unknown|60|UNLIMITED||RUNNING||cpu=4,gres"
           "/gpu:h100=1,mem=512M,node=1\n"
           "19|bob||gpu|2024-01-05T11:00:00|Unknown|Unknown|0|Partition_Limit||PENDING||cpu=4\n"
           "20|bob||gpu|2024-01-05T11:00:00|None|2024-01-05T11:30:00|0|10:00||CANCELLED by 1000||cpu=4\n");
  ASSERT_EQ(workload.jobs.size(), 2u);
  const TraceJob& bob = workload.jobs[0];
  EXPECT_EQ(bob.id, "18_3");
  EXPECT_EQ(bob.team, "gpu") << "the partition stands in for an account";
  EXPECT_EQ(bob.gpus, 1);
  EXPECT_EQ(bob.gpu_type, "h100");
  EXPECT_EQ(bob.memory, 512_MiB);
  EXPECT_EQ(bob.limit, Duration(0));
  const TraceJob& ann = workload.jobs[1];
  EXPECT_EQ(ann.team, "vision");
  EXPECT_EQ(ann.gpus, 2) << "the total, not the total and the kind";
  EXPECT_EQ(ann.gpu_type, "a100");
  EXPECT_EQ(ann.cpus, 8);
  EXPECT_EQ(ann.memory, 64_GiB);
  EXPECT_EQ(ann.runtime, 1h);
  EXPECT_EQ(ann.limit, 26h);
  EXPECT_EQ(ann.priority, 4294901);
  EXPECT_EQ(ann.published_start, *ParseDateTime("2024-01-05 12:10:00"));
  EXPECT_EQ(workload.notes,
            (std::vector<std::string>{"1 job step left out; use sacct -X to omit them", "2 jobs left out: never ran",
                                      "1 job still running; treated as ended when sacct was called"}));
}

TEST_F(Traces, SacctWithATrailingBar) {
  const Workload workload = Read("sacct",
                                 "JobIDRaw|JobID|Submit|Elapsed|TimelimitRaw|ReqTRES|\n"
                                 "5|5|1704456000|1-00:00:01|90|gres/gpu:a=1,gres/gpu:b=2|\n");
  EXPECT_EQ(workload.jobs[0].gpus, 3);
  EXPECT_EQ(workload.jobs[0].gpu_type, "a|b");
  EXPECT_EQ(workload.jobs[0].runtime, 24h + 1s);
  EXPECT_EQ(workload.jobs[0].limit, 90min);
  EXPECT_EQ(workload.jobs[0].submit, At(1704456000));
}

TEST_F(Traces, SacctNamesMissingColumns) {
  EXPECT_EQ(Refused("sacct", "JobID|Submit|Elapsed\n"),
            "trace:1: no column with the GPUs; add AllocTRES,ReqTRES to sacct -o");
  EXPECT_EQ(Refused("sacct", "JobID|Submit|AllocTRES\n"),
            "trace:1: no column with the run times; add Start,End,ElapsedRaw to sacct -o");
  EXPECT_EQ(Refused("sacct", "JobID|Submit|Elapsed|AllocTRES\n1|2024-01-05T12:00:00|01:00|cpu=x\n"),
            "trace:2: 'cpu=x' is not a list such as cpu=8,gres/gpu=2,mem=64G,node=1");
  EXPECT_EQ(Refused("sacct", "JobID|Submit|Elapsed|AllocTRES\n1|yesterday|01:00|cpu=1\n"),
            "trace:2: Submit 'yesterday' is not a time such as 2024-01-05T12:00:00");
  EXPECT_EQ(Refused("sacct", "JobID|Submit|Elapsed|AllocTRES\n1|2024-01-05T12:00:00|1:2:3:4|cpu=1\n"),
            "trace:2: Elapsed '1:2:3:4' is not a duration such as 1-02:03:04");
}

TEST_F(Traces, SwfHeaderAndMissingValues) {
  const Workload workload = Read("swf",
                                 "; UnixStartTime: 1000\n; MaxNodes: 4 (all alike)\n; MaxProcs: 32\n"
                                 "  1  10  5  60  4 -1 -1  8  120 1024  1  3  2  7 1 -1 -1 -1\n"
                                 "  2  20 -1  -1  4 -1 -1  8  120   -1  5  3  2 -1 1 -1 -1 -1\n"
                                 "  3  30 -1  15  2 -1 -1 -1   -1   -1  1 -1 -1 -1 1 -1 -1 -1\n");
  ASSERT_EQ(workload.jobs.size(), 2u);
  const TraceJob& first = workload.jobs[0];
  EXPECT_EQ(first.submit, At(1010));
  EXPECT_EQ(first.gpus, 8) << "what was asked for goes before what was given";
  EXPECT_EQ(first.runtime, 60s);
  EXPECT_EQ(first.limit, 120s);
  EXPECT_EQ(first.memory, 8_MiB);
  EXPECT_EQ(first.user, "user3");
  EXPECT_EQ(first.published_start, At(1015));
  EXPECT_EQ(workload.jobs[1].gpus, 2);
  EXPECT_EQ(workload.jobs[1].user, "");
  EXPECT_EQ(workload.jobs[1].limit, Duration(0));
  ASSERT_TRUE(workload.cluster);
  EXPECT_EQ(workload.cluster->nodes(), 4);
  EXPECT_EQ(workload.cluster->gpus(), 32);
  EXPECT_EQ(workload.notes.back(), "1 job left out: submission time, run time or size is unknown");
  EXPECT_EQ(Refused("swf", "1 2 3\n"), "trace:1: has 3 fields, the format has 18");
}

TEST_F(Traces, TruncatedLinesAreNamed) {
  EXPECT_EQ(Refused("pai", "job_id,arrival_s,service_sec,gpu_count\na,1,2,3\nb,1\n"),
            "trace:3: has 2 fields, the header has 4");
  EXPECT_EQ(Refused("pai", "job_id,arrival_s,service_sec,gpu_count\na,1,2,some\n"),
            "trace:2: gpu_count 'some' is not a whole number from 0 to 10000000");
  EXPECT_EQ(Refused("pai", "job_id,arrival_s,service_sec,gpu_count\na,-1,2,1\n"),
            "trace:2: arrival_s '-1' is not a number from 0 to 9000000000");
  EXPECT_EQ(Refused("philly", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-13-09 07:01:55,66.0,1,66.0,a\n"),
            "trace:2: timestamp '2017-13-09 07:01:55' is not a time such as 2017-10-09 07:01:55");
  EXPECT_EQ(Refused("pai", "job_id,arrival_s,service_sec,gpu_count\n"), "trace: the file has no jobs");
  EXPECT_EQ(Refused("pay", "").substr(0, 57), "there is no trace format 'pay'; did you mean pai? (format");
}

TEST_F(Traces, SeveralFilesAreOneTrace) {
  const std::string titles = "job_id,arrival_s,service_sec,gpu_count\n";
  const auto workload = ReadWorkload("pai", {File("a", titles + "x,5,1,1\n"), File("b", titles + "y,3,1,1\n")}).value();
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.jobs[0].id, "y");
  EXPECT_EQ(workload.notes.size(), 1u);
}

TEST_F(Traces, ClusterFormatsAreRecognizedByTheirTitles) {
  const auto openb = ReadCluster(File("n",
                                      "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,T4\nb,64000,1024,2,T4\n"
                                      "c,64000,1024,0,\nd,64000,1024,8,V100\n"))
                         .value();
  ASSERT_EQ(openb.groups.size(), 2u);
  EXPECT_EQ(openb.groups[0].count, 2);
  EXPECT_EQ(openb.groups[0].cpus, 64);
  EXPECT_EQ(openb.gpus(), 12);
  const auto philly = ReadCluster(File("n", "vc,node num\na,64\nb,8\n")).value();
  EXPECT_EQ(philly.gpus(), 72 * 8);
  EXPECT_EQ(philly.groups[1].team, "b");
  const auto tiresias =
      ReadCluster(File("n", "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,16,4,128,254\n"))
          .value();
  EXPECT_EQ(tiresias.groups.size(), 2u);
  EXPECT_EQ(tiresias.gpus(), 128);
  EXPECT_EQ(ReadCluster(File("n", "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm,T4,96,512,2\n"))->gpus(), 2);
  EXPECT_FALSE(ReadCluster(File("n", "a,b\n1,2\n")));
  EXPECT_FALSE(ReadCluster(File("n", "vc,node num\na,0\n")));
}

TEST(Clusters, AreReadFromNodeCountsAndModels) {
  const auto cluster = ParseCluster("36x4:v100, 2x8").value();
  EXPECT_EQ(cluster.nodes(), 38);
  EXPECT_EQ(cluster.gpus(), 160);
  EXPECT_EQ(cluster.groups[0].model, "v100");
  for (const char* wrong : {"", "8", "x8", "8x", "0x8", "8x8:", "8x8,,", "ax8", "99999999x8"})
    EXPECT_FALSE(ParseCluster(wrong)) << wrong;
}

TEST(Windows, CutTheTraceAndScaleTheLoad) {
  Workload workload;
  for (const double at : {10.0, 20.0, 40.0}) workload.jobs.push_back({.submit = At(at)});
  Workload cut = workload;
  CutTo(cut, At(10), At(40));
  EXPECT_EQ(cut.jobs.size(), 2u);
  ScaleLoad(workload, 2);
  EXPECT_EQ(workload.jobs[1].submit, At(15));
  EXPECT_EQ(workload.jobs[2].submit, At(25));
}

TEST(TraceTimes, AreReadInUsualFormats) {
  EXPECT_EQ(ParseDateTime("1970-01-02T00:00:01"), At(86401));
  EXPECT_EQ(ParseDateTime("1970-01-02"), At(86400));
  for (const char* wrong : {"", "1970-1-2", "1970-02-30", "1970-01-02 24:00:00", "1970/01/02", "1970-01-02T1:00:00 "})
    EXPECT_FALSE(ParseDateTime(wrong)) << wrong;
  EXPECT_EQ(ParseSlurmDuration("1-02:03:04"), 26h + 3min + 4s);
  EXPECT_EQ(ParseSlurmDuration("02:03:04"), 2h + 3min + 4s);
  EXPECT_EQ(ParseSlurmDuration("03:04.5"), 3min + 4500ms);
  EXPECT_EQ(ParseSlurmDuration("30"), 30min);
  EXPECT_EQ(ParseSlurmDuration("2-12"), 60h);
  for (const char* wrong : {"", "-", "1-", "a", "1:2:3:4", "1::2", "-5", "1-2-3"})
    EXPECT_FALSE(ParseSlurmDuration(wrong)) << wrong;
}

}  // namespace trace_formats_test
}  // namespace divvy::simulate
