#include "runtime/adapters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace chimere::runtime {
namespace {

TEST(AdapterPaths, FilesAndScales) {
  const auto paths = adapter_paths("a.gguf,dir/b=2.gguf=0.5,c=x.gguf,d.gguf=-1");
  ASSERT_TRUE(paths.ok()) << paths.error().message;
  ASSERT_EQ(paths->size(), 4U);
  EXPECT_EQ((*paths)[0].name, "a");
  EXPECT_EQ((*paths)[0].scale, 1);
  EXPECT_EQ((*paths)[1].name, "b=2");
  EXPECT_EQ((*paths)[1].path, "dir/b=2.gguf");
  EXPECT_EQ((*paths)[1].scale, 0.5F);
  EXPECT_EQ((*paths)[2].path, "c=x.gguf");
  EXPECT_EQ((*paths)[3].scale, -1);
  EXPECT_TRUE(adapter_paths("")->empty());
}

TEST(AdapterPaths, RefusesWhatCannotBeNamed) {
  for (const char* wrong : {"a.gguf,x/a.gguf", "a.gguf=inf", "=2", "a.gguf=nan"}) {
    EXPECT_EQ(adapter_paths(wrong).error().code, Error::Code::kInvalidArgument) << wrong;
  }
}

TEST(WithAdapters, KeysDiffer) {
  const state::Hash128 weights = {1, 2};
  EXPECT_EQ(with_adapters(weights, {}), weights);
  const state::Hash128 one = with_adapters(weights, {.uses = {}, .key = "aa*1"});
  EXPECT_NE(one, weights);
  EXPECT_NE(one, with_adapters(weights, {.uses = {}, .key = "aa*2"}));
  EXPECT_NE(one, with_adapters({1, 3}, {.uses = {}, .key = "aa*1"}));
}

}  // namespace
}  // namespace chimere::runtime
