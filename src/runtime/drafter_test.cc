#include "runtime/drafter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "gguf/reader.h"
#include "runtime/load.h"
#include "runtime/model_facts.h"
#include "runtime/model_path.h"
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

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }

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

/// --speculate dflash with this --draft-model and the model folder `models`.
Result<std::unique_ptr<LoadedDrafter>> ask_for(const std::string& drafter,
                                               const std::string& models,
                                               const LoadedModel& target) {
  Settings settings;
  EXPECT_TRUE(settings.set(settings::kModels, models, "test").ok());
  EXPECT_TRUE(settings.set(settings::kSpeculate, "dflash", "test").ok());
  EXPECT_TRUE(settings.set(settings::kDraftModel, drafter, "test").ok());
  return load_drafter(settings, target, {});
}

TEST_F(DrafterTest, NamesThoseThatFit) {
  test::TinyModel wide;
  wide.architecture = "qwen3";
  wide.n_vocab = 300;
  wide.n_embd = 128;
  ASSERT_TRUE(test::make_tiny_drafter({}, wide).value().write(path("wide-drafter.gguf")).ok());
  const Runtime runtime(Runtime::Options{.threads = 1});
  const auto target = load_model(runtime, false, {.default_context = 256});
  ASSERT_TRUE(target.ok()) << target.error().message;
  for (const char* absent : {"", "none"}) {
    const auto refused = ask_for(absent, folder(), *target);
    ASSERT_FALSE(refused.ok());
    const std::string& message = refused.error().message;
    EXPECT_NE(message.find("--draft-model FILE"), std::string::npos) << message;
    EXPECT_NE(message.find("these have its shape: drafter"), std::string::npos) << message;
    EXPECT_EQ(message.find("wide-drafter"), std::string::npos) << message;
  }
  std::filesystem::remove(path("drafter.gguf"));
  const auto without = ask_for("", folder(), *target);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message.find("fits it"), std::string::npos) << without.error().message;
}

TEST_F(DrafterTest, SuggestsTheNearestDrafter) {
  std::filesystem::copy_file(path("model.gguf"), path("drafted.gguf"));
  const Runtime runtime(Runtime::Options{.threads = 1});
  const auto target = load_model(runtime, false, {.default_context = 256});
  ASSERT_TRUE(target.ok()) << target.error().message;
  EXPECT_TRUE(ask_for("drafter", folder(), *target).ok());
  const auto refused = ask_for("draftet", folder(), *target);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message.ends_with("Or did you mean drafter?"))
      << refused.error().message;
  Settings settings;
  EXPECT_TRUE(settings.set(settings::kModels, folder(), "test").ok());
  const auto model = find_model_or_suggest("draftet", settings);
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(model.error().message.ends_with("Or did you mean drafted?")) << model.error().message;
}

TEST_F(DrafterTest, FilesSayWhatTheyAreFor) {
  EXPECT_EQ(file_kind(path("model.gguf")), FileKind::kText);
  EXPECT_EQ(file_kind(path("drafter.gguf")), FileKind::kDrafter);
  EXPECT_EQ(file_kind(path("nowhere.gguf")), FileKind::kUnreadable);
}

}  // namespace
}  // namespace chimere::runtime
