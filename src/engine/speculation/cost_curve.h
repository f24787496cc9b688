// The measured duration of a step as a function of its rows.
#ifndef CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_
#define CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chimere::engine {

class CostCurve {
 public:
  /// `growth`: assumed cost of one additional row relative to one row, until it is measured. Low
  /// values encourage trying.
  explicit CostCurve(double growth) : growth_(growth) {}

  void add(int32_t rows, double seconds);
  /// Leaves out a measurement of a step that was the first of its shape; false: so many have been
  /// left out for this size that such steps seem to be usual.
  bool leave_out(int32_t rows);
  /// Median duration of the latest steps with so many rows, interpolated from neighbouring sizes if
  /// there are none; 0 before the first measurement.
  double seconds(int32_t rows) const;
  /// Cost of one additional row in seconds: the slope of a least-squares line through the medians,
  /// since the difference of two medians is mostly noise. At least seconds(1) / 50.
  double slope() const;
  /// Number of measurements with exactly so many rows.
  int32_t measured(int32_t rows) const;

 private:
  static constexpr size_t kKept = 9;
  struct Samples {
    std::array<double, kKept> latest{};
    int32_t count = 0;
    int32_t left_out = 0;
    double median = 0;
  };

  /// The samples of a size; nullptr: it is not distinguished.
  Samples* of(int32_t rows);

  double growth_;
  std::vector<Samples> by_rows_;  ///< [rows - 1]
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_
