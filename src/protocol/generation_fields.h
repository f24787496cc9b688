// The fields that chat and completion requests share. Internal to the module.
#ifndef CHIMERE_PROTOCOL_GENERATION_FIELDS_H_
#define CHIMERE_PROTOCOL_GENERATION_FIELDS_H_

#include <string_view>

#include "protocol/field_table.h"

namespace chimere::protocol {

/// Everything but the limit of the tokens and log-probabilities, which differ between endpoints.
extern const ObjectType<GenerationFields> kGenerationType;
/// The same without the number of choices.
extern const ObjectType<GenerationFields> kOneChoiceType;

/// The settings of sampling alone.
extern const ObjectType<GenerationFields> kSamplingType;
/// The fields that select a scope in the prefix cache, and whether it is used.
extern const ObjectType<GenerationFields> kCacheScopeType;

/// Reads a number, a list or a text into a setting, which checks it. The notes receive values that
/// were taken for others.
void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  const RequestLimits& limits, Settings& settings);

/// Stop strings: a text, or a list.
void read_stops(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                GenerationFields& out);

/// The model reasons, without a limit, if its template can make it.
void turn_reasoning_on(ChatRequest& out);
/// Sets the reasoning to an effort or a number of tokens.
void set_reasoning(Fields& fields, std::string_view name, std::string_view value, ChatRequest& out);
/// Reads `think`: true, false or an effort as the setting of the reasoning.
void read_think(Fields& fields, std::string_view name, ChatRequest& out);

/// Fails if the last message is the assistant's and cannot be continued.
void check_continued(Fields& fields, const ChatRequest& request);

/// Reads a limit of the generation, at least `least`, or -1 for none; a value above the setting's
/// maximum is lowered to it.
void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out,
                     int64_t least = 1);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_GENERATION_FIELDS_H_
