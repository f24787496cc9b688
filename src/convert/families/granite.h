// What Granite 3 and 4 share.
#ifndef CHIMERE_CONVERT_FAMILIES_GRANITE_H_
#define CHIMERE_CONVERT_FAMILIES_GRANITE_H_

#include "convert/family.h"

namespace chimere::convert {

/// Attention, experts, shared network: all but the ends.
Result<Rules> granite_rules(const Config& config);
/// Those of every transformer, without the heads' width, and Granite's multipliers.
Status write_granite_keys(const Config& config, KeyWriter& out);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_FAMILIES_GRANITE_H_
