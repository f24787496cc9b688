// Tables of the fields of JSON objects. A row declares a field once: parsing, the errors for wrong
// types, ranges and unknown names, the reference (docs/api.md) and the field test follow from it.
// Internal to the module.
#ifndef CHIMERE_PROTOCOL_FIELD_TABLE_H_
#define CHIMERE_PROTOCOL_FIELD_TABLE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/field_info.h"
#include "protocol/fields.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// A field of a JSON object that is read into a T.
template <typename T>
struct Field {
  FieldInfo info;
  void (*read)(Fields& fields, const FieldInfo& info, const RequestLimits& limits, T& out);
};

/// The type of a JSON object that is read into a T: its fields, read in this order, and the checks
/// between them.
template <typename T>
struct ObjectType {
  std::span<const Field<T>> fields;
  void (*check)(Fields& fields, const RequestLimits& limits, const T& out) = nullptr;

  void read(Fields& object, const RequestLimits& limits, T& out) const {
    for (const Field<T>& field : fields) field.read(object, field.info, limits, out);
    if (check != nullptr && !object.failed()) check(object, limits, out);
  }
  void describe(std::vector<FieldInfo>& out) const {
    for (const Field<T>& field : fields) {
      if (field.info.name.empty()) {
        field.info.members(out);
      } else {
        out.push_back(field.info);
      }
    }
  }
};

/// Reads a member of `parent`, at this path, that must be an object. False after an error, which
/// goes to `parent`.
template <typename T>
bool read_object(const ObjectType<T>& type, Fields& parent, const Json& value,
                 const std::string& path, const RequestLimits& limits, T& out) {
  if (!value.is_object()) {
    parent.fail(bad_field("'" + path + "' must be an object.", path, "invalid_type"));
    return false;
  }
  Fields object(value, path);
  type.read(object, limits, out);
  if (auto error = object.finish(limits)) parent.fail(*std::move(error));
  return !parent.failed();
}

/// Checks the length and the choices of a text.
void check_text(Fields& fields, const FieldInfo& info, const std::string& text);

template <const auto& kType>
void describe(std::vector<FieldInfo>& out) {
  kType.describe(out);
}

/// Rows of the table of a T.
template <typename T>
struct FieldsOf {
  using Row = Field<T>;
  using Reader = void (*)(Fields&, const FieldInfo&, const RequestLimits&, T&);

  template <auto kMember>
  static constexpr Row text(FieldInfo info) {
    info.type = FieldType::kText;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits&, T& out) {
              if (f.text(i.name, out.*kMember)) {
                check_text(f, i, out.*kMember);
              } else if (i.required) {
                f.missing(i.name);
              }
            }};
  }

  template <auto kMember>
  static constexpr Row boolean(FieldInfo info) {
    info.type = FieldType::kBoolean;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits&, T& out) {
              f.boolean(i.name, out.*kMember);
            }};
  }

  template <auto kMember>
  static constexpr Row integer(FieldInfo info) {
    info.type = FieldType::kInteger;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits& limits, T& out) {
              f.integer(i.name, static_cast<int64_t>(i.min), i.most(limits), out.*kMember);
            }};
  }

  template <auto kMember>
  static constexpr Row number(FieldInfo info) {
    info.type = FieldType::kNumber;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits&, T& out) {
              if (!f.number(i.name, i.min, i.max, out.*kMember) && i.required) f.missing(i.name);
            }};
  }

  /// An object that is read into a member.
  template <auto kMember, const auto& kType>
  static constexpr Row object(FieldInfo info) {
    info.type = FieldType::kOther;
    info.type_text = "object";
    info.members = &protocol::describe<kType>;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits& limits, T& out) {
              if (const Json* value = f.any(i.name)) {
                read_object(kType, f, *value, f.path_of(i.name), limits, out.*kMember);
              } else if (i.required) {
                f.missing(i.name);
              }
            }};
  }

  /// A list of objects, at least `min` and at most `max` or `limit`, that is read into a vector.
  template <auto kMember, const auto& kType>
  static constexpr Row list(FieldInfo info) {
    info.type = FieldType::kOther;
    info.type_text = "list of objects";
    info.members = &protocol::describe<kType>;
    return {info, [](Fields& f, const FieldInfo& i, const RequestLimits& limits, T& out) {
              const Json* value = f.list(i.name, static_cast<int64_t>(i.min), i.most(limits));
              if (value == nullptr && i.required) f.missing(i.name);
              for (size_t at = 0; value != nullptr && at < value->size(); ++at) {
                const std::string path = f.path_of(i.name) + "[" + std::to_string(at) + "]";
                auto& item = (out.*kMember).emplace_back();
                if (!read_object(kType, f, (*value)[at], path, limits, item)) return;
              }
            }};
  }

  /// A field with a reader of its own: a union, a map, or several members of T. `info` has its
  /// type in words and examples.
  static constexpr Row other(FieldInfo info, Reader read) { return {info, read}; }

  /// The fields of another type, of which T is a subclass, in the same object.
  template <const auto& kType>
  static constexpr Row include() {
    return {{.members = &protocol::describe<kType>},
            [](Fields& f, const FieldInfo&, const RequestLimits& limits, T& out) {
              kType.read(f, limits, out);
            }};
  }

  /// A field of the API that is accepted with any value and has no effect.
  static constexpr Row no_effect(std::string_view name) {
    return {{.name = name, .use = FieldUse::kNoEffect},
            [](Fields& f, const FieldInfo& i, const RequestLimits&, T&) { f.no_op(i.name); }};
  }
  /// A field of the API that this server does not support: an error unless it is null.
  static constexpr Row refused(std::string_view name, std::string_view why) {
    return {
        {.name = name, .help = why, .use = FieldUse::kRefused},
        [](Fields& f, const FieldInfo& i, const RequestLimits&, T&) { f.refuse(i.name, i.help); }};
  }
};

/// Parses the body of a request.
template <typename T>
std::optional<ApiError> parse_body(const ObjectType<T>& type, std::string_view body,
                                   const RequestLimits& limits, T& out,
                                   const JsonLimits& json_limits = {}) {
  Json object;
  if (auto error = parse_object(body, json_limits, object)) return error;
  Fields fields(object, "");
  type.read(fields, limits, out);
  return fields.finish(limits);
}

/// The limits for the parser of a request that notes what it ignores.
template <typename T>
RequestLimits with_notes(RequestLimits limits, T& out) {
  limits.notes = &out.notes;
  return limits;
}

/// The limits for the parser of a request of this server's own API, whose fields no other has.
inline RequestLimits own_api(RequestLimits limits) {
  limits.strict_fields = true;
  return limits;
}

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_FIELD_TABLE_H_
