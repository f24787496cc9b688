// The fields that chat and completion requests share. Internal to the module.
#ifndef CHIMERE_PROTOCOL_GENERATION_FIELDS_H_
#define CHIMERE_PROTOCOL_GENERATION_FIELDS_H_

#include <string_view>

#include "protocol/field_table.h"

namespace chimere::protocol {

/// Everything but the limit of the tokens and log-probabilities, which differ between endpoints.
extern const ObjectType<GenerationFields> kGenerationType;

/// Reads a number, a list or a text into a setting, which checks it.
void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  Settings& settings);

/// Reads a limit of the generation, at least 1; a value above the setting's maximum is lowered to
/// it.
void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_GENERATION_FIELDS_H_
