// The hyper-parameters of config.json, which are untrusted, and where a model's rotary positions
// are described in it.
#ifndef CHIMERE_CONVERT_CONFIG_H_
#define CHIMERE_CONVERT_CONFIG_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "convert/json_text.h"

namespace chimere::convert {

inline constexpr int64_t kMaxInteger = std::numeric_limits<int32_t>::max();

/// Names in alternatives: the first that the file has, and that is not null, counts. "a.b" is the
/// member b of the object a.
using Names = std::initializer_list<std::string_view>;

class Config {
 public:
  /// The members of "text_config", if there is one, replace those around it.
  static Result<Config> of(Json config);

  /// The first of "architectures".
  const std::string& model_class() const { return model_class_; }

  bool has(Names names) const { return find(names) != nullptr; }
  const Json* find(Names names) const;

  /// Errors: kInvalidData, naming the member, if it is missing, of another type or out of range.
  Result<int64_t> integer(Names names, int64_t min = 0, int64_t max = kMaxInteger) const;
  Result<int64_t> integer_or(Names names, int64_t otherwise, int64_t min = 0,
                             int64_t max = kMaxInteger) const;
  Result<double> number(Names names) const;
  Result<double> number_or(Names names, double otherwise) const;
  Result<bool> flag_or(Names names, bool otherwise) const;
  Result<std::string> text_or(Names names, std::string_view otherwise) const;
  Result<std::vector<double>> numbers(Names names, size_t count) const;
  /// At least one.
  Result<std::vector<int64_t>> integers(Names names, int64_t min, int64_t max) const;
  /// nullopt if it is missing.
  Result<std::optional<std::vector<std::string>>> texts(Names names) const;

  /// The member `name` of "rope_parameters" or, in older files, of "rope_scaling", or what those
  /// had beside them ("rope_theta", "partial_rotary_factor"). With `kind` ("full_attention",
  /// "sliding_attention") the parameters of those layers, if the file tells them apart.
  const Json* rope(std::string_view name, std::string_view kind = "full_attention") const;
  Result<double> rope_number_or(std::string_view name, double otherwise,
                                std::string_view kind = "full_attention") const;
  Result<bool> rope_flag_or(std::string_view name, bool otherwise) const;
  /// "default" if there is none.
  std::string rope_type() const;

  /// "layer_types" and its relatives for every layer, or an error naming what is missing.
  Result<int64_t> layers() const { return integer({"num_hidden_layers", "n_layer"}, 1, 4096); }
  /// "head_dim", or the width for each head.
  Result<int64_t> head_dim() const;

 private:
  std::shared_ptr<const Json> json_;
  std::string model_class_;
};

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_CONFIG_H_
