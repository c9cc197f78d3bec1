#include "platform/isolation/container_engine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace divvy {
namespace container_engine_test {

class ContainerEngine : public testing::Test {
 protected:
  ContainerEngine() {
    std::string name = testing::TempDir() + "divvy-engine-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ContainerEngine() override { std::filesystem::remove_all(folder_); }
  void Install(const std::string& name) {
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n";
    ::chmod((folder_ + "/" + name).c_str(), 0755);
  }
  std::string Found(const std::string& wanted, const std::string& docker_host = "unix:///nowhere") {
    const auto engine = FindContainerEngine(wanted, "relative:" + folder_, docker_host);
    return engine ? engine->name : engine.error().message;
  }
  std::string folder_;
};

TEST_F(ContainerEngine, TheFirstInstalledEngineIsUsed) {
  EXPECT_EQ(Found("auto"), "there is no container engine in PATH; install podman, docker or apptainer");
  Install("singularity");
  EXPECT_EQ(Found("auto"), "singularity");
  Install("apptainer");
  EXPECT_EQ(Found("auto"), "apptainer");
  Install("podman");
  EXPECT_EQ(Found("auto"), "podman");
  EXPECT_EQ(Found("apptainer"), "apptainer");
  EXPECT_EQ(FindContainerEngine("auto", folder_, "")->path, folder_ + "/podman");
}

TEST_F(ContainerEngine, DockerWithoutItsServiceIsNotUsed) {
  Install("docker");
  EXPECT_NE(Found("auto").find("docker is installed, but its service does not run"), std::string::npos);
  EXPECT_EQ(Found("auto", "tcp://10.0.0.1:2375"), "docker");
  EXPECT_EQ(Found("docker"), "docker") << "it was chosen, and says itself what is wrong";
  Install("apptainer");
  EXPECT_EQ(Found("auto"), "apptainer");
}

TEST_F(ContainerEngine, AMissingConfiguredEngineIsReported) {
  Install("podman");
  EXPECT_NE(Found("docker").find("containers run by docker here"), std::string::npos);
}

TEST_F(ContainerEngine, AnEngineGivenByPathIsUsedWhateverIsInPath) {
  Install("podman");
  const auto engine = FindContainerEngine(folder_ + "/podman", "/nowhere", "");
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(engine->name, "podman");
  EXPECT_EQ(engine->path, folder_ + "/podman");
  EXPECT_NE(Found("/nowhere/podman").find("it is not there"), std::string::npos);
  EXPECT_NE(Found("/bin/sh").find("must be podman, docker, apptainer or singularity"), std::string::npos);
}

TEST_F(ContainerEngine, AFileIsReadUpToALimitAndAPipeIsNotRead) {
  std::ofstream(folder_ + "/file") << "0123456789";
  EXPECT_EQ(ReadContainerFile(folder_ + "/file", 4), "0123");
  EXPECT_EQ(ReadContainerFile(folder_ + "/file", 100), "0123456789");
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadContainerFile(folder_ + "/pipe", 100), "");
}

}  // namespace container_engine_test
}  // namespace divvy
