#include "tests/support/training_dump.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "estimator/spec/model_part.h"
#include "estimator/spec/rank_grid.h"
#include "estimator/spec/text_file.h"

namespace planwright::testing {
namespace {

std::vector<double> read_doubles(const std::string& path, std::int64_t count) {
  const std::string bytes = read_file(path);
  std::vector<double> values(static_cast<std::size_t>(count));
  if (bytes.size() != values.size() * sizeof(double)) {
    throw std::runtime_error(path + " does not hold " + std::to_string(count) + " numbers");
  }
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double relative_difference(const double* actual, const double* expected, std::int64_t count) {
  double largest = 0;
  double difference = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double each = std::abs(actual[i] - expected[i]);
    if (std::isnan(each)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, each);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference == 0 ? 0 : difference / largest;
}

std::int64_t numel_of(const std::vector<PartTensor>& parts) {
  std::int64_t sum = 0;
  for (const PartTensor& part : parts) sum += part.tensor.numel();
  return sum;
}

std::vector<ParameterTensor> trained_tensors(const ModelSpec& model) {
  auto tensors = parameter_tensors(model);
  std::erase_if(tensors, [](const ParameterTensor& tensor) { return !tensor.trained; });
  return tensors;
}

/// The whole model's values, put together from the ranks' parts.
class Assembly {
 public:
  explicit Assembly(const ModelSpec& model) {
    for (const ParameterTensor& tensor : trained_tensors(model)) {
      begins_[tensor.name] = values_.size();
      values_.resize(values_.size() + static_cast<std::size_t>(tensor.numel()), kMissing);
    }
  }

  /// `next`: the values of a rank's tensors, one after another.
  void place(const std::vector<PartTensor>& parts, const double* next) {
    for (const PartTensor& part : parts) {
      const std::int64_t width = part.whole.size() == 2 ? part.whole[1] : 1;
      for (const Stretch& rows : part.rows) {
        for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
          for (std::int64_t i = 0; i < part.columns.count; ++i, ++next) {
            if (row >= part.whole[0]) {
              require_zero(part.tensor.name, *next);
            } else {
              put(part.tensor.name, row * width + part.columns.first + i, *next);
            }
          }
        }
      }
    }
  }

  std::vector<double> take() { return std::move(values_); }

 private:
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  static void require_zero(const std::string& name, double value) {
    if (value != 0) throw std::runtime_error(name + " has a value in its padding");
  }

  /// A value that two ranks hold may differ by what two orders of summing do.
  void put(const std::string& name, std::int64_t index, double value) {
    double& place = values_[begins_.at(name) + static_cast<std::size_t>(index)];
    if (!std::isnan(place) && std::abs(place - value) > 1e-12 * (1 + std::abs(place))) {
      throw std::runtime_error("two ranks hold different values of " + name);
    }
    place = value;
  }

  std::map<std::string, std::size_t> begins_;
  std::vector<double> values_;
};

}  // namespace

TrainingDump read_training_dump(const std::string& prefix, const ModelSpec& model,
                                const Candidate& candidate) {
  TrainingDump dump;
  Assembly gradients(model), weights(model);
  for (int rank = 0; rank < candidate.world(); ++rank) {
    if (place_of(candidate, rank).dp != 0) continue;
    auto parts = part_tensors(model, model_part(model, candidate, rank));
    std::erase_if(parts, [](const PartTensor& part) { return !part.tensor.trained; });
    const std::string mine = prefix + "." + std::to_string(rank);
    const auto of_gradients = read_doubles(mine + ".gradients", 1 + numel_of(parts));
    dump.loss = of_gradients.front();
    gradients.place(parts, of_gradients.data() + 1);
    weights.place(parts, read_doubles(mine + ".weights", numel_of(parts)).data());
  }
  dump.gradients = gradients.take();
  dump.weights = weights.take();
  return dump;
}

std::vector<TensorDifference> tensor_differences(const ModelSpec& model,
                                                 const std::vector<double>& actual,
                                                 const std::vector<double>& expected) {
  std::vector<TensorDifference> differences;
  std::size_t begin = 0;
  for (const ParameterTensor& tensor : trained_tensors(model)) {
    const auto end = begin + static_cast<std::size_t>(tensor.numel());
    if (end > actual.size() || end > expected.size()) {
      throw std::logic_error("fewer numbers than the model has parameters");
    }
    differences.push_back(
        {tensor.name,
         relative_difference(actual.data() + begin, expected.data() + begin, tensor.numel())});
    begin = end;
  }
  return differences;
}

}  // namespace planwright::testing
