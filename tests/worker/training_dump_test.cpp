#include "tests/support/training_dump.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tests/support/fake_traits.h"
#include "tests/support/test_folder.h"

namespace planwright::testing {
namespace {

std::vector<double> ones(const ModelSpec& model) {
  return std::vector<double>(static_cast<std::size_t>(parameter_counts(model).total), 1.0);
}

std::string bytes_of_numbers(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The difference that the comparison sees when the first number of tensor 1 is `value`.
double seen(double value) {
  const ModelSpec model = tiny_gpt();
  std::vector<double> expected = ones(model), actual = expected;
  const auto second = static_cast<std::size_t>(parameter_tensors(model)[0].numel());
  expected[second + 1] = 4;
  actual[second + 1] = 4;
  actual[second] = value;
  const auto differences = tensor_differences(model, actual, expected);
  EXPECT_EQ(differences.size(), parameter_tensors(model).size());
  EXPECT_EQ(differences[0].relative, 0);
  return differences[1].relative;
}

TEST(TensorDifferences, AreFractionsOfTheTensorsLargestValue) {
  EXPECT_EQ(seen(1), 0);
  EXPECT_EQ(seen(1.5), 0.125);
  EXPECT_EQ(seen(0.5), 0.125);
}

TEST(TensorDifferences, ThatAreNoNumberCountAsInfinite) {
  EXPECT_EQ(seen(std::numeric_limits<double>::quiet_NaN()),
            std::numeric_limits<double>::infinity());
}

TEST(TensorDifferences, NeedAsManyNumbersAsTheModelHasParameters) {
  const std::vector<double> few(3);
  EXPECT_THROW(tensor_differences(tiny_gpt(), few, ones(tiny_gpt())), std::logic_error);
}

TEST(TrainingDump, HasTheLossBeforeTheGradients) {
  const TestFolder folder;
  const ModelSpec model = tiny_llama();
  std::vector<double> gradients = ones(model);
  gradients.insert(gradients.begin(), 7.5);
  folder.put("a.0.gradients", bytes_of_numbers(gradients));
  folder.put("a.0.weights", bytes_of_numbers(ones(model)));
  const TrainingDump dump = read_training_dump(folder / "a", model, {});
  EXPECT_EQ(dump.loss, 7.5);
  EXPECT_EQ(dump.gradients, ones(model));
  EXPECT_EQ(dump.weights, ones(model));
  EXPECT_THROW(read_training_dump(folder / "a", tiny_gpt(), {}), std::runtime_error);
}

}  // namespace
}  // namespace planwright::testing
