// Header-only use of xxHash: no library to link.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/file_stream.h"
#include "engram/table.h"
#include "engram/table_format.h"

namespace chimere::engram {
namespace {

template <typename T>
std::span<const uint8_t> bytes_of(std::span<const T> items) {
  return {reinterpret_cast<const uint8_t*>(items.data()), items.size_bytes()};
}

/// Open-addressing hash table of node numbers + 1 with linear probing; 0 = empty. Load at most two
/// thirds.
std::vector<uint32_t> make_slots(std::span<const Node> nodes, std::vector<uint64_t>& hashes) {
  const size_t n = nodes.size() - 1;
  std::vector<uint32_t> slots(std::bit_ceil(std::max<size_t>(16, n + n / 2)), 0);
  hashes.reserve(n);
  for (size_t i = 1; i < n; ++i) {  // the root is never looked up
    const uint64_t hash = context_hash(nodes[i].parent, nodes[i].token);
    hashes.push_back(hash);
    uint64_t at = slot_of(hash, slots.size());
    while (slots[at] != 0) at = (at + 1) & (slots.size() - 1);
    slots[at] = static_cast<uint32_t>(i) + 1;
  }
  return slots;
}

/// Each name is a u16 length and its bytes; longer names are truncated.
std::vector<uint8_t> pack_sources(const std::vector<std::string>& sources) {
  std::vector<uint8_t> out;
  for (const std::string& name : sources) {
    const size_t size = std::min<size_t>(name.size(), UINT16_MAX);
    out.push_back(static_cast<uint8_t>(size & 0xff));
    out.push_back(static_cast<uint8_t>(size >> 8));
    out.insert(out.end(), name.begin(), name.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return out;
}

}  // namespace

uint64_t checksum_of(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Status write_table(ByteSink& out, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate) {
  std::vector<uint64_t> hashes;
  const std::vector<uint32_t> slots = make_slots(counts.nodes(), hashes);
  const std::vector<uint64_t> buckets = CuckooFilter::build(hashes);
  const std::vector<uint8_t> sources = pack_sources(counts.sources());
  const std::array<std::span<const uint8_t>, 6> body = {
      bytes_of(std::span<const uint32_t>(slots)),
      bytes_of(counts.nodes()),
      bytes_of(counts.successors()),
      bytes_of(std::span<const uint64_t>(buckets)),
      bytes_of(gate),
      std::span<const uint8_t>(sources)};
  XXH3_state_t sum;
  XXH3_64bits_reset(&sum);
  for (const auto& part : body) XXH3_64bits_update(&sum, part.data(), part.size());

  Header header;
  header.order = static_cast<uint32_t>(counts.order());
  header.as_of = counts.as_of();
  header.tokenizer = tokenizer;
  header.slots = slots.size();
  header.nodes = counts.nodes().size() - 1;
  header.successors = counts.successors().size();
  header.buckets = buckets.size();
  header.gate_values = gate.size();
  header.source_bytes = sources.size();
  header.body_checksum = XXH3_64bits_digest(&sum);
  std::ranges::copy(counts.levels(), header.levels.begin());
  std::ranges::copy(counts.discounts(), header.discounts.begin());
  std::array<uint8_t, sizeof(Header)> head;
  std::memcpy(head.data(), &header, sizeof header);
  const uint64_t checksum = checksum_of(std::span(head).first(offsetof(Header, checksum)));
  std::memcpy(head.data() + offsetof(Header, checksum), &checksum, sizeof checksum);

  CHIMERE_CHECK_OK(out.write(head));
  for (const auto& part : body) CHIMERE_CHECK_OK(out.write(part));
  return {};
}

Status write_table(const std::string& path, const Counts& counts, uint64_t tokenizer,
                   std::span<const float> gate) {
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(write_table(file, counts, tokenizer, gate));
  return file.commit();
}

}  // namespace chimere::engram
