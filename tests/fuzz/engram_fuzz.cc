// Reads arbitrary bytes as an n-gram table. The result is an error, or a table that answers any
// query and whose counts, if valid, can be written and opened again. The first byte selects whether
// checksums are corrected, so that the code after their check is reached too.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/memory_file.h"
#include "engram/legacy_table.h"
#include "engram/memory.h"
#include "engram/table.h"
#include "engram/table_format.h"
#include "fuzz.h"

namespace engram = chimere::engram;

namespace {

using Documents = std::vector<std::vector<int32_t>>;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::vector<uint8_t> table_bytes(const engram::Counts& counts, uint64_t tokenizer,
                                 std::span<const float> gate) {
  std::vector<uint8_t> bytes;
  chimere::VectorSink sink(bytes);
  if (!engram::write_table(sink, counts, tokenizer, gate).ok()) fail("a table cannot be written");
  return bytes;
}

void make_sums_fit(std::vector<uint8_t>& bytes) {
  if (bytes.size() < sizeof(engram::Header)) return;
  const auto sum = [&](size_t begin, size_t end, size_t at) {
    const uint64_t value = engram::checksum_of({bytes.data() + begin, end - begin});
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  sum(sizeof(engram::Header), bytes.size(), offsetof(engram::Header, body_checksum));
  sum(0, offsetof(engram::Header, checksum), offsetof(engram::Header, checksum));
}

void ask(const std::shared_ptr<const engram::Table>& table) {
  const std::vector<int32_t> text = {1, 2, 3, 1, 2, 3, 4, 1, 2, 9, 1000000, -5, 1, 2, 3};
  const std::vector<float> logits(16, 0.0F);
  const engram::ModelPrediction prediction{logits, 2.77, 2.77, 0, -2.77};
  auto memory = engram::Memory::create({table}, engram::Gating::kLearned);
  if (!memory.ok()) memory = engram::Memory::create({table}, engram::Gating::kKneserNey);
  for (size_t n = 0; n <= text.size(); ++n) {
    const auto known = memory->look_up(std::span(text).first(n));
    if (!known.ok()) return;
    double sum = 0;
    for (const engram::Share& s : memory->mix(prediction)) {
      if (s.token >= logits.size()) fail("a share for a token that does not exist");
      if (!(s.mass > 0)) fail("a share that is no probability");
      sum += static_cast<double>(s.mass);
    }
    if (sum > 1) fail("shares above 1");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  if (data[0] % 2 == 1) make_sums_fit(bytes);
  const chimere::MemoryFile file(bytes);
  const auto table = engram::open_table(file.path(), {});
  if (!table.ok()) {
    if (table.error().message.empty()) fail("an error without a message");
    return 0;
  }
  ask(*table);
  uint64_t tokenizer = 0;
  std::vector<float> gate;
  const auto counts = engram::read_counts(file.path(), tokenizer, gate);
  if (!counts.ok()) return 0;
  const chimere::MemoryFile written(table_bytes(*counts, tokenizer, gate));
  if (!engram::open_table(written.path(), {}).ok())
    fail("a table that was written cannot be opened");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const Documents texts = {{1, 2, 3, 1, 2, 3, 4}, {1, 2, 9}};
  std::vector<std::vector<uint8_t>> seeds;
  const auto add = [&](const std::vector<uint8_t>& bytes) {
    for (const uint8_t fit : {0, 1}) {
      seeds.push_back({fit});
      seeds.back().insert(seeds.back().end(), bytes.begin(), bytes.end());
    }
  };
  for (const int order : {1, 3}) {
    const auto counts = engram::Counts::of(texts, order, {"seed", 20000, engram::kOne});
    add(table_bytes(*counts, 7, {}));
  }
  add(*engram::legacy_bytes(engram::legacy_content(texts, 2)));
  return seeds;
}
