// Values that clients of other servers send, as the ones that mean the same here. Internal to the
// module.
#ifndef CHIMERE_PROTOCOL_FOREIGN_VALUES_H_
#define CHIMERE_PROTOCOL_FOREIGN_VALUES_H_

#include <string>
#include <string_view>

#include "base/settings.h"
#include "protocol/fields.h"

namespace chimere::protocol {

/// The value of a sampling setting; `value` itself if it needs no translation. `why` becomes a
/// sentence if it is not quite what the client asked for.
Json translated(const SettingInfo& setting, const Json& value, std::string& why);

/// An effort of the reasoning as one of none, low, medium, high and auto (no limit); empty: no
/// effort has this name. OpenAI's, OpenRouter's and Anthropic's names are known.
std::string_view effort_of(std::string_view name);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_FOREIGN_VALUES_H_
