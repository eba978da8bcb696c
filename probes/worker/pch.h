#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>
