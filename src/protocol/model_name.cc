#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "protocol/json_text.h"
#include "protocol/requests.h"

namespace chimere::protocol {
namespace {

/// Ends the parse at the member "model" of the outermost object, if its value is a string.
class ModelName final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool /*v*/) override { return value(); }
  bool number_integer(number_integer_t /*v*/) override { return value(); }
  bool number_unsigned(number_unsigned_t /*v*/) override { return value(); }
  bool number_float(number_float_t /*v*/, const string_t& /*text*/) override { return value(); }
  bool binary(binary_t& /*v*/) override { return value(); }
  bool start_object(size_t /*n*/) override { return value() && ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t /*n*/) override { return depth_ > 0 && value() && ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    next_ = depth_ == 1 && name == "model";
    return true;
  }
  bool string(string_t& text) override {
    if (next_) name_ = text;
    return value();
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*what*/) override {
    damaged_ = true;
    return false;
  }

  bool damaged() const { return damaged_; }
  const std::string& name() const { return name_; }

 private:
  /// False, which ends the parse, after the value of "model".
  bool value() { return !next_; }

  int64_t depth_ = 0;
  bool next_ = false;  ///< the next value is that of "model"
  bool damaged_ = false;
  std::string name_;
};

}  // namespace

std::optional<ApiError> read_model_name(std::string_view body, std::string& out) {
  ModelName reader;
  std::string storage;
  nlohmann::json::sax_parse(with_whole_pairs(body, storage), &reader);
  out = reader.name();
  if (!reader.damaged()) return std::nullopt;
  Json object;
  return parse_object(body, kDeepJson, object);
}

}  // namespace chimere::protocol
