#include "dialect/options/container_options.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/job_options.h"
#include "dialect/options/private_folders.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace container_options_test {

Result<JobSpec> Submit(const std::string& words) {
  JobSpec spec;
  spec.directory = "/home/ada/work";
  spec.capture.environment = {"HOME=/home/ada"};
  ParseContext around = TestParseContext();
  std::vector<std::string> list;
  for (const std::string_view word : SplitWords(words)) list.emplace_back(word);
  auto parsed = ParseOptions(JobOptions(spec, around), list, {true, true, false});
  if (!parsed) return parsed.error();
  spec.command = {"true"};
  DIVVY_CHECK(CheckComplete(spec));
  return spec;
}

ContainerPlan PlanOf(const Result<JobSpec>& spec) {
  const auto plan = ContainerOf(spec.value(), false);
  return plan.value().value_or(ContainerPlan());
}

JobSpec Sbatch(const std::string& lines) {
  JobSpec spec;
  spec.capture.environment = {"HOME=/home/ada"};
  const ParseContext around = TestParseContext();
  const auto read = ReadScript("#!/bin/sh\n" + lines, "job.sh", around, spec);
  EXPECT_TRUE(read) << read.error().message;
  return spec;
}

TEST(ContainerImage, TranslatesImageNamesOfEnroot) {
  EXPECT_EQ(ReadImage("nvcr.io#nvidia/pytorch:24.01").value(), "nvcr.io/nvidia/pytorch:24.01");
  EXPECT_EQ(ReadImage("docker://ada@nvcr.io#nvidia/pytorch:24.01").value(), "nvcr.io/nvidia/pytorch:24.01");
  EXPECT_EQ(ReadImage("docker://ubuntu:22.04").value(), "ubuntu:22.04");
  EXPECT_EQ(ReadImage("localhost/mine@sha256:12").value(), "localhost/mine@sha256:12");
  EXPECT_EQ(ReadImage("/images/torch.sif").value(), "/images/torch.sif");
}

TEST(ContainerImage, AnImageThatNoEngineRunsIsRefusedWithOneSentence) {
  EXPECT_EQ(ReadImage("/images/torch.sqsh").error().message,
            "'/images/torch.sqsh' is an enroot file, which podman, docker and apptainer cannot run; give the image "
            "that it was made from, such as nvcr.io/nvidia/pytorch:24.01-py3");
  for (const char* bad : {"", "--privileged", "a b", "/images/torch.tar", "./torch.sif", "a\"b"})
    EXPECT_FALSE(ReadImage(bad)) << bad;
}

TEST(ContainerMounts, RelativeSourcesStartInTheWorkingDirectory) {
  const auto mounts = ReadMounts("/data:/in:ro,out:/out,~/models,/same", "/w", "/home/ada");
  ASSERT_TRUE(mounts);
  EXPECT_EQ(*mounts, (std::vector<ContainerMount>{{"/data", "/in", true},
                                                  {"/w/out", "/out", false},
                                                  {"/home/ada/models", "/home/ada/models", false},
                                                  {"/same", "/same", false}}));
  for (const char* bad : {":/x", "/a:b", "/a:/b:z", "/a:/b:ro:x"}) EXPECT_FALSE(ReadMounts(bad, "/w", "/h")) << bad;
}

TEST(ContainerOptions, AreReadIntoAContainerPlan) {
  const auto spec =
      Submit("--image pytorch --mount /data:/data:ro --mount out:/out --container-workdir /out --env LR=1");
  ASSERT_TRUE(spec) << spec.error().message;
  const ContainerPlan plan = PlanOf(spec);
  EXPECT_EQ(plan.image, "pytorch");
  EXPECT_EQ(plan.mounts,
            (std::vector<ContainerMount>{{"/data", "/data", true}, {"/home/ada/work/out", "/out", false}}));
  EXPECT_EQ(plan.directory, "/out");
  EXPECT_EQ(plan.variables, std::vector<std::string>{"LR"});
  EXPECT_EQ(ContainerReading(*spec), "in a container from image pytorch");
  EXPECT_EQ(PlanOf(Submit("--gpus 1")).image, "");
}

TEST(PrivateFolders, AreSetWithYesOrNo) {
  const auto read = [](const std::string& words) {
    const auto spec = Submit(words);
    EXPECT_TRUE(spec) << spec.error().message;
    const PrivateFolders folders = ReadPrivateFolders(*spec);
    return std::pair(folders.tmp, folders.shm);
  };
  using Maybe = std::optional<bool>;
  EXPECT_EQ(read("--gpus 1"), std::pair(Maybe(), Maybe()));
  EXPECT_EQ(read("--private-tmp"), std::pair(Maybe(true), Maybe()));
  EXPECT_EQ(read("--private-tmp=no --private-shm=yes"), std::pair(Maybe(false), Maybe(true)));
  EXPECT_EQ(PrivateFoldersReading(*Submit("--private-tmp --private-shm=no")), "private /tmp, shared /dev/shm");
  EXPECT_EQ(Submit("--private-tmp=1").error().message, "--private-tmp: '1' is not valid; expected yes or no");
}

TEST(ContainerOptions, AMountWithoutAnImageIsRefused) {
  EXPECT_EQ(Submit("--mount /data:/data").error().message, "--mount needs a container; add --image IMAGE, or omit it");
  EXPECT_FALSE(Submit("--image x.sqsh"));
  EXPECT_FALSE(Submit("--image x --container-workdir here"));
}

TEST(ContainerOptions, PyxisOptionsMeanTheSame) {
  const JobSpec spec = Sbatch(
      "#SBATCH --container-image=nvcr.io#nvidia/pytorch:24.01\n#SBATCH --container-mounts=/data:/data:ro\n"
      "#SBATCH --container-workdir=/data --container-env=LR,SEED --container-mount-home\n");
  const auto plan = ContainerOf(spec, false);
  ASSERT_TRUE(plan && *plan);
  EXPECT_EQ((*plan)->image, "nvcr.io/nvidia/pytorch:24.01");
  EXPECT_EQ((*plan)->mounts,
            (std::vector<ContainerMount>{{"/data", "/data", true}, {"/home/ada", "/home/ada", false}}));
  EXPECT_EQ((*plan)->directory, "/data");
  EXPECT_EQ((*plan)->variables, (std::vector<std::string>{"LR", "SEED"}));
  EXPECT_TRUE(spec.notes.empty()) << spec.notes.front();
  JobSpec bad;
  EXPECT_NE(ReadScript("#!/bin/sh\n#SBATCH --container-image=a.sqsh\n", "job.sh", TestParseContext(), bad)
                .error()
                .message.find("is an enroot file"),
            std::string::npos);
}

TEST(ContainerOptions, TheServerDecidesWhetherValohaiImagesAreUsed) {
  JobSpec spec;
  spec.dialect = Dialect::kValohai;
  spec.directory = "/w";
  spec.labels = {{"valohai.image", "torch"}, {"valohai.root", "/x/1"}, {"valohai.mounts", "/data:/data"}};
  EXPECT_FALSE(ContainerOf(spec, false).value());
  const auto plan = ContainerOf(spec, true).value();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->image, "torch");
  EXPECT_EQ(plan->mounts, (std::vector<ContainerMount>{{"/data", "/data", false}, {"/x/1", "/x/1", false}}));
}

}  // namespace container_options_test
}  // namespace divvy::dialect
