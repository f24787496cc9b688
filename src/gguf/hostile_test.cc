// Damaged and hostile files: each must give a clear error or a valid reader, in bounded memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>

#include "base/fresh_seed.h"
#include "gguf/format.h"
#include "gguf/reader.h"
#include "gguf/testing.h"

namespace {

std::atomic<size_t> allocated{0};
std::atomic<size_t> peak{0};

void* counted(size_t n) {
  void* p = std::malloc(n);
  if (p == nullptr) throw std::bad_alloc();
  const size_t now = allocated += malloc_usable_size(p);
  if (now > peak) peak = now;
  return p;
}
void counted_free(void* p) noexcept {
  if (p == nullptr) return;
  allocated -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

// Counts allocations of the whole program, to detect a reader that trusts a count in the file.
void* operator new(size_t n) { return counted(n); }
void* operator new[](size_t n) { return counted(n); }
void operator delete(void* p) noexcept { counted_free(p); }
void operator delete[](void* p) noexcept { counted_free(p); }
void operator delete(void* p, size_t) noexcept { counted_free(p); }
void operator delete[](void* p, size_t) noexcept { counted_free(p); }

namespace chimere::gguf {
namespace {

using ::testing::HasSubstr;

/// Opens `bytes`, walks over the reader, and checks its memory use. Returns the error, or "".
std::string open_and_walk(const std::vector<uint8_t>& bytes) {
  const size_t before = allocated;
  peak = before;
  auto r = Reader::from_bytes(bytes.data(), bytes.size());
  EXPECT_LE(peak - before, 16 * bytes.size() + 65536)
      << "memory use is out of proportion to the file";
  if (r.ok()) {
    EXPECT_EQ(testing::walk(**r, bytes.data(), bytes.size()), "");
    return "";
  }
  EXPECT_GT(r.error().message.size(), 20U) << r.error().message;
  EXPECT_LT(r.error().message.size(), 1000U);
  for (const char c : r.error().message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << "unprintable";
  return r.error().message;
}

/// Builds a file's bytes without any check.
class Raw {
 public:
  template <typename T>
  Raw& put(T v) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &v, sizeof(T));
    return *this;
  }
  Raw& u32(uint32_t v) { return put(v); }
  Raw& u64(uint64_t v) { return put(v); }
  Raw& text(std::string_view s) {
    u64(s.size());
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    return *this;
  }
  Raw& type(ValueType t) { return put(t); }
  Raw& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
              uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
  /// Pads to the data section and appends `data` bytes.
  const std::vector<uint8_t>& finish(size_t data = 0) {
    bytes_.resize(align_up(bytes_.size(), 32) + data);
    return bytes_;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

Raw header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
  Raw r;
  r.u32(kMagic).u32(version).u64(tensors).u64(keys);
  return r;
}

constexpr uint32_t kF32Type = 0;
constexpr uint32_t kQ8Type = 8;
constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

TEST(HostileFile, TheExampleItselfIsValid) {
  EXPECT_EQ(open_and_walk(testing::example_file()), "");
}

TEST(HostileFile, CutAtEveryByte) {
  const std::vector<uint8_t> whole = testing::example_file();
  auto r = Reader::from_bytes(whole.data(), whole.size());
  ASSERT_TRUE(r.ok());
  const TensorInfo& last = (*r)->tensors().back();
  const uint64_t needed = last.offset + last.bytes;
  for (size_t n = 0; n < whole.size(); ++n) {
    // A copy of exactly n bytes, so that the address sanitizer detects any read past the end.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(open_and_walk(cut).empty(), n >= needed) << n;
  }
}

TEST(HostileFile, FlippedBits) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<uint8_t> whole = testing::example_file();
  size_t refused = 0;
  constexpr size_t kRuns = 20000;
  for (size_t run = 0; run < kRuns; ++run) {
    std::vector<uint8_t> damaged = whole;
    for (unsigned flips = 1 + random() % 8; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1U << (random() % 8));
    }
    refused += open_and_walk(damaged).empty() ? 0 : 1;
    if (::testing::Test::HasFailure()) return;
  }
  // Flips in strings and tensor data leave a valid file; most others do not.
  EXPECT_GT(refused, kRuns / 4);
  EXPECT_LT(refused, kRuns);
}

TEST(HostileFile, BytesReplacedByExtremes) {
  const std::vector<uint8_t> whole = testing::example_file();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const size_t width : {1U, 4U, 8U}) {
      for (const uint8_t value : {0x00, 0x7f, 0x80, 0xff}) {
        std::vector<uint8_t> damaged = whole;
        for (size_t i = at; i < std::min(at + width, whole.size()); ++i) damaged[i] = value;
        open_and_walk(damaged);
      }
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(HostileFile, Noise) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 5000; ++run) {
    Raw r = header(random() % 4, random() % 4, 2 + random() % 2);
    const size_t n = random() % 400;
    // Small numbers are as likely as random ones, because parsing gets further with them.
    for (size_t i = 0; i < n; ++i) {
      r.put(static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 10));
    }
    open_and_walk(r.bytes());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(HostileFile, Headers) {
  EXPECT_THAT(open_and_walk({}), HasSubstr("ends at byte 0"));
  EXPECT_THAT(open_and_walk(Raw().u32(0x12345678).u32(3).u64(0).u64(0).bytes()),
              HasSubstr("not a GGUF"));
  EXPECT_THAT(open_and_walk(header(0, 0, 1).bytes()), HasSubstr("version 1"));
  EXPECT_THAT(open_and_walk(header(0, 0, 4).bytes()), HasSubstr("version 4"));
  EXPECT_THAT(open_and_walk(header(0, 0, 3U << 24).bytes()), HasSubstr("big-endian"));
  EXPECT_EQ(open_and_walk(header(0, 0).bytes()), "");
  EXPECT_EQ(open_and_walk(header(0, 0, 2).bytes()), "");
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63, kHuge}) {
    EXPECT_THAT(open_and_walk(header(count, 0).bytes()), HasSubstr("tensors, more than fit"));
    EXPECT_THAT(open_and_walk(header(0, count).bytes()), HasSubstr("keys, more than fit"));
  }
}

TEST(HostileFile, Metadata) {
  const auto key = [](ValueType t) {
    Raw r = header(0, 1);
    r.text("key").type(t);
    return r;
  };
  EXPECT_THAT(open_and_walk(header(0, 1).u64(kHuge).u64(0).u64(0).bytes()),
              HasSubstr("claims 184467"));
  EXPECT_THAT(open_and_walk(header(0, 1).text("").u64(0).u64(0).bytes()),
              HasSubstr("name of 0 bytes"));
  EXPECT_THAT(open_and_walk(header(0, 1).text(std::string(70000, 'k')).u64(0).u64(0).bytes()),
              HasSubstr("name of 70000 bytes"));
  for (const uint32_t bad : {13U, 255U, 0xffffffffU}) {
    EXPECT_THAT(open_and_walk(header(0, 1).text("key").u32(bad).u64(0).bytes()),
                HasSubstr("'key' has the unknown value type " + std::to_string(bad)));
    EXPECT_THAT(open_and_walk(key(ValueType::kArray).u32(bad).u64(1).u64(0).bytes()),
                HasSubstr("unknown value type"));
  }
  EXPECT_THAT(open_and_walk(key(ValueType::kBool).put(uint8_t{2}).bytes()), HasSubstr("boolean"));
  EXPECT_THAT(open_and_walk(key(ValueType::kU64).u32(1).bytes()), HasSubstr("the file ends"));
  EXPECT_THAT(open_and_walk(key(ValueType::kString).u64(kHuge - 7).bytes()), HasSubstr("claims"));
  for (uint32_t t = 0; t <= 12; ++t) {
    for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 61, uint64_t{1} << 63, kHuge}) {
      EXPECT_NE(open_and_walk(key(ValueType::kArray).u32(t).u64(count).u64(0).u64(0).bytes()), "")
          << t;
    }
  }
  EXPECT_THAT(
      open_and_walk(key(ValueType::kArray).type(ValueType::kBool).u64(1).put(uint8_t{9}).bytes()),
      HasSubstr("boolean"));
  EXPECT_THAT(open_and_walk(header(0, 2)
                                .text("twin")
                                .type(ValueType::kU32)
                                .u32(1)
                                .text("twin")
                                .type(ValueType::kU32)
                                .u32(2)
                                .bytes()),
              HasSubstr("'twin' appears twice"));
  // Names are escaped in messages.
  EXPECT_THAT(open_and_walk(header(0, 1).text("\x1b[2J\n").u32(99).u64(0).bytes()),
              HasSubstr("'\\x1b[2J\\x0a'"));
}

TEST(HostileFile, DeepArrays) {
  Raw r = header(0, 1);
  r.text("deep").type(ValueType::kArray);
  for (int depth = 0; depth < 100000; ++depth) r.type(ValueType::kArray).u64(1);
  r.type(ValueType::kU8).u64(1).put(uint8_t{0});
  EXPECT_THAT(open_and_walk(r.bytes()), HasSubstr("array of arrays"));
}

TEST(HostileFile, ManySmallItemsStayWithinBounds) {
  Raw strings = header(0, 1);
  strings.text("s").type(ValueType::kArray).type(ValueType::kString).u64(100000);
  for (int i = 0; i < 100000; ++i) strings.text("");
  EXPECT_EQ(open_and_walk(strings.bytes()), "");
  Raw keys = header(0, 65536);
  for (int i = 0; i < 65536; ++i) {
    const char name[2] = {static_cast<char>(i & 255), static_cast<char>(i >> 8)};
    keys.text({name, 2}).type(ValueType::kU8).put(uint8_t{1});
  }
  EXPECT_EQ(open_and_walk(keys.bytes()), "");
  Raw bytes = header(0, 1);
  bytes.text("b").type(ValueType::kArray).type(ValueType::kU8).u64(1000000);
  for (int i = 0; i < 125000; ++i) bytes.u64(0);
  EXPECT_EQ(open_and_walk(bytes.bytes()), "");
  Raw tensors = header(50000, 0);
  for (uint64_t i = 0; i < 50000; ++i) tensors.tensor(std::to_string(i), {1}, kF32Type, i * 32);
  EXPECT_EQ(open_and_walk(tensors.finish(50000 * 32)), "");
}

TEST(HostileFile, Shapes) {
  const auto with = [](const std::vector<uint64_t>& dims, uint32_t type) {
    return open_and_walk(header(1, 0).tensor("t", dims, type, 0).finish(4096));
  };
  EXPECT_EQ(with({8, 8}, kF32Type), "");
  EXPECT_EQ(with({1, 1, 1, 1024}, kF32Type), "");
  EXPECT_THAT(with({}, kF32Type), HasSubstr("0 dimensions"));
  EXPECT_THAT(with({1, 1, 1, 1, 1}, kF32Type), HasSubstr("5 dimensions"));
  EXPECT_THAT(with({4, 0}, kF32Type), HasSubstr("dimension 1 of 0"));
  EXPECT_THAT(with({kHuge}, kF32Type), HasSubstr("impossible dimension"));  // -1
  EXPECT_THAT(with({uint64_t{1} << 63}, kF32Type), HasSubstr("impossible dimension"));
  EXPECT_THAT(with({uint64_t{1} << 32, uint64_t{1} << 32}, kF32Type),
              HasSubstr("impossible dimension"));
  // 2^62 elements of 4 bytes are 2^64 bytes, which wrap to 0.
  EXPECT_THAT(with({uint64_t{1} << 62}, kF32Type), HasSubstr("more than 2^64 bytes"));
  EXPECT_THAT(with({uint64_t{1} << 61}, kF32Type), HasSubstr("reaches beyond"));
  EXPECT_THAT(with({1025}, kF32Type), HasSubstr("reaches beyond"));
  EXPECT_THAT(with({33}, kQ8Type), HasSubstr("not a multiple of the 32"));
  EXPECT_THAT(with({16, 2}, kQ8Type), HasSubstr("not a multiple of the 32"));
  // Types that ggml removed, uses for other purposes, or never had.
  for (const uint32_t type : {4U, 5U, 9U, 15U, 31U, 38U, 100U, 0xffffffffU}) {
    EXPECT_THAT(with({256}, type), HasSubstr("unknown element type " + std::to_string(type)));
  }
  EXPECT_THAT(open_and_walk(header(1, 0).tensor("", {1}, 0, 0).finish(64)), HasSubstr("name of 0"));
  EXPECT_THAT(open_and_walk(header(1, 0).tensor(std::string(65, 'n'), {1}, 0, 0).finish(64)),
              HasSubstr("name of 65"));
}

TEST(HostileFile, Places) {
  const auto with = [](uint64_t first, uint64_t second) {
    return open_and_walk(header(2, 0)
                             .tensor("one", {16}, kF32Type, first)
                             .tensor("two", {8}, kF32Type, second)
                             .finish(128));
  };
  EXPECT_EQ(with(0, 64), "");
  EXPECT_EQ(with(64, 0), "");
  EXPECT_EQ(with(32, 96), "");
  EXPECT_THAT(with(0, 32), HasSubstr("'one' and 'two' overlap"));
  EXPECT_THAT(with(0, 0), HasSubstr("overlap"));
  EXPECT_THAT(with(32, 64), HasSubstr("overlap"));
  EXPECT_THAT(with(1, 96), HasSubstr("not a multiple of the alignment"));
  EXPECT_THAT(with(96, 0), HasSubstr("reaches beyond"));
  EXPECT_THAT(with(0, 128), HasSubstr("reaches beyond"));
  // Offsets whose sum with a length or with the section's start overflows.
  for (uint64_t offset = kHuge - 31; offset > kHuge - 4096; offset -= 32) {
    EXPECT_THAT(with(0, offset), HasSubstr("reaches beyond"));
  }
  EXPECT_THAT(
      open_and_walk(
          header(2, 0).tensor("t", {1}, kF32Type, 0).tensor("t", {1}, kF32Type, 32).finish(64)),
      HasSubstr("'t' appears twice"));
}

TEST(HostileFile, Alignments) {
  const auto with = [](ValueType type, uint64_t value) {
    Raw r = header(1, 1);
    r.text(kAlignmentKey).type(type);
    type == ValueType::kU32 ? r.u32(static_cast<uint32_t>(value)) : r.u64(value);
    return open_and_walk(r.tensor("t", {1}, kF32Type, 0).finish(256));
  };
  EXPECT_EQ(with(ValueType::kU32, 8), "");
  EXPECT_EQ(with(ValueType::kU32, 256), "");
  for (const uint64_t bad : {0U, 1U, 4U, 24U, 33U, 0xffffffffU}) {
    EXPECT_THAT(with(ValueType::kU32, bad), HasSubstr("power of two")) << bad;
  }
  EXPECT_THAT(with(ValueType::kU64, uint64_t{1} << 63), HasSubstr("power of two"));
  EXPECT_THAT(with(ValueType::kF64, 0), HasSubstr("power of two"));
  EXPECT_THAT(with(ValueType::kI64, kHuge), HasSubstr("power of two"));
  EXPECT_THAT(with(ValueType::kU32, 1U << 31), HasSubstr("before its tensor data"));
}

TEST(HostileFile, PartsOfSplitModelsAreRefused) {
  const auto with = [](uint16_t parts) {
    return open_and_walk(header(0, 1).text("split.count").type(ValueType::kU16).put(parts).bytes());
  };
  EXPECT_EQ(with(0), "");
  EXPECT_EQ(with(1), "");
  EXPECT_THAT(with(3), HasSubstr("'split.no' is missing"));
  const auto place = [](int32_t number, int32_t tensors) {
    return open_and_walk(header(0, 3)
                             .text("split.count")
                             .type(ValueType::kU16)
                             .put(uint16_t{3})
                             .text("split.no")
                             .type(ValueType::kI32)
                             .put(number)
                             .text("split.tensors.count")
                             .type(ValueType::kI32)
                             .put(tensors)
                             .bytes());
  };
  EXPECT_THAT(place(2, 9), HasSubstr("part 3 of 3 of a split model"));
  EXPECT_THAT(place(3, 9), HasSubstr("not a number from 0 to 2"));
  EXPECT_THAT(place(-1, 9), HasSubstr("not a number from 0 to 2"));
  EXPECT_THAT(place(0, -9), HasSubstr("'split.tensors.count'"));
}

}  // namespace
}  // namespace chimere::gguf
