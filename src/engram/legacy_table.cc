#include "engram/legacy_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engram/table_format.h"

namespace chimere::engram {
namespace {

constexpr size_t kHeaderBytes = 20;
constexpr size_t kSlotBytes = 16;

template <typename T>
T number(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Slot {
  uint64_t hash = 0;
  uint32_t offset = 0;
  uint32_t total = 0;
};

/// Bounds-checked access to the bytes of a file.
class View {
 public:
  static Result<View> of(std::span<const uint8_t> bytes, const std::string& path) {
    const auto broken = [&](const char* what) {
      return invalid_data("The table '" + path + "' is damaged: " + what +
                          "; build it again or restore a copy.");
    };
    if (bytes.size() < kHeaderBytes) return broken("it ends within its header");
    View view;
    view.order_ = number<uint32_t>(bytes.data() + 8);
    const auto slots = number<uint32_t>(bytes.data() + 12);
    if (view.order_ == 0 || slots == 0) return broken("it has no order or no slots");
    if (slots > (bytes.size() - kHeaderBytes) / kSlotBytes)
      return broken("it ends within its slots (truncated?)");
    view.slots_ = bytes.subspan(kHeaderBytes, slots * kSlotBytes);
    view.data_ = bytes.subspan(kHeaderBytes + view.slots_.size());
    uint32_t used = 0;
    for (uint32_t i = 0; i < slots; ++i) {
      const Slot slot = view.slot(i);
      if (slot.hash == 0) continue;
      ++used;
      if (!view.data_of(slot)) return broken("entries lie beyond its end (truncated?)");
    }
    if (used != number<uint32_t>(bytes.data() + 16)) return broken("entries are missing");
    return view;
  }

  uint32_t order() const { return order_; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size() / kSlotBytes); }
  Slot slot(uint32_t i) const {
    const uint8_t* at = slots_.data() + size_t{i} * kSlotBytes;
    return {number<uint64_t>(at), number<uint32_t>(at + 8), number<uint32_t>(at + 12)};
  }
  /// The (token, count) pairs; nothing if they are not inside the file (it may change while open).
  std::optional<std::span<const uint8_t>> data_of(const Slot& slot) const {
    if (data_.size() < 4 || slot.offset > data_.size() - 4) return {};
    const uint64_t bytes = uint64_t{number<uint32_t>(data_.data() + slot.offset)} * 8;
    if (bytes > data_.size() - 4 - slot.offset) return {};
    return data_.subspan(slot.offset + 4, bytes);
  }

 private:
  uint32_t order_ = 0;
  std::span<const uint8_t> slots_;
  std::span<const uint8_t> data_;
};

class LegacyTable final : public Table {
 public:
  LegacyTable(MappedFile file, View view) : file_(std::move(file)), view_(view) {
    info_.path = file_.path();
    info_.version = kLegacyVersion;
    info_.order = static_cast<int>(view_.order());
    info_.bytes = file_.size();
    std::vector<uint64_t> hashes;
    for (uint32_t i = 0; i < view_.slots(); ++i) {
      const Slot slot = view_.slot(i);
      if (slot.hash == 0) continue;
      hashes.push_back(mix(slot.hash));
      info_.successors += view_.data_of(slot)->size() / 8;
    }
    info_.contexts = hashes.size();
    buckets_ = CuckooFilter::build(hashes);
    info_.filter_bytes = buckets_.size() * sizeof(uint64_t);
    filter_ = CuckooFilter(buckets_);
  }

 protected:
  Status check_unchanged() const override { return file_.check_unchanged(); }

  Status lookup(std::span<const int32_t> history, std::vector<Evidence>& out) const override {
    out.clear();
    const auto order = static_cast<size_t>(info_.order);
    if (history.size() < order) return {};
    const uint64_t hash = legacy_hash(history.last(order));
    if (!filter_.may_contain(mix(hash))) return {};
    auto at = static_cast<uint32_t>(hash % view_.slots());
    for (uint32_t probes = 0; probes < view_.slots(); ++probes) {
      const Slot slot = view_.slot(at);
      if (slot.hash == 0) return {};
      if (slot.hash == hash) {
        describe(slot, out);
        return {};
      }
      at = at + 1 == view_.slots() ? 0 : at + 1;
    }
    return {};
  }

 private:
  void describe(const Slot& slot, std::vector<Evidence>& out) const {
    const auto data = view_.data_of(slot);
    if (!data || slot.total == 0) return;
    Evidence e;
    // Contexts longer than kMaxOrder are weighted like those of kMaxOrder.
    e.order = std::min(info_.order, kMaxOrder);
    e.total = static_cast<float>(slot.total);
    e.distinct = static_cast<uint32_t>(data->size() / 8);
    for (size_t i = 0; i < data->size() && e.top.size() < kMaxSuccessors; i += 8) {
      const auto token = number<uint32_t>(data->data() + i);
      const auto count = number<uint32_t>(data->data() + i + 4);
      if (count > 0 && token < kMaxTokens) e.add(token, static_cast<float>(count));
    }
    if (!e.top.empty()) out.push_back(std::move(e));
  }

  MappedFile file_;
  View view_;
  std::vector<uint64_t> buckets_;
  CuckooFilter filter_;
};

void append(std::vector<uint8_t>& out, auto value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

}  // namespace

uint64_t legacy_hash(std::span<const int32_t> tokens) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const int32_t token : tokens) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= static_cast<uint32_t>(token) >> shift & 0xff;
      hash *= 0x100000001b3ULL;
    }
  }
  return hash;
}

Result<LegacyContent> read_legacy(const std::string& path) {
  CHIMERE_TRY(const MappedFile file, MappedFile::open(path));
  const std::span<const uint8_t> bytes(file.data(), file.size());
  if (bytes.size() < 8 || number<uint32_t>(bytes.data()) != kMagic ||
      number<uint32_t>(bytes.data() + 4) != kLegacyVersion) {
    return unsupported("The file '" + path + "' is not a table of version 1.");
  }
  CHIMERE_TRY(const View view, View::of(bytes, path));
  LegacyContent out{view.order(), view.slots(), {}};
  std::vector<std::pair<uint32_t, LegacyEntry>> found;
  for (uint32_t i = 0; i < view.slots(); ++i) {
    const Slot slot = view.slot(i);
    if (slot.hash == 0) continue;
    LegacyEntry entry{slot.hash, {}};
    const auto data = view.data_of(slot);
    for (size_t at = 0; data && at < data->size(); at += 8) {
      entry.successors.push_back(
          {number<uint32_t>(data->data() + at), number<uint32_t>(data->data() + at + 4), 0, 0, 0});
    }
    found.emplace_back(slot.offset, std::move(entry));
  }
  std::ranges::stable_sort(found, {}, &std::pair<uint32_t, LegacyEntry>::first);
  for (auto& [offset, entry] : found) out.entries.push_back(std::move(entry));
  CHIMERE_CHECK_OK(file.check_unchanged());
  return out;
}

Result<std::vector<uint8_t>> legacy_bytes(const LegacyContent& content) {
  const size_t n = content.entries.size();
  const size_t count =
      content.slots != 0 ? content.slots : std::bit_ceil(std::max<size_t>(16, 2 * n));
  if (count < n || count > UINT32_MAX)
    return invalid_argument("A table of version 1 cannot hold " + std::to_string(n) + " contexts.");
  std::vector<Slot> slots(count);
  std::vector<uint8_t> data;
  for (const LegacyEntry& entry : content.entries) {
    if (data.size() > UINT32_MAX) {
      return invalid_argument(
          "The table is too large for version 1, whose offsets have 32 bits; write version 2.");
    }
    size_t at = entry.hash % count;
    while (slots[at].hash != 0) at = at + 1 == count ? 0 : at + 1;
    uint64_t total = 0;
    const auto offset = static_cast<uint32_t>(data.size());
    append(data, static_cast<uint32_t>(entry.successors.size()));
    for (const Successor& s : entry.successors) {
      append(data, s.token);
      append(data, s.weight);
      total += s.weight;
    }
    slots[at] = {entry.hash, offset, static_cast<uint32_t>(std::min<uint64_t>(total, UINT32_MAX))};
  }
  std::vector<uint8_t> out;
  for (const uint32_t field : {kMagic, kLegacyVersion, content.order, static_cast<uint32_t>(count),
                               static_cast<uint32_t>(n)}) {
    append(out, field);
  }
  for (const Slot& slot : slots) {
    append(out, slot.hash);
    append(out, slot.offset);
    append(out, slot.total);
  }
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

LegacyContent legacy_content(std::span<const std::vector<int32_t>> documents, uint32_t order) {
  std::map<uint64_t, std::unordered_map<uint32_t, uint32_t>> counted;
  for (const auto& document : documents) {
    for (size_t i = order; i < document.size(); ++i) {
      const uint64_t hash = legacy_hash(std::span(document).subspan(i - order, order));
      ++counted[hash][static_cast<uint32_t>(document[i])];
    }
  }
  LegacyContent out{order, 0, {}};
  for (const auto& [hash, successors] : counted) {
    LegacyEntry entry{hash, {}};
    for (const auto& [token, count] : successors)
      entry.successors.push_back({token, count, 0, 0, 0});
    std::ranges::sort(entry.successors, [](const Successor& a, const Successor& b) {
      return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
    });
    out.entries.push_back(std::move(entry));
  }
  return out;
}

Result<std::shared_ptr<const Table>> open_legacy(MappedFile file) {
  CHIMERE_TRY(const View view, View::of({file.data(), file.size()}, file.path()));
  return std::shared_ptr<const Table>(std::make_shared<LegacyTable>(std::move(file), view));
}

}  // namespace chimere::engram
