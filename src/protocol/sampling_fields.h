// Field readers that several requests share. Internal to the module.
#ifndef CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_
#define CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_

#include <string>
#include <vector>

#include "protocol/fields.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// Reads model, n, stop, stream, stream_options, seed, logit_bias, the sampling options and the
/// fields without effect; not max_tokens and logprobs, which differ between endpoints.
void read_generation(Fields& fields, const Settings& defaults, const RequestLimits& limits,
                     GenerationFields& out);

/// Reads a number into a setting, which checks the range.
void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  Settings& settings);

/// Reads a limit of the generation, at least 1; a value above the setting's maximum is lowered to
/// it.
void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out);

/// Reads `messages`, of which there must be at least one.
void read_messages(Fields& fields, const RequestLimits& limits, std::vector<ChatMessage>& out);
/// Reads `chat_template_kwargs` as JSON text.
void read_template_kwargs(Fields& fields, std::string& out);

/// Reads a list of token ids. False, with an error in `fields`, if it is anything else.
bool read_tokens(Fields& fields, const Json& list, const std::string& path,
                 std::vector<int32_t>& out);

/// Reads field `name`: a text, a list of texts, a list of token ids, or a list of such lists; at
/// most `most` prompts.
void read_prompts(Fields& fields, const std::string& name, int64_t most, std::vector<Prompt>& out);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_
