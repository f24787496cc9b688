// The families that can be converted.
#ifndef CHIMERE_CONVERT_FAMILIES_REGISTRY_H_
#define CHIMERE_CONVERT_FAMILIES_REGISTRY_H_

#include <string>
#include <string_view>
#include <vector>

#include "convert/family.h"

namespace chimere::convert {

// One file each, of the same name, but for the relatives of BERT.
const Family& llama_family();
const Family& qwen2_family();
const Family& qwen3_family();
const Family& qwen2moe_family();
const Family& qwen3next_family();
const Family& qwen35_family();
const Family& granite_family();
const Family& granitehybrid_family();
const Family& mamba_family();
const Family& mamba2_family();
const Family& nemotron_h_family();
const Family& falcon_h1_family();
const Family& jamba_family();
const Family& lfm2_family();
const Family& gpt_oss_family();
const Family& bert_family();
const Family& modern_bert_family();
const Family& nomic_bert_family();
const Family& zamba2_family();
const Family& dflash_family();

const std::vector<const Family*>& families();
/// By a name of config.json's "architectures"; nullptr if none has it.
const Family* find_family(std::string_view model_class);
/// All such names, in alphabetical order.
std::vector<std::string> model_classes();

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_FAMILIES_REGISTRY_H_
