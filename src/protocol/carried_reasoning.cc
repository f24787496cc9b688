#include "protocol/carried_reasoning.h"

#include "protocol/base64.h"
#include "text/utf8.h"

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
  auto reasoning = from_base64(carried.substr(kCarrier.size()));
  if (reasoning && !text::is_valid_utf8(*reasoning)) return std::nullopt;
  return reasoning;
}

}  // namespace chimere::protocol
