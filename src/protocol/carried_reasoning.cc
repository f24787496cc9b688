#include "protocol/carried_reasoning.h"

#include "protocol/base64.h"

namespace chimere::protocol {
namespace {

constexpr std::string_view kCarrier = "chimere-reasoning:";

}  // namespace

std::string carry_reasoning(std::string_view reasoning) {
  std::string out(kCarrier);
  append_base64(reasoning, out);
  return out;
}

std::optional<std::string> carried_reasoning(std::string_view carried) {
  if (!carried.starts_with(kCarrier)) return std::nullopt;
  return from_base64(carried.substr(kCarrier.size()));
}

}  // namespace chimere::protocol
