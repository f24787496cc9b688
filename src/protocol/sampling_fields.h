// Parts that several requests share. For sources of this room only.
#ifndef CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_
#define CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_

#include <string>
#include <vector>

#include "protocol/fields.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// model, n, stop, stream, stream_options, seed, logit_bias, sampling, and the fields without
/// effect. Not max_tokens and logprobs, which differ.
void read_generation(Fields& fields, const Settings& defaults, const RequestLimits& limits,
                     GenerationFields& out);

/// A number as the value of a setting, which knows its range.
void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  Settings& settings);

/// A limit of the generation, at least 1; above the largest that the setting takes it is that one.
void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out);

/// `messages`: at least one.
void read_messages(Fields& fields, const RequestLimits& limits, std::vector<ChatMessage>& out);
/// `chat_template_kwargs` as JSON text.
void read_template_kwargs(Fields& fields, std::string& out);

/// A list of token ids. False (with an error in `fields`) if it is something else.
bool read_tokens(Fields& fields, const Json& list, const std::string& path,
                 std::vector<int32_t>& out);

/// Field `name`: a text, a list of texts, a list of token ids, or a list of such lists; `most` of
/// them.
void read_prompts(Fields& fields, const std::string& name, int64_t most, std::vector<Prompt>& out);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_SAMPLING_FIELDS_H_
