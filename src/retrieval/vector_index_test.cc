#include "retrieval/vector_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "retrieval/near_duplicates.h"
#include "retrieval/ranking.h"
#include "retrieval/words_query.h"

namespace chimere::retrieval {
namespace {

std::vector<float> random_vector(std::mt19937& random, size_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  double sum = 0;
  for (float& x : v) {
    x = normal(random);
    sum += double{x} * x;
  }
  for (float& x : v) x = static_cast<float>(x / std::sqrt(sum));
  return v;
}

TEST(VectorIndex, FindsTheNearest) {
  std::mt19937 random(11);
  constexpr size_t kDimensions = 96;
  VectorIndex index(kDimensions);
  std::vector<std::vector<float>> vectors;
  for (int64_t i = 0; i < 500; ++i) {
    vectors.push_back(random_vector(random, kDimensions));
    index.add(3 * i + 1, pack_vector(vectors.back()));
  }
  const auto query = random_vector(random, kDimensions);
  const auto hits = index.search(query, 10);
  ASSERT_EQ(hits.size(), 10U);
  std::vector<double> exact;
  for (const auto& v : vectors) {
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += double{v[i]} * query[i];
    exact.push_back(sum);
  }
  for (const VectorHit& hit : hits) {
    ASSERT_EQ(hit.chunk % 3, 1);
    EXPECT_NEAR(hit.similarity, exact.at(static_cast<size_t>(hit.chunk / 3)), 0.01);
  }
  std::ranges::sort(exact, std::greater());
  EXPECT_NEAR(hits[0].similarity, exact[0], 0.01);
  EXPECT_NEAR(hits[9].similarity, exact[9], 0.02);
  for (size_t i = 1; i < hits.size(); ++i) EXPECT_GE(hits[i - 1].similarity, hits[i].similarity);
}

TEST(VectorIndex, EqualsAPlainScan) {
  std::mt19937 random(23);
  for (const size_t n : {1U, 31U, 100U, 384U}) {
    VectorIndex index(static_cast<int64_t>(n));
    std::vector<VectorHit> plain;
    const auto query = random_vector(random, n);
    std::vector<std::byte> packed;
    float top = 0;
    for (const float x : query) top = std::max(top, std::abs(x));
    for (int64_t id = 1; id <= 700; ++id) {
      // Every fourth repeats the one before: equal similarities, in the order of their ids.
      if (id % 4 != 0) packed = pack_vector(random_vector(random, n));
      index.add(id, packed);
      float scale = 0;
      std::memcpy(&scale, packed.data(), sizeof(float));
      int64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        const auto byte = static_cast<int8_t>(packed[sizeof(float) + i]);
        sum += std::lround(query[i] / (top / 2047)) * byte;
      }
      plain.push_back({id, double{top / 2047} * double{scale} * static_cast<double>(sum)});
    }
    std::ranges::stable_sort(plain, std::greater(), &VectorHit::similarity);
    const auto hits = index.search(query, 50);
    ASSERT_EQ(hits.size(), 50U);
    for (size_t i = 0; i < hits.size(); ++i) {
      EXPECT_EQ(hits[i].chunk, plain[i].chunk) << n << " elements, place " << i;
      EXPECT_EQ(hits[i].similarity, plain[i].similarity);
    }
  }
}

TEST(VectorIndex, ForgetsChunksThatAreGone) {
  std::mt19937 random(3);
  VectorIndex index(16);
  std::vector<std::vector<float>> vectors;
  for (int64_t i = 1; i <= 20; ++i) {
    vectors.push_back(random_vector(random, 16));
    index.add(i, pack_vector(vectors.back()));
  }
  const std::vector<int64_t> kept = {2, 3, 19};
  index.keep(kept);
  EXPECT_EQ(index.size(), 3);
  EXPECT_EQ(index.last_chunk(), 19);
  const auto hits = index.search(vectors[18], 5);
  ASSERT_EQ(hits.size(), 3U);
  EXPECT_EQ(hits[0].chunk, 19);
  EXPECT_NEAR(hits[0].similarity, 1, 0.01);
}

TEST(VectorIndex, RefusesWhatItCannotCompare) {
  VectorIndex index(4);
  index.add(1, std::vector<std::byte>(3));
  EXPECT_EQ(index.size(), 0);
  const std::vector<float> wrong = {1, 0, 0};
  EXPECT_TRUE(index.search(wrong, 1).empty());
  const std::vector<float> endless = {NAN, INFINITY, 0, 1};
  index.add(2, pack_vector(endless));
  const std::vector<float> query = {0, 0, 0, 1};
  for (const VectorHit& hit : index.search(query, 1)) EXPECT_TRUE(std::isfinite(hit.similarity));
}

TEST(Ranking, FusesRanks) {
  const std::vector<WordHit> words = {{1, 9.0}, {2, 8.0}, {3, 1.0}};
  const std::vector<VectorHit> near = {{3, 0.9}, {1, 0.8}, {4, 0.7}};
  const auto ranked = fuse(words, near, 1);
  ASSERT_EQ(ranked.size(), 4U);
  EXPECT_EQ(ranked[0].id, 1);
  EXPECT_LE(ranked[0].score, 1);
  EXPECT_TRUE(ranked[0].words && ranked[0].similarity);
  const auto alone = fuse(words, {}, 1);
  EXPECT_DOUBLE_EQ(alone[0].score, 1);
  EXPECT_TRUE(fuse({}, {}, 1).empty());
}

TEST(NearDuplicates, ResembleEachOther) {
  const auto a = shingles("The quick brown fox jumps over the lazy dog near the river bank today.");
  const auto b = shingles("the quick, brown fox jumps over the lazy dog near the river bank today");
  const auto c = shingles("Something else entirely is written here about files and folders.");
  EXPECT_DOUBLE_EQ(resemblance(a, b), 1);
  EXPECT_LT(resemblance(a, c), 0.1);
  EXPECT_DOUBLE_EQ(resemblance(shingles(""), shingles("  ")), 1);
  EXPECT_LT(resemblance(shingles("one"), shingles("two")), 1);
}

TEST(WordsQuery, KeepsWordsAndQuotesThem) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of_query("How do I list all files with --no-color in resolv.conf?"),
            (Words{"list", "files", "no-color", "resolv.conf"}));
  EXPECT_EQ(words_of_query("to be or not to be"), (Words{"not"}));
  EXPECT_EQ(words_of_query("what is it"), (Words{"what", "is", "it"}));
  EXPECT_EQ(words_of_query("pthread_create(3) \" OR NEAR("),
            (Words{"pthread_create", "3", "near"}));
  EXPECT_TRUE(words_of_query(" -- \"\"  ").empty());
  EXPECT_EQ(any_of({"a-b", "c\"d"}), "\"a-b\" OR \"c\"\"d\"");
  EXPECT_EQ(any_of({}), "");
}

/// Counts by single word, and by any other expression.
auto counts(std::map<std::string, int64_t> texts) {
  return
      [texts = std::move(texts)](const std::string& expression, int64_t limit) -> Result<int64_t> {
        const auto known = texts.find(expression);
        return std::min(known == texts.end() ? 0 : known->second, limit);
      };
}

TEST(WordsQuery, ScoresTextsWithRareWords) {
  const auto count =
      counts({{"\"file\"", 900}, {"\"owner\"", 40}, {"\"chown\"", 30}, {"\"big\"", 200}});
  const auto found = texts_to_score({"file", "gone", "owner", "chown"}, 100, count);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().expression,
            "(\"chown\" OR \"owner\") AND (\"chown\" OR \"owner\" OR \"file\")");
  EXPECT_EQ(found->front().texts_with_phrase, (std::vector<int64_t>{0, 0, 30, 40, 900}));
  EXPECT_EQ(found->front().most, 70);
  EXPECT_TRUE(texts_to_score({"gone"}, 100, count)->empty());
}

TEST(WordsQuery, ScoresFewTextsIfAllWordsAreFrequent) {
  const std::string both = "\"big\" AND \"file\"";
  const std::string in_headings = "{title heading} : (\"big\" OR \"file\")";
  std::map<std::string, int64_t> texts = {
      {"\"file\"", 900}, {"\"big\"", 200}, {both, 60}, {in_headings, 30}};
  auto found = texts_to_score({"file", "big"}, 100, counts(texts));
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ(found->at(0).expression, "(" + both + ") AND (\"big\" OR \"file\")");
  EXPECT_EQ(found->at(1).expression, "(" + in_headings + ") AND (\"big\" OR \"file\")");
  EXPECT_EQ(found->at(2).expression, "(\"big\") AND (\"big\" OR \"file\")");
  EXPECT_EQ(found->at(2).texts_with_phrase, (std::vector<int64_t>{0, 200, 900}));
  int64_t scored = 0;
  for (const TextsToScore& part : *found) scored += part.most;
  EXPECT_EQ(scored, 100);

  texts[both] = 150;  // too many as well: the first hundred of them
  texts[in_headings] = 500;
  found = texts_to_score({"file", "big"}, 100, counts(texts));
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().expression, "(" + both + ") AND (\"big\" OR \"file\")");
  EXPECT_EQ(found->front().most, 100);
  found = texts_to_score({"file"}, 100, counts(texts));
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().most, 100);
}

}  // namespace
}  // namespace chimere::retrieval
