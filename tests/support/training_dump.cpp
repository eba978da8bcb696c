#include "tests/support/training_dump.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

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

}  // namespace

TrainingDump read_training_dump(const std::string& prefix, const ModelSpec& model) {
  const std::int64_t count = parameter_counts(model).total;
  TrainingDump dump;
  dump.gradients = read_doubles(prefix + ".gradients", count + 1);
  dump.loss = dump.gradients.front();
  dump.gradients.erase(dump.gradients.begin());
  dump.weights = read_doubles(prefix + ".weights", count);
  return dump;
}

std::vector<TensorDifference> tensor_differences(const ModelSpec& model,
                                                 const std::vector<double>& actual,
                                                 const std::vector<double>& expected) {
  std::vector<TensorDifference> differences;
  std::size_t begin = 0;
  for (const ParameterTensor& tensor : parameter_tensors(model)) {
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
