#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "platform/emulation/emulation.h"

namespace divvy {
namespace emulation_spec_test {

std::vector<GpuFacts> Parse(std::string_view text) {
  auto gpus = ParseGpuDescription(text);
  EXPECT_TRUE(gpus.has_value()) << (gpus ? "" : gpus.error().message);
  return gpus ? *gpus : std::vector<GpuFacts>();
}

std::string ErrorOf(std::string_view text) {
  const auto gpus = ParseGpuDescription(text);
  if (gpus) return "accepted: " + std::string(text);
  EXPECT_EQ(gpus.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(gpus.error().message.find('\n'), std::string::npos) << "not one line: " << gpus.error().message;
  return gpus.error().message;
}

TEST(GpuDescription, EightH100sAreConnectedThroughSwitchesOnTwoSockets) {
  const auto gpus = Parse("8xH100-80GB");
  ASSERT_EQ(gpus.size(), 8U);
  EXPECT_EQ(gpus[3].index, 3);
  EXPECT_EQ(gpus[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpus[0].memory_total, 81559_MiB);
  EXPECT_EQ(gpus[0].compute_capability, 90);
  EXPECT_TRUE(gpus[0].is_mig_capable);
  EXPECT_EQ(gpus[0].links, (std::vector<std::string>{"X", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18"}));
  EXPECT_EQ(gpus[3].numa_node, 0);
  EXPECT_EQ(gpus[4].numa_node, 1);
  EXPECT_LT(gpus[0].pci_address, gpus[1].pci_address);
  EXPECT_NE(gpus[0].uuid, gpus[1].uuid);
  EXPECT_EQ(gpus[0].uuid.size(), std::string("GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7").size());
  EXPECT_EQ(gpus, Parse("8xH100-80GB"));
}

TEST(GpuDescription, MixedModelsAreConnectedWithinAModelOnly) {
  const auto gpus = Parse("4xA100-40GB,2xV100-16GB");
  ASSERT_EQ(gpus.size(), 6U);
  EXPECT_EQ(gpus[0].links, (std::vector<std::string>{"X", "NV12", "NV12", "NV12", "SYS", "SYS"}));
  EXPECT_EQ(gpus[4].model, "Tesla V100-SXM2-16GB");
  EXPECT_EQ(gpus[4].links, (std::vector<std::string>{"SYS", "SYS", "SYS", "NODE", "X", "NV1"}));
}

TEST(GpuDescription, AcceptsEveryUsualSpellingOfAModel) {
  for (std::string_view text :
       {"H100-80GB", "1xh100-80gb", "1 x H100 80GB", "H100", "NVIDIA H100-80G", "1xH100-SXM5-80GB", " 1*H100-80GiB "}) {
    const auto gpus = Parse(text);
    ASSERT_EQ(gpus.size(), 1U) << text;
    EXPECT_EQ(gpus[0].model, "NVIDIA H100 80GB HBM3") << text;
  }
}

TEST(GpuDescription, KnowsCommonModels) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"H200-141GB", "NVIDIA H200"},
      {"A100-80GB", "NVIDIA A100-SXM4-80GB"},
      {"A100-40GB", "NVIDIA A100-SXM4-40GB"},
      {"V100-32GB", "Tesla V100-SXM2-32GB"},
      {"L40S-48GB", "NVIDIA L40S"},
      {"L4-24GB", "NVIDIA L4"},
      {"T4-16GB", "Tesla T4"},
      {"1xT4", "Tesla T4"},
      {"A10-24GB", "NVIDIA A10"},
      {"2xRTX4090-24GB", "NVIDIA GeForce RTX 4090"},
      {"RTX-3090", "NVIDIA GeForce RTX 3090"},
      {"B200-192GB", "NVIDIA B200"},
      {"GH200-96GB", "NVIDIA GH200 480GB"},
      {"H100-PCIe-80GB", "NVIDIA H100 PCIe"},
      {"H100-94GB", "NVIDIA H100 NVL"},
  };
  for (const auto& [text, model] : kCases) {
    EXPECT_EQ(Parse(text).at(0).model, model) << text;
  }
}

TEST(GpuDescription, AcceptsAnUnknownModelWithItsMemory) {
  const auto gpus = Parse("2xZX9000-96GB");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].model, "NVIDIA ZX9000");
  EXPECT_EQ(gpus[0].memory_total, 96_GiB);
  EXPECT_EQ(gpus[0].links, (std::vector<std::string>{"X", "PIX"}));
}

TEST(GpuDescription, RefusesAnInvalidSpecificationWithPlaceAndRemedy) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", "8xH100-80GB"},
      {",", "a group of GPUs is missing"},
      {"8xH100-80GB,", "at character 13: a group of GPUs is missing"},
      {"8", "has no model"},
      {"8x", "the model is missing after the x"},
      {"0xH100-80GB", "at least 1"},
      {"-1xH100-80GB", "at least 1"},
      {"65xT4", "65 GPUs, but a node can have at most 64: use 64 or fewer, and add nodes"},
      {"60xT4,5xT4", "at character 7: the description has 65 GPUs"},
      {"99999999999999999999xT4", "at least 1"},
      {"8H100-80GB", "did you mean 8xH100-80GB?"},
      {"8xH100-80BG", "did you mean H100-80GB?"},
      {"8xH100-40GB", "use H100-80GB or H100-94GB"},
      {"8xA10O", "did you mean A10"},
      {"4xA100-40GB,2xV100-17GB", "at character 13: V100 does not come with 17 GB"},
      {"quite-another-thing", "no memory size is given"},
      {"8xH100;reboot", "not a GPU model name"},
      {"8xH100-0GB", "is unknown and no memory"},
      {"8xH\xC3\xA9", "not a GPU model name"},
  };
  for (const auto& [text, expected] : kCases) {
    EXPECT_NE(ErrorOf(text).find(expected), std::string::npos) << text << " -> " << ErrorOf(text);
  }
}

TEST(GpuDescription, ReadsAFile) {
  const auto gpus = Parse(
      "# a desk with three cards\n"
      "[gpu]\n"
      "model = A100-80GB\n"
      "count = 2\n"
      "mig = on\n"
      "\n"
      "[gpu]\r\n"
      "model = Prototype   # not a known one\n"
      "memory = 512MiB\n"
      "uuid = GPU-00000000-1111-2222-3333-444444444444\n"
      "pci = 0000:c1:00.0\n"
      "numa = 3\n"
      "compute = 12.1\n"
      "[links]\n"
      "      GPU0 GPU1 GPU2\n"
      "GPU0  X    NV4  SYS\n"
      "GPU1  NV4  X    PHB\n"
      "GPU2  SYS  PHB  X\n");
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_TRUE(gpus[1].is_mig_enabled);
  EXPECT_EQ(gpus[1].links, (std::vector<std::string>{"NV4", "X", "PHB"}));
  EXPECT_EQ(gpus[2].model, "NVIDIA Prototype");
  EXPECT_EQ(gpus[2].memory_total, 512_MiB);
  EXPECT_EQ(gpus[2].uuid, "GPU-00000000-1111-2222-3333-444444444444");
  EXPECT_EQ(gpus[2].pci_address, "00000000:C1:00.0");
  EXPECT_EQ(gpus[2].numa_node, 3);
  EXPECT_EQ(gpus[2].compute_capability, 121);
  EXPECT_FALSE(gpus[2].is_mig_capable);
}

TEST(GpuDescription, RefusesAnInvalidFileWithLineAndRemedy) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"[gpu]\n", "line 1: the [gpu] section has no model"},
      {"model = H100\n", "line 1: expected a [gpu] line before"},
      {"[gpus]\nmodel = H100\n", "line 1: section [gpus] is not [gpu] or [links]"},
      {"[gpu]\nmodle = H100\n", "line 2: key \"modle\" is not known; did you mean model?"},
      {"[gpu]\nmodel\n", "line 2: \"model\" is neither"},
      {"[gpu]\nmodel =\n", "line 2: key \"model\" has no value"},
      {"[gpu]\nmodel = H1000\n", "line 1: model \"H1000\" is unknown"},
      {"[gpu]\nmodel = H100\ncount = 0\n", "line 3: count = 0 is not a whole number from 1 to 64"},
      {"[gpu]\nmodel = H100\ncount = many\n", "line 3: count = many"},
      {"[gpu]\nmodel = H100\ncount = 60\n[gpu]\nmodel = T4\ncount = 5\n", "line 4: the description has 65 GPUs"},
      {"[gpu]\nmodel = H100\nmemory = lots\n", "line 3: memory = lots is not a size"},
      {"[gpu]\nmodel = H100\nmemory = 0\n", "line 3: memory = 0 is not a size"},
      {"[gpu]\nmodel = H100\npci = 17:00\n", "line 3: pci = 17:00 is not a PCI address"},
      {"[gpu]\nmodel = H100\nuuid = 12\n", "line 3: uuid = 12 does not start with GPU-"},
      {"[gpu]\nmodel = H100\ncount = 2\nuuid = GPU-1\n", "line 1: uuid and pci apply to one GPU"},
      {"[gpu]\nmodel = H100\nuuid = GPU-1\n[gpu]\nmodel = H100\nuuid = GPU-1\n", "have the same UUID GPU-1"},
      {"[gpu]\nmodel = H100\npci = 0:1:0.0\n[gpu]\nmodel = T4\npci = 0:1:0.0\n", "have the same PCI address"},
      {"[gpu]\nmodel = H100\nnuma = -1\n", "line 3: numa = -1"},
      {"[gpu]\nmodel = H100\ncompute = 9\n", "line 3: compute = 9 is not"},
      {"[gpu]\nmodel = H100\nmig = maybe\n", "line 3: mig = maybe is not"},
      {"[gpu]\nmodel = H100\ncount = 2\n[links]\nX NV4\n", "line 5: [links] has 1 row for 2 GPUs"},
      {"[gpu]\nmodel = H100\ncount = 2\n[links]\nX\nNV4 X\n", "line 5: the row of GPU 0 has 1 links for 2 GPUs"},
      {"[gpu]\nmodel = H100\ncount = 2\n[links]\nX NV99\nNV99 X\n", "line 5: the link of GPUs 0 and 1 is not"},
      {"[gpu]\nmodel = H100\ncount = 2\n[links]\nX NV4\nNV2 X\n", "line 6: the link of GPUs 1 and 0 is NV2 here"},
      {"[gpu]\nmodel = H100\ncount = 2\n[links]\nX X\nX X\n", "X is only for a GPU itself"},
      {"# nothing\n", "has no GPUs"},
  };
  for (const auto& [text, expected] : kCases) {
    EXPECT_NE(ErrorOf(text).find(expected), std::string::npos) << text << " -> " << ErrorOf(text);
  }
}

TEST(GpuDescription, NamesAnInvalidOrMissingFile) {
  const std::string path = testing::TempDir() + "divvy-description-" + std::to_string(getpid());
  std::ofstream(path) << "[gpu]\nmodel = H1O0\n";
  EXPECT_NE(LoadGpuDescription(path).error().message.find(path + ": line 1:"), std::string::npos);
  std::ofstream(path) << "[gpu]\nmodel = T4\n";
  EXPECT_EQ(LoadGpuDescription(path).value().at(0).model, "Tesla T4");
  unlink(path.c_str());
  EXPECT_NE(LoadGpuDescription(path).error().message.find("No such file"), std::string::npos);
  EXPECT_NE(LoadGpuDescription("nofile.txt").error().message.find("No such file"), std::string::npos);
  EXPECT_EQ(LoadGpuDescription("2xT4").value().size(), 2U);
}

TEST(EmulatedMemory, ReadsSizes) {
  EXPECT_EQ(ParseEmulatedMemory("80GB"), 80_GiB);
  EXPECT_EQ(ParseEmulatedMemory(" 512 MiB"), 512_MiB);
  EXPECT_EQ(ParseEmulatedMemory("1024"), Bytes(1024));
  for (std::string_view text : {"", "GB", "-1GB", "+1GB", "1.5GB", "1XB", "99999999999GB", "0x10"}) {
    EXPECT_FALSE(ParseEmulatedMemory(text)) << text;
  }
}

}  // namespace emulation_spec_test
}  // namespace divvy
