#include "kernels/cuda/device/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/emulator/device.h"
#include "kernels/cuda/norm_args.h"

namespace chimere::kernels::cuda {
namespace {

using testing::HasSubstr;

DeviceFacts h200() {
  DeviceFacts facts;
  facts.name = "a GPU of 9.0";
  facts.compute_capability = 90;
  facts.multiprocessors = 132;
  facts.shared_bytes = 227 << 10;
  facts.memory_bytes = int64_t{141} << 30;
  return facts;
}

TEST(Profile, ParsesNamesAndRejectsUnknownOnesWithTheList) {
  for (const Profile profile : {Profile::kNative, Profile::kSm120}) {
    const auto read = parse_profile(profile_name(profile));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, profile);
  }
  for (const char* const wrong : {"", "sm_90", "SM_120", "sm_120 "}) {
    const auto read = parse_profile(wrong);
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_THAT(read.error().message, HasSubstr("one of native, sm_120"));
  }
}

TEST(Profile, NativeChangesNothing) {
  const DeviceFacts facts = facts_under(Profile::kNative, h200());
  EXPECT_EQ(facts.compute_capability, 90);
  EXPECT_EQ(facts.own_capability, 90);
  EXPECT_EQ(facts.shared_bytes, 227 << 10);
  EXPECT_EQ(limits_of(Profile::kNative), nullptr);
}

TEST(Profile, ALargerGpuGetsTheLimitsOf12) {
  const DeviceFacts facts = facts_under(Profile::kSm120, h200());
  EXPECT_EQ(facts.compute_capability, 120);
  EXPECT_EQ(facts.own_capability, 90);
  EXPECT_EQ(facts.shared_bytes, 101'376);
  EXPECT_EQ(facts.multiprocessors, 132)
      << "properties without a limit in the profile are the GPU's own";
  EXPECT_EQ(facts.memory_bytes, int64_t{141} << 30);
  EXPECT_EQ(facts.profile, Profile::kSm120);
}

TEST(Profile, ASmallerGpuKeepsItsOwnLimits) {
  DeviceFacts small = h200();
  small.shared_bytes = 64 << 10;
  EXPECT_EQ(facts_under(Profile::kSm120, small).shared_bytes, 64 << 10);
}

TEST(Profile, SharedMemoryIsRoundedUpToASupportedSize) {
  const ProfileLimits& limits = *limits_of(Profile::kSm120);
  for (const int64_t kib : {164, 228}) {  // 8.0 and 9.0, which offer 64 and 100 KiB
    const double asked = static_cast<double>(kib * shared_carveout(limits, kib << 10)) / 100;
    EXPECT_LE(asked, 100);
    EXPECT_GT(asked, 64);
  }
  EXPECT_EQ(shared_carveout(limits, 100 << 10), 100);
  EXPECT_EQ(shared_carveout(limits, 64 << 10), 100);
}

TEST(Profile, StatesUnderAnotherProfileHaveALayoutOfTheirOwn) {
  ThreadPool pool(1);
  auto layout = [&](Profile profile) {
    const auto device = make_emulator(emulator::Order::kRising, profile);
    const auto ops = make_cuda_ops(*device, pool);
    EXPECT_TRUE(ops.ok());
    return (*ops)->kv_layout();
  };
  EXPECT_NE(layout(Profile::kNative), layout(Profile::kSm120));
}

/// A device like those of the tests; a stream that has failed stays failed, so they cannot be
/// shared.
std::unique_ptr<Device> another_device(Profile profile) {
  if (test::devices().front().name.starts_with("emulator")) {
    return make_emulator(emulator::Order::kRising, profile);
  }
  auto gpu = open_cuda_device(0, profile);
  EXPECT_TRUE(gpu.ok());
  return gpu.ok() ? *std::move(gpu) : nullptr;
}

TEST(Profile, LaunchesBeyondTheProfilesSharedMemoryFail) {
  constexpr Kernel kNorm = {"norm", "rms_norm"};
  constexpr uint32_t kSharedBytes = 101'376;
  for (const uint32_t bytes : {kSharedBytes, kSharedBytes + 16}) {
    const auto device = another_device(Profile::kSm120);
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->facts().shared_bytes, kSharedBytes);
    const auto row = test::take_or_end(*device, 32 * sizeof(float));
    RmsNormArgs args = {};
    args.y = reinterpret_cast<float*>(row->data());
    args.x = args.weight = args.y;
    args.n = 32;
    Stream& stream = device->stream();
    stream.launch(kNorm, {.grid = {1}, .block = {kNormThreads}, .shared_bytes = bytes}, args);
    const Status done = stream.synchronize();
    EXPECT_EQ(done.ok(), bytes == kSharedBytes);
    if (!done.ok()) {
      EXPECT_THAT(done.error().message, HasSubstr("shared memory"));
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
