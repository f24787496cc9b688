// Where a model and its drafter go if a GPU's memory is small (src/runtime/gpu.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "base/settings.h"
#include "gguf/reader.h"
#include "kernels/cuda/emulator/device.h"
#include "runtime/drafter.h"
#include "runtime/gpu.h"
#include "runtime/load.h"
#include "runtime/runtime.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"

namespace chimere::runtime {
namespace {

/// A tiny model and its drafter in files that the destructor removes.
class DrafterMemory : public ::testing::Test {
 protected:
  DrafterMemory() {
    std::filesystem::create_directory(folder_);
    test::TinyModel shape;
    shape.architecture = "qwen3";
    shape.n_vocab = 300;
    shape.n_mtp_layers = 0;
    EXPECT_TRUE(test::make_tiny_model(shape).value().write(model_).ok());
    EXPECT_TRUE(test::make_tiny_drafter({}, shape).value().write(drafter_).ok());
  }
  ~DrafterMemory() override { std::filesystem::remove_all(folder_); }

  static void set(Settings& settings, const SettingInfo& setting, const std::string& value) {
    const Status done = settings.set(setting, value, "test");
    EXPECT_TRUE(done.ok()) << done.error().message;
  }

  /// On the CPU, with the drafter.
  LoadedModel load_on_cpu(const Settings& settings) {
    auto loaded = load(gguf::Reader::open(model_).value(), settings,
                       {.default_context = 256, .drafter = true, .on_gpu = false}, runtime_, {});
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_NE(loaded->drafter, nullptr);
    return *std::move(loaded);
  }

  /// Moves it to an emulated GPU with as much memory as the model takes and `shares` times the
  /// drafter. The warnings go to `warnings_`.
  Status move(Settings settings, double shares, LoadedModel& loaded) {
    constexpr int kRows = LoadedModel::kHostStepRows;
    model::DevicePlan plan = plan_for_gpu(settings, loaded, kRows, int64_t{1} << 40).value().plan;
    plan.unpacked = false;  // it would be with all that memory
    const auto drafter = static_cast<double>(drafter_gpu_bytes(loaded, kRows));
    EXPECT_GT(drafter, 0);
    const int64_t budget = plan.total() + static_cast<int64_t>(shares * drafter);
    set(settings, settings::kVramBudget, std::to_string(budget) + "B");
    LoadObserver observer;
    observer.warning = [this](const std::string& text) { warnings_ += text + "\n"; };
    return move_to_gpu(settings, kRows, runtime_, observer,
                       kernels::cuda::make_emulator(kernels::cuda::emulator::Order::kRising),
                       loaded);
  }

  Settings settings_of(const std::string& backend, const std::string& mode) const {
    Settings out;
    set(out, settings::kDraftModel, drafter_);
    set(out, settings::kBackend, backend);
    set(out, settings::kSpeculate, mode);
    return out;
  }

  const std::string folder_ =
      ::testing::TempDir() + "drafter-memory-" + std::to_string(std::random_device{}());
  const std::string model_ = folder_ + "/model.gguf";
  const std::string drafter_ = folder_ + "/drafter.gguf";
  const Runtime runtime_{Runtime::Options{.threads = 1}};
  std::string warnings_;
};

TEST_F(DrafterMemory, BothGoToAGpuThatHoldsThem) {
  const Settings given = settings_of("auto", "auto");
  LoadedModel loaded = load_on_cpu(given);
  ASSERT_TRUE(move(given, 1.5, loaded).ok());
  ASSERT_NE(loaded.gpu, nullptr) << warnings_;
  ASSERT_NE(loaded.drafter, nullptr);
  EXPECT_EQ(warnings_, "");
  EXPECT_EQ(drafter_facts(*loaded.drafter).name, "drafter");
}

TEST_F(DrafterMemory, TheModelGoesToTheGpuWithoutADrafterThatDoesNotFit) {
  for (const char* const mode : {"auto", "dflash"}) {
    SCOPED_TRACE(mode);
    warnings_.clear();
    const Settings given = settings_of("auto", mode);
    LoadedModel loaded = load_on_cpu(given);
    ASSERT_TRUE(move(given, 0.5, loaded).ok());
    EXPECT_NE(loaded.gpu, nullptr);
    EXPECT_EQ(loaded.drafter, nullptr);
    EXPECT_NE(warnings_.find("The drafter is left out"), std::string::npos) << warnings_;
  }
}

TEST_F(DrafterMemory, AModelThatIsTooLargeRunsOnTheCpuWithItsDrafter) {
  const Settings given = settings_of("auto", "auto");
  LoadedModel loaded = load_on_cpu(given);
  ASSERT_TRUE(move(given, -1, loaded).ok());
  EXPECT_EQ(loaded.gpu, nullptr);
  EXPECT_NE(loaded.drafter, nullptr);
  EXPECT_TRUE(warnings_.starts_with("Running on the CPU.")) << warnings_;
  EXPECT_EQ(warnings_.find("no --draft-model"), std::string::npos) << warnings_;
}

TEST_F(DrafterMemory, IsRefusedIfBothAreAskedFor) {
  const Settings given = settings_of("cuda", "dflash");
  LoadedModel loaded = load_on_cpu(given);
  const Status moved = move(given, 0.5, loaded);
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().code, Error::Code::kOutOfMemory);
  EXPECT_NE(moved.error().message.find("no --draft-model"), std::string::npos)
      << moved.error().message;
}

}  // namespace
}  // namespace chimere::runtime
