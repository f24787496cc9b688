#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/speculation/dflash_drafter.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/lookup_drafter.h"
#include "engine/speculation/mtp_drafter.h"
#include "engine/speculation/table_drafter.h"

namespace chimere::engine {
namespace {

constexpr std::array<const DrafterType*, 4> kDrafterTypes = {&kDflashDrafter, &kMtpDrafter,
                                                             &kLookupDrafter, &kTableDrafter};
static_assert(kDrafterTypes.size() <= 32, "Speculation::drafters has a bit for each");

}  // namespace

std::span<const DrafterType* const> drafter_types() { return kDrafterTypes; }

bool reads_draft_kv(const Speculation& speculation) {
  for (size_t i = 0; i < kDrafterTypes.size(); ++i) {
    if (speculation.uses(i) && kDrafterTypes[i]->reads_draft_kv) return true;
  }
  return false;
}

std::optional<Speculation> Speculation::named(std::string_view name) {
  if (name == "off") return off();
  if (name == "auto") return automatic();
  Speculation found = {.always = true};
  for (size_t i = 0; i < kDrafterTypes.size(); ++i) {
    if (kDrafterTypes[i]->mode == name) found.drafters |= uint32_t{1} << i;
  }
  if (found.drafters == 0) return {};
  return found;
}

std::vector<std::string_view> Speculation::names() {
  std::vector<std::string_view> names = {"off", "auto"};
  for (const DrafterType* type : kDrafterTypes) {
    if (std::ranges::find(names, type->mode) == names.end()) names.push_back(type->mode);
  }
  return names;
}

}  // namespace chimere::engine
