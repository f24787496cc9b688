#include "hub/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace chimere::hub {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    put("mine.gguf", 10);
    put("a/b/M-8B-Q4_K_M.gguf", 20);
    put("a/b/M-8B-Q8_0.gguf", 30);
    put("c/d/M-8B-Q8_0.gguf", 40);
    put("c/d/big/S-00001-of-00002.gguf", 5);
    put("c/d/big/S-00002-of-00002.gguf", 6);
    put("c/d/lonely-00002-of-00002.gguf", 7);
    put("c/d/.P-Q4_0.gguf.0123456789abcdef.part", 3);
    put("notes.txt", 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& path, size_t size) const {
    fs::create_directories((fs::path(folder_) / path).parent_path());
    std::ofstream(fs::path(folder_) / path) << std::string(size, 'x');
  }
  std::string found(const std::string& name) const {
    const auto model = find_local_model(folder_, name);
    return model.ok() ? model->name : model.error().message;
  }

  std::string folder_ = ::testing::TempDir() + "chimere-model-folder";
};

TEST_F(ModelFolder, ListsWholeModelsAndUnfinishedDownloads) {
  std::vector<std::string> names;
  for (const LocalModel& m : list_models(folder_)) names.push_back(m.name);
  EXPECT_THAT(names, ElementsAre("a/b/M-8B-Q4_K_M", "a/b/M-8B-Q8_0", "c/d/M-8B-Q8_0", "c/d/P-Q4_0",
                                 "c/d/big/S", "mine"));
  const auto models = list_models(folder_);
  EXPECT_TRUE(models[3].partial);
  EXPECT_EQ(models[4].bytes, 11);
  EXPECT_EQ(models[4].files.size(), 2U);
  EXPECT_THAT(models[4].path, HasSubstr("S-00001-of-00002.gguf"));
  EXPECT_TRUE(list_models(folder_ + "/nowhere").empty());
}

TEST_F(ModelFolder, KnowsTheNamesThatItLists) {
  const auto listed = [&](const std::string& name) {
    put(name + ".gguf", 1);
    for (const LocalModel& m : list_models(folder_)) {
      if (m.name == name) return true;
    }
    return false;
  };
  for (const char* name : {"x", "x/y:z", "x/M-Q4_K_M", "1/2/3/4/5/6/x", "1/2/3/4/5/6/7/x",
                           "mmproj-x", "x/IMATRIX", "x-00001-of-00002", "x-00001-of-00001"}) {
    EXPECT_EQ(can_list(name), listed(name)) << name;
  }
  EXPECT_TRUE(can_list("1/2/3/4/5/6/x"));
  EXPECT_FALSE(can_list("mmproj-x"));
}

TEST_F(ModelFolder, FindsByEveryUnambiguousName) {
  EXPECT_EQ(found("mine"), "mine");
  EXPECT_EQ(found("mine.gguf"), "mine");
  EXPECT_EQ(found("a/b/M-8B-Q8_0"), "a/b/M-8B-Q8_0");
  EXPECT_EQ(found("a/b:q8_0"), "a/b/M-8B-Q8_0");
  EXPECT_EQ(found("a/b"), "a/b/M-8B-Q4_K_M");
  EXPECT_EQ(found("S"), "c/d/big/S");
  EXPECT_EQ(found("M-8B-Q4_K_M"), "a/b/M-8B-Q4_K_M");
  EXPECT_THAT(found("M-8B-Q8_0"),
              HasSubstr("matches several models: a/b/M-8B-Q8_0, c/d/M-8B-Q8_0"));
  EXPECT_THAT(found("a/b:Q2_K"), HasSubstr("There are: Q4_K_M, Q8_0"));
  EXPECT_THAT(found("P-Q4_0"), HasSubstr("no model"));
  EXPECT_THAT(found("../mine"), HasSubstr("no model"));
}

TEST_F(ModelFolder, RemovesTheFilesAndTheEmptyFolders) {
  std::ofstream(checksum_path(folder_ + "/c/d/big/S-00001-of-00002.gguf")) << "x";
  ASSERT_TRUE(remove_model(folder_, *find_local_model(folder_, "S")).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/c/d/big"));
  EXPECT_TRUE(fs::exists(folder_ + "/c/d/M-8B-Q8_0.gguf"));
  ASSERT_TRUE(remove_model(folder_, *find_local_model(folder_, "mine")).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/mine.gguf"));
  EXPECT_TRUE(fs::exists(folder_));
}

}  // namespace
}  // namespace chimere::hub
