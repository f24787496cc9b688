// Opens the n-gram tables that the settings name.
#ifndef CHIMERE_RUNTIME_ENGRAM_TABLES_H_
#define CHIMERE_RUNTIME_ENGRAM_TABLES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "engram/memory.h"
#include "runtime/prediction.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

/// Splits "a,b" into paths.
std::vector<std::string> split_paths(std::string_view list);

/// Opens tables for a model's tokenizer. Errors: those of open_table().
Result<engram::Memory::Tables> open_tables(std::span<const std::string> paths,
                                           const Settings& settings,
                                           const text::Tokenizer& tokenizer);

engram::Gating gating_of(const Settings& settings);

/// The gate's features of a row of logits. Errors: kInvalidData (NaN, or all masked).
Result<engram::ModelPrediction> prediction_of(LogitsRow logits);

/// Probability of a token in the mixture of the model and the tables.
double mixed_probability(const engram::ModelPrediction& prediction,
                         std::span<const engram::Share> shares, int32_t token);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_ENGRAM_TABLES_H_
