// What is declared about a field of a JSON object, for its parser, the reference and the field
// test.
#ifndef CHIMERE_PROTOCOL_FIELD_INFO_H_
#define CHIMERE_PROTOCOL_FIELD_INFO_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "protocol/requests.h"

namespace chimere::protocol {

enum class FieldType { kText, kBoolean, kInteger, kNumber, kOther };
enum class FieldUse { kRead, kNoEffect, kRefused };

/// A field of a JSON object, apart from the C++ type that it is read into.
struct FieldInfo {
  std::string_view name = {};
  std::string_view help = {};  ///< what it does, without a full stop; why it is refused
  bool required = false;
  double min = 0;  ///< for numbers; for lists of objects: their number
  double max = 0;
  int64_t RequestLimits::*limit = nullptr;  ///< in place of `max`
  int64_t max_bytes = 0;                    ///< for texts; 0: any number
  SettingInfo::Choices choices = {};        ///< for texts; empty: any
  std::string_view default_value = {};      ///< in words; empty: none
  std::string_view type_text = {};          ///< for other types, in words
  std::string_view valid = {};              ///< for other types: a JSON list of accepted values
  std::string_view invalid = {};            ///< and of values that are refused with this field
  std::string_view with = {};               ///< further members that a valid value needs, as JSON
  const SettingInfo* setting = nullptr;     ///< that it sets; nullptr: none
  FieldUse use = FieldUse::kRead;
  FieldType type = FieldType::kOther;                      ///< follows from the kind of row
  void (*members)(std::vector<FieldInfo>& out) = nullptr;  ///< of an object, or of its items

  int64_t most(const RequestLimits& limits) const {
    return limit != nullptr ? limits.*limit : static_cast<int64_t>(max);
  }
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_FIELD_INFO_H_
