// What a step costs, by its number of rows, as measured while serving.
#ifndef CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_
#define CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chimere::engine {

class CostCurve {
 public:
  /// `growth`: what a further row is taken to add, relative to one row, as long as nobody measured
  /// it. Low values make the caller try.
  explicit CostCurve(double growth) : growth_(growth) {}

  void add(int32_t rows, double seconds);
  /// The median of the latest measurements with so many rows, or what its neighbours make likely; 0
  /// before the first measurement.
  double seconds(int32_t rows) const;
  /// What a further row adds: the slope of a line through the medians, by least squares. A
  /// difference of two medians is mostly noise. Never below a fiftieth of seconds(1).
  double slope() const;
  /// There are so many measurements with exactly so many rows.
  int32_t measured(int32_t rows) const;

 private:
  static constexpr size_t kKept = 9;
  struct Samples {
    std::array<double, kKept> latest{};
    int32_t count = 0;
    double median = 0;
  };

  double growth_;
  std::vector<Samples> by_rows_;  ///< [rows - 1]
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_COST_CURVE_H_
