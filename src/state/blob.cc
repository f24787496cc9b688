#include "state/blob.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "state/state_store.h"

namespace chimere::state {
namespace {

static_assert(std::endian::native == std::endian::little, "blobs are written in host order");

constexpr std::array<uint8_t, 8> kMagic = {'C', 'H', 'I', 'M', 'S', 'T', 'A', 'T'};
constexpr uint32_t kVersion = 1;
// Offsets in the header.
constexpr size_t kVersionAt = 8;
constexpr size_t kComponentsAt = 12;
constexpr size_t kFingerprintAt = 16;
constexpr size_t kPositionAt = 24;
constexpr size_t kPagesAt = 28;
constexpr size_t kSlotsAt = 32;
constexpr size_t kSizeAt = 40;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kComponentBytes = 32;
constexpr size_t kChecksumBytes = 8;

template <typename T>
T read(std::span<const uint8_t> bytes, size_t at) {
  T v;
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

template <typename T>
void append(std::vector<uint8_t>& out, T v) {
  const size_t at = out.size();
  out.resize(at + sizeof v);
  std::memcpy(out.data() + at, &v, sizeof v);
}

}  // namespace

uint64_t checksum(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
void append_u32(std::vector<uint8_t>& out, uint32_t v) { append(out, v); }
void append_u64(std::vector<uint8_t>& out, uint64_t v) { append(out, v); }

std::vector<uint8_t> component_table(const StateSpec& spec) {
  std::vector<uint8_t> table;
  for (const ComponentSpec& c : spec.components) {
    append_u32(table, static_cast<uint32_t>(c.kind));
    append_u32(table, static_cast<uint32_t>(c.layer));
    append_u32(table, static_cast<uint32_t>(c.k_type));
    append_u32(table, static_cast<uint32_t>(c.v_type));
    append_u32(table, c.layout_version);
    append_u32(table, 0);
    append_u64(table, static_cast<uint64_t>(c.bytes));
  }
  return table;
}

std::vector<uint8_t> begin_blob(const StateSpec& spec, const BlobHeader& header) {
  std::vector<uint8_t> blob(kMagic.begin(), kMagic.end());
  append_u32(blob, kVersion);
  append_u32(blob, static_cast<uint32_t>(spec.components.size()));
  append_u64(blob, header.fingerprint);
  append_u32(blob, static_cast<uint32_t>(header.position));
  append_u32(blob, header.pages);
  append_u32(blob, header.slots);
  append_u32(blob, 0);
  append_u64(blob, 0);  // the size, see finish_blob()
  const std::vector<uint8_t> table = component_table(spec);
  blob.insert(blob.end(), table.begin(), table.end());
  return blob;
}

void finish_blob(std::vector<uint8_t>& blob) {
  const uint64_t size = blob.size() + kChecksumBytes;
  std::memcpy(blob.data() + kSizeAt, &size, sizeof size);
  append_u64(blob, checksum(blob));
}

Result<BlobHeader> read_blob_header(std::span<const uint8_t> blob) {
  if (blob.size() < kHeaderBytes + kChecksumBytes ||
      !std::equal(kMagic.begin(), kMagic.end(), blob.begin())) {
    return invalid_data("these bytes are no stored sequence state");
  }
  if (read<uint32_t>(blob, kVersionAt) != kVersion) {
    return unsupported("the stored state has version " +
                       std::to_string(read<uint32_t>(blob, kVersionAt)) +
                       "; this program reads version " + std::to_string(kVersion));
  }
  if (read<uint64_t>(blob, kSizeAt) != blob.size()) {
    return invalid_data("the stored state has " + std::to_string(blob.size()) +
                        " bytes instead of " + std::to_string(read<uint64_t>(blob, kSizeAt)) +
                        "; it was cut short");
  }
  const std::span<const uint8_t> covered = blob.first(blob.size() - kChecksumBytes);
  if (checksum(covered) != read<uint64_t>(blob, covered.size())) {
    return invalid_data("the stored state is damaged: its checksum does not match");
  }
  BlobHeader header;
  header.fingerprint = read<uint64_t>(blob, kFingerprintAt);
  header.position = read<int32_t>(blob, kPositionAt);
  header.pages = read<uint32_t>(blob, kPagesAt);
  header.slots = read<uint32_t>(blob, kSlotsAt);
  header.blocks_at = kHeaderBytes + size_t{read<uint32_t>(blob, kComponentsAt)} * kComponentBytes;
  return header;
}

std::vector<uint8_t> Checkpoint::to_blob() const {
  BlobHeader header;
  header.fingerprint = store_->fingerprint();
  header.position = position_;
  header.pages = static_cast<uint32_t>(pages_.size());
  header.slots = store_->has_slots() && slot_ != 0 ? 1 : 0;
  std::vector<uint8_t> blob = begin_blob(store_->spec(), header);
  auto add = [&blob](const BlockPool& pool, int32_t block) {
    blob.insert(blob.end(), pool.data(block), pool.data(block) + pool.block_bytes());
  };
  for (int32_t page : pages_) add(store_->pages_, page);
  if (header.slots == 1) add(store_->slots_, slot_);
  finish_blob(blob);
  return blob;
}

Result<std::unique_ptr<SequenceState>> StateStore::from_blob(std::span<const uint8_t> blob) {
  CHIMERE_TRY(const BlobHeader header, read_blob_header(blob));
  if (header.fingerprint != fingerprint_) {
    return unsupported(
        "the stored state belongs to another model, another cache type or another version of the "
        "arithmetic; run the tokens again");
  }
  const auto page_bytes = static_cast<size_t>(page_stride());
  const auto slot_bytes = static_cast<size_t>(slot_stride());
  const bool shape_ok = header.position >= 0 && header.pages == pages_for(header.position) &&
                        header.slots == (has_slots() && header.position > 0 ? 1U : 0U);
  if (!shape_ok || blob.size() != header.blocks_at + header.pages * page_bytes +
                                      header.slots * slot_bytes + kChecksumBytes) {
    return invalid_data("the stored state contradicts itself: " + std::to_string(header.pages) +
                        " pages and " + std::to_string(header.slots) + " recurrent states for " +
                        std::to_string(header.position) + " tokens");
  }

  Checkpoint state(*this);  // gives back what it holds if the pools run out below
  const uint8_t* from = blob.data() + header.blocks_at;
  for (uint32_t i = 0; i < header.pages; ++i, from += page_bytes) {
    CHIMERE_TRY(const int32_t page, pages_.allocate());
    state.pages_.push_back(page);
    std::memcpy(pages_.data(page), from, page_bytes);
  }
  if (header.slots == 1) {
    CHIMERE_TRY(const int32_t slot, slots_.allocate());
    slots_.release(std::exchange(state.slot_, slot));
    std::memcpy(slots_.data(slot), from, slot_bytes);
  }
  state.position_ = header.position;
  return state.restore();
}

}  // namespace chimere::state
