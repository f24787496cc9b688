#include "serving/response_store.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace chimere::serving {
namespace {

/// Including what containers and small allocations add.
int64_t size_of(const StoredResponse& response) {
  constexpr size_t kOverhead = 256;
  size_t bytes = kOverhead + response.input.size() + response.body.size();
  for (const text::ChatMessage& m : response.messages) {
    bytes += kOverhead + m.content.size() + m.reasoning_content.size() + m.name.size();
    for (const text::ToolCall& call : m.tool_calls) {
      bytes += kOverhead + call.name.size() + call.arguments.size() + call.id.size();
    }
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

void ResponseStore::drop(std::map<std::string, Owner>::iterator owner,
                         std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  owner->second.bytes -= entry->bytes;
  owner->second.entries.erase(entry);
  if (owner->second.entries.empty()) owners_.erase(owner);
}

void ResponseStore::put(const std::string& owner, const std::string& id, StoredResponse response) {
  const int64_t bytes = size_of(response);
  if (bytes > limit_) return;
  const std::scoped_lock lock(mutex_);
  Owner& own = owners_[owner];
  own.entries.push_back({id, bytes, std::make_shared<const StoredResponse>(std::move(response))});
  own.bytes += bytes;
  bytes_ += bytes;
  while (bytes_ > limit_) {
    const auto largest =
        std::ranges::max_element(owners_, {}, [](const auto& entry) { return entry.second.bytes; });
    drop(largest, largest->second.entries.begin());
  }
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& owner,
                                                          const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return nullptr;
  const auto found = std::ranges::find(own->second.entries, id, &Entry::id);
  return found == own->second.entries.end() ? nullptr : found->response;
}

bool ResponseStore::erase(const std::string& owner, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto own = owners_.find(owner);
  if (own == owners_.end()) return false;
  const auto found = std::ranges::find(own->second.entries, id, &Entry::id);
  if (found == own->second.entries.end()) return false;
  drop(own, found);
  return true;
}

int64_t ResponseStore::bytes() {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace chimere::serving
