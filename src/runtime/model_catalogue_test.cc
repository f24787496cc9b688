#include "runtime/model_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace chimere::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A folder of empty files that the destructor removes. The catalogue does not open models.
class ModelFolder {
 public:
  explicit ModelFolder(const std::vector<std::string>& files)
      : path_(::testing::TempDir() + "catalogue-" + std::to_string(std::random_device{}())) {
    for (const std::string& file : files) {
      const std::filesystem::path whole = std::filesystem::path(path_) / file;
      std::filesystem::create_directories(whole.parent_path());
      std::ofstream(whole) << "x";
    }
    EXPECT_TRUE(settings.set(settings::kModels, path_, "test").ok());
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::string& path() const { return path_; }
  Settings settings;

 private:
  std::string path_;
};

TEST(ModelCatalogue, RowsBecomeModelsWithSettingsOfTheirOwn) {
  const ModelFolder folder({"a.gguf", "sub/b.gguf"});
  const auto models = parse_catalogue(R"({"models": [
      {"name": "small", "model": "a.gguf", "aliases": ["gpt-4o-mini"],
       "settings": {"ctx": 4096, "temp": 0.25, "backend": "cpu", "engram-thinking": true},
       "preload": true, "keep_alive": -1},
      {"name": "sub/b"}]})",
                                      folder.path(), folder.settings);
  ASSERT_TRUE(models.ok()) << models.error().message;
  ASSERT_EQ(models->size(), 2U);
  const CatalogueModel& small = models->front();
  EXPECT_EQ(small.name, "small");
  EXPECT_THAT(small.aliases, ElementsAre("gpt-4o-mini"));
  EXPECT_EQ(small.path, folder.path() + "/a.gguf");
  EXPECT_EQ(small.settings.get(settings::kContext), 4096);
  EXPECT_EQ(small.settings.get(settings::kTemperature), 0.25);
  EXPECT_TRUE(small.settings.get(settings::kEngramThinking));
  EXPECT_TRUE(small.preload);
  EXPECT_EQ(small.keep_alive, -1);
  EXPECT_EQ(models->back().path, folder.path() + "/sub/b.gguf");
  EXPECT_EQ(models->back().settings.get(settings::kContext), 0);
  EXPECT_FALSE(models->back().keep_alive);
}

TEST(ModelCatalogue, AMistakeIsNamedWithItsPlace) {
  const ModelFolder folder({"a.gguf"});
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"[]", "must be an object with a list 'models'"},
      {"{", "no valid JSON"},
      {R"({"models": []})", "models: has no model"},
      {R"({"model": []})", "model: is unknown"},
      {R"({"models": {}})", "models: must be a list"},
      {R"({"models": [1]})", "models[0]: must be an object"},
      {R"({"models": [{"model": "a.gguf"}]})", "models[0].name: is missing"},
      {R"({"models": [{"name": "a"}, {"name": "../a"}]})", "models[1].name: '../a' is no name"},
      {R"({"models": [{"name": "/etc/passwd"}]})", "models[0].name: '/etc/passwd' is no name"},
      {R"({"models": [{"name": "a", "aliases": ["a b"]}]})", "models[0].aliases[0]: 'a b'"},
      {R"({"models": [{"name": "a", "aliases": ["a"]}]})", "the name 'a' belongs to models[0]"},
      {R"({"models": [{"name": "a"}, {"name": "b", "model": "a.gguf", "aliases": ["a"]}]})",
       "models[1]: the name 'a' belongs to models[0]"},
      {R"({"models": [{"name": "a", "settings": {"tmp": 1}}]})",
       "models[0].settings.tmp: there is no such setting"},
      {R"({"models": [{"name": "a", "settings": {"temp": -1}}]})", "models[0].settings.temp"},
      {R"({"models": [{"name": "a", "settings": {"port": 80}}]})",
       "models[0].settings.port: is a setting of the server"},
      {R"({"models": [{"name": "a", "settings": {"threads": 2}}]})",
       "models[0].settings.threads: is a setting of the server"},
      {R"({"models": [{"name": "a", "keep_alive": "5m"}]})", "models[0].keep_alive: must be"},
      {R"({"models": [{"name": "a", "colour": 1}]})", "models[0].colour: is unknown"},
      {R"({"models": [{"name": "z"}]})", "models[0].model: 'z' is no file"},
  };
  for (const auto& c : cases) {
    const auto models = parse_catalogue(c.text, folder.path(), folder.settings);
    ASSERT_FALSE(models.ok()) << c.text;
    EXPECT_THAT(models.error().message, HasSubstr(c.message)) << c.text;
  }
}

TEST(ModelCatalogue, ModelsOfTheFolderHaveTheNamesByWhichTheyWerePulled) {
  const ModelFolder folder({"Org/Small-GGUF/Small-Q4_K_M.gguf", "Org/Small-GGUF/Small-Q8_0.gguf",
                            "Org/Other-GGUF/Other-Q8_0.gguf", "mine.gguf", "x/mine.gguf"});
  const auto models = folder_catalogue(folder.settings, {});
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->size(), 5U);
  const auto aliases = [&](const std::string& name) {
    for (const CatalogueModel& model : *models) {
      if (model.name == name) return model.aliases;
    }
    return std::vector<std::string>{"absent"};
  };
  EXPECT_THAT(aliases("Org/Other-GGUF/Other-Q8_0"),
              ElementsAre("Other-Q8_0", "Org/Other-GGUF", "Org/Other-GGUF:Q8_0"));
  // Two models of a repository: its name alone says too little.
  EXPECT_THAT(aliases("Org/Small-GGUF/Small-Q8_0"),
              ElementsAre("Small-Q8_0", "Org/Small-GGUF:Q8_0"));
  EXPECT_THAT(aliases("mine"), IsEmpty());
  EXPECT_THAT(aliases("x/mine"), IsEmpty());  // "mine" is the other one's name
}

TEST(ModelCatalogue, TheFileMayAddTheFolder) {
  const ModelFolder folder({"a.gguf", "b.gguf"});
  const auto models =
      parse_catalogue(R"({"models": [{"name": "a", "settings": {"ctx": 128}}], "folder": true})",
                      folder.path(), folder.settings);
  ASSERT_TRUE(models.ok()) << models.error().message;
  ASSERT_EQ(models->size(), 2U);
  EXPECT_EQ(models->front().settings.get(settings::kContext), 128);
  EXPECT_EQ(models->back().name, "b");
  EXPECT_FALSE(models->front().in_folder);
  EXPECT_TRUE(models->back().in_folder);
}

TEST(ModelCatalogue, KnowsWhichModelsOfTheFolderTheFileNames) {
  const ModelFolder folder({"a.gguf", "b.gguf", "c.gguf"});
  const std::filesystem::path root(folder.path());
  std::filesystem::remove(root / "b.gguf");
  std::filesystem::remove(root / "c.gguf");
  std::filesystem::create_hard_link(root / "a.gguf", root / "b.gguf");
  std::filesystem::create_symlink(root / "a.gguf", root / "c.gguf");
  bool with_folder = false;
  const auto models =
      parse_catalogue(R"({"models": [{"name": "small", "model": "a"}], "folder": true})",
                      folder.path(), folder.settings, &with_folder);
  ASSERT_TRUE(models.ok()) << models.error().message;
  EXPECT_TRUE(with_folder);
  std::vector<std::string> configured;
  for (const CatalogueModel& model : *models) {
    if (model.configured) configured.push_back(model.name);
  }
  EXPECT_THAT(configured, ElementsAre("small", "a", "c"));
}

}  // namespace
}  // namespace chimere::runtime
