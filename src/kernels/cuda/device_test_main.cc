// main() of the tests that run on the emulator or on a card (device_test_data.h).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/emulator/device.h"

namespace chimere::kernels::cuda::test {
namespace {

constexpr int kSkipped = 77;

bool on_card = false;

std::vector<TestDevice> make_devices() {
  std::vector<TestDevice> all;
  if (on_card) {
    auto card = open_card(0);
    if (!card.ok()) {
      std::cout << "skipped: " << card.error().message << '\n';
      std::exit(kSkipped);
    }
    const std::string name = (*card)->facts().name;
    all.push_back({name, *std::move(card)});
  } else {
    all.push_back({"emulator, rising", make_emulator(emulator::Order::kRising)});
    all.push_back({"emulator, falling", make_emulator(emulator::Order::kFalling)});
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
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--device=card") chimere::kernels::cuda::test::on_card = true;
  }
  chimere::kernels::cuda::test::devices();
  return RUN_ALL_TESTS();
}
