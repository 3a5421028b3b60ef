// Runs a model once. Its inputs count 0, 1, 2, ...; sizes that the model leaves open are 1.
#include <cstdio>
#include <numeric>
#include <sardonyx/sardonyx.hpp>
#include <string>
#include <vector>

namespace {

sardonyx::Tensor CountingInput(const sardonyx::ValueInfo& info) {
  if (info.dtype != sardonyx::DType::kFloat32) {
    throw sardonyx::Error(
        sardonyx::ErrorCode::kInvalidArgument,
        "this example fills float inputs alone; '" + info.name + "' is " + info.type);
  }
  std::vector<int64_t> dims;
  for (const sardonyx::Dimension& dim : info.shape) dims.push_back(dim.value < 0 ? 1 : dim.value);
  sardonyx::Tensor tensor(info.dtype, dims);
  std::iota(tensor.data<float>(), tensor.data<float>() + tensor.size(), 0.0F);
  return tensor;
}

void Print(const std::string& name, const sardonyx::Tensor& tensor) {
  std::printf("%s [", name.c_str());
  for (int i = 0; i < tensor.rank(); ++i) {
    std::printf(i == 0 ? "%lld" : ",%lld", static_cast<long long>(tensor.dims()[i]));
  }
  std::printf("]:");
  if (tensor.dtype() == sardonyx::DType::kFloat32) {
    for (int64_t i = 0; i < tensor.size() && i < 10; ++i)
      std::printf(" %g", tensor.data<float>()[i]);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  try {
    sardonyx::Session session(argv[1]);
    sardonyx::NamedData inputs;
    for (const sardonyx::ValueInfo& info : session.inputs()) {
      inputs.emplace_back(info.name, CountingInput(info));
    }
    const std::vector<sardonyx::Datum> outputs = session.Run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (const sardonyx::Tensor* tensor = outputs[i].tensor()) {
        Print(session.outputs()[i].name, *tensor);
      }
    }
  } catch (const sardonyx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
