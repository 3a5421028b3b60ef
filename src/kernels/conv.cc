#include "kernels/conv.h"

#include "kernels/conv_internal.h"

namespace sardonyx {

namespace {

// In the order of ConvAlgorithm.
const ConvMethod& MethodOf(ConvAlgorithm algorithm) {
  static constexpr const ConvMethod* kBeforeWinograd[] = {&kConvGemm, &kConvDepthwise, &kConvPhases,
                                                          &kConvStrips, &kConvLines};
  const auto index = static_cast<size_t>(algorithm);
  constexpr size_t kCount = std::size(kBeforeWinograd);
  return index < kCount ? *kBeforeWinograd[index] : kConvWinograd[index - kCount];
}

}  // namespace

std::string_view ConvRefusal(ConvAlgorithm algorithm, const ConvShape& shape) {
  return MethodOf(algorithm).refusal(shape);
}

ConvAlgorithm ChooseConv(const ConvShape& shape, bool allow_winograd) {
  ConvAlgorithm best = ConvAlgorithm::kGemm;
  double least = kConvGemm.cost(shape);
  for (int i = 1; i < kConvAlgorithmCount; ++i) {
    const auto algorithm = static_cast<ConvAlgorithm>(i);
    const ConvMethod& method = MethodOf(algorithm);
    if ((IsWinograd(algorithm) && !allow_winograd) || !method.refusal(shape).empty()) continue;
    const double cost = method.cost(shape);
    if (cost < least) best = algorithm, least = cost;
  }
  return best;
}

size_t ConvPackedBytes(ConvAlgorithm algorithm, const ConvShape& shape) {
  return MethodOf(algorithm).packed_bytes(shape);
}

std::string_view ConvPackedForm(ConvAlgorithm algorithm, const ConvShape& shape) {
  return MethodOf(algorithm).packed_form(shape);
}

void ConvPack(ConvAlgorithm algorithm, const ConvShape& shape, const float* weights, float* packed,
              const Parallel& par) {
  MethodOf(algorithm).pack(shape, weights, packed, par);
}

size_t ConvScratchBytes(ConvAlgorithm algorithm, const ConvShape& shape, int threads) {
  return MethodOf(algorithm).scratch_bytes(shape, threads);
}

bool ConvInPlace(ConvAlgorithm algorithm, const ConvShape& shape) {
  return MethodOf(algorithm).in_place(shape);
}

void Conv(ConvAlgorithm algorithm, const ConvShape& shape, const float* x, const float* packed,
          float* y, const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (shape.OutPixels() == 0 || shape.cout == 0) return;
  MethodOf(algorithm).run(shape, x, packed, y, epilogue, scratch, par);
}

}  // namespace sardonyx
