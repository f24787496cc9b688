// Amounts of memory as users write and read them.
#ifndef CHIMERE_BASE_BYTE_AMOUNT_H_
#define CHIMERE_BASE_BYTE_AMOUNT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere {

/// Parses "15.5GiB", "900M" or "900MB" (powers of 1024 with an i, else of 1000), or "123B". A
/// number without a unit is refused: it could be meant in bytes or in GiB. Must be above zero.
/// Errors: kInvalidArgument.
Result<int64_t> parse_byte_amount(std::string_view text);

/// "1.50 GB" (powers of 1000).
std::string human_bytes(double bytes);

}  // namespace chimere

#endif  // CHIMERE_BASE_BYTE_AMOUNT_H_
