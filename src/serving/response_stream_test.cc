#include "serving/response_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::serving {
namespace {

TEST(ResponseStream, WakesOncePerTake) {
  int woken = 0;
  ResponseStream stream([&](ResponseStream::Urgency) { ++woken; });
  stream.start_events({});
  EXPECT_EQ(woken, 1);
  stream.event("a");
  stream.event("b");
  EXPECT_EQ(woken, 2);
  ResponseStream::Piece piece = stream.take();
  EXPECT_TRUE(piece.head.has_value());
  EXPECT_EQ(piece.bytes, "ab");
  stream.event("c");
  EXPECT_EQ(woken, 3);
  stream.end_events();
  piece = stream.take();
  EXPECT_EQ(piece.bytes, "c");
  EXPECT_TRUE(piece.ended);
}

TEST(ResponseStream, TakeCollectsDeferredEventsWithoutAWakeUp) {
  int woken = 0;
  ResponseStream stream([&](ResponseStream::Urgency) { ++woken; });
  bool produces = true;
  stream.on_take([&](ResponseStream::Piece& piece) {
    if (!produces) return false;
    stream.collect(piece);
    piece.bytes += "kept";
    return true;
  });
  EXPECT_EQ(stream.take().bytes, "");  // nothing comes before the head
  stream.start_events({});
  stream.announce();
  EXPECT_EQ(woken, 2);
  const ResponseStream::Piece first = stream.take();
  EXPECT_TRUE(first.head.has_value());
  EXPECT_EQ(first.bytes, "kept");
  EXPECT_EQ(woken, 2);
  stream.event("new");
  EXPECT_EQ(woken, 3);
  EXPECT_EQ(stream.take().bytes, "newkept");
  produces = false;
  stream.event("alone");
  EXPECT_EQ(stream.take().bytes, "alone");
  stream.abandon();
  EXPECT_EQ(stream.take().bytes, "");
}

TEST(ResponseStream, DisconnectsASlowClientAtTheLimit) {
  ResponseStream stream([](ResponseStream::Urgency) {});
  stream.start_events({});
  const std::string large(ResponseStream::kMaxWaiting / 2, 'x');
  for (int i = 0; i < 8; ++i) stream.event(large);
  const ResponseStream::Piece piece = stream.take();
  EXPECT_TRUE(piece.too_slow);
  EXPECT_LE(piece.bytes.size(), ResponseStream::kMaxWaiting + large.size());

  ResponseStream other([](ResponseStream::Urgency) {});
  other.start_events({});
  other.drop_slow_client();
  EXPECT_TRUE(other.take().too_slow);
}

TEST(ResponseStream, DropsDataAfterTheClientHasDisconnected) {
  int gone = 0;
  ResponseStream stream([](ResponseStream::Urgency) {});
  stream.start_events({});
  stream.on_stopped([&] { ++gone; });
  stream.abandon();
  EXPECT_EQ(gone, 1);
  stream.event("late");
  EXPECT_EQ(stream.take().bytes, "");
  stream.on_stopped([&] { ++gone; });  // at once
  EXPECT_EQ(gone, 2);
}

TEST(ResponseStream, ACancelledResponseReachesItsClient) {
  int stopped = 0;
  ResponseStream stream([](ResponseStream::Urgency) {});
  stream.on_stopped([&] { ++stopped; });
  stream.cancel();
  stream.cancel();
  EXPECT_EQ(stopped, 1);
  EXPECT_TRUE(stream.stopped());
  EXPECT_FALSE(stream.abandoned());
  stream.start_events({});
  stream.event("end");
  EXPECT_EQ(stream.take().bytes, "end");
}

}  // namespace
}  // namespace chimere::serving
