// The fields that say what the text of a generation must be. Internal to the module.
#ifndef CHIMERE_PROTOCOL_OUTPUT_FORMAT_H_
#define CHIMERE_PROTOCOL_OUTPUT_FORMAT_H_

#include "protocol/field_table.h"

namespace chimere::protocol {

/// OpenAI's `response_format`; `grammar` and `json_schema` as llama.cpp's server has them;
/// `structured_outputs` and `guided_*` as vLLM's has them. A request has one of them.
extern const ObjectType<GenerationFields> kOutputFormatType;

/// The object {"type", "name", "schema", ...} that OpenAI's Responses have as `text.format`, and
/// Anthropic's Messages as `output_config.format`.
void read_flat_format(Fields& fields, std::string_view name, const RequestLimits& limits,
                      OutputFormat& out);
/// A JSON Schema, or "json" for any object: Ollama's `format`.
void read_ollama_format(Fields& fields, std::string_view name, OutputFormat& out);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_OUTPUT_FORMAT_H_
