// main() of the tests that run on the emulator or on a GPU (device_test_data.h).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "kernels/cuda/device/profile.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/emulator/device.h"

namespace chimere::kernels::cuda::test {
namespace {

constexpr int kSkipped = 77;

bool on_gpu = false;
Profile profile = Profile::kNative;

std::vector<TestDevice> make_devices() {
  std::vector<TestDevice> all;
  if (on_gpu) {
    auto gpu = open_cuda_device(0, profile);
    if (!gpu.ok()) {
      std::cout << "skipped: " << gpu.error().message << '\n';
      std::exit(kSkipped);
    }
    const std::string name = (*gpu)->facts().name;
    all.push_back({name, *std::move(gpu)});
  } else {
    all.push_back({"emulator, rising", make_emulator(emulator::Order::kRising, profile)});
    all.push_back({"emulator, falling", make_emulator(emulator::Order::kFalling, profile)});
  }
  return all;
}

}  // namespace

const std::vector<TestDevice>& devices() {
  static const std::vector<TestDevice> all = make_devices();
  return all;
}

void ok_or_end(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.error().message << '\n';
  std::exit(EXIT_FAILURE);
}

std::unique_ptr<MemoryRange> take_or_end(Device& device, size_t bytes) {
  auto range = device.reserve(bytes);
  if (!range.ok()) ok_or_end(range.error());
  ok_or_end((*range)->commit(bytes));
  return *std::move(range);
}

}  // namespace chimere::kernels::cuda::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  using namespace chimere::kernels::cuda;  // NOLINT(google-build-using-namespace): of main() alone
  constexpr std::string_view kProfile = "--cuda-profile=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--device=gpu") test::on_gpu = true;
    if (!flag.starts_with(kProfile)) continue;
    const auto named = parse_profile(flag.substr(kProfile.size()));
    if (!named.ok()) test::ok_or_end(named.error());
    test::profile = *named;
  }
  test::devices();
  return RUN_ALL_TESTS();
}
