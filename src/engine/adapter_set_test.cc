#include "engine/adapter_set.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/request.h"

namespace chimere::engine {
namespace {

using kernels::AdapterUse;

LoadedAdapter adapter(const std::string& name, int32_t number, const std::string& contents,
                      float scale) {
  return {name, "/" + name + ".gguf", number, contents, scale};
}

class AdapterSetTest : public testing::Test {
 protected:
  AdapterSetTest() {
    EXPECT_TRUE(set_.add(adapter("b", 0, "22", 0.5F)).ok());
    EXPECT_TRUE(set_.add(adapter("a", 1, "11", 1)).ok());
    EXPECT_TRUE(set_.add(adapter("c", 2, "33", 0)).ok());
  }
  AdapterSet set_;
};

TEST_F(AdapterSetTest, DefaultsAreThoseWithAScale) {
  const std::vector<AdapterUse> want = {{1, 1}, {0, 0.5F}};
  EXPECT_EQ(set_.defaults().uses, want);
  EXPECT_TRUE(AdapterSet().defaults().key.empty());
}

TEST_F(AdapterSetTest, OrderAndKeyDependOnContentsAlone) {
  AdapterSet other;
  EXPECT_TRUE(other.add(adapter("x", 0, "11", 1)).ok());
  EXPECT_TRUE(other.add(adapter("y", 1, "22", 0.5F)).ok());
  EXPECT_EQ(other.defaults().key, set_.defaults().key);
  const AdapterChoice choices[] = {{.name = "a", .scale = 1}, {.id = 0, .scale = 0.5F}};
  EXPECT_EQ(set_.choose(choices)->key, set_.defaults().key);
  const AdapterChoice scaled[] = {{.name = "a", .scale = 1}, {.id = 0, .scale = 0.25F}};
  EXPECT_NE(set_.choose(scaled)->key, set_.defaults().key);
}

TEST_F(AdapterSetTest, ChoosesByNameAndPlace) {
  EXPECT_EQ(set_.only("b")->uses, (std::vector<AdapterUse>{{0, 0.5F}}));
  EXPECT_EQ(set_.only("c")->uses, (std::vector<AdapterUse>{{2, 1}}));
  EXPECT_EQ(set_.only("d").error().code, Error::Code::kNotFound);
  const AdapterChoice none[] = {{.id = 1, .scale = 0}};
  EXPECT_TRUE(set_.choose(none)->uses.empty());
  const AdapterChoice unknown[] = {{.id = 3}};
  EXPECT_EQ(set_.choose(unknown).error().code, Error::Code::kNotFound);
  const AdapterChoice twice[] = {{.id = 1}, {.name = "a"}};
  EXPECT_EQ(set_.choose(twice).error().code, Error::Code::kInvalidArgument);
  const AdapterChoice infinite[] = {{.id = 1, .scale = std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(set_.choose(infinite).error().code, Error::Code::kInvalidArgument);
}

TEST_F(AdapterSetTest, NewDefaultsReplaceAll) {
  const AdapterChoice choices[] = {{.id = 2, .scale = 2}};
  EXPECT_TRUE(set_.set_defaults(choices).ok());
  EXPECT_EQ(set_.defaults().uses, (std::vector<AdapterUse>{{2, 2}}));
  EXPECT_TRUE(set_.set_defaults({}).ok());
  EXPECT_TRUE(set_.defaults().uses.empty());
}

TEST_F(AdapterSetTest, RefusesTheSameNameAndContents) {
  EXPECT_FALSE(set_.add(adapter("a", 3, "44", 1)).ok());
  EXPECT_FALSE(set_.add(adapter("d", 3, "11", 1)).ok());
}

TEST_F(AdapterSetTest, CacheScopesOfAdaptersAreDisjoint) {
  Request plain;
  plain.owner = "o";
  Request adapted = plain;
  adapted.adapters = *set_.only("a");
  Request scaled = plain;
  scaled.adapters = *set_.only("b");
  EXPECT_NE(plain.cache_scope(), adapted.cache_scope());
  EXPECT_NE(adapted.cache_scope(), scaled.cache_scope());
}

}  // namespace
}  // namespace chimere::engine
