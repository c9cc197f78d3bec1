#include "wire/http/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace divvy {
namespace frame_test {

std::string Noise(std::size_t size) {
  std::mt19937 random(7);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(Frames, AreReadBackWhateverTheSizeOfThePieces) {
  const std::vector<std::string> payloads = {"", "x", std::string(100'000, 'a'), Noise(50'000), "last"};
  std::string bytes;
  for (const auto& payload : payloads) AppendFrame(bytes, FrameKind::kMessage, payload);
  EXPECT_LT(bytes.size(), 60'000u);  // Repetitive payloads are compressed, and noise does not grow.
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, bytes.size()}) {
    FrameReader reader;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.Feed(std::string_view(bytes).substr(at, piece));
      while (true) {
        auto frame = reader.Next();
        ASSERT_TRUE(frame) << frame.error().message;
        if (!*frame) break;
        EXPECT_EQ((*frame)->kind, FrameKind::kMessage);
        got.push_back(std::move((*frame)->payload));
      }
    }
    EXPECT_EQ(got, payloads) << piece;
  }
}

TEST(Frames, AnOversizedFrameIsRefusedByItsFirstBytes) {
  FrameReader reader(1000);
  std::string bytes;
  AppendFrame(bytes, FrameKind::kMessage, Noise(1001));
  reader.Feed(std::string_view(bytes).substr(0, 4));
  const auto frame = reader.Next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().message, "a frame has 1001 bytes, at most 1000 are taken");
  reader.Feed(bytes);
  EXPECT_FALSE(reader.Next());
}

TEST(Frames, AFrameThatDecompressesToTooMuchIsRefusedInAdvance) {
  FrameReader reader(1000);
  std::string bytes;
  AppendFrame(bytes, FrameKind::kMessage, std::string(100'000, 'a'));
  ASSERT_LT(bytes.size(), 1000u);
  reader.Feed(bytes);
  const auto frame = reader.Next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(frame.error().message, "a frame unpacks to 100000 bytes, at most 1000 are taken");
}

TEST(Frames, DamageIsDetected) {
  std::string bytes;
  AppendFrame(bytes, FrameKind::kMessage, std::string(100'000, 'a'));
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 0x55);
  FrameReader reader;
  reader.Feed(bytes);
  EXPECT_FALSE(reader.Next());
  FrameReader other;
  other.Feed(std::string("\0\0\0\1\4", 5));
  EXPECT_FALSE(other.Next());
}

}  // namespace frame_test
}  // namespace divvy
