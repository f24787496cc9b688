#include "hub/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chimere::hub {
namespace {

using ::testing::HasSubstr;

TEST(ModelName, IsOwnerAndNameAndOptionalQuant) {
  EXPECT_EQ(parse_model_name("a/b")->repository, "a/b");
  EXPECT_EQ(parse_model_name("a/b")->quant, "");
  EXPECT_EQ(parse_model_name("some-one/Model_1.5-GGUF:q4_k_m")->quant, "q4_k_m");
  for (const auto* bad : {"", "a", "/", "a/", "/b", "a/b/c", "a/b:", "../b", "a/..", "a b/c",
                          "a/b:../x", "a/b?x", "a/b#c", "a/b:x\n", "a/b:/x", "http://a/b"}) {
    EXPECT_FALSE(parse_model_name(bad).ok()) << bad;
  }
}

TEST(SafePath, KeepsEverythingInTheFolder) {
  for (const auto* good : {"a.gguf", "dir/a.gguf", "a b.gguf", "häß.gguf", "a..b/c"}) {
    EXPECT_TRUE(safe_path(good)) << good;
  }
  for (const auto* bad : {"", "/a", "a/", "a//b", "../a", "a/../b", "a/..", ".", "..", ".a", "a/.b",
                          "a\\b", "C:x", "a\nb", "a\x7f"}) {
    EXPECT_FALSE(safe_path(bad)) << bad;
  }
  EXPECT_FALSE(safe_path(std::string("a\0b", 3)));
  EXPECT_FALSE(safe_path(std::string(201, 'a')));
}

TEST(Tree, GivesTheGgufFilesWithSizeAndChecksum) {
  const std::string sha(64, 'a');
  const auto files = parse_tree(R"([
      {"type": "directory", "path": "d.gguf"},
      {"type": "file", "path": "README.md", "size": 3},
      {"type": "file", "path": "d/m-Q4_0.gguf", "size": 130, "lfs": {"oid": ")" +
                                sha + R"(", "size": 1000, "pointerSize": 130}},
      {"type": "file", "path": "small.gguf", "size": 7}])");
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0].path, "d/m-Q4_0.gguf");
  EXPECT_EQ((*files)[0].size, 1000);
  EXPECT_EQ((*files)[0].sha256, sha);
  EXPECT_EQ((*files)[1].sha256, "");
}

TEST(Tree, RefusesHostileLists) {
  for (const auto* bad :
       {"", "{}", "[", "null", R"([{"type":"file","path":"../x.gguf","size":1}])",
        R"([{"type":"file","path":"/etc/x.gguf","size":1}])",
        R"([{"type":"file","path":"x.gguf"}])", R"([{"type":"file","path":"x.gguf","size":-1}])",
        R"([{"type":"file","path":"x.gguf","size":1e30}])",
        R"([{"type":"file","path":"x.gguf","size":"1"}])",
        R"([{"type":"file","path":"x.gguf","size":18446744073709551615}])"}) {
    EXPECT_FALSE(parse_tree(bad).ok()) << bad;
  }
  EXPECT_TRUE(parse_tree(R"([1, null, {"type": 3}, {"type": "file", "path": 4}])")->empty());
}

TEST(Headers, AreParsedByTheirStandards) {
  EXPECT_EQ(next_page(R"(<https://h/x?cursor=1>; rel="next")"), "https://h/x?cursor=1");
  EXPECT_EQ(next_page(R"(<https://h/a>; rel="prev", <https://h/b>; rel="next")"), "https://h/b");
  for (const auto* none : {"", "<", "<a", "<a>", R"(<a>; rel="last")", ">< rel=next"}) {
    EXPECT_EQ(next_page(none), "") << none;
  }
  EXPECT_EQ(parse_content_range("bytes 200-999/1000")->first, 200);
  EXPECT_EQ(parse_content_range("bytes 200-999/1000")->total, 1000);
  for (const auto* bad : {"", "bytes */1000", "bytes 5-4/10", "bytes 5-10/10", "bytes -1-4/10",
                          "bytes 1-2/", "items 1-2/3", "bytes 1/2-3"}) {
    EXPECT_FALSE(parse_content_range(bad).has_value()) << bad;
  }
  const std::string sha(64, 'b');
  EXPECT_EQ(sha256_of_etag('"' + std::string(64, 'B') + '"'), sha);
  EXPECT_EQ(sha256_of_etag("W/\"" + sha + '"'), sha);
  EXPECT_EQ(sha256_of_etag("\"abc\""), "");
  EXPECT_EQ(percent_encoded("a b/ü#?%.gguf"), "a%20b/%C3%BC%23%3F%25.gguf");
}

TEST(Parts, AreRecognisedByTheirNumbers) {
  const auto part = parse_part("d/m-00002-of-00003.gguf");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->model, "d/m");
  EXPECT_EQ(part->index, 2);
  EXPECT_EQ(part->count, 3);
  EXPECT_EQ(parse_part("m-00004-of-00003.gguf")->count, 1);
  EXPECT_EQ(parse_part("m.gguf")->model, "m");
  EXPECT_FALSE(parse_part("m.bin").has_value());
}

std::vector<RepositoryFile> files(std::initializer_list<const char*> paths) {
  std::vector<RepositoryFile> out;
  for (const char* path : paths) out.push_back({path, 1, ""});
  return out;
}

TEST(Choice, IsByQuantWithoutRegardToCase) {
  const auto all = files({"M-8B-Q4_K_M.gguf", "M-8B-UD-Q4_K_M.gguf", "M-8B.q8_0.gguf",
                          "big/M-BF16-00002-of-00002.gguf", "big/M-BF16-00001-of-00002.gguf",
                          "M-Q2_K-00001-of-00002.gguf", "mmproj-F16.gguf", "M.imatrix.gguf"});
  EXPECT_EQ(choose_model(all, "q4_k_m")->name, "M-8B-Q4_K_M");
  EXPECT_EQ(choose_model(all, "ud-q4_k_m")->name, "M-8B-UD-Q4_K_M");
  EXPECT_EQ(choose_model(all, "")->name, "M-8B-Q4_K_M");
  EXPECT_EQ(choose_model(all, "Q8_0")->name, "M-8B.q8_0");
  EXPECT_EQ(choose_model(all, "m-8b.Q8_0.gguf")->name, "M-8B.q8_0");
  const auto split = choose_model(all, "bf16");
  ASSERT_TRUE(split.ok());
  ASSERT_EQ(split->files.size(), 2U);
  EXPECT_EQ(split->files[0].path, "big/M-BF16-00001-of-00002.gguf");
  const auto missing = choose_model(all, "Q2_K");  // one of its parts is missing
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "It has no Q2_K. There are: Q4_K_M, UD-Q4_K_M, q8_0, BF16.");
  EXPECT_THAT(choose_model(files({"a-Q2_K.gguf", "b-Q2_K.gguf"}), "q2_k").error().message,
              HasSubstr("Both 'a-Q2_K' and 'b-Q2_K'"));
  EXPECT_THAT(choose_model(files({"a-Q2_K.gguf", "a-Q3_K.gguf"}), "").error().message,
              HasSubstr("several"));
  EXPECT_FALSE(choose_model(files({"mmproj.gguf"}), "").ok());
  EXPECT_EQ(choose_model(files({"one.gguf"}), "")->name, "one");
}

}  // namespace
}  // namespace chimere::hub
