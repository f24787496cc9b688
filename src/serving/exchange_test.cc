#include "serving/exchange.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::serving {
namespace {

TEST(Exchange, WakesOnceForWhatIsTakenTogether) {
  int woken = 0;
  Exchange exchange([&](Exchange::Haste) { ++woken; });
  exchange.start_events({});
  EXPECT_EQ(woken, 1);
  exchange.event("a");
  exchange.event("b");
  EXPECT_EQ(woken, 2);
  Exchange::Piece piece = exchange.take();
  EXPECT_TRUE(piece.head.has_value());
  EXPECT_EQ(piece.bytes, "ab");
  exchange.event("c");
  EXPECT_EQ(woken, 3);
  exchange.end_events();
  piece = exchange.take();
  EXPECT_EQ(piece.bytes, "c");
  EXPECT_TRUE(piece.ended);
}

TEST(Exchange, AsksForWhatIsKeptBackAndWakesNobodyForIt) {
  int woken = 0;
  Exchange exchange([&](Exchange::Haste) { ++woken; });
  exchange.on_take([&] { exchange.event("kept"); });
  exchange.start_events({});
  exchange.announce();
  EXPECT_EQ(woken, 2);
  EXPECT_EQ(exchange.take().bytes, "kept");
  EXPECT_EQ(woken, 2);
  exchange.event("new");
  EXPECT_EQ(woken, 3);
  EXPECT_EQ(exchange.take().bytes, "newkept");
  exchange.abandon();
  EXPECT_EQ(exchange.take().bytes, "");
}

TEST(Exchange, KeepsNoMoreForASlowReaderThanItMay) {
  Exchange exchange([](Exchange::Haste) {});
  exchange.start_events({});
  const std::string large(Exchange::kMaxWaiting / 2, 'x');
  for (int i = 0; i < 8; ++i) exchange.event(large);
  const Exchange::Piece piece = exchange.take();
  EXPECT_TRUE(piece.too_slow);
  EXPECT_LE(piece.bytes.size(), Exchange::kMaxWaiting + large.size());

  Exchange other([](Exchange::Haste) {});
  other.start_events({});
  other.give_up();
  EXPECT_TRUE(other.take().too_slow);
}

TEST(Exchange, ForgetsWhatComesAfterTheClientHasGone) {
  int gone = 0;
  Exchange exchange([](Exchange::Haste) {});
  exchange.start_events({});
  exchange.on_abandoned([&] { ++gone; });
  exchange.abandon();
  EXPECT_EQ(gone, 1);
  exchange.event("late");
  EXPECT_EQ(exchange.take().bytes, "");
  exchange.on_abandoned([&] { ++gone; });  // at once
  EXPECT_EQ(gone, 2);
}

}  // namespace
}  // namespace chimere::serving
