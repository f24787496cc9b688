#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/mapped_file.h"
#include "engram/legacy_table.h"
#include "engram/table.h"
#include "engram/table_format.h"

namespace chimere::engram {
namespace {

Error damaged(const std::string& path, const char* what) {
  return invalid_data("The table '" + path + "' is damaged: " + what +
                      "; build it again or restore a copy.");
}

/// The sections of a mapped file, validated against its size and checksums. Indexes in the sections
/// are checked when they are used.
class MappedTable final : public Table {
 public:
  static Result<std::shared_ptr<const MappedTable>> open(MappedFile file) {
    auto out = std::make_shared<MappedTable>();
    out->file_ = std::move(file);
    CHIMERE_CHECK_OK(out->read_header());
    CHIMERE_CHECK_OK(out->read_sections());
    return std::shared_ptr<const MappedTable>(std::move(out));
  }

  Parts parts() const {
    Parts parts;
    parts.order = info_.order;
    parts.as_of = info_.as_of;
    parts.levels.assign(header_.levels.begin(), header_.levels.begin() + info_.order + 2);
    parts.nodes.assign(nodes_.begin(), nodes_.end());
    parts.successors.assign(successors_.begin(), successors_.end());
    parts.sources = info_.sources;
    return parts;
  }

  Status check_unchanged() const override { return file_.check_unchanged(); }

 protected:
  Status lookup(std::span<const int32_t> history, std::vector<Evidence>& out) const override {
    const size_t most = std::min(history.size(), static_cast<size_t>(info_.order));
    uint32_t node = 0;
    size_t found = 0;
    for (size_t k = 0; k < most; ++k) {
      const auto next = longer(node, static_cast<uint32_t>(history[history.size() - 1 - k]));
      if (!next) break;
      node = *next;
      if (nodes_[node].first > nodes_[node + 1].first ||
          nodes_[node + 1].first > successors_.size()) {
        return damaged(info_.path, "a context's entries are out of range");
      }
      if (out.size() == found) out.emplace_back();
      if (describe(node, static_cast<int>(k) + 1, out[found])) ++found;
    }
    out.resize(found);
    return {};
  }

 private:
  Status read_header();
  Status read_sections();

  /// The node of the context extended by `token` on the left.
  std::optional<uint32_t> longer(uint32_t node, uint32_t token) const {
    const uint64_t hash = context_hash(node, token);
    if (!filter_.may_contain(hash)) return {};
    uint64_t at = slot_of(hash, slots_.size());
    for (size_t probes = 0; probes < slots_.size(); ++probes) {
      const uint32_t slot = slots_[at];
      if (slot == 0 || slot > header_.nodes) return {};
      const Node& candidate = nodes_[slot - 1];
      // The root is no extension; a valid file has no slot for it.
      if (candidate.parent == node && candidate.token == token && slot != 1) return slot - 1;
      at = (at + 1) & (slots_.size() - 1);
    }
    return {};
  }

  /// False if no usable successor remains.
  bool describe(uint32_t node, int order, Evidence& out) const {
    const bool highest = order == info_.order;
    const auto all =
        successors_.subspan(nodes_[node].first, nodes_[node + 1].first - nodes_[node].first);
    out.order = order;
    out.total = nodes_[node].total;
    out.distinct = static_cast<uint32_t>(all.size());
    out.discounts = header_.discounts[static_cast<size_t>(order)];
    out.left = 0;
    out.top.clear();
    for (const Successor& s : all.first(std::min(all.size(), kMaxSuccessors))) {
      const float count = count_of(s, highest, info_.as_of);
      if (count > 0 && s.token < kMaxTokens) out.add(s.token, count);
    }
    return !out.top.empty() && out.total > 0 && std::isfinite(out.total);
  }

  MappedFile file_;
  Header header_;
  std::span<const uint32_t> slots_;
  std::span<const Node> nodes_;
  std::span<const Successor> successors_;
  CuckooFilter filter_;
};

Status MappedTable::read_header() {
  const std::string& path = file_.path();
  if (file_.size() < sizeof(Header)) return damaged(path, "it ends within its header");
  std::memcpy(&header_, file_.data(), sizeof header_);
  if (checksum_of({file_.data(), offsetof(Header, checksum)}) != header_.checksum) {
    return damaged(path, "its header's checksum is wrong");
  }
  if (header_.order < 1 || header_.order > kMaxOrder || header_.as_of > UINT16_MAX ||
      header_.nodes < 1 || header_.nodes >= UINT32_MAX || !std::has_single_bit(header_.slots) ||
      (header_.buckets != 0 && !std::has_single_bit(header_.buckets))) {
    return damaged(path, "its header has invalid values");
  }
  for (const Discounts& d : header_.discounts) {
    for (const float value : {d.once, d.twice, d.more}) {
      const bool in_range = value >= 0 && value <= 3;  // false for NaN
      if (!in_range) return damaged(path, "its discounts are out of range");
    }
  }
  return {};
}

/// Cursor over the sections of a file; fails when a section does not fit.
class Sections {
 public:
  Sections(const uint8_t* data, size_t size) : rest_(data, size) {}
  template <typename T>
  std::span<const T> take(uint64_t count) {
    if (!fits_ || count > rest_.size() / sizeof(T)) {
      fits_ = false;
      return {};
    }
    const auto* first = reinterpret_cast<const T*>(rest_.data());
    rest_ = rest_.subspan(count * sizeof(T));
    return {first, count};
  }
  bool all_used() const { return fits_ && rest_.empty(); }

 private:
  std::span<const uint8_t> rest_;
  bool fits_ = true;
};

bool unpack_sources(std::span<const uint8_t> bytes, std::vector<std::string>& out) {
  while (!bytes.empty()) {
    if (bytes.size() < 2) return false;
    const size_t size = bytes[0] | static_cast<size_t>(bytes[1]) << 8;
    if (bytes.size() < 2 + size) return false;
    out.emplace_back(bytes.begin() + 2, bytes.begin() + 2 + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(2 + size);
  }
  return true;
}

Status MappedTable::read_sections() {
  const std::string& path = file_.path();
  const std::span<const uint8_t> body(file_.data() + sizeof(Header), file_.size() - sizeof(Header));
  Sections sections(body.data(), body.size());
  slots_ = sections.take<uint32_t>(header_.slots);
  nodes_ = sections.take<Node>(header_.nodes + 1);
  successors_ = sections.take<Successor>(header_.successors);
  const auto buckets = sections.take<uint64_t>(header_.buckets);
  filter_ = CuckooFilter(buckets);
  const auto gate = sections.take<float>(header_.gate_values);
  const auto sources = sections.take<uint8_t>(header_.source_bytes);
  if (!sections.all_used()) {
    return damaged(path, "its size does not match its header (truncated?)");
  }
  if (checksum_of(body) != header_.body_checksum) return damaged(path, "its checksum is wrong");
  if (!unpack_sources(sources, info_.sources))
    return damaged(path, "its source names are malformed");
  const auto order = static_cast<size_t>(header_.order);
  for (size_t level = 0; level <= order; ++level) {
    if (header_.levels[level] > header_.levels[level + 1])
      return damaged(path, "its levels overlap");
    info_.by_order.push_back(header_.levels[level + 1] - header_.levels[level]);
  }
  info_.path = path;
  info_.version = kVersion;
  info_.order = static_cast<int>(order);
  info_.tokenizer = header_.tokenizer;
  info_.contexts = header_.nodes;
  info_.successors = header_.successors;
  info_.bytes = file_.size();
  info_.filter_bytes = buckets.size_bytes();
  info_.as_of = static_cast<uint16_t>(header_.as_of);
  info_.discounts.assign(header_.discounts.begin(),
                         header_.discounts.begin() + static_cast<std::ptrdiff_t>(order) + 1);
  info_.gate.assign(gate.begin(), gate.end());
  return file_.check_unchanged();
}

Result<uint32_t> version_of(const MappedFile& file) {
  std::array<uint32_t, 2> start = {};
  if (file.size() >= sizeof start) std::memcpy(start.data(), file.data(), sizeof start);
  if (start[0] != kMagic) {
    return invalid_data("The file '" + file.path() +
                        "' is not an n-gram table; build one with `chimere engram build`.");
  }
  return start[1];
}

Status check_tokenizer(const TableInfo& info, const OpenOptions& options) {
  if (options.tokenizer == 0 || info.tokenizer == options.tokenizer) return {};
  if (info.tokenizer == 0) {
    if (options.assume_tokenizer) return {};
    return invalid_argument("The table '" + info.path +
                            "' does not name its tokenizer; if it is this "
                            "model's, pass --assume-tokenizer.");
  }
  return invalid_argument("The table '" + info.path +
                          "' was built with another tokenizer than this model's; build it again "
                          "with `chimere engram build -m MODEL`.");
}

}  // namespace

Status Table::find(std::span<const int32_t> history, std::vector<Evidence>& out) const {
  CHIMERE_CHECK_OK(lookup(history, out));
  return check_unchanged();
}

Result<std::shared_ptr<const Table>> open_table(const std::string& path,
                                                const OpenOptions& options) {
  CHIMERE_TRY(MappedFile file, MappedFile::open(path));
  CHIMERE_TRY(const uint32_t version, version_of(file));
  std::shared_ptr<const Table> table;
  if (version == kLegacyVersion) {
    CHIMERE_TRY(table, open_legacy(std::move(file)));
  } else if (version == kVersion) {
    CHIMERE_TRY(table, MappedTable::open(std::move(file)));
  } else {
    return unsupported("The table '" + path + "' has version " + std::to_string(version) +
                       "; this program reads 1 and 2.");
  }
  CHIMERE_CHECK_OK(check_tokenizer(table->info(), options));
  return table;
}

Result<Counts> read_counts(const std::string& path, uint64_t& tokenizer, std::vector<float>& gate) {
  CHIMERE_TRY(MappedFile file, MappedFile::open(path));
  CHIMERE_TRY(const uint32_t version, version_of(file));
  if (version != kVersion) {
    return unsupported("The table '" + path +
                       "' has version 1, which does not store its contexts; build "
                       "one of version 2 from the texts.");
  }
  CHIMERE_TRY(const auto table, MappedTable::open(std::move(file)));
  auto counts = Counts::from_parts(table->parts());
  if (!counts.ok()) return damaged(path, counts.error().message.c_str());
  CHIMERE_CHECK_OK(table->check_unchanged());
  tokenizer = table->info().tokenizer;
  gate = table->info().gate;
  return counts;
}

}  // namespace chimere::engram
