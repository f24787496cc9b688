// Every row of the tables of fields: its valid values are accepted, values of a wrong type or out
// of range are refused with its name, and null is the same as absent.
#include "protocol/fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/reference.h"

namespace chimere::protocol {
namespace {

using Json = nlohmann::ordered_json;

struct Examples {
  std::vector<Json> valid;
  std::vector<Json> wrong_type;
  std::vector<Json> out_of_range;
};

/// A JSON object of which a field is a member, as it is sent: its members around the field.
struct Place {
  const Endpoint* endpoint;
  Json body;              ///< valid without the optional field
  Json::json_pointer at;  ///< the object that has the field
  std::string path;       ///< "messages[0]."
};

Json number(double value) {
  return value == std::rint(value) ? Json(static_cast<int64_t>(value)) : Json(value);
}

Examples numbers(double min, double max, bool whole) {
  Examples out{{number(min), number(max)}, {"x", Json::array(), true}, {}};
  out.out_of_range = {number(min - 1), number(2 * max + 1)};
  if (whole) out.out_of_range.push_back(max + 0.5);
  return out;
}

Examples examples_of(const SettingInfo& s) {
  if (s.json_list) {
    return {{Json::array(), {"a", "b"}},
            {1, "a", {1}},
            {Json::array_t(static_cast<size_t>(s.max) + 1, "a")}};
  }
  Json choices = Json::array();
  for (const std::string_view choice : s.choices) choices.push_back(choice);
  if (s.separator != '\0') return {{choices}, {1, {1}, Json::array()}, {{"no such name"}, "a"}};
  switch (s.kind) {
    case SettingInfo::Kind::kSwitch:
      return {{true, false}, {1, "x"}, {}};
    case SettingInfo::Kind::kText:
      if (s.choices.empty()) return {{"x"}, {1, true}, {}};
      return {choices.get<std::vector<Json>>(), {1, true}, {"no such choice"}};
    default:
      break;
  }
  Examples out = numbers(s.min, s.max, s.kind == SettingInfo::Kind::kInteger);
  // The API takes more: see foreign_values.h.
  const bool any_seed = &s == &settings::kSeed;
  std::erase_if(out.out_of_range, [&](const Json& value) {
    return (any_seed && whole_number(value)) || (&s == &settings::kTopK && value == -1) ||
           (&s == &settings::kTemperature && value > s.max) ||
           (&s == &settings::kMirostat && value == 1);
  });
  return out;
}

Examples examples_of(const FieldInfo& f) {
  if (f.setting != nullptr) return examples_of(*f.setting);
  const auto most = static_cast<double>(f.most({}));
  Json choices = Json::array();
  for (const std::string_view choice : f.choices) choices.push_back(choice);
  switch (f.type) {
    case FieldType::kText: {
      Examples out{{"x"}, {1, true, Json::array()}, {}};
      if (!choices.empty()) out = {choices, out.wrong_type, {"no such choice"}};
      if (f.max_bytes > 0)
        out.out_of_range.push_back(std::string(static_cast<size_t>(f.max_bytes) + 1, 'x'));
      return out;
    }
    case FieldType::kBoolean:
      return {{true, false}, {1, "x", Json::array()}, {}};
    case FieldType::kInteger:
      return numbers(f.min, most, true);
    case FieldType::kNumber:
      return numbers(f.min, f.max, false);
    case FieldType::kOther:
      return {Json::parse(f.valid), {}, Json::parse(f.invalid)};
  }
  return {};
}

Json example(const FieldInfo& f) { return examples_of(f).valid.front(); }

/// The required fields with examples.
Json smallest(const std::vector<FieldInfo>& fields) {
  Json out = Json::object();
  for (const FieldInfo& f : fields) {
    if (f.required) out[std::string(f.name)] = example(f);
  }
  return out;
}

/// The members that a valid value of the field needs beside it.
Json companions(const FieldInfo& f) { return Json::parse("{" + std::string(f.with) + "}"); }

class Field {
 public:
  Field(const FieldInfo& info, const Place& place) : info_(info), place_(place) {}

  std::string path() const { return place_.path + std::string(info_.name); }

  /// Sends the field with this value, and what it needs beside it.
  std::optional<ApiError> send(const Json& value) const {
    Json body = place_.body;
    Json& object = body[place_.at];
    object.update(companions(info_));
    object[std::string(info_.name)] = value;
    return place_.endpoint->parse(body.dump(), Settings());
  }

  void accepts(const Json& value) const {
    const auto error = send(value);
    EXPECT_FALSE(error) << path() << " " << value << ": " << error->message;
  }
  void refuses(const Json& value, std::optional<std::string_view> code) const {
    const auto error = send(value);
    ASSERT_TRUE(error) << path() << " " << value << " is accepted";
    EXPECT_EQ(error->status(), 400);
    EXPECT_TRUE(error->param.starts_with(path())) << error->param << " in place of " << path();
    EXPECT_NE(error->message.find(info_.name), std::string::npos) << error->message;
    if (code) {
      EXPECT_EQ(error->code, *code) << path() << " " << value;
    }
  }

 private:
  const FieldInfo& info_;
  const Place& place_;
};

void check_fields(const std::vector<FieldInfo>& fields, const Place& place);

void check_field(const FieldInfo& info, const Place& place) {
  const Field field(info, place);
  switch (info.use) {
    case FieldUse::kNoEffect:
      for (const Json& value : {Json(1), Json("x"), Json::object(), Json()}) field.accepts(value);
      return;
    case FieldUse::kRefused:
      field.accepts(nullptr);
      for (const Json& value : {Json(true), Json("x"), Json{{"x", 1}}}) {
        field.refuses(value, "unsupported_parameter");
      }
      return;
    case FieldUse::kRead:
      break;
  }
  const Examples examples = examples_of(info);
  ASSERT_FALSE(examples.valid.empty()) << field.path();
  for (const Json& value : examples.valid) field.accepts(value);
  for (const Json& value : examples.wrong_type) field.refuses(value, "invalid_type");
  for (const Json& value : examples.out_of_range) field.refuses(value, std::nullopt);
  if (info.required) {
    field.refuses(nullptr, "missing_field");
  } else if (info.with.empty()) {
    field.accepts(nullptr);
  }
  if (info.members == nullptr) return;
  // The members of an object, of the first item of a list, or of the first part of a message.
  std::vector<FieldInfo> members;
  info.members(members);
  Place inner = place;
  Json& object = inner.body[place.at];
  object.update(companions(info));
  inner.path = field.path();
  inner.at /= std::string(info.name);
  if (examples.valid.front().is_object()) {
    object[std::string(info.name)] = smallest(members);
  } else {
    // A valid item follows, since a conversation does not end with any message.
    const Json& list =
        examples.valid.back().is_array() ? examples.valid.back() : examples.valid.front();
    object[std::string(info.name)] = {smallest(members), list.front()};
    inner.at /= 0;
    inner.path += "[0]";
  }
  inner.path += ".";
  check_fields(members, inner);
}

void check_fields(const std::vector<FieldInfo>& fields, const Place& place) {
  for (const FieldInfo& info : fields) check_field(info, place);
  const FieldInfo unknown{.name = "no_such_field"};
  Field(unknown, place).refuses(1, "unknown_parameter");
}

TEST(FieldTables, EveryRowIsReadAsItSays) {
  for (const Endpoint& endpoint : endpoints()) {
    SCOPED_TRACE(endpoint.path);
    const Place place{&endpoint, smallest(endpoint.fields), Json::json_pointer(), ""};
    ASSERT_FALSE(endpoint.parse(place.body.dump(), Settings())) << place.body;
    check_fields(endpoint.fields, place);
  }
}

TEST(ErrorCodes, HaveOneRowEach) {
  for (const ErrorCodeInfo& info : kErrorCodes) {
    EXPECT_EQ(std::ranges::count(kErrorCodes, info.name, &ErrorCodeInfo::name), 1) << info.name;
    EXPECT_GE(info.statuses.front(), 400) << info.name;
    EXPECT_FALSE(info.meaning.empty()) << info.name;
  }
}

}  // namespace
}  // namespace chimere::protocol
