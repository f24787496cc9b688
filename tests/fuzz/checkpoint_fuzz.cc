// Reads arbitrary bytes as a stored conversation. The result is an error and an unchanged store, or
// a state that is stored as the same bytes again. The first byte selects whether checksums are
// corrected, so that the code after their check is reached too.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fuzz.h"
#include "state/checkpoint_file.h"
#include "state/checksum.h"
#include "state/state_store.h"

namespace state = chimere::state;

namespace {

constexpr state::Hash128 kWeights = {1, 2};
constexpr size_t kHeader = 48;

std::unique_ptr<state::StateStore> make_store() {
  state::StateSpec spec;
  spec.components = {{.kind = state::ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64},
                     {.kind = state::ComponentSpec::Kind::kRecurrent,
                      .layer = 0,
                      .bytes = 64,
                      .pending_bytes = 64}};
  spec.page_tokens = 4;
  spec.max_pages = 6;
  spec.max_slots = 2;
  spec.max_pending_rows = 4;
  return std::move(state::StateStore::create(spec)).value();
}

void put_sum(std::vector<uint8_t>& bytes, size_t begin, size_t end) {
  const uint64_t sum = state::checksum({bytes.data() + begin, end - begin});
  std::memcpy(bytes.data() + end, &sum, sizeof sum);
}

/// Writes both checksums, if the offsets in the header lie inside the data.
void make_sums_fit(std::vector<uint8_t>& bytes) {
  if (bytes.size() < kHeader) return;
  uint32_t tokens = 0;
  uint64_t note = 0;
  std::memcpy(&tokens, bytes.data() + 12, sizeof tokens);
  std::memcpy(&note, bytes.data() + 16, sizeof note);
  const uint64_t end = kHeader + uint64_t{tokens} * 4 + note;
  if (note > bytes.size() || end + 16 > bytes.size()) return;
  put_sum(bytes, 0, end);
  put_sum(bytes, end + 8, bytes.size() - 8);
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::unique_ptr<state::StateStore> store = make_store();
  std::vector<uint8_t> bytes(data + 1, data + size);
  if (data[0] % 2 == 1) make_sums_fit(bytes);
  {
    chimere::SpanSource source(bytes);
    const auto stored = state::read_checkpoint(source, *store, kWeights);
    if (stored.ok()) {
      const auto snapshot = stored->state->checkpoint();
      const std::vector<uint8_t> again = snapshot.to_blob();
      if (again.size() > bytes.size() ||
          std::memcmp(again.data(), bytes.data() + bytes.size() - again.size(), again.size()) !=
              0) {
        fail("the state is stored as other bytes");
      }
    } else if (stored.error().message.empty()) {
      fail("an error without a message");
    }
  }
  if (store->pages_in_use() + store->slots_in_use() + store->pending_rows_in_use() != 0) {
    fail("pages, slots or row blocks were lost");
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const auto store = make_store();
  auto sequence = store->create_sequence();
  const state::RowsWanted wanted{sequence.get(), 6, false};
  auto reservation = store->reserve({&wanted, 1});
  reservation->apply();
  auto unfolded = sequence->fork();
  const state::RowsWanted revocable{unfolded.get(), 2, true};
  auto more = store->reserve({&revocable, 1});
  for (const int32_t block : more->keep_rows()) {
    std::memset(store->pending_base(1) + block * store->row_stride(), block, 64);
  }
  more->apply();
  (void)unfolded->commit(2);
  std::vector<std::vector<uint8_t>> seeds;
  for (const auto& s :
       {store->create_sequence()->checkpoint(), sequence->checkpoint(), unfolded->checkpoint()}) {
    const std::vector<int32_t> tokens(static_cast<size_t>(s.position()), 7);
    for (const uint8_t fit : {0, 1}) {
      std::vector<uint8_t> seed = {fit};
      chimere::VectorSink sink(seed);
      (void)state::write_checkpoint(sink, s, tokens, "note", kWeights);
      seeds.push_back(std::move(seed));
    }
  }
  return seeds;
}
