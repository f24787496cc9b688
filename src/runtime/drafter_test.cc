#include "runtime/drafter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "gguf/reader.h"
#include "runtime/load.h"
#include "runtime/runtime.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"

namespace chimere::runtime {
namespace {

constexpr int64_t kLimit = int64_t{64} << 20;

/// A tiny model and its drafter in files that the destructor removes.
class DrafterTest : public ::testing::Test {
 protected:
  DrafterTest() {
    std::filesystem::create_directory(folder_);
    test::TinyModel shape;
    shape.architecture = "qwen3";
    shape.n_vocab = 300;
    EXPECT_TRUE(test::make_tiny_model(shape).value().write(folder_ + "/model.gguf").ok());
    EXPECT_TRUE(test::make_tiny_drafter({}, shape).value().write(folder_ + "/drafter.gguf").ok());
  }
  ~DrafterTest() override { std::filesystem::remove_all(folder_); }

  /// With a drafter unless `drafter` is false. `limit`: of --state-memory; 0: none.
  Result<LoadedModel> load_model(const Runtime& runtime, bool drafter, MemoryRequest request,
                                 int64_t limit = 0) const {
    Settings settings;
    EXPECT_TRUE(settings.set(settings::kBackend, "cpu", "test").ok());
    if (drafter) {
      const std::string path = folder_ + "/drafter.gguf";
      EXPECT_TRUE(settings.set(settings::kDraftModel, path, "test").ok());
    }
    if (limit > 0) {
      const std::string text = std::to_string(limit) + "B";
      EXPECT_TRUE(settings.set(settings::kStateMemory, text, "test").ok());
    }
    request.drafter = true;
    CHIMERE_TRY(auto file, gguf::Reader::open(folder_ + "/model.gguf"));
    return load(std::move(file), settings, request, runtime, {});
  }

 private:
  const std::string folder_ =
      ::testing::TempDir() + "drafter-" + std::to_string(std::random_device{}());
};

TEST_F(DrafterTest, TakesItsStatesFromTheLimitOfItsTarget) {
  const Runtime runtime(Runtime::Options{.threads = 1});
  // Both would take more than the limit.
  const MemoryRequest request = {.contexts = 64, .default_context = 1 << 16, .elastic = true};
  const auto alone = load_model(runtime, false, request, kLimit);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(alone->drafter, nullptr);
  EXPECT_EQ(alone->model->states().max_bytes(), kLimit);
  const auto both = load_model(runtime, true, request, kLimit);
  ASSERT_TRUE(both.ok()) << both.error().message;
  ASSERT_NE(both->drafter, nullptr);
  EXPECT_EQ(both->drafter->model->states().max_bytes(), kLimit / 8);
  const int64_t taken = drafter_state_bytes(*both->drafter, both->options.max_states);
  EXPECT_GT(taken, 0);
  EXPECT_LE(taken, kLimit / 8);
  EXPECT_EQ(both->model->states().max_bytes(), kLimit - taken);
}

TEST_F(DrafterTest, CountsInWhatAModelIsPromised) {
  const Runtime runtime(Runtime::Options{.threads = 1, .state_bytes = kLimit});
  const MemoryRequest request = {.default_context = 256};
  int64_t alone = 0;
  {
    const auto loaded = load_model(runtime, false, request);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    alone = runtime.host_memory().taken();
  }
  EXPECT_EQ(runtime.host_memory().taken(), 0);
  const auto loaded = load_model(runtime, true, request);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(runtime.host_memory().taken(),
            alone + drafter_state_bytes(*loaded->drafter, loaded->min_states));
}

TEST_F(DrafterTest, AContextMustFitWithItsKeysAndValues) {
  const MemoryRequest request = {.default_context = 256};
  int64_t model_bytes = 0;
  int64_t drafter_bytes = 0;
  {
    const Runtime runtime(Runtime::Options{.threads = 1, .state_bytes = kLimit});
    const auto loaded = load_model(runtime, true, request);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto bytes = [&](model::Model& model) {
      return loaded->context * model.states().bytes_per_token() + model.states().bytes_per_slot();
    };
    model_bytes = bytes(*loaded->model);
    drafter_bytes = bytes(*loaded->drafter->model);
  }
  EXPECT_GT(drafter_bytes, 0);
  const Runtime small(
      Runtime::Options{.threads = 1, .state_bytes = model_bytes + drafter_bytes / 2});
  EXPECT_TRUE(load_model(small, false, request).ok());
  const auto refused = load_model(small, true, request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Error::Code::kOutOfMemory);
  EXPECT_NE(refused.error().message.find("leave out --draft-model"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace chimere::runtime
