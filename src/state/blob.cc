// The serialised form of a stored state (docs/state-blob.md): header, component table, pages, slot,
// unfolded rows, pages of windows, checksum. Written by Checkpoint::write(), read by
// StateStore::read().
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "state/checksum.h"
#include "state/state_store.h"

namespace chimere::state {
namespace {

static_assert(std::endian::native == std::endian::little, "blobs are written in host order");

constexpr std::array<uint8_t, 8> kMagic = {'C', 'H', 'I', 'M', 'S', 'T', 'A', 'T'};
constexpr uint32_t kVersionWithoutRows = 1;
constexpr uint32_t kVersionWithRows = 2;  ///< the same, and at least one unfolded row
constexpr uint64_t kChecksumBytes = 8;

/// The header as stored.
struct Header {
  std::array<uint8_t, 8> magic = kMagic;
  uint32_t version = kVersionWithoutRows;
  uint32_t components = 0;
  uint64_t fingerprint = 0;
  int32_t position = 0;
  uint32_t pages = 0;
  uint32_t slots = 0;     ///< 0: the empty state, or a model without recurrent state
  uint32_t unfolded = 0;  ///< row blocks; 0 in version 1
  uint64_t size = 0;
};
static_assert(sizeof(Header) == 48);

template <typename T>
std::span<uint8_t> bytes_of(T& v) {
  return {reinterpret_cast<uint8_t*>(&v), sizeof v};
}
template <typename T>
std::span<const uint8_t> bytes_of(const T& v) {
  return {reinterpret_cast<const uint8_t*>(&v), sizeof v};
}

std::string type_name(uint32_t type) {
  const DTypeInfo* info = find_dtype(type);
  return info != nullptr ? std::string(info->name) : "type " + std::to_string(type);
}

/// Whether `longer` is `shorter` followed by one more layer with KV and a hidden state: the MTP
/// head.
bool only_mtp_more(const std::vector<ComponentRecord>& longer,
                   const std::vector<ComponentRecord>& shorter) {
  if (longer.size() != shorter.size() + 2) return false;
  for (size_t i = 0; i < shorter.size(); ++i) {
    if (longer[i].kind != shorter[i].kind || longer[i].layer != shorter[i].layer) return false;
  }
  const ComponentRecord& kv = longer[shorter.size()];
  const ComponentRecord& hidden = longer.back();
  return kv.kind == static_cast<uint32_t>(ComponentSpec::Kind::kPagedKv) &&
         hidden.kind == static_cast<uint32_t>(ComponentSpec::Kind::kRecurrent) &&
         kv.layer == hidden.layer;
}

/// Why a store with component table `ours` cannot read the state.
std::string difference(const std::vector<ComponentRecord>& theirs,
                       const std::vector<ComponentRecord>& ours) {
  if (only_mtp_more(theirs, ours)) {
    return "it was stored with the MTP head's state; continue with --speculate auto (or mtp)";
  }
  if (only_mtp_more(ours, theirs)) {
    return "it was stored without the MTP head's state; continue with --speculate off (or ngram)";
  }
  bool same_layers = theirs.size() == ours.size();
  for (size_t i = 0; same_layers && i < ours.size(); ++i) {
    same_layers = theirs[i].kind == ours[i].kind && theirs[i].layer == ours[i].layer;
  }
  if (!same_layers) return "it belongs to a model with other layers";
  for (size_t i = 0; i < ours.size(); ++i) {
    const ComponentRecord& t = theirs[i];
    if (t.k_type != ours[i].k_type || t.v_type != ours[i].v_type) {
      return "its KV cache has keys of type " + type_name(t.k_type) + " and values of type " +
             type_name(t.v_type) + " (--cache-k, --cache-v)";
    }
    if (t.layout != ours[i].layout) return "its layout is that of another back end";
  }
  return "it belongs to another model, or was made with another --expert-top-p or by another "
         "version of the arithmetic";
}

/// Errors: kInvalidData (not a state, truncated), kUnsupported (a newer version).
Status check_kind(const Header& header, uint64_t size) {
  if (header.magic != kMagic) return invalid_data("this is not a stored sequence state");
  if (header.version != kVersionWithRows && header.version != kVersionWithoutRows) {
    return unsupported("the stored state has version " + std::to_string(header.version) +
                       "; this program reads versions " + std::to_string(kVersionWithoutRows) +
                       " and " + std::to_string(kVersionWithRows));
  }
  if (header.size != size) {
    return invalid_data("the stored state has " + std::to_string(size) + " bytes instead of " +
                        std::to_string(header.size) + "; it was truncated");
  }
  return {};
}

/// Errors: kUnsupported (of another model, layout or type), kInvalidData.
Status check_components(const Header& header, const std::vector<uint8_t>& ours, uint64_t key,
                        SummedSource& in) {
  if (header.components > (header.size - sizeof(Header)) / sizeof(ComponentRecord)) {
    return invalid_data("the stored state lists more components than it can hold");
  }
  std::vector<ComponentRecord> theirs(header.components);
  CHIMERE_CHECK_OK(in.read(
      {reinterpret_cast<uint8_t*>(theirs.data()), theirs.size() * sizeof(ComponentRecord)}));
  std::vector<ComponentRecord> wanted(ours.size() / sizeof(ComponentRecord));
  if (!ours.empty()) std::memcpy(wanted.data(), ours.data(), ours.size());
  const bool same = theirs.size() == wanted.size() &&
                    (ours.empty() || std::memcmp(theirs.data(), ours.data(), ours.size()) == 0);
  if (header.fingerprint != key) {
    return unsupported("the stored state cannot be used here: " + difference(theirs, wanted));
  }
  if (!same)
    return invalid_data(
        "the stored state is inconsistent: its components do not match its fingerprint");
  return {};
}

/// Size of the pieces in which device bytes are copied through the host.
constexpr int64_t kCopyBytes = int64_t{4} << 20;

/// Calls pass(at, bytes) for pieces of a block.
template <typename Pass>
Status in_pieces(uint8_t* block, int64_t bytes, const Pass& pass) {
  for (int64_t at = 0; at < bytes; at += kCopyBytes) {
    CHIMERE_CHECK_OK(pass(block + at, static_cast<size_t>(std::min(kCopyBytes, bytes - at))));
  }
  return {};
}

Status write_block(Memory& memory, uint8_t* block, int64_t bytes, SummedSink& out) {
  if (memory.on_host()) return out.write({block, static_cast<size_t>(bytes)});
  std::vector<uint8_t> buffer(static_cast<size_t>(std::min(kCopyBytes, bytes)));
  return in_pieces(block, bytes, [&](uint8_t* at, size_t n) -> Status {
    CHIMERE_CHECK_OK(memory.read(buffer.data(), at, n));
    return out.write({buffer.data(), n});
  });
}

Status read_block(Memory& memory, uint8_t* block, int64_t bytes, SummedSource& in) {
  if (memory.on_host()) return in.read({block, static_cast<size_t>(bytes)});
  std::vector<uint8_t> buffer(static_cast<size_t>(std::min(kCopyBytes, bytes)));
  return in_pieces(block, bytes, [&](uint8_t* at, size_t n) -> Status {
    CHIMERE_CHECK_OK(in.read({buffer.data(), n}));
    return memory.write(at, buffer.data(), n);
  });
}

}  // namespace

uint64_t Checkpoint::stored_bytes() const {
  const uint64_t slots = pools_->has_slots() && slot_ != 0 ? 1 : 0;
  return sizeof(Header) + pools_->spec().components.size() * sizeof(ComponentRecord) +
         pages_.size() * static_cast<uint64_t>(pools_->page_stride()) +
         slots * static_cast<uint64_t>(pools_->slot_stride()) +
         unfolded_.size() * static_cast<uint64_t>(pools_->row_stride()) +
         static_cast<uint64_t>(pools_->window_bytes(position_)) + kChecksumBytes;
}

Status Checkpoint::write(ByteSink& to) const {
  SummedSink out(to);
  Header header;
  header.components = static_cast<uint32_t>(pools_->spec().components.size());
  header.fingerprint = pools_->fingerprint();
  header.position = position_;
  header.pages = static_cast<uint32_t>(pages_.size());
  header.slots = pools_->has_slots() && slot_ != 0 ? 1 : 0;
  header.unfolded = static_cast<uint32_t>(unfolded_.size());
  header.version = unfolded_.empty() ? kVersionWithoutRows : kVersionWithRows;
  header.size = stored_bytes();
  CHIMERE_CHECK_OK(out.write(bytes_of(header)));
  CHIMERE_CHECK_OK(out.write(component_table(pools_->spec())));
  Memory& memory = pools_->memory_;
  const BlockPool& pages = pools_->pages_;
  const BlockPool& slots = pools_->slots_;
  for (const int32_t page : pages_) {
    CHIMERE_CHECK_OK(write_block(memory, pages.data(page), pages.block_bytes(), out));
  }
  if (header.slots == 1) {
    CHIMERE_CHECK_OK(write_block(memory, slots.data(slot_), slots.block_bytes(), out));
  }
  for (const int32_t row : unfolded_) {
    CHIMERE_CHECK_OK(write_block(memory, pools_->row_blocks_.data(row), pools_->row_stride(), out));
  }
  for (size_t g = 0; g < windows_.size(); ++g) {
    const WindowPages& w = windows_[g];
    const BlockPool& pool = pools_->windows_[g].pages;
    for (size_t i = w.behind; i < w.pages.size(); ++i) {
      CHIMERE_CHECK_OK(write_block(memory, pool.data(w.pages[i]), pool.block_bytes(), out));
    }
  }
  return out.finish();
}

std::vector<uint8_t> Checkpoint::to_blob() const {
  std::vector<uint8_t> blob;
  blob.reserve(stored_bytes());
  VectorSink sink(blob);
  if (!write(sink).ok()) blob.clear();
  return blob;
}

Result<std::unique_ptr<SequenceState>> StateStore::read(ByteSource& from) {
  const uint64_t size = from.remaining();
  if (size < sizeof(Header) + kChecksumBytes) {
    return invalid_data("this is not a stored sequence state");
  }
  SummedSource in(from);
  Header header;
  CHIMERE_CHECK_OK(in.read(bytes_of(header)));
  CHIMERE_CHECK_OK(check_kind(header, size));
  const std::vector<uint8_t> table = component_table(spec_);
  CHIMERE_CHECK_OK(check_components(header, table, fingerprint_, in));
  const auto page_bytes = static_cast<uint64_t>(page_stride());
  const auto slot_bytes = static_cast<uint64_t>(slot_stride());
  const auto row_bytes = static_cast<uint64_t>(row_stride());
  const int64_t folded = int64_t{header.position} - header.unfolded;
  const bool rows_ok = header.version == kVersionWithRows
                           ? header.unfolded > 0 && folded >= 0 && has_row_blocks()
                           : header.unfolded == 0;
  const bool shape_ok = header.position >= 0 && rows_ok &&
                        header.pages == pages_for(header.position) &&
                        header.slots == (has_slots() && folded > 0 ? 1U : 0U);
  if (!shape_ok || size != sizeof(Header) + table.size() + header.pages * page_bytes +
                               header.slots * slot_bytes + header.unfolded * row_bytes +
                               static_cast<uint64_t>(window_bytes(header.position)) +
                               kChecksumBytes) {
    return invalid_data("the stored state is inconsistent: " + std::to_string(header.pages) +
                        " pages, " + std::to_string(header.slots) + " recurrent states and " +
                        std::to_string(header.unfolded) + " unfolded rows for " +
                        std::to_string(header.position) + " tokens");
  }

  Checkpoint state(*this);  // releases its blocks on an error
  for (uint32_t i = 0; i < header.pages; ++i) {
    CHIMERE_TRY(const int32_t page, allocate(pages_));
    state.pages_.push_back(page);
    CHIMERE_CHECK_OK(read_block(memory_, pages_.data(page), pages_.block_bytes(), in));
  }
  if (header.slots == 1) {
    CHIMERE_TRY(const int32_t slot, allocate(slots_));
    slots_.release(std::exchange(state.slot_, slot));
    CHIMERE_CHECK_OK(read_block(memory_, slots_.data(slot), slots_.block_bytes(), in));
  }
  for (uint32_t i = 0; i < header.unfolded; ++i) {
    CHIMERE_TRY(const int32_t row, allocate(row_blocks_));
    state.unfolded_.push_back(row);
    CHIMERE_CHECK_OK(read_block(memory_, row_blocks_.data(row), row_blocks_.block_bytes(), in));
  }
  CHIMERE_CHECK_OK(state.allocate_windows(header.position));
  for (size_t g = 0; g < windows_.size(); ++g) {
    const Checkpoint::WindowPages& w = state.windows_[g];
    const BlockPool& pool = windows_[g].pages;
    for (size_t i = w.behind; i < w.pages.size(); ++i) {
      CHIMERE_CHECK_OK(read_block(memory_, pool.data(w.pages[i]), pool.block_bytes(), in));
    }
  }
  CHIMERE_CHECK_OK(in.finish("the stored state"));
  state.position_ = header.position;
  return state.restore();
}

Result<std::unique_ptr<SequenceState>> StateStore::from_blob(std::span<const uint8_t> blob) {
  SpanSource source(blob);
  return read(source);
}

}  // namespace chimere::state
