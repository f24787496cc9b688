#include "base/sha256.h"

#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"

namespace chimere {
namespace {

std::string hash(std::string_view text) {
  Sha256 sha;
  sha.add(text);
  return sha.finish();
}

// The examples of FIPS 180-2, appendix B, and the empty text.
TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 300, '\0');
    for (char& c : text) c = static_cast<char>(random());
    Sha256 sha;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t piece = std::min<size_t>(rest.size(), 1 + random() % 100);
      sha.add(rest.substr(0, piece));
      rest.remove_prefix(piece);
    }
    ASSERT_EQ(sha.finish(), hash(text));
  }
}

}  // namespace
}  // namespace chimere
