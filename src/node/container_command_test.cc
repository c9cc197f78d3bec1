#include "node/container_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace container_command_test {

ContainerPlan Plan() {
  ContainerPlan plan;
  plan.image = "pytorch:24.01";
  return plan;
}

ContainerGround Ground(EngineKind kind, std::int64_t uid = 0) {
  ContainerGround ground;
  ground.kind = kind;
  ground.engine = "/usr/bin/" + std::string(EngineName(kind));
  ground.name = "divvy-17-1-99";
  ground.uid = ground.gid = uid;
  ground.directory = "/home/ada/work";
  ground.words = {"python", "train.py"};
  ground.environment = {"PATH=/usr/bin", "DIVVY_JOB_ID=17", "CUDA_VISIBLE_DEVICES=GPU-a",
                        "SECRET=x",      "LR=0.1",          "DIVVY_CONTAINER=image x"};
  return ground;
}

std::string Words(const ContainerPlan& plan, const ContainerGround& ground) {
  const auto command = MakeContainerCommand(plan, ground);
  return command ? Join(command->argv, " ") : command.error().message;
}

TEST(ContainerCommand, ForwardsVariablesOfDivvyAndSimilarTools) {
  for (const char* name : {"DIVVY_JOB_ID", "SLURM_PROCID", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "RANK", "MASTER_ADDR"})
    EXPECT_TRUE(GoesIntoContainers(name)) << name;
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_HOME", "DIVVY_CONTAINER", "DIVVY_CONTAINER_ENGINE"})
    EXPECT_FALSE(GoesIntoContainers(name)) << name;
}

TEST(ContainerCommand, PodmanRunsAsRoot) {
  ContainerGround ground = Ground(EngineKind::kPodman);
  ground.gpus = {"GPU-a", "3"};
  ground.pid_file = "/run/p";
  EXPECT_EQ(Words(Plan(), ground),
            "/usr/bin/podman run --name=divvy-17-1-99 --label=divvy=1 --pull=never --interactive --rm --pidfile=/run/p "
            "--log-driver=none --network=host --ipc=host --pid=host --security-opt=label=disable --entrypoint= "
            "--device=nvidia.com/gpu=GPU-a --device=nvidia.com/gpu=3 "
            "--mount=type=bind,source=/home/ada/work,target=/home/ada/work --workdir=/home/ada/work "
            "--env=DIVVY_JOB_ID --env=CUDA_VISIBLE_DEVICES pytorch:24.01 python train.py");
}

TEST(ContainerCommand, TheSubmitterIsTheUserInside) {
  EXPECT_NE(Words(Plan(), Ground(EngineKind::kPodman, 1000)).find(" --userns=keep-id "), std::string::npos);
  ContainerGround docker = Ground(EngineKind::kDocker, 1000);
  docker.groups = {1000, 27};
  EXPECT_NE(Words(Plan(), docker).find(" --user=1000:1000 --group-add=27 "), std::string::npos);
  EXPECT_EQ(Words(Plan(), Ground(EngineKind::kDocker)).find("--user"), std::string::npos);
}

TEST(ContainerCommand, DockerGetsGpusAsOneListAndIsRemovedExplicitly) {
  ContainerGround ground = Ground(EngineKind::kDocker);
  ground.gpus = {"GPU-a", "GPU-b"};
  ground.memory_bytes = 1024;
  ground.has_terminal = true;
  const std::string words = Words(Plan(), ground);
  EXPECT_NE(words.find(" --gpus=\"device=GPU-a,GPU-b\" "), std::string::npos) << words;
  EXPECT_NE(words.find(" --memory=1024b "), std::string::npos);
  EXPECT_NE(words.find(" --tty "), std::string::npos);
  EXPECT_EQ(words.find("--rm"), std::string::npos);
}

TEST(ContainerCommand, ApptainerUsesItsOwnVariableNames) {
  ContainerGround ground = Ground(EngineKind::kApptainer, 1000);
  ground.gpus = {"GPU-a"};
  ContainerPlan plan = Plan();
  plan.mounts = {{"/data", "/in", true}};
  plan.variables = {"LR"};
  const auto command = MakeContainerCommand(plan, ground);
  ASSERT_TRUE(command);
  EXPECT_EQ(
      Join(command->argv, " "),
      "/usr/bin/apptainer exec --cleanenv --no-home --nv --bind=/home/ada/work:/home/ada/work --bind=/data:/in:ro "
      "--pwd=/home/ada/work docker://pytorch:24.01 python train.py");
  const std::vector<std::string> added(command->environment.begin() + 6, command->environment.end());
  EXPECT_EQ(Join(added, " "),
            "APPTAINERENV_DIVVY_JOB_ID=17 APPTAINERENV_CUDA_VISIBLE_DEVICES=GPU-a APPTAINERENV_LR=0.1 "
            "APPTAINERENV_NVIDIA_VISIBLE_DEVICES=GPU-a");
  plan.image = "/images/a.sif";
  EXPECT_NE(Words(plan, ground).find(" /images/a.sif python"), std::string::npos);
}

TEST(ContainerCommand, PassesMountsWorkdirVariablesAndOptions) {
  ContainerPlan plan = Plan();
  plan.mounts = {{"/data", "/data", true}, {"/scratch", "/home/ada/work", false}};
  plan.directory = "/data";
  plan.variables = {"LR"};
  ContainerGround ground = Ground(EngineKind::kPodman);
  ground.options = {"--shm-size=1g"};
  const std::string words = Words(plan, ground);
  EXPECT_NE(words.find(" --mount=type=bind,source=/data,target=/data,readonly "
                       "--mount=type=bind,source=/scratch,target=/home/ada/work --workdir=/data "),
            std::string::npos)
      << words;
  EXPECT_EQ(words.find("source=/home/ada/work"), std::string::npos) << "its place is taken";
  EXPECT_NE(words.find(" --env=LR --shm-size=1g pytorch:24.01 "), std::string::npos) << words;
  EXPECT_EQ(words.find("SECRET"), std::string::npos);
  plan.mounts = {{"/a,b", "/x", false}};
  EXPECT_EQ(Words(plan, ground),
            "'/a,b' cannot be mounted into a container: podman does not accept a path with a comma; use another path");
}

TEST(ContainerCommand, AScriptIsMountedAndRunByItsInterpreter) {
  ContainerPlan plan = Plan();
  plan.interpreter = "/bin/bash -e -u";
  ContainerGround ground = Ground(EngineKind::kPodman);
  ground.script = "/run/divvy/runs/17.train.sh";
  ground.script_name = "17.train.sh";
  ground.words = {"--lr", "1"};
  const std::string words = Words(plan, ground);
  EXPECT_NE(words.find("source=/run/divvy/runs/17.train.sh,target=/run/divvy/17.train.sh,readonly"), std::string::npos);
  const auto command = MakeContainerCommand(plan, ground);
  ASSERT_TRUE(command);
  const std::vector<std::string> last(command->argv.end() - 5, command->argv.end());
  EXPECT_EQ(last, (std::vector<std::string>{"/bin/bash", "-e -u", "/run/divvy/17.train.sh", "--lr", "1"}));
}

TEST(ContainerGpus, AreNamedByUuidSinceIndicesChangeInside) {
  EXPECT_EQ(VisibleByUuid("2,3", "2,3", "GPU-a,GPU-b"), "GPU-a,GPU-b");
  EXPECT_EQ(VisibleByUuid("3,2", "2,3", "GPU-a,GPU-b"), "GPU-b,GPU-a");
  EXPECT_EQ(VisibleByUuid("", "", ""), "");
  EXPECT_EQ(VisibleByUuid("GPU-b", "2,3", "GPU-a,GPU-b"), "GPU-b");
  EXPECT_EQ(VisibleByUuid("2", "2,3", "GPU-a"), "2") << "unknown which is whose";
}

TEST(ContainerGpus, AreFoundInTheNodesCdiDescriptions) {
  const std::string yaml =
      "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n  - name: \"0\"\n  - name: \"11\"\n  - name: all\n";
  const std::string json = R"({"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-b", "containerEdits": {}}]})";
  EXPECT_EQ(FindCdiNames({yaml}, "0,11", "GPU-a,GPU-b").value(), (std::vector<std::string>{"0", "11"}));
  EXPECT_EQ(FindCdiNames({yaml, json}, "0,11", "GPU-a,GPU-b").value(), (std::vector<std::string>{"0", "GPU-b"}));
  EXPECT_NE(FindCdiNames({yaml}, "1", "GPU-c").error().message.find("GPU 1 is in no CDI description"),
            std::string::npos)
      << "the 1 of 11 is another";
  EXPECT_FALSE(FindCdiNames({"kind: amd.com/gpu\n- name: 0\n"}, "0", ""));
}

TEST(ContainerEnd, AnEngineFailureDiffersFromTheProgramsFailure) {
  const auto why = [](EngineKind kind, int code, bool has_started) {
    return WhyNotStarted(kind, code, has_started, "train", "i:1");
  };
  for (const int code : {0, 1, 125, 126, 127, 137}) EXPECT_EQ(why(EngineKind::kPodman, code, true), "") << code;
  EXPECT_EQ(why(EngineKind::kPodman, 127, false), "there is no program 'train' in image 'i:1'");
  EXPECT_NE(why(EngineKind::kDocker, 126, false).find("could not be started"), std::string::npos);
  EXPECT_NE(why(EngineKind::kPodman, 125, false).find("podman could not start a container of image 'i:1'"),
            std::string::npos);
  EXPECT_EQ(why(EngineKind::kApptainer, 127, false), "") << "may be the program's own";
  EXPECT_NE(why(EngineKind::kApptainer, 255, false), "");
}

TEST(ContainerCommand, NodeMountsHaveTheSamePathInside) {
  ContainerGround ground = Ground(EngineKind::kPodman);
  ground.needs.mounts = {{"/runs/17.1", "/runs/17.1", false}, {"/lib.so", "/lib.so", true}};
  ground.needs.environment = {"LD_PRELOAD=/lib.so"};
  ground.environment.emplace_back("LD_PRELOAD=/lib.so:/the/hosts.so");
  EXPECT_NE(Words(Plan(), ground)
                .find(" --mount=type=bind,source=/runs/17.1,target=/runs/17.1 "
                      "--mount=type=bind,source=/lib.so,target=/lib.so,readonly --workdir"),
            std::string::npos)
      << Words(Plan(), ground);
  EXPECT_NE(Words(Plan(), ground).find(" --env=LD_PRELOAD=/lib.so "), std::string::npos) << Words(Plan(), ground);
  ground.kind = EngineKind::kApptainer;
  EXPECT_NE(Words(Plan(), ground).find(" --bind=/runs/17.1:/runs/17.1 --bind=/lib.so:/lib.so:ro "), std::string::npos);
  const auto command = MakeContainerCommand(Plan(), ground);
  ASSERT_TRUE(command);
  EXPECT_NE(std::ranges::find(command->environment, "APPTAINERENV_LD_PRELOAD=/lib.so"), command->environment.end());
}

TEST(ContainerCommand, AVariableNamedByTheJobHasTheJobsValue) {
  ContainerGround ground = Ground(EngineKind::kPodman);
  ground.needs.mounts = {{"/data", "/data", false}};
  ground.needs.environment = {"LD_PRELOAD=/lib.so"};
  ground.environment.emplace_back("LD_PRELOAD=/lib.so:/mine.so");
  ContainerPlan plan = Plan();
  plan.variables = {"LD_PRELOAD"};
  plan.mounts = {{"/data", "/data", false}};
  const std::string words = Words(plan, ground);
  EXPECT_NE(words.find(" --env=LD_PRELOAD pytorch"), std::string::npos) << words;
  EXPECT_EQ(words.find("target=/data "), words.rfind("target=/data ")) << "mounted once: " << words;
}

}  // namespace container_command_test
}  // namespace divvy
